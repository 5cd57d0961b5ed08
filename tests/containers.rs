//! Containers in heaps: allocator-api2's own, hashbrown's in both versions in use, ours, nested,
//! and handed between threads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::fmt::Write as _;
use core::hash::BuildHasher;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

use hashbrown_017 as hashbrown17;
use polyheap::allocator_api2::alloc::Allocator;
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec;
use polyheap::{CollectIn, Heap, HeapString, SharedHeap};

use support::{Random, for_each_allocator, scaled};

type Hasher = std::hash::RandomState;

for_each_allocator!(
    vectors_grow_shrink_and_split,
    vectors_of_over_aligned_items_are_aligned,
    boxes_of_every_size_come_back,
    containers_of_nothing_take_nothing,
    maps_agree_with_a_reference,
    maps_of_the_newer_version_agree_with_a_reference,
    sets_agree_with_a_reference,
    strings_and_collections_live_in_the_heap,
    nested_containers_free_everything,
    clones_are_independent,
    items_dropped_in_a_panic_come_back,
);

fn vectors_grow_shrink_and_split<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut list = Vec::new_in(alloc);
    for number in 0..200_000u32 {
        list.push(number);
    }
    assert!(heap.stats().live_bytes >= 800_000);
    let tail = list.split_off(150_000);
    assert_eq!((list.len(), tail.first(), tail.last()), (150_000, Some(&150_000), Some(&199_999)));
    list.truncate(1_000);
    list.shrink_to_fit();
    list.insert(500, 7);
    list.retain(|number| number % 2 == 1);
    list.extend_from_slice(&tail[..10]);
    assert!(list.iter().rev().take(10).rev().eq(tail[..10].iter()));
    drop(tail);
    let list = list.into_boxed_slice();
    assert_eq!(list.len(), 511);
}

fn vectors_of_over_aligned_items_are_aligned<A: Allocator>(alloc: &A, _: &Heap) {
    #[repr(align(64))]
    struct Line([u8; 64]);
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    let (mut lines, mut pages) = (Vec::new_in(alloc), Vec::new_in(alloc));
    for number in 0..100u8 {
        lines.push(Line([number; 64]));
        pages.push(Page([number; 4096]));
        assert!((lines.as_ptr() as usize).is_multiple_of(64));
        assert!((pages.as_ptr() as usize).is_multiple_of(4096));
    }
    assert!(lines.iter().zip(0..).all(|(line, number)| line.0 == [number; 64]));
    assert!(pages.iter().zip(0..).all(|(page, number)| page.0 == [number; 4096]));
}

