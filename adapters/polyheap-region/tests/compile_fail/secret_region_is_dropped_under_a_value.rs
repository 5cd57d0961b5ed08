use polyheap::Heap;
use polyheap_region::SecretRegion;

fn main() {
    let heap = Heap::new();
    let keys = SecretRegion::new_in(&heap);
    let key = keys.alloc([1u8; 32]);
    drop(keys);
    assert_eq!(key[0], 1);
}
