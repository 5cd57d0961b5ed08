//! Magazines and the bins that hold the loaded one: the data of both fast paths.
//!
//! ```text
//! magazine, 512 bytes, aligned          bin
//! ┌──────┬──────┬────┬────┬───┬────┐    top     the block on top, null when there is none
//! │ link │ null │ b1 │ b2 │...│    │    cursor  where the next push stores the old top
//! └──────┴──────┴────┴────┴───┴────┘    floor   the cursor of an empty magazine
//!        floor       cursor     end
//! ```
//!
//! The top block is cached in the bin, which takes the load of the round off the chain from push
//! to pop; the entry at the floor is null, so popping the last block makes the top null by itself.
//! Empty is `top == null`; full is a cursor whose low nine bits are zero, the magazine's end. A
//! bin of all zeros is empty *and* full: what a thread sees of a heap it is not bound to.
//!
//! At rest a full magazine keeps its top in `link` and the next spare at the floor.
//!
//! *Invariants held here*: `[bin-single-writer]`, `[magazine-one-owner]`.
//!
//! *Concurrency*: a bin is written by the thread that has its thread heap; others read it for
//! statistics, so its words are relaxed atomics. In `pop` the cursor moves before the top, in
//! `push` after it: whoever looks in between (a forked child) misses one block and sees none twice.
//!
//! *Neighbours*: stands on `base`; thread heaps are made of bins.

use core::ptr;

use crate::base::{address, at_address};
use crate::config::{MAGAZINE_BYTES, MAGAZINE_ROUNDS_MAX};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

/// One place of a magazine.
pub(crate) type Round = AtomicPtr<u8>;

/// An array of blocks that moves between tiers as a whole.
#[repr(C, align(512))]
#[derive(Debug)]
pub(crate) struct Magazine {
    /// At rest: the top block of a full magazine, or the next of the empty ones.
    link: Round,
    rounds: [Round; MAGAZINE_ROUNDS_MAX],
}

const _: () = assert!(
    size_of::<Magazine>() == MAGAZINE_BYTES && align_of::<Magazine>() == MAGAZINE_BYTES,
    "Magazine's align attribute repeats MAGAZINE_BYTES: change both"
);

impl Magazine {
    /// Returns the next of a list of empty magazines.
    pub(crate) fn next_empty(&self) -> *mut Magazine {
        self.link.load(Ordering::Relaxed).cast()
    }

    /// Puts the magazine in front of the empty ones at `next`.
    pub(crate) fn set_next_empty(&self, next: *mut Magazine) {
        self.link.store(next.cast(), Ordering::Relaxed);
    }

    /// Returns the next of a list of full magazines with `rounds` rounds.
    pub(crate) fn next_spare(&self, rounds: usize) -> *mut Magazine {
        self.rounds[MAGAZINE_ROUNDS_MAX - rounds].load(Ordering::Relaxed).cast()
    }

    /// Puts the full magazine with `rounds` rounds in front of the full ones at `next`.
    pub(crate) fn set_next_spare(&self, rounds: usize, next: *mut Magazine) {
        self.rounds[MAGAZINE_ROUNDS_MAX - rounds].store(next.cast(), Ordering::Relaxed);
    }

    /// Iterates over the blocks of a full magazine at rest with `rounds` rounds.
    pub(crate) fn blocks(&self, rounds: usize) -> impl Iterator<Item = usize> + '_ {
        self.rounds[MAGAZINE_ROUNDS_MAX - rounds + 1..]
            .iter()
            .chain([&self.link])
            .map(|round| address(round.load(Ordering::Relaxed)))
    }

    /// Reads round `index`, for magazines used as plain arrays (`away`).
    pub(crate) fn round(&self, index: usize) -> usize {
        address(self.rounds[index].load(Ordering::Relaxed))
    }

    /// Writes round `index`, for magazines used as plain arrays (`away`).
    pub(crate) fn set_round(&self, index: usize, block: usize) {
        self.rounds[index].store(at_address(block), Ordering::Relaxed);
    }
}

/// The loaded magazine of one class of one thread heap.
#[repr(C, align(32))]
#[derive(Debug)]
pub(crate) struct Bin {
    /// The block on top. Written by the owner thread.
    top: AtomicPtr<u8>,
    /// Where the next push stores the old top. Written by the owner thread.
    cursor: AtomicPtr<Round>,
    /// The cursor when empty; null before the first magazine. Written by the owner thread.
    floor: AtomicPtr<Round>,
    /// Which bits of a block's address must equal the home region's: all region bits for classes
    /// that share cache lines, none for others. Written before the thread heap is published.
    home_mask: AtomicUsize,
}

