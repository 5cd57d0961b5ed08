use polyheap::Heap;

fn main() {
    let text = {
        let shared = Heap::new().share();
        let other = shared.clone();
        std::mem::forget(other);
        shared.string()
    };
    assert!(text.is_empty());
}
