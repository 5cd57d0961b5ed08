use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec;

fn main() {
    let list = {
        let heap = Heap::new();
        let mut list = Vec::new_in(&heap);
        list.push(1);
        list
    };
    assert_eq!(list.len(), 1);
}
