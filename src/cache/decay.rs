//! Decay: when memory that idles goes back to the system.
//!
//! There is no thread for it. A heap whose chunks become free notes when its next sweep is due; one
//! word of the process holds the earliest of all heaps, and whoever passes a slow path of any heap
//! compares it with the clock. A sweep lets free chunks grow older by a step, half of the decay
//! time, and purges those that were free at this sweep and the two before: they have been idle for
//! the decay time at least, and half as much again at most.
//!
//! A sweep stops when its time is used up, an eighth of the time since the last, and goes on from
//! there at the next occasion. So a busy thread is held up for one run of chunks at a time, and one
//! that comes by seldom does much.
//!
//! *Concurrency*: any thread, lock-free; one thread sweeps at a time, the one with the baton, and
//! others pass by. All words are hints about times: a race between noting and sweeping delays a
//! sweep by one step.
//!
//! *Neighbours*: stands on `os` clocks; the store notes, `heap::sweep` sweeps.

use crate::config::{SWEEP_NS_MAX, SWEEP_NS_MIN, SWEEP_SHARE};
use crate::os::{ticks_ms, ticks_ns};
use crate::sync::{AtomicU64, AtomicUsize, Baton, Ordering};

/// The clock's milliseconds at which the earliest sweep of any heap is due; 0 for none.
static DUE_MS: AtomicU64 = AtomicU64::new(0);

/// The right to sweep. The cursors of all sweeps go with it.
static SWEEPER: Baton = Baton::new();

/// When the last sweep ended, in nanoseconds.
static LAST_END_NS: AtomicU64 = AtomicU64::new(0);

/// The sweeps of one heap.
#[derive(Debug)]
pub(crate) struct Sweeps {
    /// The clock's milliseconds at which the next is due; 0 for none.
    due_ms: AtomicU64,
    /// Region to go on with. The sweeping thread only.
    pub(crate) cursor: AtomicUsize,
    /// Chunks of that region still to be purged. The sweeping thread only.
    pub(crate) rest: AtomicU64,
    /// Sweeps since the heap's shared structures were used. Set to 0 by every refill.
    pub(crate) idle: AtomicUsize,
}

impl Sweeps {
    pub(crate) const fn new() -> Sweeps {
        Sweeps {
            due_ms: AtomicU64::new(0),
            cursor: AtomicUsize::new(0),
            rest: AtomicU64::new(0),
            idle: AtomicUsize::new(0),
        }
    }

    /// Notes that memory of a heap with this decay time idles from now on.
    pub(crate) fn note_idle(&self, decay_ms: u32) {
        if decay_ms == u32::MAX || self.due_ms.load(Ordering::Relaxed) != 0 {
            return;
        }
        self.set_due(ticks_ms() + step_ms(decay_ms));
    }

    /// Notes that the heap's shared structures were used.
    #[inline]
    pub(crate) fn note_use(&self) {
        if self.idle.load(Ordering::Relaxed) != 0 {
            self.idle.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether a sweep is due at `now_ms`.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let due_ms = self.due_ms.load(Ordering::Relaxed);
        due_ms != 0 && now_ms >= due_ms
    }

    /// Ends a sweep: the next is due a step later if memory still idles, which is asked after the
    /// due time is gone: whoever frees later notes a new one.
    pub(crate) fn finish(&self, now_ms: u64, decay_ms: u32, idles: impl FnOnce() -> bool) {
        // SeqCst: comes before the looks of `idles`; who frees exchanges before it looks here.
        self.due_ms.swap(0, Ordering::SeqCst);
        if idles() && decay_ms != u32::MAX {
            self.set_due(now_ms + step_ms(decay_ms));
        }
    }

    /// Returns when the next sweep is due; 0 for never.
    pub(crate) fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Relaxed)
    }

    fn set_due(&self, at_ms: u64) {
        self.due_ms.store(at_ms, Ordering::Relaxed);
        lower_due(at_ms);
    }
}

/// Returns the time between two sweeps of a heap with this decay time.
fn step_ms(decay_ms: u32) -> u64 {
    u64::from(decay_ms / 2).max(1)
}

/// Makes sure that somebody looks at the heaps at `at_ms`.
pub(crate) fn lower_due(at_ms: u64) {
    let sooner = |due: u64| (due == 0 || at_ms < due).then_some(at_ms);
    let _ = DUE_MS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sooner);
}

/// Ends the turn of a thread that is gone, and has every heap asked again: what that thread was
/// about to note is lost. In a forked child only.
pub(crate) fn forget_turn() {
    SWEEPER.put_down();
    lower_due(ticks_ms().max(1));
}

/// Returns whether any memory of the process idles, so that the clock is worth reading.
#[inline]
pub(crate) fn is_any_idle() -> bool {
    DUE_MS.load(Ordering::Relaxed) != 0
}

/// A sweep under way; ends when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The clock's milliseconds at its begin.
    pub(crate) now_ms: u64,
    end_ns: u64,
}

impl Turn {
    /// Begins a sweep if one is due, nobody else sweeps, and the last is long enough ago.
    pub(crate) fn begin() -> Option<Turn> {
        let now_ms = ticks_ms();
        let due_ms = DUE_MS.load(Ordering::Relaxed);
        if due_ms == 0 || now_ms < due_ms || !SWEEPER.take() {
            return None;
        }
        let now_ns = ticks_ns();
        let since_ns = now_ns.saturating_sub(LAST_END_NS.load(Ordering::Relaxed));
        let share_ns = (since_ns / SWEEP_SHARE).min(SWEEP_NS_MAX);
        if share_ns < SWEEP_NS_MIN {
            SWEEPER.put_down();
            return None;
        }
        Some(Turn { now_ms, end_ns: now_ns + share_ns })
    }

    /// Forgets when sweeps are due: every heap is about to be asked.
    pub(crate) fn ask_all(&self) {
        DUE_MS.store(0, Ordering::Relaxed);
    }

    /// Returns whether the time is used up.
    pub(crate) fn is_over(&self) -> bool {
        ticks_ns() >= self.end_ns
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        LAST_END_NS.store(ticks_ns(), Ordering::Relaxed);
        SWEEPER.put_down();
    }
}
