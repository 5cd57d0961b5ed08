use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let boxed = heap.boxed(1);
    let report = heap.close();
    assert_eq!((*boxed, report.blocks), (1, 1));
}
