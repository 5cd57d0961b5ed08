use polyheap::Heap;

fn main() {
    let heap = Heap::new();
    polyheap_region::scope(&heap, |r| {
        std::thread::scope(|threads| {
            threads.spawn(move || {
                r.alloc(1);
            });
        });
    });
}
