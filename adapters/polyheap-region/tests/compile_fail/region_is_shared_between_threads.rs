use polyheap::Heap;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    std::thread::scope(|threads| {
        threads.spawn(|| region.alloc(1));
        region.alloc(2);
    });
}
