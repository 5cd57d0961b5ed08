use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec;

fn main() {
    let heap = Heap::new();
    polyheap_region::scope(&heap, |r| {
        let mut list = Vec::new_in(&*r);
        list.push(1);
        r.scope(|inner| {
            inner.alloc(2);
        });
        list.push(3);
    });
}
