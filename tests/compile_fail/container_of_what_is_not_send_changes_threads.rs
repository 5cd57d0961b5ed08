use polyheap::Heap;
use std::rc::Rc;

fn main() {
    let heap = Heap::new();
    let list = heap.vec_from([Rc::new(1)]);
    std::thread::scope(|scope| {
        scope.spawn(move || assert_eq!(*list[0], 1));
    });
}
