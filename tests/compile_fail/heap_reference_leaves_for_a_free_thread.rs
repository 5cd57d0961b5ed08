use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let thread = std::thread::spawn(|| heap.vec_from([1, 2, 3]).len());
    assert_eq!(thread.join().unwrap(), 3);
    drop(heap);
}
