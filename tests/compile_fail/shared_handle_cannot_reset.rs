use polyheap::Heap;

fn main() {
    let shared = Heap::new().share();
    shared.reset();
}