impl Bin {
    /// Takes the block on top; null when there is none. Owner thread only.
    // Inlined always: benchmark `hot`, a call here doubles the instructions of a pair.
    #[inline(always)]
    pub(crate) fn pop(&self) -> *mut u8 {
        let top = self.top.load(Ordering::Relaxed);
        if !top.is_null() {
            let below = self.cursor.load(Ordering::Relaxed).wrapping_sub(1);
            self.cursor.store(below, Ordering::Relaxed);
            // SAFETY: [bin-single-writer] a bin with a top has its cursor above its floor, so
            // the round below lies in the loaded magazine.
            let next = unsafe { &*below }.load(Ordering::Relaxed);
            self.top.store(next, Ordering::Relaxed);
        }
        top
    }

    /// Puts `block` on top; returns false, having done nothing, when the bin is full or the block
    /// is on top already. Owner thread only.
    // Inlined always: benchmark `hot`, a call here doubles the instructions of a pair.
    #[inline(always)]
    pub(crate) fn push(&self, block: *mut u8) -> bool {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let top = self.top.load(Ordering::Relaxed);
        if is_end(cursor) || top == block {
            return false;
        }
        // SAFETY: [bin-single-writer] a cursor that is not at the end points to a round of the
        // loaded magazine.
        unsafe { &*cursor }.store(top, Ordering::Relaxed);
        self.top.store(block, Ordering::Relaxed);
        self.cursor.store(cursor.wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Returns whether `block` agrees with the home region `home` under the class's mask.
    #[inline(always)]
    pub(crate) fn is_home(&self, block: *mut u8, home: usize) -> bool {
        (address(block) ^ home) & self.home_mask.load(Ordering::Relaxed) == 0
    }

    /// Returns the block on top without taking it.
    pub(crate) fn top(&self) -> *mut u8 {
        self.top.load(Ordering::Relaxed)
    }

    /// Returns whether a push would find no place.
    pub(crate) fn is_full(&self) -> bool {
        is_end(self.cursor.load(Ordering::Relaxed))
    }

    /// Returns whether a magazine is loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.floor.load(Ordering::Relaxed).is_null()
    }

    /// Returns the blocks in the bin; any thread, a snapshot.
    pub(crate) fn count(&self) -> usize {
        let cursor = address(self.cursor.load(Ordering::Relaxed));
        let floor = address(self.floor.load(Ordering::Relaxed));
        cursor.wrapping_sub(floor) / size_of::<Round>() % (MAGAZINE_ROUNDS_MAX + 1)
    }

    /// Calls `act` for every block in the bin. Nobody else uses it.
    pub(crate) fn for_each_block(&self, mut act: impl FnMut(usize)) {
        let floor = self.floor.load(Ordering::Relaxed);
        for index in 1..self.count() {
            // SAFETY: [bin-single-writer] rounds above the floor and below the cursor are loaded.
            let round = unsafe { &*floor.wrapping_add(index) };
            act(address(round.load(Ordering::Relaxed)));
        }
        if self.count() != 0 {
            act(address(self.top()));
        }
    }

    /// Makes the bin empty, without a magazine, with this home mask.
    pub(crate) fn clear(&self, home_mask: usize) {
        self.top.store(ptr::null_mut(), Ordering::Relaxed);
        self.cursor.store(ptr::null_mut(), Ordering::Relaxed);
        self.floor.store(ptr::null_mut(), Ordering::Relaxed);
        self.home_mask.store(home_mask, Ordering::Relaxed);
    }

    /// Loads an empty magazine that holds up to `rounds` blocks.
    pub(crate) fn load_empty(&self, magazine: *mut Magazine, rounds: usize) {
        let floor = floor_of(magazine, rounds);
        // SAFETY: [magazine-one-owner] the caller owns the magazine; the floor is one of its rounds.
        unsafe { &*floor }.store(ptr::null_mut(), Ordering::Relaxed);
        self.top.store(ptr::null_mut(), Ordering::Relaxed);
        self.floor.store(floor, Ordering::Relaxed);
        self.cursor.store(floor, Ordering::Relaxed);
    }

    /// Loads a full magazine at rest.
    pub(crate) fn load_full(&self, magazine: *mut Magazine, rounds: usize) {
        self.load_empty(magazine, rounds);
        // SAFETY: [magazine-one-owner] the caller owns the magazine.
        let top = unsafe { &*magazine }.link.load(Ordering::Relaxed);
        let floor = self.floor.load(Ordering::Relaxed);
        self.cursor.store(floor.wrapping_add(rounds), Ordering::Relaxed);
        self.top.store(top, Ordering::Relaxed);
    }

    /// Takes the loaded magazine out, full, and puts it at rest; the bin is left without one.
    pub(crate) fn unload_full(&self) -> *mut Magazine {
        let magazine = self.magazine();
        // SAFETY: [magazine-one-owner] the loaded magazine is the owner thread's.
        unsafe { &*magazine }.link.store(self.top(), Ordering::Relaxed);
        self.forget();
        magazine
    }

    /// Takes the loaded magazine out, empty; the bin is left without one. Null if it had none.
    pub(crate) fn unload_empty(&self) -> *mut Magazine {
        let magazine = self.magazine();
        self.forget();
        magazine
    }

    /// Refills the empty loaded magazine from `blocks` and returns the last of them, which the
    /// caller hands out; null when there was none. At most one more than the rounds may come.
    pub(crate) fn fill(&self, feed: impl FnOnce(&mut Filler)) -> *mut u8 {
        let floor = self.floor.load(Ordering::Relaxed);
        let mut filler = Filler { at: floor, below: ptr::null_mut(), last: ptr::null_mut() };
        feed(&mut filler);
        if !filler.below.is_null() {
            self.top.store(filler.below, Ordering::Relaxed);
            self.cursor.store(filler.at.wrapping_add(1), Ordering::Relaxed);
        }
        filler.last
    }

    /// Returns the loaded magazine, null when there is none.
    fn magazine(&self) -> *mut Magazine {
        let floor = address(self.floor.load(Ordering::Relaxed));
        at_address(floor & !(MAGAZINE_BYTES - 1))
    }

    fn forget(&self) {
        self.top.store(ptr::null_mut(), Ordering::Relaxed);
        self.cursor.store(ptr::null_mut(), Ordering::Relaxed);
        self.floor.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

/// Writes blocks into an empty magazine, keeping the two newest in registers.
#[derive(Debug)]
pub(crate) struct Filler {
    at: *mut Round,
    below: *mut u8,
    last: *mut u8,
}

impl Filler {
    /// Adds a block.
    #[inline]
    pub(crate) fn add(&mut self, block: usize) {
        if !self.below.is_null() {
            self.at = self.at.wrapping_add(1);
            // SAFETY: [magazine-one-owner] `fill` is given at most one block more than the
            // magazine's rounds, and the two newest are kept outside: the round is inside.
            unsafe { &*self.at }.store(self.below, Ordering::Relaxed);
        }
        self.below = self.last;
        self.last = at_address(block);
    }
}

#[inline(always)]
fn is_end(cursor: *mut Round) -> bool {
    address(cursor) & (MAGAZINE_BYTES - 1) == 0
}

fn floor_of(magazine: *mut Magazine, rounds: usize) -> *mut Round {
    let first_round = 1 + MAGAZINE_ROUNDS_MAX - rounds;
    magazine.cast::<Round>().wrapping_add(first_round)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin_and_magazine() -> (Bin, Box<Magazine>) {
        let null = || AtomicPtr::new(ptr::null_mut());
        let magazine = Magazine { link: null(), rounds: core::array::from_fn(|_| null()) };
        // SAFETY: all zeros is an empty, unloaded bin.
        (unsafe { core::mem::zeroed() }, Box::new(magazine))
    }

    #[test]
    fn a_bin_of_zeros_is_empty_and_full() {
        let (bin, _) = bin_and_magazine();
        assert!(bin.pop().is_null());
        assert!(!bin.push(at_address(64)));
        assert_eq!(bin.count(), 0);
    }

    #[test]
    fn blocks_come_out_last_in_first_and_the_bin_knows_its_ends() {
        for rounds in [1, 4, MAGAZINE_ROUNDS_MAX] {
            let (bin, mut magazine) = bin_and_magazine();
            bin.load_empty(&raw mut *magazine, rounds);
            for block in 1..=rounds {
                assert!(bin.push(at_address(block * 16)));
                assert_eq!(bin.count(), block);
            }
            assert!(bin.is_full() && !bin.push(at_address(9999)));
            let at_rest = bin.unload_full();
            // SAFETY: the magazine lives in this test's box.
            let listed: Vec<usize> = unsafe { &*at_rest }.blocks(rounds).collect();
            assert_eq!(listed, (1..=rounds).map(|block| block * 16).collect::<Vec<_>>());
            bin.load_full(at_rest, rounds);
            for block in (1..=rounds).rev() {
                assert_eq!(address(bin.pop()), block * 16);
            }
            assert!(bin.pop().is_null());
        }
    }

    #[test]
    fn the_block_on_top_is_refused_again() {
        let (bin, mut magazine) = bin_and_magazine();
        bin.load_empty(&raw mut *magazine, 8);
        assert!(bin.push(at_address(64)));
        assert!(!bin.push(at_address(64)));
        assert!(bin.push(at_address(128)));
        assert_eq!(bin.count(), 2);
    }

    #[test]
    fn filling_hands_out_the_last_and_keeps_the_rest_in_order() {
        for given in 1..=MAGAZINE_ROUNDS_MAX + 1 {
            let (bin, mut magazine) = bin_and_magazine();
            bin.load_empty(&raw mut *magazine, MAGAZINE_ROUNDS_MAX);
            let last = bin.fill(|filler| (1..=given).for_each(|block| filler.add(block * 16)));
            assert_eq!(address(last), given * 16);
            assert_eq!(bin.count(), given - 1);
            for block in (1..given).rev() {
                assert_eq!(address(bin.pop()), block * 16);
            }
            assert!(bin.pop().is_null());
        }
    }
}
