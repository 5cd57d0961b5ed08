use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec;

fn main() {
    let heap = Heap::new();
    let list = polyheap_region::scope(&heap, |r| {
        let mut list = Vec::new_in(&*r);
        list.push(1);
        list
    });
    assert_eq!(list.len(), 1);
}