fn boxes_of_every_size_come_back<A: Allocator>(alloc: &A, heap: &Heap) {
    {
        let small = Box::new_in(5u8, alloc);
        let array = Box::new_in([7u64; 5_000], alloc);
        let zeroed = Box::<[u8], _>::new_uninit_slice_in(3_000_000, alloc);
        let nested = Box::new_in(Box::new_in(1, alloc), alloc);
        assert_eq!((*small, array[4_999], zeroed.len(), **nested), (5, 7, 3_000_000, 1));
        assert_eq!(heap.stats().live_blocks, 5);
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

fn containers_of_nothing_take_nothing<A: Allocator>(alloc: &A, heap: &Heap) {
    let unit = Box::new_in((), alloc);
    let mut units = Vec::new_in(alloc);
    (0..1_000).for_each(|_| units.push(()));
    let empty: Vec<u64, &A> = Vec::with_capacity_in(0, alloc);
    let map: hashbrown::HashMap<u8, u8, Hasher, &A> = hashbrown::HashMap::new_in_with(alloc);
    let text = HeapString::new_in(alloc);
    assert_eq!((*unit, units.len(), empty.len(), map.len(), text.len()), ((), 1_000, 0, 0, 0));
    assert_eq!(heap.stats().live_blocks, 0);

    let mut set = hashbrown::HashSet::with_hasher_in(Hasher::new(), alloc);
    assert!(set.insert(()) && !set.insert(()) && set.contains(&()) && set.remove(&()));
    let unit_in_unit = Box::new_in(Box::new_in((), alloc), alloc);
    drop(unit_in_unit);
}

/// hashbrown's constructor with every part named; std's hasher, as its own is a feature.
trait NewInWith<'a, A: Allocator> {
    fn new_in_with(alloc: &'a A) -> Self;
}

impl<'a, K, V, A: Allocator> NewInWith<'a, A> for hashbrown::HashMap<K, V, Hasher, &'a A> {
    fn new_in_with(alloc: &'a A) -> Self {
        hashbrown::HashMap::with_hasher_in(Hasher::new(), alloc)
    }
}

/// Random edits on a map, the same on std's; both must agree.
macro_rules! map_suite {
    ($suite:ident, $hashbrown:ident) => {
        fn $suite<A: Allocator>(alloc: &A, _: &Heap) {
            let mut random = Random::for_test(stringify!($suite));
            let mut map = $hashbrown::HashMap::with_hasher_in(Hasher::new(), alloc);
            let mut reference = BTreeMap::new();
            for step in 0..scaled(200_000) {
                let key = random.below(20_000) as u64;
                match random.below(4) {
                    0 | 1 => assert_eq!(map.insert(key, step), reference.insert(key, step)),
                    2 => assert_eq!(map.remove(&key), reference.remove(&key)),
                    _ => assert_eq!(map.get(&key), reference.get(&key)),
                }
                if random.one_in(20_000) {
                    map.shrink_to_fit();
                }
            }
            assert_eq!(map.len(), reference.len());
            assert!(reference.iter().all(|(key, value)| map.get(key) == Some(value)));
            map.retain(|key, _| key % 2 == 0);
            map.clear();
            map.shrink_to_fit();
        }
    };
}

map_suite!(maps_agree_with_a_reference, hashbrown);
map_suite!(maps_of_the_newer_version_agree_with_a_reference, hashbrown17);

fn sets_agree_with_a_reference<A: Allocator>(alloc: &A, _: &Heap) {
    let mut random = Random::for_test("sets_agree_with_a_reference");
    let mut older = hashbrown::HashSet::with_hasher_in(Hasher::new(), alloc);
    let mut newer = hashbrown17::HashSet::with_hasher_in(Hasher::new(), alloc);
    let mut reference = std::collections::BTreeSet::new();
    for _ in 0..scaled(100_000) {
        let key = random.below(5_000);
        if random.one_in(3) {
            let was_there = reference.remove(&key);
            assert_eq!((older.remove(&key), newer.remove(&key)), (was_there, was_there));
        } else {
            let is_new = reference.insert(key);
            assert_eq!((older.insert(key), newer.insert(key)), (is_new, is_new));
        }
    }
    let mut sorted: std::vec::Vec<usize> = older.iter().copied().collect();
    sorted.sort_unstable();
    assert!(sorted.iter().eq(reference.iter()) && newer.len() == reference.len());
}

fn strings_and_collections_live_in_the_heap<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut text = HeapString::new_in(alloc);
    for number in 0..2_000 {
        write!(text, "{number},").unwrap();
    }
    assert!(text.starts_with("0,1,2,") && text.ends_with(",1999,"));
    let words = text.split_terminator(',').collect_in::<Vec<_, _>>(alloc);
    let numbers = words.iter().map(|word| word.parse::<u32>());
    let numbers = numbers.collect_in::<Result<Box<[_], _>, _>>(alloc).unwrap();
    assert!(numbers.iter().copied().eq(0..2_000));
    assert_eq!(heap.stats().live_blocks, 3);
    let joined = words.iter().copied().collect_in::<HeapString<_>>(alloc);
    assert_eq!(joined.len(), text.len() - 2_000);
}

fn nested_containers_free_everything<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut index = hashbrown::HashMap::with_hasher_in(Hasher::new(), alloc);
    for number in 0..3_000u64 {
        let word = HeapString::from_str_in(&format!("word {}", number % 300), alloc);
        let hash = Hasher::new().hash_one(number);
        let places: &mut Vec<Box<u64, &A>, &A> =
            index.entry(word).or_insert_with(|| Vec::new_in(alloc));
        places.push(Box::new_in(hash, alloc));
    }
    assert_eq!(index.len(), 300);
    assert!(index.get("word 7").is_some_and(|places| places.len() == 10));
    // Each box, each list, each word, and the table.
    assert_eq!(heap.stats().live_blocks, 3_000 + 300 + 300 + 1);
    drop(index);
    assert_eq!(heap.stats().live_blocks, 0);
}

