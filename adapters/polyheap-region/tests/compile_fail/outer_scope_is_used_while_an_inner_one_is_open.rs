use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    polyheap_region::scope(&heap, |r| {
        r.scope(|inner| {
            inner.alloc(1);
            r.alloc(2);
        });
    });
}
