use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec;
use polyheap_region::Region;

fn main() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let mut list = Vec::new_in(&region);
    std::thread::scope(|threads| {
        threads.spawn(move || list.push(1));
    });
}
