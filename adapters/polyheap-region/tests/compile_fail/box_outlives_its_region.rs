use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let boxed = {
        let region = Region::new_in(&heap);
        region.alloc_box(String::from("text"))
    };
    assert_eq!(*boxed, "text");
}
