//! Shows: vectors, boxes, strings, maps and sets in one heap, also inside each other.
//! When you would want it: always; this is how memory is put into a heap.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use polyheap::{CollectIn, Heap, HeapString};

fn main() {
    let heap = Heap::builder().name("containers").build();

    // Whatever takes an allocator takes `&heap`.
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(1..=10);
    let boxed = Box::new_in([0_u8; 4096], &heap);

    // Helpers for what stable Rust cannot spell: literals, `collect`, strings.
    let primes = heap.vec_from([2, 3, 5, 7]);
    let even = numbers.iter().copied().filter(|n| n % 2 == 0).collect_in::<Vec<_, _>>(&heap);
    let mut greeting = heap.string();
    greeting.push_str("hello");

    // A map whose keys and values lie in the heap, too; it is searched by `&str`.
    let mut births = HashMap::with_hasher_in(DefaultHashBuilder::default(), &heap);
    for (name, years) in [("Ada", [1815, 1852]), ("Alan", [1912, 1954])] {
        births.insert(HeapString::from_str_in(name, &heap), heap.vec_from(years));
    }
    let mut seen = HashSet::with_hasher_in(DefaultHashBuilder::default(), &heap);
    seen.extend([3, 1, 3, 2]);

    println!("{} numbers, {} even, {} primes", numbers.len(), even.len(), primes.len());
    println!("{greeting}, Ada of {}; {} kinds seen", births["Ada"][0], seen.len());
    println!("a box of {} bytes", boxed.len());
    println!("{}", heap.stats());
}
