use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let escaped = polyheap_region::scope(&heap, |r| r.alloc(1));
    assert_eq!(*escaped, 1);
}
