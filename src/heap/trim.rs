//! Trim: giving back by hand what has no live owner.
//!
//! *Concurrency*: any thread. A purge takes the chunks it works on out of the free word, so it
//! holds up no allocation of another thread.
//!
//! *Neighbours*: stands on `core`, `cache` and `os`.

use core::ptr::NonNull;

use super::core::{HeapCore, live_slots};
use super::{Heap, thread};
use crate::base::at_address;
use crate::cache::drain_depots;
use crate::config::{CHUNK_BYTES, REGION_CHUNKS};
use crate::os::purge;
use crate::region::{RegionRef, purge_warm_regions};

impl Heap {
    /// Gives memory without a live owner back to the system; returns the bytes.
    ///
    /// Empties the calling thread's caches, those of threads that ended, and the depots; then
    /// returns the pages of chunks that hold no block. Other threads' caches stay as they are.
    ///
    /// # Concurrency
    /// Any thread, lock-free.
    ///
    /// # Cost
    /// O(regions + cached blocks); calls the OS once for each contiguous run of freed chunks.
    ///
    /// # Examples
    /// ```
    /// let heap = polyheap::Heap::new();
    /// drop(heap.vec_from([0u8; 100_000]));
    /// assert!(heap.trim() >= 100_000);
    /// ```
    pub fn trim(&self) -> usize {
        let Some(core) = self.core() else { return 0 };
        if let Some(own) = thread::bound(core.store.slot) {
            own.drain(&core.store);
        }
        trim_shared(core)
    }
}

/// Trims every heap of the process, without the caches of threads that run, and the memory of
/// dropped heaps that is kept for the next ones; returns the bytes given back.
///
/// # Cost
/// O(heaps + regions + cached blocks).
///
/// # Examples
/// ```
/// let heap = polyheap::Heap::new();
/// drop(heap.boxed([0u8; 200_000]));
/// polyheap::trim_all();
/// ```
pub fn trim_all() -> usize {
    let trim_slot = |slot| HeapCore::with_pinned(slot, |core| core.visit(trim_shared)).flatten();
    live_slots().filter_map(trim_slot).sum::<usize>() + purge_warm_regions()
}

fn trim_shared(core: &HeapCore) -> usize {
    core.for_each_idle_thread_heap(|idle| idle.drain(&core.store));
    drain_depots(&core.store);
    core.store.all_regions().map(|region| purge_free_chunks(core, region)).sum()
}

/// Returns the pages of chunks of `region` that are free and were reached; returns their bytes.
fn purge_free_chunks(core: &HeapCore, region: RegionRef) -> usize {
    let mut purged_bytes = 0;
    let mut chunk = 1;
    while chunk < REGION_CHUNKS {
        let run = dirty_run(region, chunk);
        if run == 0 {
            chunk += 1;
            continue;
        }
        let claimed = region.claim_at(chunk, run);
        if claimed {
            purged_bytes += purge_run(region, chunk, run);
            region.give(chunk, run);
            core.store.roomy.mark(region.index());
        }
        chunk += run;
    }
    purged_bytes
}

/// Returns how many chunks from `first` on are free and were reached, a snapshot.
fn dirty_run(region: RegionRef, first: usize) -> usize {
    let free = region.free_chunks();
    (first..REGION_CHUNKS)
        .take_while(|&chunk| free >> chunk & 1 == 1 && region.reached_bytes(chunk) != 0)
        .count()
}

fn purge_run(region: RegionRef, first: usize, run: usize) -> usize {
    let bytes = (first..first + run).map(|chunk| region.reached_bytes(chunk)).sum();
    let Some(base) = NonNull::new(at_address(region.chunk_base(first))) else { return 0 };
    // SAFETY: (1) whole chunks of a region the system mapped; (2) claimed by the caller and free.
    if !unsafe { purge(base, run * CHUNK_BYTES) } {
        return 0;
    }
    for chunk in first..first + run {
        region.forget_reached(chunk);
    }
    bytes
}
