//! Away: blocks that share cache lines with their neighbours and were freed by a strange thread.
//!
//! Handing such a block out here would let two threads write on one line although neither shares
//! data with the other. A free of these classes therefore compares the block's region with the
//! thread's home region; when they differ, the region's lease decides. Strangers wait in a plain
//! array and go home to their slabs' bits together.
//!
//! *Concurrency*: the bound thread; the lease is read as a hint.
//!
//! *Neighbours*: stands on `thread_heap` and the region map; the heap's cold path calls it.

use super::exchange::free_at_home;
use super::flush::{give_group, report};
use super::store::Store;
use super::thread_heap::ThreadHeap;
use crate::base::slab_block_bytes;
use crate::config::MAGAZINE_ROUNDS_MAX;
use crate::os::FaultKind;
use crate::region::{RegionRef, lookup};
use crate::sync::Ordering;

/// Frees a block whose region is not the home region.
pub(crate) fn free_stray(store: &Store, thread_heap: &ThreadHeap, class: usize, block: usize) {
    if !lookup(block).is_region_of(store.slot) {
        // Not ours at all: the flush says what is wrong.
        return give_group(store, class, core::iter::once(block));
    }
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    if region.lessee() != thread_heap.mark() {
        return put_away(store, thread_heap, class, block);
    }
    // A thread that works in several of its regions: compare with this one from now on.
    thread_heap.set_home(region);
    free_at_home(store, thread_heap, class, block);
}

fn put_away(store: &Store, thread_heap: &ThreadHeap, class: usize, block: usize) {
    let state = thread_heap.class(class);
    let mut magazine = state.away.load(Ordering::Relaxed);
    if magazine.is_null() {
        magazine = thread_heap.take_empty(store);
        if magazine.is_null() {
            return give_group(store, class, core::iter::once(block));
        }
        state.away.store(magazine, Ordering::Relaxed);
    }
    let count = usize::from(state.away_blocks.load(Ordering::Relaxed));
    // SAFETY: [magazine-one-owner] the magazine is this thread heap's.
    let rounds = unsafe { &*magazine };
    if count != 0 && rounds.round(count - 1) == block {
        report(store, FaultKind::DoubleFree, block, slab_block_bytes(class), 0);
    }
    rounds.set_round(count, block);
    state.away_blocks.store(count as u8 + 1, Ordering::Relaxed);
    if count + 1 == MAGAZINE_ROUNDS_MAX {
        state.away_blocks.store(0, Ordering::Relaxed);
        give_group(store, class, (0..=count).map(|index| rounds.round(index)));
    }
}
