use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let boxed = heap.boxed(1);
    drop(heap);
    assert_eq!(*boxed, 1);
}
