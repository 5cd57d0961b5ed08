//! Each face of the heap: every version of the trait, by value, by reference, as a trait object.

#![cfg_attr(feature = "nightly", feature(allocator_api))]

use polyheap::allocator_api2::alloc::Allocator;
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec;
use polyheap::{Heap, HeapBuilder, HeapStats, HeapString, LeakReport, SharedHeap, Violation};

fn sum_in<A: Allocator>(alloc: A) -> u64 {
    let mut list = Vec::new_in(alloc);
    list.extend(0..1_000u64);
    list.into_iter().sum()
}

#[test]
fn every_handle_is_an_allocator() {
    static STATIC: Heap = Heap::new();
    let heap = Heap::new();
    let shared = Heap::new().share();
    let sums = [
        sum_in(&heap),
        sum_in(&STATIC),
        sum_in(&shared),
        sum_in(&*shared),
        sum_in(shared.clone()),
        sum_in(shared),
        sum_in(&heap as &dyn Allocator),
        sum_in(heap),
    ];
    assert_eq!(sums, [499_500; 8]);
}

#[test]
fn heaps_of_different_kinds_serve_one_container_type_as_trait_objects() {
    let (plain, direct) = (Heap::new(), Heap::builder().thread_cache(false).build());
    let shared = Heap::new().share();
    let allocators: [&dyn Allocator; 3] = [&plain, &direct, &shared];
    let boxes = allocators.map(|alloc| Box::new_in([1u8; 100], alloc));
    assert!(plain.stats().live_blocks == 1 && direct.stats().live_blocks == 1);
    assert_eq!(shared.stats().live_bytes, 112);
    drop(boxes);
    assert_eq!(shared.stats().live_bytes, 0);
}

#[test]
fn handles_may_go_to_other_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    fn is_static<T: 'static>() {}
    is_send::<Heap>();
    is_sync::<Heap>();
    is_static::<Heap>();
    is_send::<SharedHeap>();
    is_sync::<SharedHeap>();
    is_static::<SharedHeap>();
    is_send::<Vec<u8, &Heap>>();
    is_sync::<HeapString<&Heap>>();
    is_send::<HeapBuilder>();
    is_send::<HeapStats>();
    is_send::<LeakReport>();
    is_send::<Violation>();
}

#[test]
fn names_are_kept_and_cut_at_a_whole_character() {
    assert_eq!(Heap::new().name(), "");
    let exact = "exactly thirty-two bytes long: ok";
    assert_eq!(Heap::builder().name(&exact[..32]).build().name(), &exact[..32]);
    assert_eq!(Heap::builder().name(exact).build().name(), &exact[..32]);
    // The sixteenth "ß" would end at byte 33.
    let long = "aßßßßßßßßßßßßßßßßßß";
    assert_eq!(Heap::builder().name(long).build().name(), &long[..31]);
    let heap = Heap::builder().name("shown").build();
    assert!(format!("{heap:?}").contains("shown"));
    assert!(heap.bind().is_ok());
    assert!(polyheap::heaps().any(|summary| summary.name() == "shown"));
}

#[test]
fn statistics_show_what_they_say() {
    let heap = Heap::new();
    let kept = heap.vec_from([0u8; 500]);
    let freed = heap.vec_from([0u8; 200]);
    drop(freed);
    let stats = heap.stats();
    let class = |bytes| stats.classes.iter().find(|class| class.block_bytes == bytes).copied();
    assert_eq!(class(512).map(|class| class.live_blocks), Some(1));
    assert!(class(224).is_some_and(|class| class.live_blocks == 0 && class.cached_blocks > 0));
    assert!(stats.cached_bytes >= 224 && stats.peak_live_bytes >= 512);
    let text = stats.to_string();
    assert!(text.contains("live 512 B in 1 blocks") && text.contains("512 B: 1 live"), "{text}");
    let summary = polyheap::heaps().find(|summary| heap.id() == Ok(summary.id));
    assert!(summary.is_some_and(|summary| summary.held_bytes == stats.held_bytes));
    drop(kept);
}

#[cfg(feature = "allocator-api2-04")]
#[test]
fn the_newer_trait_serves_its_own_containers() {
    use allocator_api2_04::boxed::Box as NewerBox;
    use allocator_api2_04::vec::Vec as NewerVec;

    let heap = Heap::new();
    let mut list = NewerVec::new_in(&heap);
    list.extend((0..100).map(|number| NewerBox::new_in(number, &heap)));
    assert_eq!((list.len(), heap.stats().live_blocks), (100, 101));
    // Containers of both versions live in one heap.
    let older = heap.vec_from([1, 2, 3]);
    assert_eq!((older.len(), heap.stats().live_blocks), (3, 102));
    let shared = Heap::new().share();
    assert_eq!(*NewerBox::new_in(7, shared), 7);
}

#[cfg(feature = "nightly")]
#[test]
fn the_standard_trait_serves_the_standard_containers() {
    let heap = Heap::new();
    let mut list = std::vec::Vec::new_in(&heap);
    list.extend((0..100).map(|number| std::boxed::Box::new_in(number, &heap)));
    assert_eq!((list.len(), heap.stats().live_blocks), (100, 101));
    let shared = Heap::new().share();
    assert_eq!(*std::boxed::Box::new_in(7, shared), 7);
}
