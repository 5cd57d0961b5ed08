//! Fork: what a child process does about the threads it does not have.
//!
//! A fork copies the memory of all threads and one thread. The others are gone in the child, each
//! stopped between two of its instructions, and what they held they hold for ever. There is no lock
//! among it, so that no allocation and no free ever waits; but a heap cannot be dropped while it is
//! pinned, walked while a thread heap is Busy, or swept while another thread sweeps. The child's
//! first act is to take over from them:
//!
//! ```text
//! process    pins of slots, the sweep's turn          forgotten
//! heap       visitors, threads that are leaving       forgotten
//!            mappings listed and not yet entered      taken off the list
//!            hints, bytes charged                     worked out anew
//! region     lease for building                       ended
//!            slab whose taker is gone                 counted anew and left
//!            partial slab that nobody published       published
//! thread     blocks cached                            given back, each once
//! heap       the rest                                 emptied, and Idle for the next thread
//! ```
//!
//! A thread may have been stopped with a block in two of its places, or in none. So blocks go back
//! by their bits, one at a time, and one whose bit is set already is passed over. What was in no
//! place is lost to the child: a magazine or two, a run of chunks, a mapping for each thread that
//! was in a slow path, and the magazines of the others.
//!
//! Heaps that were being dropped by another thread stay as they are: nobody can name them.
//!
//! *Invariants held here*: `[bin-single-writer]`, `[live-covers-bits]`, `[partial-bit-published]`,
//! `[summary-never-misses]`.
//!
//! *Concurrency*: the one thread of a forked child, before it does anything else.
//!
//! *Neighbours*: stands on `core`, `table` and `cache`; fork handlers of adapters call it.

use core::ptr;

use super::core::{HeapCore, live_slots};
use super::{stats, table, thread};
use crate::base::{LARGE_CLASSES, Large, slab_block_bytes, slab_blocks};
use crate::cache::{Store, Tenure, ThreadHeap, forget_turn, free_chunk, free_large};
use crate::region::{
    EntryKind, LEASED_FOR_BUILDING, RegionRef, listed_mapping, lookup, mapping_place,
};
use crate::slab::{Slab, State};
use crate::sync::Ordering;

/// Takes over what threads of the parent held when this process was forked. Adapters call it from
/// a handler of `pthread_atfork`; without it the child can allocate and free, but dropping or
/// walking a heap may wait for ever.
///
/// # Safety
/// 1. The calling process was just forked, this is its only thread, and the thread was not inside
///    a heap when it forked.
///
/// # Cost
/// O(heaps + regions + mappings + blocks cached by other threads); calls no function that waits.
#[doc(hidden)]
pub unsafe fn after_fork_in_child() {
    table::forget_pins();
    forget_turn();
    for slot in live_slots() {
        HeapCore::with_pinned(slot, take_over);
    }
}

/// Takes the heap over from the threads that are gone.
fn take_over(core: &HeapCore) {
    let store = &core.store;
    core.forget_visitors();
    // A heap that another thread held as a whole may have been changed half.
    let own = thread::bound(store.slot).filter(|own| own.is_in(Tenure::Bound));
    unlist_mappings(store);
    for region in store.all_regions() {
        if region.lessee() == LEASED_FOR_BUILDING {
            region.end_lease();
        }
        region.settle_hollow();
        Slab::all_of(region).for_each(|slab| release_slab(store, slab, own));
    }
    for thread_heap in store.thread_heaps() {
        let is_own = own.is_some_and(|own| ptr::eq(own, thread_heap));
        if !is_own && !thread_heap.is_in(Tenure::Idle) {
            inherit(store, thread_heap);
        }
    }
    store.all_regions().for_each(|region| mark(store, region));
    let (charged_bytes, held_bytes) = (store.account.charged_bytes(), stats::held_bytes(core));
    store.account.uncharge(charged_bytes);
    store.account.charge_anyway(held_bytes);
}

/// Takes mappings off the list that are not wholly the heap's, and counts the bytes of the others.
fn unlist_mappings(store: &Store) {
    let mut bytes = 0;
    for index in 0..store.mappings.end() {
        let Some(base) = store.mappings.get(index) else { continue };
        let listed = listed_mapping(base, store.slot);
        let head = listed.head;
        let is_mapping = matches!(head.kind(), EntryKind::Mapping | EntryKind::KeptMapping);
        if is_mapping && head.slot() == store.slot && mapping_place(head) == index {
            bytes += listed.bytes;
        } else {
            store.mappings.remove(index);
        }
    }
    store.mapped_bytes.store(bytes, Ordering::Relaxed);
}

