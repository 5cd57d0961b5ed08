use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    let mut outside: Option<&str> = None;
    polyheap_region::scope(&heap, |r| outside = Some(r.alloc_str("gone")));
    assert_eq!(outside, Some("gone"));
}
