//! One function that takes `&dyn MemoryResource` builds an index of a real text, words to lines, over
//! twelve different resources, and comes to the same answer each time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use core::mem::MaybeUninit;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashMap};
use polyheap::allocator_api2::alloc::Global;
use polyheap::allocator_api2::vec::Vec;
use polyheap::resource::{
    Budget, Counting, FailWhen, Failing, Fallback, MemoryResource, Monotonic, Null, Pool,
    Segregate, Traced, Zeroizing,
};
use polyheap::{Heap, HeapString};

/// What the index says: different words, entries, the most frequent word and how often it comes.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    words: usize,
    entries: usize,
    most: (String, usize),
    checksum: u64,
}

fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/corpus.txt");
    fs::read_to_string(path).unwrap()
}

fn words(line: &str) -> impl Iterator<Item = String> + '_ {
    let words = line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase)
}

/// Everything the index is made of lies in `resource`: map, keys and lists.
fn index(text: &str, resource: &dyn MemoryResource) -> Answer {
    let mut index = HashMap::with_hasher_in(DefaultHashBuilder::default(), resource);
    for (number, line) in (1u32..).zip(text.lines()) {
        for word in words(line) {
            if let Some(lines) = index.get_mut(word.as_str()) {
                Vec::push(lines, number);
            } else {
                let mut lines = Vec::new_in(resource);
                lines.push(number);
                index.insert(HeapString::from_str_in(&word, resource), lines);
            }
        }
    }
    index.values_mut().for_each(Vec::shrink_to_fit);
    let most = index.iter().max_by_key(|(word, lines)| (lines.len(), word.len())).unwrap();
    Answer {
        words: index.len(),
        entries: index.values().map(|lines| lines.len()).sum(),
        most: (most.0.to_string(), most.1.len()),
        checksum: index.iter().map(|(word, lines)| checksum(word, lines)).sum(),
    }
}

fn checksum(word: &str, lines: &[u32]) -> u64 {
    let word = word.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    lines.iter().fold(word, |sum, &line| sum.wrapping_mul(31).wrapping_add(line.into())) >> 16
}

/// The same with the standard library's containers.
fn reference(text: &str) -> Answer {
    let mut index: BTreeMap<String, std::vec::Vec<u32>> = BTreeMap::new();
    for (number, line) in (1u32..).zip(text.lines()) {
        words(line).for_each(|word| index.entry(word).or_default().push(number));
    }
    let most = index.iter().max_by_key(|(word, lines)| (lines.len(), word.len())).unwrap();
    Answer {
        words: index.len(),
        entries: index.values().map(|lines| lines.len()).sum(),
        most: (most.0.clone(), most.1.len()),
        checksum: index.iter().map(|(word, lines)| checksum(word, lines)).sum(),
    }
}

#[test]
fn an_index_over_twelve_resources_is_the_same_index() {
    let text = text();
    let expected = reference(&text);
    assert!(expected.words > 5_000 && expected.most.0 == "the", "{expected:?}");

    let (heap, shared, bump) = (Heap::new(), Heap::new().share(), Bump::new());
    let mut buffer = vec![MaybeUninit::uninit(); 300_000];
    let scratch = Monotonic::with_buffer(&mut buffer, &heap);
    let pool = Pool::new(&heap);
    let counting = Counting::new(&heap);
    let budget = Budget::new(&heap, 8 << 20);
    let zeroizing = Zeroizing::new(&heap);
    let traced = Traced::<_, 256>::new(&heap);
    let failing = Failing::new(&heap, FailWhen::LargerThan(8 << 20));
    let by_size = Segregate::new(64, Pool::new(&heap), &shared);
    let mut small = [MaybeUninit::uninit(); 1_000];
    let near = Fallback::new(Monotonic::with_buffer(&mut small, Null), &heap);
    let bump = &bump;
    let resources: [(&str, &dyn MemoryResource); 14] = [
        ("heap", &heap),
        ("shared heap", &shared),
        ("monotonic", &scratch),
        ("pool", &pool),
        ("counting", &counting),
        ("budget", &budget),
        ("zeroizing", &zeroizing),
        ("traced", &traced),
        ("failing", &failing),
        ("segregate", &by_size),
        ("fallback", &near),
        ("global", &Global),
        ("bump arena", &bump),
        ("three deep", &Counting::new(Budget::new(Pool::new(&heap), 8 << 20))),
    ];
    for (name, resource) in resources {
        assert_eq!(index(&text, resource), expected, "over {name}");
    }

    let counts = counting.counts();
    assert_eq!((counts.live_blocks, counts.denied_requests), (0, 0), "{counts:?}");
    // A key and a list for each word, and the map.
    assert!(counts.allocated_blocks > 2 * expected.words, "{counts:?}");
    assert_eq!((budget.used_bytes(), failing.denied_requests()), (0, 0));
    assert_eq!(traced.seen_events(), failing.requests() + counts.freed_blocks);
    assert_ne!((shared.stats().peak_live_bytes, bump.allocated_bytes()), (0, 0));
}
