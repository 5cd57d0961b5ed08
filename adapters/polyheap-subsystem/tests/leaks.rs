//! The leak check.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::mem;
use std::thread;

use polyheap_subsystem::{Subsystem, subsystem};

/// Returns a vector of so many bytes, made in the heap rather than on the stack.
fn zeros(subsystem: &'static Subsystem, bytes: usize) -> polyheap_subsystem::Vec<u8> {
    let mut list = subsystem.vec();
    list.resize(bytes, 0);
    list
}

#[test]
fn leaks_are_told_by_class() {
    subsystem! { static CLASSES: "classes"; }
    assert!(CLASSES.leaks().is_clean());
    (0..3).for_each(|_| mem::forget(CLASSES.boxed([0u8; 100])));
    mem::forget(CLASSES.boxed([0u8; 16]));
    drop(CLASSES.boxed([0u8; 48]));
    let span = zeros(&CLASSES, 100_000);
    let mapping = zeros(&CLASSES, 3 << 20);
    let leaks = CLASSES.leaks();
    let classes: Vec<_> =
        leaks.classes().map(|class| (class.block_bytes, class.live_blocks)).collect();
    assert_eq!(classes, [(16, 1), (112, 3)]);
    assert_eq!((leaks.blocks, leaks.large_blocks), (6, 2), "{leaks}");
    assert!(!leaks.is_clean());
    assert!(leaks.large_bytes >= 100_000 + (3 << 20));
    assert_eq!(leaks.bytes, 16 + 3 * 112 + leaks.large_bytes);
    let text = leaks.to_string();
    assert!(
        text.starts_with("classes: 6 blocks, ") && text.contains("3 x 112 B; 2 larger"),
        "{text}"
    );
    drop((span, mapping));
    assert_eq!(CLASSES.leaks().large_blocks, 0);
}

#[test]
fn what_other_threads_have_cached_is_no_leak() {
    subsystem! { static CACHED: "cached"; }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let boxes: Vec<_> = (0..500).map(|number| CACHED.boxed([number; 10])).collect();
                let large = zeros(&CACHED, 200_000);
                drop((boxes, large));
                assert!(CACHED.stats().cached_bytes > 0);
            });
        }
    });
    assert!(CACHED.leaks().is_clean(), "{}", CACHED.leaks());
}
