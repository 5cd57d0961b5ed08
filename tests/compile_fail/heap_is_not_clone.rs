use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let copy: Heap = heap.clone();
    drop(copy);
}
