use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let mut heap = Heap::new();
    let region = Region::new_in(&heap);
    heap.reset();
    region.alloc(1);
}
