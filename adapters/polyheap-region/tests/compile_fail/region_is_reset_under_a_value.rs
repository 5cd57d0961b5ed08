use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let mut region = Region::new_in(&heap);
    let value = region.alloc(1);
    region.reset();
    assert_eq!(*value, 1);
}
