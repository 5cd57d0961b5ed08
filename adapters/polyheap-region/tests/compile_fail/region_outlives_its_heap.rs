use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let region = {
        let heap = Heap::new();
        Region::new_in(&heap)
    };
    region.alloc(1);
}
