//! The recorder: by hand, from its thread, and its ends.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use polyheap_subsystem::{History, Recorder, Subsystem, registry, subsystem};
use serde_json::Value;

const SHORT: Duration = Duration::from_millis(1);
/// So long that a test which waits for it has failed.
const LONG: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(20);

/// One test at a time: each recording checks the budgets of all tests.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not {what}");
        thread::sleep(SHORT);
    }
}

fn samples(recorder: &Recorder) -> usize {
    recorder.history().samples.len()
}

fn place_of(history: &History, name: &str) -> usize {
    history.names.iter().position(|&other| other == name).unwrap()
}

/// Returns a vector of so many bytes, made in the heap rather than on the stack.
fn zeros(subsystem: &'static Subsystem, bytes: usize) -> polyheap_subsystem::Vec<u8> {
    let mut list = subsystem.vec();
    list.resize(bytes, 0);
    list
}

#[test]
fn samples_tell_what_was_live_and_held_when() {
    let _alone = alone();
    subsystem! { static SEEN: "seen"; }
    let recorder = Recorder::new();
    recorder.sample();
    let list = zeros(&SEEN, 100_000);
    recorder.sample();
    drop(list);
    recorder.sample();
    let history = recorder.history();
    let place = place_of(&history, "seen");
    let [before, with, after] = [0, 1, 2].map(|at| history.samples[at].point(place));
    assert_eq!((before.live_bytes, before.held_bytes), (0, 0));
    assert!(with.live_bytes >= 100_000 && with.held_bytes >= with.live_bytes, "{with:?}");
    assert!(after.live_bytes == 0 && after.held_bytes > 0, "{after:?}");
    assert!(history.samples.is_sorted_by_key(|sample| sample.at));

    let value: Value = serde_json::from_str(&history.to_json()).unwrap();
    assert_eq!(value["names"][place], "seen");
    assert_eq!(value["samples"][1]["live_bytes"][place], with.live_bytes);
    assert_eq!(value["samples"][2]["held_bytes"][place], after.held_bytes);
}

#[test]
fn a_subsystem_that_came_later_has_zeros_before() {
    let _alone = alone();
    static LATER: Subsystem = Subsystem::builder("later").build();
    let recorder = Recorder::new();
    recorder.sample();
    let list = LATER.vec_from([1u8; 1000]);
    recorder.sample();
    let history = recorder.history();
    let place = place_of(&history, "later");
    assert!(history.samples[0].points().len() <= place);
    assert_eq!(history.samples[0].point(place).held_bytes, 0);
    assert!(history.samples[1].point(place).live_bytes >= 1000);
    drop(list);
}

#[test]
fn the_latest_samples_are_kept() {
    let _alone = alone();
    let recorder = Recorder::with_samples_max(5);
    (0..5).for_each(|_| recorder.sample());
    let fifth = recorder.history().samples[4].at;
    (0..4).for_each(|_| recorder.sample());
    let history = recorder.history();
    assert_eq!((history.samples.len(), history.samples[0].at), (5, fifth));
    let least = Recorder::with_samples_max(0);
    (0..9).for_each(|_| least.sample());
    assert_eq!(samples(&least), 2);
}

#[test]
fn a_recording_starts_at_once_goes_on_and_stops() {
    let _alone = alone();
    let recorder = Recorder::new();
    assert!(!recorder.is_running());
    recorder.start(SHORT).unwrap();
    assert!(recorder.is_running());
    wait_until("recorded", || samples(&recorder) >= 10);
    recorder.stop();
    let stopped = samples(&recorder);
    assert!(!recorder.is_running());
    thread::sleep(20 * SHORT);
    assert_eq!(samples(&recorder), stopped);
    recorder.stop();
    // The samples stay, and a second recording adds to them.
    recorder.start(LONG).unwrap();
    wait_until("started again", || samples(&recorder) == stopped + 1);
}

#[test]
fn a_long_interval_keeps_nobody_waiting_for_the_end() {
    let _alone = alone();
    let start = Instant::now();
    let recorder = Recorder::new();
    recorder.start(Duration::MAX).unwrap();
    wait_until("sampled", || samples(&recorder) >= 1);
    thread::sleep(20 * SHORT);
    #[cfg(target_os = "linux")]
    assert_eq!(recording_threads(), 1, "it waits");
    recorder.start(LONG).unwrap();
    wait_until("sampled", || samples(&recorder) >= 1);
    recorder.stop();
    recorder.start(LONG).unwrap();
    drop(recorder);
    assert!(start.elapsed() < PATIENCE);
}

#[test]
#[cfg(target_os = "linux")]
fn starts_from_many_threads_leave_one_recording() {
    let _alone = alone();
    let recorder = Recorder::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| recorder.start(SHORT).unwrap()));
        }
    });
    // Recordings that were replaced see so at their next turn.
    wait_until("alone", || recording_threads() == 1);
    let before = samples(&recorder);
    wait_until("recording", || samples(&recorder) > before);
    recorder.stop();
    assert_eq!(recording_threads(), 0);
}

/// Returns how many threads of the process have a recorder's name, of which the system keeps fifteen
/// bytes.
#[cfg(target_os = "linux")]
fn recording_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread that has ended meanwhile has no name to read.
        std::fs::read_to_string(task.unwrap().path().join("comm")).ok()
    });
    names.filter(|name| name.trim() == "polyheap-record").count()
}

