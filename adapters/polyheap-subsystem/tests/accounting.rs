//! The report while subsystems come into use.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use polyheap_subsystem::{Subsystem, report};

#[test]
fn a_subsystem_first_used_during_a_report_is_no_other_heap() {
    const COUNT: usize = 1000;
    let made: Vec<Subsystem> = (0..COUNT).map(|_| Subsystem::builder("made").build()).collect();
    let made: &'static [Subsystem] = made.leak();
    made.iter().for_each(Subsystem::register);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            made.iter().for_each(|subsystem| drop(subsystem.boxed(1)));
            is_done.store(true, Ordering::Relaxed);
        });
        while !is_done.load(Ordering::Relaxed) {
            let report = report();
            assert_eq!((report.other_heaps, report.other_held_bytes), (0, 0), "{report}");
        }
    });
    let used = report().subsystems.iter().filter(|row| row.held_bytes > 0).count();
    assert_eq!(used, COUNT);
}
