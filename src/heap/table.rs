//! The heap table: which slots are in use, and whether a heap may be entered from outside.
//!
//! ```text
//! slot word { generation : 48 | closing : 1 | pins : 15 }      never freed
//! ```
//!
//! A thread that ends has no `&Heap`, so before it touches a heap's memory it *pins* the slot;
//! a heap that is dropped sets *closing* and waits for the pins to go. The generation grows when
//! the slot is freed, so (generation, slot) names a heap for ever (`[heap-id-unique]`).
//!
//! *Invariants held here*: `[heap-id-unique]`, `[pin-excludes-drop]`.
//!
//! *Concurrency*: lock-free but for the drop's wait, which lasts as long as a thread exit's flush.
//!
//! *Neighbours*: stands on `sync`; the heap's core and thread exit use it.

#[cfg(not(loom))]
use crate::base::bits_of;
use crate::config::HEAP_SLOTS;
use crate::sync::{AtomicU64, Ordering};

const PIN: u64 = 1;
const PINS_MASK: u64 = (1 << 15) - 1;
const CLOSING: u64 = 1 << 15;
const GENERATION_SHIFT: u32 = 16;

/// Tries to keep the heap of this slot word from being dropped; false when it is closing.
pub(super) fn pin(word: &AtomicU64) -> bool {
    let mut now = word.load(Ordering::Relaxed);
    loop {
        if now & CLOSING != 0 || now & PINS_MASK == PINS_MASK {
            return false;
        }
        // Acquire: what the heap's maker and other pin holders wrote is seen.
        match word.compare_exchange_weak(now, now + PIN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
}

/// Ends a pin.
pub(super) fn unpin(word: &AtomicU64) {
    // Release: pairs with the Acquire in `wait_for_pins`; the flush is done.
    word.fetch_sub(PIN, Ordering::Release);
}

/// Forbids new pins and waits for those there are.
pub(super) fn close(word: &AtomicU64, mut wait: impl FnMut()) {
    // Acquire: pins that are gone already have published their flush.
    let mut now = word.fetch_or(CLOSING, Ordering::Acquire);
    while now & PINS_MASK != 0 {
        wait();
        now = word.load(Ordering::Acquire);
    }
}

/// Starts the next generation: the slot may be given out again.
pub(super) fn renew(word: &AtomicU64) {
    let generation = (word.load(Ordering::Relaxed) >> GENERATION_SHIFT) + 1;
    // Release: the dead heap's clean-up is seen by whoever takes the slot.
    word.store(generation << GENERATION_SHIFT, Ordering::Release);
}

/// One word a slot. Starts at generation 0.
#[cfg(not(loom))]
static WORDS: [AtomicU64; HEAP_SLOTS] = [const { AtomicU64::new(0) }; HEAP_SLOTS];

/// Set bit = slot in use.
#[cfg(not(loom))]
static USED: [AtomicU64; HEAP_SLOTS / 64] = [const { AtomicU64::new(0) }; HEAP_SLOTS / 64];

/// The lowest word of `USED` that may have a free slot: low slots are reused first, so that the
/// threads' slot tables stay short.
#[cfg(not(loom))]
static HINT: AtomicU64 = AtomicU64::new(0);

/// Returns the word of `slot`.
#[cfg(not(loom))]
pub(super) fn word(slot: usize) -> &'static AtomicU64 {
    &WORDS[slot % HEAP_SLOTS]
}

/// Takes a free slot; `None` when all are in use.
#[cfg(not(loom))]
pub(super) fn take_slot() -> Option<usize> {
    let start = HINT.load(Ordering::Relaxed) as usize;
    (start..USED.len()).chain(0..start.min(USED.len())).find_map(take_slot_of)
}

#[cfg(not(loom))]
fn take_slot_of(index: usize) -> Option<usize> {
    let mut used = USED[index].load(Ordering::Relaxed);
    loop {
        let free = !used;
        if free == 0 {
            let _ = HINT.compare_exchange(
                index as u64,
                index as u64 + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            return None;
        }
        let bit = free & free.wrapping_neg();
        // Acquire: the dead heap's clean-up of this slot is seen.
        used = USED[index].fetch_or(bit, Ordering::Acquire);
        if used & bit == 0 {
            return Some(index * 64 + bit.trailing_zeros() as usize);
        }
    }
}

/// Gives a slot back; the heap is gone from every table.
#[cfg(not(loom))]
pub(super) fn give_slot(slot: usize) {
    renew(word(slot));
    // Release: pairs with the Acquire in `take_slot_of`.
    USED[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Release);
    HINT.fetch_min(slot as u64 / 64, Ordering::Relaxed);
}

/// Ends the pins of threads that are gone. In a forked child only.
#[cfg(not(loom))]
pub(super) fn forget_pins() {
    for (used, words) in USED.iter().zip(WORDS.chunks(64)) {
        let pinned = words.iter().filter(|word| word.load(Ordering::Relaxed) & PINS_MASK != 0);
        pinned.for_each(|word| _ = word.fetch_and(!PINS_MASK, Ordering::Relaxed));
        let was_used = |word: &AtomicU64| word.load(Ordering::Relaxed) != 0;
        // A group of slots is taken only when those before it were in use.
        if used.load(Ordering::Relaxed) == 0 && !words.iter().any(was_used) {
            return;
        }
    }
}

/// Returns the unique number of the heap that is in `slot` now.
#[cfg(not(loom))]
pub(super) fn heap_number(slot: usize) -> u64 {
    let generation = word(slot).load(Ordering::Acquire) >> GENERATION_SHIFT;
    (generation << GENERATION_SHIFT) | slot as u64
}

/// Iterates over the slots in use, a snapshot.
#[cfg(not(loom))]
pub(super) fn used_slots_from(first: usize) -> impl Iterator<Item = usize> {
    USED.iter().enumerate().skip(first / 64).flat_map(move |(index, used)| {
        let used = bits_of(used.load(Ordering::Acquire));
        used.map(move |bit| index * 64 + bit).filter(move |&slot| slot >= first)
    })
}
