//! What a thread heap keeps for one class beside the bin: its slab, its spares, what goes home.
//!
//! *Concurrency*: the holder of the thread heap's tenure writes; others read counters, so all
//! fields are relaxed atomics.
//!
//! *Neighbours*: stands on `magazine`; thread heaps have one for each class.

use core::ptr;

use super::magazine::{Magazine, exchange_mark};
use crate::base::{circulating_rounds, magazine_rounds};
use crate::config::{CHUNK_BYTES, REFILL_ROUNDS_FIRST};
use crate::region::RegionRef;
use crate::slab::Slab;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU16, AtomicUsize, Ordering};

/// What a thread heap keeps for one class beside the bin.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ClassState {
    /// The slab refills come from: address of its first block, 0 for none.
    slab: AtomicUsize,
    /// Full magazines.
    pub(super) spares: AtomicPtr<Magazine>,
    /// Blocks on their way home, as a plain array.
    pub(crate) away: AtomicPtr<Magazine>,
    /// Magazines in `spares`.
    pub(super) spare_count: AtomicU16,
    /// Where the giving cursor must be for the bin's magazines to be exchanged.
    exchange_mark: AtomicU16,
    /// Blocks in `away`.
    pub(crate) away_blocks: AtomicU8,
    /// Word of the slab's bitmap to search first.
    pub(crate) word: AtomicU8,
    /// Blocks that may circulate in the bin; doubles up to `rounds_max`.
    rounds: AtomicU8,
    /// The most `rounds` becomes.
    rounds_max: AtomicU8,
}

impl ClassState {
    /// Of a class without blocks: its bin is never exchanged.
    pub(super) const fn unbound() -> ClassState {
        ClassState {
            slab: AtomicUsize::new(0),
            spares: AtomicPtr::new(ptr::null_mut()),
            away: AtomicPtr::new(ptr::null_mut()),
            spare_count: AtomicU16::new(0),
            exchange_mark: AtomicU16::new(u16::MAX),
            away_blocks: AtomicU8::new(0),
            word: AtomicU8::new(0),
            rounds: AtomicU8::new(0),
            rounds_max: AtomicU8::new(0),
        }
    }

    /// Returns where the giving cursor must be for the bin's magazines to be exchanged.
    #[inline]
    pub(crate) fn exchange_mark(&self) -> u16 {
        self.exchange_mark.load(Ordering::Relaxed)
    }

    /// Returns whether there is a full spare magazine.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        self.spare_count.load(Ordering::Relaxed) != 0
    }

    /// Returns the blocks that may circulate in the bin.
    pub(crate) fn rounds(&self) -> usize {
        usize::from(self.rounds.load(Ordering::Relaxed))
    }

    /// Returns whether more blocks may yet circulate.
    #[inline]
    pub(crate) fn may_grow(&self) -> bool {
        self.rounds.load(Ordering::Relaxed) < self.rounds_max.load(Ordering::Relaxed)
    }

    /// Lets twice as many blocks circulate, as far as the class allows.
    pub(crate) fn grow(&self, class: usize) {
        self.set_rounds(class, self.rounds() * 2);
    }

    fn set_rounds(&self, class: usize, rounds: usize) {
        let rounds = least(rounds, circulating_rounds(class));
        self.rounds.store(rounds as u8, Ordering::Relaxed);
        self.exchange_mark.store(mark_for(class, rounds), Ordering::Relaxed);
    }

    /// Returns the slab refills come from.
    pub(crate) fn slab(&self) -> Option<Slab> {
        let base = self.slab.load(Ordering::Relaxed);
        if base == 0 {
            return None;
        }
        // SAFETY: [region-stays] the slab lies in a region of the heap.
        let region = unsafe { RegionRef::of(base) };
        Slab::at(region, (base - region.base()) / CHUNK_BYTES)
    }

    /// Makes `slab` the one refills come from.
    pub(crate) fn set_slab(&self, slab: Option<Slab>) {
        self.slab.store(slab.map_or(0, Slab::base), Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
    }

    /// Of `class`, with nothing in it.
    pub(super) const fn empty(class: usize) -> ClassState {
        let rounds = least(REFILL_ROUNDS_FIRST, circulating_rounds(class));
        ClassState {
            rounds: AtomicU8::new(rounds as u8),
            rounds_max: AtomicU8::new(circulating_rounds(class) as u8),
            exchange_mark: AtomicU16::new(mark_for(class, rounds)),
            ..ClassState::unbound()
        }
    }

    pub(super) fn reset(&self, class: usize) {
        self.set_slab(None);
        self.spares.store(ptr::null_mut(), Ordering::Relaxed);
        self.away.store(ptr::null_mut(), Ordering::Relaxed);
        self.spare_count.store(0, Ordering::Relaxed);
        self.away_blocks.store(0, Ordering::Relaxed);
        self.set_rounds(class, REFILL_ROUNDS_FIRST);
    }

    pub(super) fn take_slab(&self) -> Option<Slab> {
        let slab = self.slab();
        self.set_slab(None);
        slab
    }
}

/// Returns where the giving cursor must be when `rounds` blocks of `class` circulate: at half of
/// them. At the edge, one block more or less must not send the thread to its spares.
const fn mark_for(class: usize, rounds: usize) -> u16 {
    exchange_mark(magazine_rounds(class), rounds / 2)
}

const fn least(one: usize, other: usize) -> usize {
    if one < other { one } else { other }
}
