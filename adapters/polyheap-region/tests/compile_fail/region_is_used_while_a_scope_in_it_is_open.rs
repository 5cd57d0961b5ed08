use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let mut region = Region::new_in(&heap);
    region.scope(|r| {
        r.alloc(1);
        region.alloc(2);
    });
}