fn clones_are_independent<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut list = Vec::new_in(alloc);
    list.extend((0..100).map(|number| Box::new_in(number, alloc)));
    let mut copy = list.clone();
    *copy[5] = 500;
    assert_eq!((*list[5], *copy[5], heap.stats().live_blocks), (5, 500, 202));
    drop(list);
    assert_eq!(*copy[6], 6);
}

fn items_dropped_in_a_panic_come_back<A: Allocator>(alloc: &A, heap: &Heap) {
    let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let mut list = Vec::new_in(alloc);
        for number in 0..100 {
            list.push(Box::new_in([number; 100], alloc));
            // Unwinding without the panic hook, whose report would only be noise.
            if number == 50 {
                std::panic::resume_unwind(std::boxed::Box::new("stop"));
            }
        }
    }));
    assert!(outcome.is_err());
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn a_heap_by_value_serves_one_container() {
    let mut list = Vec::new_in(Heap::builder().name("own").build());
    list.extend(0..10_000);
    assert_eq!(list.allocator().stats().live_blocks, 1);
    assert_eq!(list.iter().sum::<i32>(), 49_995_000);
}

#[test]
fn conveniences_of_the_heap_make_containers_in_it() {
    let heap = Heap::new();
    let mut list = heap.vec();
    list.push(heap.boxed("boxed"));
    let numbers = heap.vec_from([3, 1, 2]);
    let mut text = heap.string();
    text.push_str("in the heap");
    assert_eq!(
        (*list[0], numbers.as_slice(), text.as_str()),
        ("boxed", &[3, 1, 2][..], "in the heap")
    );
    assert_eq!(heap.stats().live_blocks, 4);
    let nothing: Vec<u8, &Heap> = heap.vec_from([]);
    assert!(nothing.is_empty());
}

#[test]
fn containers_made_by_one_thread_grow_and_end_in_others() {
    let heap = Heap::new();
    let (to_growers, from_maker) = mpsc::channel::<Vec<HeapString<&Heap>, &Heap>>();
    let (to_dropper, from_growers) = mpsc::channel();
    let make = || {
        for number in 0..scaled(4_000) {
            let mut list = heap.vec();
            list.push(HeapString::from_str_in(&format!("made {number}"), &heap));
            to_growers.send(list).unwrap();
        }
        drop(to_growers);
    };
    let grow = || {
        for mut list in from_maker {
            for number in 0..20 {
                list[0].push_str(" and grown");
                list.push(HeapString::from_str_in(&"x".repeat(number * 7), &heap));
            }
            to_dropper.send(list).unwrap();
        }
        drop(to_dropper);
    };
    let end = || {
        for list in from_growers {
            assert_eq!(list.len(), 21);
            assert!(list[0].starts_with("made ") && list[0].ends_with(" and grown"));
            assert!(list.iter().skip(1).zip(0..).all(|(text, number)| text.len() == number * 7));
        }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(make), scope.spawn(grow), scope.spawn(end)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn containers_with_a_shared_handle_outlive_the_first_one() {
    let shared = Heap::new().share();
    let worker = thread::spawn({
        let heap = shared.clone();
        move || {
            let mut map: hashbrown::HashMap<u32, Vec<u8, SharedHeap>, Hasher, SharedHeap> =
                hashbrown::HashMap::with_hasher_in(Hasher::new(), heap.clone());
            for number in 0..500 {
                let mut list = Vec::new_in(heap.clone());
                list.resize(number as usize, number as u8);
                map.insert(number, list);
            }
            map
        }
    });
    drop(shared);
    let mut map = worker.join().unwrap();
    assert!(map.iter().all(|(number, list)| list.len() == *number as usize));
    map.retain(|number, _| number % 2 == 0);
    let last = map.remove(&498).unwrap();
    drop(map);
    // The list's own handle is the only one left.
    assert_eq!(last.allocator().handle_count(), 1);
    assert_eq!((last.len(), last.allocator().stats().live_blocks), (498, 1));
}

#[test]
fn containers_in_different_heaps_exchange_items_by_copy() {
    let (net, disk) = (Heap::new(), Heap::new());
    let first = (0..1_000).collect_in::<Vec<_, _>>(&net);
    let second = first.iter().copied().collect_in::<Vec<_, _>>(&disk);
    drop(first);
    assert_eq!((net.stats().live_blocks, disk.stats().live_blocks), (0, 1));
    drop(net);
    assert!(second.iter().copied().eq(0..1_000));
}
