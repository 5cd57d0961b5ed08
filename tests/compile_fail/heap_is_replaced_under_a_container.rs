use polyheap::Heap;

fn main() {
    let mut heap = Heap::new();
    let boxed = heap.boxed(1);
    heap = Heap::new();
    assert_eq!(*boxed, 1);
    drop(heap);
}
