use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let mut region = Region::new_in(&heap);
    let checkpoint = region.checkpoint();
    let mut list = Vec::new_in(&region);
    list.push(1);
    region.rewind(checkpoint);
    list.push(2);
}
