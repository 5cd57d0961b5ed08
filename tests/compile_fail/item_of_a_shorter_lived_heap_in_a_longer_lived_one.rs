use polyheap::Heap;

fn main() {
    let outer = Heap::new();
    let mut list = outer.vec();
    {
        let inner = Heap::new();
        list.push(inner.boxed(1));
    }
    assert_eq!(list.len(), 1);
}
