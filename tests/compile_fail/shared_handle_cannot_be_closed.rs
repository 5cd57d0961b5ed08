use polyheap::Heap;

fn main() {
    let shared = Heap::new().share();
    let report = (*shared).close();
    assert!(report.is_clean());
}
