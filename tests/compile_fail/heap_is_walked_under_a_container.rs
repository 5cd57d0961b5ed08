use polyheap::Heap;

fn main() {
    let mut heap = Heap::new();
    let boxed = heap.boxed(1);
    heap.visit_blocks(|_| ());
    let verified = heap.verify();
    assert!(*boxed == 1 && verified.is_ok());
}
