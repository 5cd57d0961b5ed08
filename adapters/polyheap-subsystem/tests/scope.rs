//! The thread's current subsystem.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::panic::catch_unwind;
use std::thread;

use polyheap_subsystem::{current, enter, registry, subsystem};

subsystem! {
    static OUTER: "outer";
    static INNER: "inner";
}

#[test]
fn scopes_nest_and_end() {
    assert_eq!(current().name(), "default");
    enter(&OUTER, || {
        assert_eq!(current().name(), "outer");
        enter(&INNER, || assert_eq!(current().name(), "inner"));
        enter(&OUTER, || assert_eq!(current().name(), "outer"));
        assert_eq!(current().name(), "outer");
    });
    assert_eq!(current().name(), "default");
    assert!(std::ptr::eq(registry().get("default").unwrap(), current()));
}

#[test]
fn a_scope_ends_when_it_unwinds() {
    enter(&OUTER, || {
        let thrown = catch_unwind(|| enter(&INNER, || panic!("out of {}", current().name())));
        assert_eq!(thrown.unwrap_err().downcast_ref::<String>().unwrap(), "out of inner");
        assert_eq!(current().name(), "outer");
    });
    assert_eq!(current().name(), "default");
}

#[test]
fn other_threads_are_in_no_scope_unless_handed_it() {
    enter(&INNER, || {
        let here = current();
        let names = thread::spawn(move || (current().name(), enter(here, || current().name())));
        assert_eq!(names.join().unwrap(), ("default", "inner"));
    });
}

#[test]
fn what_a_scope_allocates_outlives_it_in_its_subsystem() {
    subsystem! { static LOCAL: "local"; }
    let list = enter(&LOCAL, || current().vec_from([1u64; 100]));
    assert_eq!((list.allocator().name(), LOCAL.stats().live_blocks), ("local", 1));
    thread::spawn(move || drop(list)).join().unwrap();
    assert!(LOCAL.leaks().is_clean());
}

#[test]
fn current_works_in_destructors_of_thread_locals() {
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            assert_eq!(current().name(), "default");
            enter(&INNER, || drop(current().vec_from([1])));
        }
    }
    thread_local!(static LAST: Last = const { Last });
    thread::spawn(|| LAST.with(|_| enter(&OUTER, || ()))).join().unwrap();
}
