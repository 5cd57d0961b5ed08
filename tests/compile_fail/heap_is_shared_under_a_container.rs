use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let boxed = heap.boxed(1);
    let shared = heap.share();
    assert_eq!(*boxed, 1);
    drop(shared);
}
