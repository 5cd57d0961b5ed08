use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    polyheap_region::scope(&heap, |r| {
        let slot = r.alloc(None::<&str>);
        r.scope(|inner| *slot = Some(inner.alloc_str("gone")));
        assert_eq!(*slot, Some("gone"));
    });
}
