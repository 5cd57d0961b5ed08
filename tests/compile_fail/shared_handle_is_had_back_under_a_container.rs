use polyheap::Heap;

fn main() {
    let shared = Heap::new().share();
    let boxed = shared.boxed(1);
    let heap = shared.try_unshare();
    assert_eq!(*boxed, 1);
    drop(heap);
}