/// Puts a slab where others find it, unless the calling thread is its taker.
fn release_slab(store: &Store, slab: Slab, own: Option<&ThreadHeap>) {
    let words = slab.words();
    match slab.control().state() {
        State::Active if own.and_then(|own| own.class(slab.class()).slab()) != Some(slab) => {
            let free: u32 =
                words.bits.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
            let taken = slab_blocks(slab.class()) as u64 - u64::from(free);
            // Its taker may have taken blocks and not counted them.
            let uncounted = taken.wrapping_sub(slab.control().live() as u64);
            words.control.fetch_add(uncounted, Ordering::Relaxed);
            let settled = slab.leave();
            store.follow_up(slab, settled);
        }
        State::Partial => {
            words.partial.fetch_or(words.bit, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// Gives back what a thread that is gone cached, and the thread heap to the next thread.
fn inherit(store: &Store, thread_heap: &ThreadHeap) {
    thread_heap.for_each_cached(&mut |class, block| give_once(store, class, block));
    if let Some(cache) = thread_heap.large() {
        let kept = (0..LARGE_CLASSES).map(|class| (class, cache.kept(class)));
        for (class, block) in kept.filter(|&(_, block)| block != 0) {
            free_large(store, None, Large::of_class(class), block);
        }
        cache.kept_chunks().for_each(|chunk| free_chunk(store, None, chunk));
    }
    thread_heap.reset(store);
    // A thread that found the whole heap held goes on with its own, emptied.
    let is_own = thread::bound(store.slot).is_some_and(|own| ptr::eq(own, thread_heap));
    let next = if is_own { Tenure::Bound } else { Tenure::Idle };
    if !is_own {
        thread_heap.table.store(ptr::null_mut(), Ordering::Relaxed);
    }
    for tenure in [Tenure::Bound, Tenure::Busy, Tenure::Held, Tenure::Orphaned] {
        if thread_heap.change_tenure(tenure, next) {
            return;
        }
    }
}

/// Gives a block back to its slab, unless it is there.
fn give_once(store: &Store, class: usize, block: usize) {
    if !lookup(block).is_region_of(store.slot) {
        return;
    }
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    // The slab is gone if this was its last block and came up before.
    let Ok((slab, index)) = Slab::locate(region, block, class) else { return };
    if slab.words().give(index / 64, 1 << (index % 64)) == 0 {
        let settled = slab.settle(1);
        store.follow_up(slab, settled);
        store.count_given(slab_block_bytes(class));
    }
}

/// Marks a region for all it is worth: a search may have been stopped between its two looks.
fn mark(store: &Store, region: RegionRef) {
    let index = region.index();
    if region.free_chunks() != 0 {
        store.roomy.mark(index);
    }
    if region.lessee() == ThreadHeap::mark_of(region) {
        store.idle.mark(index);
    }
    for (class, slabs) in region.partial.iter().enumerate() {
        if slabs.load(Ordering::Relaxed) != 0 {
            store.partial[class].mark(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Heap;
    use super::*;
    use crate::base::at_address;

    /// Makes the calling thread's thread heap one whose thread is gone.
    fn lose_thread(core: &HeapCore) -> &ThreadHeap {
        let thread_heap = thread::bound(core.store.slot).expect("the thread is bound");
        thread::forget(thread_heap, core.store.slot);
        thread_heap
    }

    #[test]
    fn what_a_gone_thread_had_half_done_is_made_whole() {
        let mut heap = Heap::new();
        let kept: Vec<_> = (0..3).map(|_| core::mem::ManuallyDrop::new(heap.boxed(1u64))).collect();
        drop((0..20).map(|_| heap.boxed([0u8; 70_000])).collect::<Vec<_>>());
        let core = heap.core().expect("the heap is bound");
        let gone = lose_thread(core);
        let slab = gone.class(0).slab().expect("the first class has a slab");
        // Taken and not counted.
        let lost = slab.words().take(0, 0, 5).count_ones() as usize;
        // Given back, and still in the bin.
        let mut cached = 0;
        gone.for_each_cached(&mut |_, block| cached = block);
        assert!(lost != 0 && cached != 0);
        give_once(&core.store, slab.class(), cached);
        take_over(core);
        assert!(gone.is_in(Tenure::Idle));
        let stats = heap.stats();
        assert_eq!((stats.live_blocks, stats.cached_bytes), (kept.len() + lost, 0), "{stats}");
        assert_eq!((stats.kept_large_bytes, stats.threads), (0, 0), "{stats}");
        assert_eq!(heap.verify(), Ok(()));
        drop(heap.boxed(1));
        assert_eq!(heap.stats().thread_heaps, 1, "the next thread gets what the last one left");
    }

    #[test]
    fn a_heap_held_by_a_gone_thread_is_let_go() {
        let mut heap = Heap::new();
        drop(heap.boxed(1));
        let core = heap.core().expect("the heap is bound");
        core::mem::forget(core.hold());
        core.leaves.fetch_add(1, Ordering::Relaxed);
        take_over(core);
        assert!(core.visit(|_| ()).is_some() && core.leaves.load(Ordering::Relaxed) == 0);
        assert!(thread::bound(core.store.slot).is_some_and(|own| own.is_in(Tenure::Bound)));
        drop(heap.boxed(1));
        assert_eq!(heap.verify(), Ok(()));
    }

    #[test]
    fn a_mapping_listed_too_early_is_taken_off_the_list() {
        let mut heap = Heap::new();
        drop(heap.boxed(1));
        let core = heap.core().expect("the heap is bound");
        let nowhere: *mut u8 = at_address(crate::config::REGION_BYTES);
        core.store.mappings.insert(crate::base::address(nowhere), |_| ());
        take_over(core);
        assert_eq!(core.store.mappings.iter().count(), 0);
        assert_eq!(heap.verify(), Ok(()));
    }
}
