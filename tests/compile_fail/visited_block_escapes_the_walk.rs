use polyheap::Heap;

fn main() {
    let mut heap = Heap::new();
    let mut seen = Vec::new();
    heap.visit_blocks(|block| seen.push(block));
    heap.reset();
    assert!(seen.is_empty());
}
