//! The recorder: samples all subsystems, by hand or from a thread of its own, and checks their budgets.
//!
//! *Concurrency*: any thread. One lock a recorder, for its samples; no allocation from a subsystem takes
//! it. The thread waits on it for its next turn or for the end.
//!
//! *Neighbours*: stands on `history` and `budget`; programs keep one.

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use std::{io, mem, process};

use parking_lot::{Condvar, Mutex};

use crate::history::Sample;
use crate::{History, registry};

/// The fewest samples a picture can be drawn of.
const SAMPLES_MIN: usize = 2;

/// The shortest interval: with less, a thread would do nothing but look.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The longest interval, a year: moments so far ahead can still be named.
const INTERVAL_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Samples live and held bytes of all subsystems over time.
///
/// Keeps the latest samples, [`SAMPLES_MAX_DEFAULT`](Recorder::SAMPLES_MAX_DEFAULT) unless told
/// otherwise; older ones are forgotten. Its memory is the global allocator's.
///
/// # Concurrency
/// Any thread. After a fork the child has no recording thread, and a lock of the recorder may never be
/// free there. It makes a recorder of its own, and may drop this one.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use polyheap_subsystem::{Recorder, report, subsystem};
///
/// subsystem! { static CACHE: "cache"; }
///
/// let recorder = Recorder::new();
/// recorder.start(Duration::from_millis(1)).unwrap();
/// let entries = CACHE.vec_from([0u8; 5000]);
/// std::thread::sleep(Duration::from_millis(20));
/// recorder.stop();
///
/// let page = report().to_html(&recorder.history());
/// assert!(page.contains("<svg") && page.contains("cache"));
/// # drop(entries);
/// ```
pub struct Recorder {
    shared: Arc<Shared>,
    /// The thread of the recording that goes on. Taken before `state` where both are, and not held
    /// while its thread is waited for.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that made it.
    process: u32,
}

struct Shared {
    made: Instant,
    samples_max: usize,
    state: Mutex<State>,
    /// Signalled when the thread shall end.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    samples: VecDeque<Sample>,
    /// Number of the recording that goes on; a thread ends when it finds another one than its own.
    recording: u64,
}

impl Recorder {
    /// Samples a recorder keeps unless told otherwise: an hour at one a second.
    pub const SAMPLES_MAX_DEFAULT: usize = 3600;

    /// Returns a recorder that does not run yet.
    pub fn new() -> Recorder {
        Recorder::with_samples_max(Recorder::SAMPLES_MAX_DEFAULT)
    }

    /// Returns a recorder that keeps the latest `samples_max` samples, at least two.
    ///
    /// # Examples
    /// ```
    /// let recorder = polyheap_subsystem::Recorder::with_samples_max(10);
    /// (0..25).for_each(|_| recorder.sample());
    /// assert_eq!(recorder.history().samples.len(), 10);
    /// ```
    pub fn with_samples_max(samples_max: usize) -> Recorder {
        let shared = Shared {
            made: Instant::now(),
            samples_max: samples_max.max(SAMPLES_MIN),
            state: Mutex::default(),
            ended: Condvar::new(),
        };
        let (shared, thread) = (Arc::new(shared), Mutex::new(None));
        Recorder { shared, thread, process: process::id() }
    }

    /// Takes one sample now. Budgets are left unchecked.
    pub fn sample(&self) {
        self.shared.sample();
    }

    /// Has a thread take a sample now and after every `interval`, of a millisecond at least, and
    /// [check](crate::check_budgets) all budgets each time. Callbacks run on that thread, which goes on
    /// when one panics. A recorder that runs goes on with the new interval.
    ///
    /// # Errors
    /// When the system has no thread to give, and in a process that was forked since the recorder was
    /// made.
    pub fn start(&self, interval: Duration) -> io::Result<()> {
        if self.is_before_fork() {
            return Err(io::Error::other("the recorder is of the process before the fork"));
        }
        self.stop();
        let mut thread = self.thread.lock();
        // The thread of another call that came between ends by itself, its recording being over.
        *thread = None;
        let shared = Arc::clone(&self.shared);
        // A number of its own, also when two calls come at once: the later one's thread stays.
        let recording = shared.begin();
        let name = "polyheap-recorder".to_string();
        let started =
            thread::Builder::new().name(name).spawn(move || shared.record(interval, recording))?;
        *thread = Some(started);
        Ok(())
    }

    /// Ends the recording and waits for its thread; the samples stay. Does nothing when there is none.
    /// A callback that the recording called may stop it, and is not waited for.
    pub fn stop(&self) {
        if self.is_before_fork() {
            return;
        }
        // Both under one lock: a thread that was started in between would be waited for, and not ended.
        let thread = {
            let mut thread = self.thread.lock();
            self.shared.begin();
            thread.take()
        };
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // The thread catches what its callbacks throw, so there is nothing to hear from it.
            let _ = thread.join();
        }
    }

    /// Returns whether a recording goes on.
    pub fn is_running(&self) -> bool {
        self.thread.lock().is_some()
    }

    /// Returns the samples so far.
    pub fn history(&self) -> History {
        let samples = self.shared.state.lock().samples.iter().cloned().collect();
        History::of(samples)
    }

    /// Returns whether this process is a child that has the recorder, but not its thread, of its parent.
    fn is_before_fork(&self) -> bool {
        process::id() != self.process
    }
}

impl Shared {
    fn sample(&self) {
        // Looked at under the lock, so that samples are in order of time.
        let mut state = self.state.lock();
        if state.samples.len() == self.samples_max {
            state.samples.pop_front();
        }
        state.samples.push_back(Sample::take(self.made.elapsed()));
    }

    /// Ends the recording that goes on; returns the number of the next one.
    fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.recording += 1;
        self.ended.notify_all();
        state.recording
    }

    fn record(&self, interval: Duration, recording: u64) {
        let interval = interval.clamp(INTERVAL_MIN, INTERVAL_MAX);
        let mut next = Instant::now();
        loop {
            if self.state.lock().recording != recording {
                return;
            }
            self.sample();
            for subsystem in registry().iter() {
                // The panic hook has told of it; the other budgets are worth going on.
                let _ = catch_unwind(AssertUnwindSafe(|| subsystem.check()));
            }
            next = (next + interval).max(Instant::now());
            let mut state = self.state.lock();
            while state.recording == recording {
                if self.ended.wait_until(&mut state, next).timed_out() {
                    break;
                }
            }
        }
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
        if self.is_before_fork() {
            // There is no such thread to wait for or to let go.
            mem::forget(self.thread.get_mut().take());
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = self.shared.state.lock().samples.len();
        f.debug_struct("Recorder")
            .field("samples", &samples)
            .field("samples_max", &self.shared.samples_max)
            .field("is_running", &self.is_running())
            .finish_non_exhaustive()
    }
}
