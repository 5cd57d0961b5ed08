use polyheap::Heap;

fn main() {
    let (parent, child) = (Heap::new(), Heap::new());
    let boxed = child.boxed(1);
    child.leak_into(&parent);
    assert_eq!(*boxed, 1);
}
