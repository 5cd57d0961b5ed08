//! Refill: where blocks come from when a bin is empty.
//!
//! In order: the bin's own given blocks, a spare magazine of the thread, a magazine of the depot, the bits of the current
//! slab, another slab. The number of rounds taken from a slab starts small and doubles while
//! refills follow each other, so a heap with a few blocks touches little memory.
//!
//! *Concurrency*: the bound thread; what it shares is the store's and the slab's.
//!
//! *Neighbours*: stands on `thread_heap` and `supply`; the heap's cold path calls it.

use core::ptr;

use super::class_state::ClassState;
use super::depot::Depot;
use super::magazine::{Bin, exchange_mark};
use super::store::Store;
use super::thread_heap::ThreadHeap;
use crate::base::{SLAB_CLASSES, magazine_rounds, slab_block_bytes};
use crate::slab::{Left, Slab, Taken};
use crate::sync::Ordering;

/// Takes a block out of what the thread has itself: what it gave back, or a spare magazine. Null
/// when that is too little.
///
/// The blocks that circulate in the bin double until they are enough.
#[inline]
pub(crate) fn recirculate(thread_heap: &ThreadHeap, bin_word: u8) -> *mut u8 {
    let (bin, state) = (thread_heap.bin_at(bin_word), thread_heap.class_at(bin_word));
    let class = usize::from(bin_word / 2);
    if bin.exchange(state.exchange_mark()) {
        if state.may_grow() {
            state.grow(class);
        }
        return bin.pop();
    }
    if class < SLAB_CLASSES && state.has_spare() && thread_heap.has_place_for_empty() {
        let empty = bin.load_taking(thread_heap.pop_spare(class), magazine_rounds(class));
        if !empty.is_null() {
            thread_heap.push_empty(empty);
        }
        return bin.pop();
    }
    ptr::null_mut()
}

/// Refills the bin of `class` and returns one block; null when there is no memory.
pub(crate) fn refill(store: &Store, thread_heap: &ThreadHeap, class: usize) -> *mut u8 {
    let (bin, rounds) = (&thread_heap.bins[class], magazine_rounds(class));
    let mut full = thread_heap.pop_spare(class);
    if full.is_null() {
        full = store.depot(class).and_then(Depot::load).unwrap_or(ptr::null_mut());
    }
    if !full.is_null() {
        thread_heap.give_empty(store, bin.load_taking(full, rounds));
        return bin.pop();
    }
    if !bin.has_taking() {
        let magazine = thread_heap.take_empty(store);
        if magazine.is_null() {
            return ptr::null_mut();
        }
        bin.load_empty_taking(magazine, rounds);
    }
    let block = fill_from_slabs(store, thread_heap, class);
    if block.is_null() {
        bin.exchange(exchange_mark(rounds, 1));
        return bin.pop();
    }
    block
}

fn fill_from_slabs(store: &Store, thread_heap: &ThreadHeap, class: usize) -> *mut u8 {
    let state = thread_heap.class(class);
    let wanted = rounds_wanted(store, state, class);
    store.sweeps.note_use();
    loop {
        let slab = match state.slab() {
            Some(slab) => slab,
            None => {
                let mut lease = thread_heap.lease();
                let Some(slab) = store.acquire_slab(class, &mut lease) else {
                    return ptr::null_mut();
                };
                thread_heap.set_lease(&lease);
                state.set_slab(Some(slab));
                slab
            }
        };
        let (block, taken) = fill_from(store, slab, state, &thread_heap.bins[class], wanted);
        if taken.count != 0 {
            store.count_taken(taken.count * slab_block_bytes(class));
            return block;
        }
        if taken.is_denied {
            return ptr::null_mut();
        }
        if slab.leave_empty_handed() == Left::Full {
            state.set_slab(None);
        }
    }
}

/// Fills the bin with up to `wanted` blocks of `slab`, one of which is returned.
fn fill_from(
    store: &Store,
    slab: Slab,
    state: &ClassState,
    bin: &Bin,
    wanted: usize,
) -> (*mut u8, Taken) {
    let from = usize::from(state.word.load(Ordering::Relaxed));
    let mut taken = Taken { count: 0, word: from, is_denied: false };
    let block = bin.fill(|filler| {
        let charge = |bytes| store.charge(bytes);
        taken = slab.take(from, wanted, charge, |first, bits| {
            filler.add_word(slab.block(first), slab_block_bytes(slab.class()), bits);
        });
    });
    state.word.store(taken.word as u8, Ordering::Relaxed);
    (block, taken)
}

/// Returns how many blocks to take, and lets twice as many circulate from now on.
fn rounds_wanted(store: &Store, state: &ClassState, class: usize) -> usize {
    let within_limit = store.account.refill_bytes_max() / slab_block_bytes(class);
    let wanted = state.rounds().min(within_limit);
    state.grow(class);
    // One more is handed out at once.
    wanted + 1
}
