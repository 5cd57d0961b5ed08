//! Trim: giving back by hand what has no live owner.
//!
//! *Concurrency*: any thread. A purge takes the chunks it works on out of the free word, so it
//! holds up no allocation of another thread.
//!
//! *Neighbours*: stands on `core` and `cache`; limits and sweeps use it.

use super::core::{HeapCore, live_slots};
use super::{Heap, thread};
use crate::cache::{drain_depots, drain_kept_mappings};
use crate::region::{RegionRef, drop_cached_mappings, purge_warm_regions, release_cold_regions};

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
        let before_bytes = core.store.account.charged_bytes();
        // First, so that there is place for what the thread keeps.
        drain_kept_mappings(&core.store);
        if let Some(own) = thread::bound(core.store.slot) {
            own.drain(&core.store);
        }
        trim_shared(core);
        before_bytes.saturating_sub(core.store.account.charged_bytes())
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
    live_slots().filter_map(trim_slot).sum::<usize>() + trim_process()
}

/// Gives back what the heap's threads do not hold.
pub(super) fn trim_shared(core: &HeapCore) -> usize {
    let store = &core.store;
    drain_shared_caches(core);
    let unmapped_bytes = drain_kept_mappings(store);
    let purge = |region: RegionRef| {
        store.purge_chunks(region, region.dirty_chunks(), || false).0 + store.purge_header(region)
    };
    unmapped_bytes + store.all_regions().map(purge).sum::<usize>()
}

/// Empties the caches of threads that ended and the depots into the slabs.
pub(super) fn drain_shared_caches(core: &HeapCore) {
    core.for_each_idle_thread_heap(|idle| idle.drain(&core.store));
    drain_depots(&core.store);
}

/// Gives back all the process keeps between heaps, address space too; returns whether there was
/// anything.
pub(super) fn trim_process_wholly() -> bool {
    let trimmed_bytes = trim_process();
    release_cold_regions() || trimmed_bytes != 0
}

/// Gives back what the process keeps between heaps; returns the bytes.
pub(super) fn trim_process() -> usize {
    purge_warm_regions() + drop_cached_mappings()
}
