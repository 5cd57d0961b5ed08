use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec;

fn make<'h>() -> Vec<u8, &'h Heap> {
    let heap = Heap::new();
    heap.vec_from([1, 2, 3])
}

fn main() {
    make();
}
