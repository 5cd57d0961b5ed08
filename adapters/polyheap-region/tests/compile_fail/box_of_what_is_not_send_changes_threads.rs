use std::rc::Rc;

use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let boxed = region.alloc_box(Rc::new(1));
    std::thread::scope(|threads| {
        threads.spawn(move || assert_eq!(**boxed, 1));
    });
}
