//! The default resources. In a program of its own: the process's is set once and for all.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use polyheap::Heap;
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec;
use polyheap::resource::{
    Counting, DefaultAlreadySet, Monotonic, default_resource, set_default_resource,
    with_current_resource, with_resource,
};

/// One test at a time: each sees what the others allocate in the process's default.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates in the current resource, knowing nothing of it.
fn work() -> u64 {
    with_current_resource(|resource| {
        let mut list = Vec::new_in(resource);
        list.extend(0..100u64);
        list.iter().sum()
    })
}

fn live_now(counting: &Counting<&Heap>, run: impl FnOnce()) -> usize {
    let before = counting.counts().allocated_blocks;
    run();
    counting.counts().allocated_blocks - before
}

#[test]
fn the_default_of_the_process_is_set_once() {
    let _turn = alone();
    static HEAP: Heap = Heap::new();
    static ALL: Counting<&Heap> = Counting::new(&HEAP);

    // Until then it is a heap of its own, which blocks from before keep.
    let early = Box::new_in(1, default_resource());
    assert_eq!(ALL.counts().allocated_blocks, 0);
    assert!(polyheap::heaps().any(|heap| heap.name() == "default resource"));

    // Of many threads that set it at once, one does.
    let results: std::vec::Vec<Result<(), DefaultAlreadySet>> = thread::scope(|scope| {
        let setters: std::vec::Vec<_> =
            (0..4).map(|_| scope.spawn(|| set_default_resource(&ALL))).collect();
        setters.into_iter().map(|setter| setter.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(set_default_resource(&HEAP), Err(DefaultAlreadySet));
    assert!(DefaultAlreadySet.to_string().contains("set before"));

    let late = Box::new_in(2, default_resource());
    assert_eq!((ALL.counts().live_blocks, *early + *late), (1, 3));
    thread::spawn(move || drop((early, late))).join().unwrap();
    assert_eq!(ALL.counts().live_blocks, 0);

    // Without a scope, the thread's is the process's.
    assert_eq!(live_now(&ALL, || assert_eq!(work(), 4_950)).min(1), 1);
    // Within one it is not, and on other threads still is.
    let heap = Heap::new();
    assert_eq!(live_now(&ALL, || assert_eq!(with_resource(&heap, work), 4_950)), 0);
    let elsewhere = || {
        with_resource(&heap, || thread::scope(|scope| scope.spawn(work).join().unwrap()));
    };
    assert_eq!(live_now(&ALL, elsewhere).min(1), 1);
}

#[test]
fn the_innermost_scope_counts_and_ends_however_it_ends() {
    let _turn = alone();
    let (outer, inner) = (Counting::new(Heap::new()), Counting::new(Heap::new()));
    let counts =
        || (outer.counts().allocated_blocks.min(1), inner.counts().allocated_blocks.min(1));
    with_resource(&outer, || {
        let scratch = Monotonic::new(&inner);
        with_resource(&scratch, work);
        assert_eq!(counts(), (0, 1));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            with_resource(&inner, || -> u64 { panic!("as it should") });
        }));
        assert!(outcome.is_err());
        work();
        assert_eq!(counts(), (1, 1));
    });
    let before = outer.counts().allocated_blocks;
    work();
    assert_eq!(outer.counts().allocated_blocks, before, "the scope is over");
}

#[test]
fn a_scope_within_a_loan_does_not_change_what_was_lent() {
    let _turn = alone();
    let (first, second) = (Counting::new(Heap::new()), Counting::new(Heap::new()));
    with_resource(&first, || {
        with_current_resource(|lent| {
            let mut list = Vec::new_in(lent);
            with_resource(&second, work);
            list.extend(0..1_000u32);
            assert!(lent.upstream().is_some());
        });
    });
    assert_eq!((first.counts().live_blocks, second.counts().live_blocks), (0, 0));
    assert!(first.counts().peak_live_bytes >= 4_000 && second.counts().peak_live_bytes < 4_000);
}
