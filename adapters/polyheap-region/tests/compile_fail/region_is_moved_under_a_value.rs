use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let text = region.alloc_str("text");
    let moved = region;
    assert_eq!(text, "text");
    drop(moved);
}
