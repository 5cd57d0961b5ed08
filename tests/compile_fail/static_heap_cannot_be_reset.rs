use polyheap::Heap;

static HEAP: Heap = Heap::new();

fn main() {
    HEAP.reset();
}
