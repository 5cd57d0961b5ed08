//! Limits, and callbacks at soft limits.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use polyheap_subsystem::{Subsystem, Vec, check_budgets, subsystem};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// One test at a time: what checks all budgets calls the callbacks of all tests.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a subsystem of its own for a test, with a soft limit of one MiB.
fn soft(name: &'static str) -> &'static Subsystem {
    Box::leak(Box::new(Subsystem::builder(name).soft_max_bytes(MIB).build()))
}

/// Allocates `count` blocks of 4 KiB.
fn blocks(subsystem: &'static Subsystem, count: usize) -> Vec<polyheap_subsystem::Box<[u8; 4096]>> {
    let mut blocks = subsystem.vec();
    blocks.extend((0..count).map(|_| subsystem.boxed([1; 4096])));
    blocks
}

/// Has the calls of the subsystem's callbacks counted.
fn count_calls(subsystem: &'static Subsystem) -> &'static AtomicUsize {
    let calls: &AtomicUsize = Box::leak(Box::default());
    subsystem.on_soft_limit(|_| _ = calls.fetch_add(1, Ordering::Relaxed));
    calls
}

/// Returns a vector of so many bytes, made in the heap rather than on the stack.
fn zeros(subsystem: &'static Subsystem, bytes: usize) -> Vec<u8> {
    let mut list = subsystem.vec();
    list.resize(bytes, 0);
    list
}

#[test]
fn a_limit_refuses_and_is_shown_as_it_is_set() {
    let _alone = alone();
    subsystem! { static SMALL: "small", max = 256 << 10; }
    let mut bytes = SMALL.vec::<u8>();
    assert!(bytes.try_reserve(MIB).is_err());
    assert_eq!(SMALL.stats().denied_by_limit, 1);
    SMALL.set_limit(NonZeroUsize::new(4 * MIB)).unwrap();
    assert_eq!(SMALL.max_bytes(), Some(4 * MIB));
    bytes.try_reserve(MIB).unwrap();
    SMALL.set_limit(None).unwrap();
    assert_eq!(SMALL.max_bytes(), None);
    bytes.try_reserve(8 * MIB).unwrap();
}

#[test]
fn a_soft_limit_makes_the_heap_give_back_before_it_takes_more() {
    let _alone = alone();
    let subsystem = soft("gives back");
    let held_after_burst = || {
        subsystem.trim();
        drop(blocks(subsystem, 1024));
        // The one takes more than what is free has room for, the other finds that it is too much.
        drop((zeros(subsystem, 3 * MIB), zeros(subsystem, 300_000)));
        subsystem.stats().held_bytes
    };
    let [within, free, again] = [MIB, 64 * MIB, MIB].map(|bytes| {
        subsystem.set_soft_limit(NonZeroUsize::new(bytes)).unwrap();
        held_after_burst()
    });
    assert!(within.max(again) + 3 * MIB < free, "{within} {free} {again}");
}

#[test]
fn callbacks_are_called_by_checks_only() {
    let _alone = alone();
    let subsystem = soft("by checks only");
    let calls = count_calls(subsystem);
    let held = blocks(subsystem, 1024);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let excess = subsystem.check().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(excess.excess_bytes() >= 3 * MIB && excess.live_bytes >= 4 * MIB, "{excess}");
    assert!(excess.to_string().starts_with("by checks only holds 4."), "{excess}");
    drop(held);
}

#[test]
fn callbacks_are_called_again_after_the_subsystem_was_within() {
    let _alone = alone();
    let subsystem = soft("again");
    let calls = count_calls(subsystem);
    for round in 1..4 {
        let held = blocks(subsystem, 512);
        (0..3).for_each(|_| assert!(subsystem.check().is_some()));
        assert_eq!(calls.load(Ordering::Relaxed), round);
        drop(held);
        subsystem.trim();
        assert!(subsystem.check().is_none(), "{}", subsystem.stats());
    }
}

#[test]
fn callbacks_are_called_again_when_the_excess_has_grown_by_a_step() {
    let _alone = alone();
    let subsystem = soft("grown");
    let calls = count_calls(subsystem);
    let first = blocks(subsystem, 512);
    subsystem.check();
    // A step is a sixteenth of the limit, 64 KiB.
    let little = subsystem.boxed([0u8; 1024]);
    subsystem.check();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let more = blocks(subsystem, 64);
    subsystem.check();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    drop((first, little, more));
}

#[test]
fn cached_memory_alone_calls_nobody() {
    let _alone = alone();
    let subsystem = soft("cached");
    let calls = count_calls(subsystem);
    drop(blocks(subsystem, 1024));
    drop(zeros(subsystem, 2 * MIB));
    assert!(subsystem.stats().held_bytes > MIB, "{}", subsystem.stats());
    assert!(subsystem.check().is_none());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[test]
fn callbacks_may_do_whatever_they_like() {
    let _alone = alone();
    let subsystem = soft("whatever");
    static KEPT: Mutex<std::vec::Vec<Vec<polyheap_subsystem::Box<[u8; 4096]>>>> =
        Mutex::new(std::vec::Vec::new());
    let later = count_calls(soft("another"));
    subsystem.on_soft_limit(move |excess| {
        let own = excess.subsystem;
        // Checking in a callback is no new call, adding one holds from the next call on.
        assert!(own.check().is_some() && check_budgets() >= 1);
        own.on_soft_limit(|_| _ = later.fetch_add(1, Ordering::Relaxed));
        drop(zeros(own, 100_000));
        KEPT.lock().unwrap().clear();
        own.trim();
        own.set_limit(NonZeroUsize::new(64 * MIB)).unwrap();
    });
    KEPT.lock().unwrap().push(blocks(subsystem, 1024));
    assert!(subsystem.check().is_none(), "{}", subsystem.stats());
    assert_eq!((subsystem.max_bytes(), later.load(Ordering::Relaxed)), (Some(64 * MIB), 0));
    KEPT.lock().unwrap().push(blocks(subsystem, 1024));
    assert!(subsystem.check().is_none());
    assert_eq!(later.load(Ordering::Relaxed), 1);
}

#[test]
fn no_callback_is_called_while_it_runs_whatever_checks_find_meanwhile() {
    let _alone = alone();
    let subsystem = soft("meanwhile");
    static HELD: Mutex<std::vec::Vec<Vec<polyheap_subsystem::Box<[u8; 4096]>>>> =
        Mutex::new(std::vec::Vec::new());
    let calls = count_calls(subsystem);
    subsystem.on_soft_limit(|excess| {
        HELD.lock().unwrap().clear();
        excess.subsystem.trim();
        assert!(excess.subsystem.check().is_none());
        HELD.lock().unwrap().push(blocks(excess.subsystem, 1024));
        assert!(excess.subsystem.check().is_some());
    });
    HELD.lock().unwrap().push(blocks(subsystem, 512));
    assert!(subsystem.check().is_some() && subsystem.check().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_callback_that_sets_a_soft_limit_is_called_again_by_later_checks_only() {
    let _alone = alone();
    let subsystem = soft("sets a limit");
    let calls = count_calls(subsystem);
    subsystem.on_soft_limit(|excess| {
        // Each is exceeded, too.
        let next = NonZeroUsize::new(excess.soft_max_bytes + 1024).unwrap();
        excess.subsystem.set_soft_limit(Some(next)).unwrap();
        assert!(excess.subsystem.check().is_some());
    });
    let held = blocks(subsystem, 1024);
    assert!(subsystem.check().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(subsystem.check().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    drop(held);
}

#[test]
fn a_callback_that_panics_reaches_the_caller_and_breaks_nothing() {
    let _alone = alone();
    let subsystem = soft("panics");
    let is_angry = &*Box::leak(Box::new(AtomicBool::new(true)));
    subsystem.on_soft_limit(|_| assert!(!is_angry.load(Ordering::Relaxed), "angry"));
    let calls = count_calls(subsystem);
    let held = blocks(subsystem, 512);
    assert!(catch_unwind(AssertUnwindSafe(|| subsystem.check())).is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    // The excess is known now; it is reported again when it has grown.
    assert!(subsystem.check().is_some());
    is_angry.store(false, Ordering::Relaxed);
    let more = blocks(subsystem, 64);
    assert!(subsystem.check().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    drop((held, more));
}

#[test]
fn many_checks_at_once_call_once() {
    let _alone = alone();
    let subsystem = soft("at once");
    let calls = count_calls(subsystem);
    subsystem.on_soft_limit(|_| thread::yield_now());
    let held = blocks(subsystem, 512);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| assert!(subsystem.check().is_some())));
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    drop(held);
}

#[test]
fn a_new_soft_limit_is_reported_anew() {
    let _alone = alone();
    let subsystem = soft("anew");
    let calls = count_calls(subsystem);
    let held = blocks(subsystem, 1024);
    subsystem.check();
    subsystem.set_soft_limit(NonZeroUsize::new(2 * MIB)).unwrap();
    assert_eq!(subsystem.soft_max_bytes(), Some(2 * MIB));
    assert!(subsystem.check().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    subsystem.set_soft_limit(None).unwrap();
    assert!(subsystem.check().is_none());
    drop(held);
}
