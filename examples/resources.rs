//! Shows: one function that takes `&dyn MemoryResource`, over twelve different resources.
//! When you would want it: code that should not be generic over where its memory comes from.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use core::mem::MaybeUninit;

use allocator_api2::{alloc::Global, vec::Vec};
use hashbrown::{DefaultHashBuilder, HashMap};
use polyheap::resource::{
    Budget, Counting, FailWhen, Failing, Fallback, MemoryResource, Monotonic, Null, Pool,
    Segregate, Traced, Zeroizing,
};
use polyheap::{Heap, HeapString};

/// Returns the most frequent word of four letters or more and the lines it stands in.
fn most_frequent(text: &str, resource: &dyn MemoryResource) -> (String, std::vec::Vec<usize>) {
    let mut index = HashMap::with_hasher_in(DefaultHashBuilder::default(), resource);
    for (number, line) in text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 3) {
            let word = HeapString::from_str_in(&word.to_lowercase(), resource);
            index.entry(word).or_insert_with(|| Vec::new_in(resource)).push(number + 1);
        }
    }
    let most = index.iter().max_by_key(|(word, lines)| (lines.len(), word.len()));
    most.map(|(word, lines)| (word.to_string(), lines.to_vec())).unwrap_or_default()
}

fn main() {
    let text = include_str!("data/corpus.txt");
    let (heap, shared) = (Heap::new(), Heap::new().share());
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let counting = Counting::new(&heap);
    let resources: [(&str, &dyn MemoryResource); 12] = [
        ("a heap", &heap),
        ("a shared heap", &shared),
        ("the global allocator", &Global),
        ("a monotonic buffer", &Monotonic::new(&heap)),
        ("a pool", &Pool::new(&heap)),
        ("a counting one", &counting),
        ("one with a budget", &Budget::new(&heap, 4 << 20)),
        ("one that clears", &Zeroizing::new(&heap)),
        ("one that remembers", &Traced::<_, 64>::new(&heap)),
        ("one that may fail", &Failing::new(&heap, FailWhen::LargerThan(4 << 20))),
        ("two by size", &Segregate::new(64, Pool::new(&heap), &heap)),
        ("a buffer, then a heap", &Fallback::new(Monotonic::with_buffer(&mut buffer, Null), &heap)),
    ];
    let (word, lines) = most_frequent(text, &heap);
    for (name, resource) in resources {
        assert_eq!(most_frequent(text, resource), (word.clone(), lines.clone()), "{name}");
        println!("{name}: \"{word}\" in {} places, first in line {}", lines.len(), lines[0]);
    }
    println!("{:?}", counting.counts());
}