#[test]
fn a_stop_beside_a_start_does_not_wait_for_the_new_recording() {
    let _alone = alone();
    let recorder = Recorder::new();
    let arrived = AtomicUsize::new(0);
    // Both come at once, in each round, and then nobody ends what was started.
    let rounds = |act: &dyn Fn()| {
        for round in 1..=500 {
            arrived.fetch_add(1, Ordering::Relaxed);
            let mut turns = 0;
            while arrived.load(Ordering::Relaxed) < 2 * round {
                turns += 1;
                if turns % 5_000 == 0 { thread::yield_now() } else { spin_loop() }
            }
            act();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| rounds(&|| recorder.start(LONG).unwrap()));
        scope.spawn(|| rounds(&|| recorder.stop()));
    });
    recorder.stop();
    assert!(!recorder.is_running() && format!("{recorder:?}").contains("is_running: false"));
}

#[test]
fn a_recording_checks_budgets_and_survives_what_callbacks_throw() {
    let _alone = alone();
    subsystem! {
        static ANGRY: "angry", soft_max = 1 << 20;
        static CALM: "calm", soft_max = 1 << 20;
    }
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static CALLER: OnceLock<String> = OnceLock::new();
    ANGRY.on_soft_limit(|_| panic!("on purpose"));
    CALM.on_soft_limit(|_| {
        CALLER.get_or_init(|| thread::current().name().unwrap_or_default().to_string());
        CALLS.fetch_add(1, Ordering::Relaxed);
    });
    let lists = [&ANGRY, &CALM].map(|subsystem| zeros(subsystem, 2 << 20));
    let by_hand = Recorder::new();
    by_hand.sample();
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    let recorder = Recorder::new();
    recorder.start(SHORT).unwrap();
    wait_until("called", || CALLS.load(Ordering::Relaxed) == 1);
    let called = samples(&recorder);
    wait_until("recorded on", || samples(&recorder) > called + 5);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    assert_eq!(CALLER.get().unwrap(), "polyheap-recorder");
    drop(lists);
}

#[test]
fn a_callback_may_stop_or_drop_the_recorder_that_called_it() {
    let _alone = alone();
    static HAS_RETURNED: AtomicBool = AtomicBool::new(false);
    let subsystem: &'static Subsystem =
        Box::leak(Box::new(Subsystem::builder("stops").soft_max_bytes(1 << 20).build()));
    let recorder = Arc::new(Recorder::new());
    let last: Mutex<Option<Arc<Recorder>>> = Mutex::new(Some(Arc::clone(&recorder)));
    subsystem.on_soft_limit(move |_| {
        if let Some(recorder) = last.lock().unwrap().take() {
            recorder.stop();
            drop(recorder);
            HAS_RETURNED.store(true, Ordering::Relaxed);
        }
    });
    let list = zeros(subsystem, 2 << 20);
    let seen = Arc::downgrade(&recorder);
    recorder.start(SHORT).unwrap();
    drop(recorder);
    wait_until("back from the callback", || HAS_RETURNED.load(Ordering::Relaxed));
    assert!(seen.upgrade().is_none());
    drop(list);
}

#[test]
#[cfg(unix)]
fn a_forked_child_drops_the_recorder_and_makes_its_own() {
    let _alone = alone();
    let recorder = Recorder::new();
    recorder.start(LONG).unwrap();
    wait_until("sampled", || samples(&recorder) == 1);
    // By now it waits, and has no lock.
    thread::sleep(20 * SHORT);
    // SAFETY: the child calls the code below and ends without anything else of this process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = end_of_child(recorder);
        // SAFETY: it may be called at any time.
        unsafe { libc::_exit(code) };
    }
    assert_ne!(child, -1, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    let start = Instant::now();
    // SAFETY: the status is written to a live variable.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > PATIENCE {
            // SAFETY: the child was not waited for to its end, so the number is its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        thread::sleep(SHORT);
    }
    assert_eq!(status, 0, "what the child said is above");
    recorder.stop();
}

/// Runs in the child, in which the recorder's thread is not there; returns its exit code.
#[cfg(unix)]
fn end_of_child(recorder: Recorder) -> i32 {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        assert!(recorder.start(SHORT).is_err());
        recorder.stop();
        drop(recorder);
        let own = Recorder::new();
        own.start(SHORT).unwrap();
        wait_until("sampled in the child", || samples(&own) >= 3);
    }));
    i32::from(outcome.is_err())
}

#[test]
fn a_recording_does_not_stand_in_the_way_of_the_program() {
    let _alone = alone();
    subsystem! { static BUSY: "busy", max = 64 << 20; }
    let recorder = Recorder::new();
    recorder.start(SHORT).unwrap();
    thread::scope(|scope| {
        for worker in 0..4u64 {
            scope.spawn(move || {
                for round in 0..300 {
                    let list = BUSY.vec_from([worker; 3000]);
                    let boxes: Vec<_> = (0..100).map(|number| BUSY.boxed(number * round)).collect();
                    assert!(list.iter().all(|&number| number == worker));
                    assert!((0..100).all(|number| *boxes[number as usize] == number * round));
                }
            });
        }
    });
    recorder.stop();
    assert!(BUSY.leaks().is_clean() && samples(&recorder) > 0);
    assert!(registry().get("busy").is_some());
}
