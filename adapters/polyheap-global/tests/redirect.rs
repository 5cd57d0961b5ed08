//! Scopes that allocate from another heap: every block goes back where it came from.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::hint::black_box;
use std::panic;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

use polyheap_global::{Heap, RedirectingGlobalHeap};

#[global_allocator]
static GLOBAL: RedirectingGlobalHeap = RedirectingGlobalHeap::new();

fn is_in(heap: &Heap, bytes: &[u8]) -> bool {
    heap.owns(NonNull::from(&bytes[0]))
}

#[test]
fn blocks_go_back_to_the_heap_they_came_from() {
    static INNER: Heap = Heap::builder().name("inner").build();
    let mut outside = vec![1u8; 100];
    let (mut inside, sizes) = GLOBAL.with_heap(&INNER, || {
        // A block of the program's heap grows where it is.
        outside.resize(5_000, 2);
        drop(vec![0u8; 10_000]);
        (vec![3u8; 100], [1, 300, 70_000, 5_000_000].map(|size| vec![4u8; size]))
    });
    assert!(is_in(GLOBAL.heap(), &outside) && is_in(&INNER, &inside));
    assert!(sizes.iter().all(|bytes| is_in(&INNER, bytes)));
    inside.resize(90_000, 5);
    assert!(is_in(&INNER, &inside) && inside[..100].iter().all(|&byte| byte == 3));
    GLOBAL.with_heap(&INNER, || drop(outside));
    thread::spawn(move || drop((inside, sizes))).join().unwrap();
    let stats = INNER.stats();
    assert_eq!((stats.live_blocks, stats.live_bytes), (0, 0), "{stats}");
}

#[test]
fn scopes_nest_end_by_unwinding_and_hold_for_one_thread() {
    static FIRST: Heap = Heap::builder().name("first").build();
    static SECOND: Heap = Heap::builder().name("second").build();
    let make = || black_box(vec![1u8; 50]);
    GLOBAL.with_heap(&FIRST, || {
        assert!(is_in(&FIRST, &make()));
        let caught = panic::catch_unwind(|| {
            GLOBAL.with_heap(&SECOND, || {
                assert!(is_in(&SECOND, &make()));
                panic::resume_unwind(Box::new(1));
            })
        });
        drop(caught);
        assert!(is_in(&FIRST, &make()));
        assert!(is_in(GLOBAL.heap(), &thread::spawn(make).join().unwrap()));
    });
    assert!(is_in(GLOBAL.heap(), &make()));
    assert_eq!(SECOND.stats().live_blocks, 0);
}

#[test]
fn refused_requests_do_not_fall_back() {
    static SMALL: Heap = Heap::builder().name("small").max_bytes(256 * 1024).build();
    GLOBAL.with_heap(&SMALL, || {
        assert!(Vec::<u8>::new().try_reserve_exact(1 << 20).is_err());
        assert!(Vec::<u8>::new().try_reserve_exact(1 << 10).is_ok());
    });
    assert!(Vec::<u8>::new().try_reserve_exact(1 << 20).is_ok());
}

#[test]
fn many_targets_are_told_apart_by_many_threads() {
    let heaps: Vec<&'static Heap> = (0..64).map(|_| &*Box::leak(Box::default())).collect();
    let heap_of = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for offset in 0..4 {
            let (heaps, heap_of) = (&heaps, &heap_of);
            scope.spawn(move || {
                for round in 0..640 {
                    let heap = heaps[(round * 7 + offset) % heaps.len()];
                    let block = GLOBAL.with_heap(heap, || vec![round as u8; 1 + round * 13]);
                    assert!(is_in(heap, &block));
                    heap_of.lock().unwrap().push(block);
                    if round % 2 == 0 {
                        drop(heap_of.lock().unwrap().swap_remove(0));
                    }
                }
            });
        }
    });
    drop(heap_of);
    assert!(heaps.iter().all(|heap| heap.stats().live_blocks == 0));
}
