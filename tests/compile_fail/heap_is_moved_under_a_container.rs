use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let text = heap.string();
    let moved = heap;
    assert!(text.is_empty());
    drop(moved);
}
