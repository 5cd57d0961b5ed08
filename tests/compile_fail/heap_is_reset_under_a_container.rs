use polyheap::Heap;

fn main() {
    let mut heap = Heap::new();
    let boxed = heap.boxed(1);
    heap.reset();
    assert_eq!(*boxed, 1);
}
