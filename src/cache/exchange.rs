//! Exchange: where a full magazine goes.
//!
//! In order: to the thread's spares (capped in bytes), to the depot, else its blocks are flushed.
//! The bin goes on with an empty magazine. At the edge between full and empty a thread only swaps
//! its own spares, so alternating there costs a few stores and no shared operation.
//!
//! *Concurrency*: the bound thread; what it shares is the store's.
//!
//! *Neighbours*: stands on `thread_heap`, `depot` and `flush`; the heap's cold path calls it.

use super::depot::Depot;
use super::flush::{give_group, report};
use super::magazine::Magazine;
use super::store::Store;
use super::thread_heap::ThreadHeap;
use crate::base::{
    SLAB_CLASSES, address, at_address, magazine_bytes, magazine_rounds, slab_block_bytes,
};
use crate::config::{DEPOT_BYTES_MAX, DEPOT_PLACES};
use crate::os::FaultKind;

/// Frees `block`, which is at home, with what the thread has itself; returns false, having done
/// nothing, when that does not do or the block is the one given last.
#[inline]
pub(crate) fn give_with_spares(thread_heap: &ThreadHeap, bin_word: u8, block: *mut u8) -> bool {
    let (bin, class) = (thread_heap.bin_at(bin_word), usize::from(bin_word / 2));
    if class >= SLAB_CLASSES || bin.was_given_last(block) {
        return false;
    }
    if !bin.is_full() {
        return bin.push(block);
    }
    let rounds = magazine_rounds(class);
    if !bin.exchange_if_taken_empty(rounds) {
        let empty = thread_heap.pop_empty();
        if empty.is_null() {
            return false;
        }
        let full = bin.unload_given();
        if !full.is_null() && !thread_heap.push_spare(class, full) {
            bin.reload_given(full);
            thread_heap.push_empty(empty);
            return false;
        }
        bin.load_giving(empty, rounds);
    }
    bin.push(block)
}

/// Frees `block` into the bin of `class`, making place first if need be.
pub(crate) fn free_at_home(store: &Store, thread_heap: &ThreadHeap, class: usize, block: usize) {
    let bin = &thread_heap.bins[class];
    let pointer = at_address(block);
    if bin.was_given_last(pointer) {
        report(store, FaultKind::DoubleFree, block, slab_block_bytes(class), 0);
    }
    if bin.is_full() && !make_place(store, thread_heap, class) {
        return super::direct::give_block(store, block, class);
    }
    bin.push(pointer);
}

/// Loads an empty magazine for giving; returns false when there is no memory for one.
fn make_place(store: &Store, thread_heap: &ThreadHeap, class: usize) -> bool {
    let (bin, rounds) = (&thread_heap.bins[class], magazine_rounds(class));
    if bin.exchange_if_taken_empty(rounds) {
        return true;
    }
    let full = bin.unload_given();
    let empty = match full.is_null() {
        true => thread_heap.take_empty(store),
        false => put_away(store, thread_heap, class, full),
    };
    if empty.is_null() {
        return false;
    }
    bin.load_giving(empty, rounds);
    true
}

/// Puts a full magazine away and returns an empty one.
fn put_away(
    store: &Store,
    thread_heap: &ThreadHeap,
    class: usize,
    full: *mut Magazine,
) -> *mut Magazine {
    store.sweeps.note_use();
    // Asked for first: without an empty one, the full one is emptied.
    let empty = thread_heap.take_empty(store);
    if !empty.is_null() {
        let store_it = || store.depot_or_new(class)?.store(full, depot_places(class)).then_some(());
        if thread_heap.push_spare(class, full) {
            return empty;
        }
        if store_it().is_some() {
            store.sweeps.note_idle(store.policy.decay_ms);
            return empty;
        }
    }
    // SAFETY: [magazine-one-owner] unloaded from the bin, so the caller's.
    let blocks = unsafe { &*full }.blocks(magazine_rounds(class));
    give_group(store, class, blocks);
    thread_heap.give_empty(store, empty);
    full
}

/// Returns how many magazines of `class` the depot holds: fewer of heavy ones.
pub(super) fn depot_places(class: usize) -> usize {
    (DEPOT_BYTES_MAX / magazine_bytes(class)).clamp(2, DEPOT_PLACES)
}

/// Empties the depots of `store` into the slabs.
pub(crate) fn drain_depots(store: &Store) {
    for class in 0..SLAB_CLASSES {
        while let Some(magazine) = store.depot(class).and_then(Depot::load) {
            // SAFETY: [magazine-one-owner] loaded from the depot, so the caller's.
            give_group(store, class, unsafe { &*magazine }.blocks(magazine_rounds(class)));
            store.give_magazine(at_address(address(magazine)));
        }
    }
}
