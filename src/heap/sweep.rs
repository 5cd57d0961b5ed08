//! Sweeps: returning idle memory of all heaps, a little at a time, by whoever comes by.
//!
//! *Concurrency*: any thread. One sweeps at a time; a heap is pinned while it is swept, so it cannot
//! go away, and the chunks a purge works on are out of their free word, so that no allocation of
//! another thread waits.
//!
//! *Neighbours*: stands on `core`, `trim` and `cache::decay`; the slow paths call it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self as threads, JoinHandle};
use std::time::Duration;

use super::core::{HeapCore, live_slots_from};
use super::{thread, trim};
use crate::cache::{
    LargeCache, Sweeps, ThreadHeap, Turn, drain_kept_mappings, is_any_idle, lower_due,
};
use crate::config::IDLE_SWEEPS;
use crate::os::ticks_ms;
use crate::policy::Decay;
use crate::region::{cached_mapping_bytes, cached_regions};
use crate::sync::{AtomicUsize, Ordering};

/// Slot of the heap to go on with. The sweeping thread only.
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

/// The sweeps of what the process keeps between heaps.
static PROCESS: Sweeps = Sweeps::new();

/// Returns idle memory to the system if it is time, for a thread that is about to use, or used, the
/// heap of `core`.
#[inline]
pub(super) fn sweep_beside(core: &HeapCore) {
    if is_any_idle() {
        match thread::bound(core.store.slot) {
            Some(thread_heap) => sweep_now_and_then(thread_heap),
            None => sweep(),
        }
    }
}

/// [`sweep_beside`] for a bound thread.
#[inline]
pub(super) fn sweep_now_and_then(thread_heap: &ThreadHeap) {
    if is_any_idle() && thread_heap.is_time_to_look(ticks_ms) {
        sweep();
    }
}

/// Notes that the process keeps memory of a heap that went.
pub(super) fn note_process_idle() {
    PROCESS.note_use();
    PROCESS.note_idle(Decay::DEFAULT_MS);
}

/// Notes that a heap was made of what the process keeps.
pub(super) fn note_process_use() {
    PROCESS.note_use();
}

#[cold]
#[inline(never)]
fn sweep() {
    let Some(turn) = Turn::begin() else { return };
    let first = NEXT_SLOT.load(Ordering::Relaxed);
    if first == 0 {
        turn.ask_all();
    }
    for slot in live_slots_from(first) {
        let swept = HeapCore::with_pinned(slot, |core| core.visit(|core| sweep_heap(core, &turn)));
        if swept == Some(None) {
            // Held as a whole just now: it is asked again.
            lower_due(turn.now_ms + 1);
        }
        let is_unfinished = swept.flatten() == Some(false);
        if is_unfinished || turn.is_over() {
            NEXT_SLOT.store(if is_unfinished { slot } else { slot + 1 }, Ordering::Relaxed);
            // Whoever comes by next goes on.
            return lower_due(turn.now_ms);
        }
    }
    NEXT_SLOT.store(0, Ordering::Relaxed);
    sweep_process(&turn);
}

/// Sweeps a heap if it is due; returns false when the time was used up before its end.
fn sweep_heap(core: &HeapCore, turn: &Turn) -> bool {
    let (store, sweeps) = (&core.store, &core.store.sweeps);
    if !sweeps.is_due(turn.now_ms) {
        if sweeps.due_ms() != 0 {
            lower_due(sweeps.due_ms());
        }
        return true;
    }
    loop {
        let index = sweeps.cursor.load(Ordering::Relaxed);
        if index >= store.regions.end() {
            break;
        }
        if let Some(region) = store.region(index) {
            let left = sweeps.rest.load(Ordering::Relaxed);
            let old = if left == 0 { region.age() } else { left };
            let (_, rest) = store.purge_chunks(region, old, || turn.is_over());
            sweeps.rest.store(rest, Ordering::Relaxed);
            if rest != 0 {
                return false;
            }
            if region.dirty_chunks() == 0 {
                store.purge_header(region);
            }
        }
        sweeps.cursor.store(index + 1, Ordering::Relaxed);
        if turn.is_over() {
            return false;
        }
    }
    sweeps.cursor.store(0, Ordering::Relaxed);
    let is_idle = sweep_caches(core);
    sweeps.finish(turn.now_ms, store.policy.decay_ms, || {
        !is_idle
            || store.all_regions().any(|region| region.dirty_chunks() != 0)
            || store.thread_heaps().filter_map(ThreadHeap::large).any(LargeCache::is_in_use)
    });
    true
}

/// Empties the heap's caches if nothing used them for some sweeps; returns whether it did.
fn sweep_caches(core: &HeapCore) -> bool {
    let store = &core.store;
    if let Some(own) = thread::bound(store.slot) {
        own.sweep_large(store);
    }
    let is_idle = store.sweeps.idle.fetch_add(1, Ordering::Relaxed) >= IDLE_SWEEPS;
    if is_idle {
        trim::drain_shared_caches(core);
        drain_kept_mappings(store);
    }
    is_idle
}

/// Returns what the process keeps between heaps if no heap was made or dropped for some sweeps.
fn sweep_process(turn: &Turn) {
    if !PROCESS.is_due(turn.now_ms) {
        if PROCESS.due_ms() != 0 {
            lower_due(PROCESS.due_ms());
        }
        return;
    }
    let is_idle = PROCESS.idle.fetch_add(1, Ordering::Relaxed) >= IDLE_SWEEPS;
    if is_idle {
        trim::trim_process();
    }
    let is_left = || cached_regions().0 != 0 || cached_mapping_bytes() != 0;
    PROCESS.finish(turn.now_ms, Decay::DEFAULT_MS, || !is_idle && is_left());
}

/// A thread that returns idle memory in the background; ends when dropped.
#[derive(Debug)]
pub struct Sweeper {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a thread that looks every `interval` whether idle memory of any heap is due, for
/// processes that stop allocating altogether. Others need none: whoever allocates looks.
///
/// # Errors
/// The system's, when it grants no thread.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let sweeper = polyheap::sweep_in_background(Duration::from_millis(100)).unwrap();
/// // ... the program ...
/// drop(sweeper);
/// ```
pub fn sweep_in_background(interval: Duration) -> io::Result<Sweeper> {
    let is_ending = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&is_ending);
    let work = move || {
        while !ending.load(Ordering::Acquire) {
            threads::park_timeout(interval);
            if is_any_idle() {
                sweep();
            }
        }
    };
    let thread = threads::Builder::new().name("polyheap-sweeper".into()).spawn(work)?;
    Ok(Sweeper { is_ending, thread: Some(thread) })
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been reported by itself.
            let _ = thread.join();
        }
    }
}
