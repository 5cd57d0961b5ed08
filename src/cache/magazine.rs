//! Magazines and the bins that hold the two loaded ones: the data of both fast paths.
//!
//! ```text
//! magazine, 512 bytes, aligned                 bin
//! ┌──────┬─────┬──────┬────┬────┬────┬────┐    take  the round the next pop reads
//! │ link │ ... │ null │ b1 │ b2 │ b3 │    │    give  the round the next push writes,
//! └──────┴─────┴──────┴────┴────┴────┴────┘          in another magazine
//!  0           floor       take: down to the floor, give: up to 512
//! ```
//!
//! Pops and pushes work on two magazines, so neither waits for the other's cursor to come back
//! from the store buffer; when the taking one is empty the two are exchanged, which is two stores.
//! (mimalloc's `free` and `local_free` lists have the same effect.) The floor below the first
//! round is null, so a pop that finds null has nothing to take; the magazine's end is a multiple
//! of 512, so the low bits of the giving cursor tell that there is no place. A bin without
//! magazines takes from [`NO_ROUND`] and has a null giving cursor: neither path needs to know.
//!
//! A class whose blocks are large uses the last rounds only; its floor is further up.
//!
//! *Invariants held here*: `[bin-single-writer]`, `[magazine-one-owner]`.
//!
//! *Concurrency*: a bin is written by the thread that has its thread heap; others read it for
//! statistics, so its words are relaxed atomics. A push writes the round before the cursor, a pop
//! moves the cursor last: whoever looks in between (a forked child) sees a whole bin.
//!
//! *Neighbours*: stands on `base`; thread heaps are made of bins.

use core::ptr;

use crate::base::{address, at_address};
use crate::config::{MAGAZINE_BYTES, MAGAZINE_ROUNDS_MAX};
use crate::sync::{AtomicPtr, Ordering};

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
    /// Returns the next of a list of magazines.
    pub(crate) fn next(&self) -> *mut Magazine {
        self.link.load(Ordering::Relaxed).cast()
    }

    /// Puts the magazine in front of the list at `next`.
    pub(crate) fn set_next(&self, next: *mut Magazine) {
        self.link.store(next.cast(), Ordering::Relaxed);
    }

    /// Iterates over the blocks of a full magazine at rest, of a class with `rounds` rounds.
    pub(crate) fn blocks(&self, rounds: usize) -> impl Iterator<Item = usize> + '_ {
        let full = &self.rounds[MAGAZINE_ROUNDS_MAX - rounds..];
        full.iter().map(|round| address(round.load(Ordering::Relaxed)))
    }

    /// Reads round `index`.
    pub(crate) fn round(&self, index: usize) -> usize {
        address(self.rounds[index].load(Ordering::Relaxed))
    }

    /// Writes round `index`.
    pub(crate) fn set_round(&self, index: usize, block: usize) {
        self.rounds[index].store(at_address(block), Ordering::Relaxed);
    }
}

/// What bins without a taking magazine take from.
pub(crate) static NO_ROUND: Round = AtomicPtr::new(ptr::null_mut());

/// The loaded magazines of one class of one thread heap.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Bin {
    /// The round the next pop reads; a multiple of 512 when there is none. Owner thread writes.
    take: AtomicPtr<Round>,
    /// The round the next push writes; a multiple of 512 when there is none. Owner thread writes.
    give: AtomicPtr<Round>,
}

impl Bin {
    /// Returns a bin without magazines.
    pub(crate) const fn unloaded() -> Bin {
        Bin {
            take: AtomicPtr::new((&raw const NO_ROUND).cast_mut()),
            give: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes a block; null when the magazine is empty. Owner thread only.
    // Inlined always: benchmark `hot`, a call here doubles the instructions of a pair.
    #[inline(always)]
    pub(crate) fn pop(&self) -> *mut u8 {
        let cursor = self.take.load(Ordering::Relaxed);
        // SAFETY: [bin-single-writer] the taking cursor points to a round, a floor or `NO_ROUND`.
        let block = unsafe { &*cursor }.load(Ordering::Relaxed);
        if !block.is_null() {
            self.take.store(cursor.wrapping_sub(1), Ordering::Relaxed);
        }
        block
    }

    /// Gives a block; returns false, having done nothing, when the magazine is full or the block
    /// is the one given last. Owner thread only.
    // Inlined always: benchmark `hot`, a call here doubles the instructions of a pair.
    #[inline(always)]
    pub(crate) fn push(&self, block: *mut u8) -> bool {
        let cursor = self.give.load(Ordering::Relaxed);
        if is_end(cursor) {
            return false;
        }
        // SAFETY: [bin-single-writer] a giving cursor not at the end is inside the loaded
        // magazine, above its floor.
        let last = unsafe { &*cursor.wrapping_sub(1) }.load(Ordering::Relaxed);
        if last == block {
            return false;
        }
        // SAFETY: [bin-single-writer] as above, the cursor itself.
        unsafe { &*cursor }.store(block, Ordering::Relaxed);
        self.give.store(cursor.wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Exchanges the two magazines when the taking one is empty and the giving cursor has come to
    /// `mark`, see [`exchange_mark`]; returns whether it did. Owner thread only.
    #[inline]
    pub(crate) fn exchange(&self, mark: u16) -> bool {
        let give = self.give.load(Ordering::Relaxed);
        let last = give.wrapping_sub(1);
        if give.is_null() || address(last) % MAGAZINE_BYTES < usize::from(mark) {
            return false;
        }
        let floor = self.take.load(Ordering::Relaxed);
        let first = if is_no_round(floor) { ptr::null_mut() } else { floor.wrapping_add(1) };
        self.take.store(last, Ordering::Relaxed);
        self.give.store(first, Ordering::Relaxed);
        true
    }

    /// Exchanges the two magazines when there is an empty one to take from and a full one given;
    /// returns whether it did. Owner thread only.
    pub(crate) fn exchange_if_taken_empty(&self, rounds: usize) -> bool {
        self.has_taking()
            && self.taken_count(rounds) == 0
            && self.exchange(exchange_mark(rounds, rounds))
    }

    /// Returns whether `block` is the one given last. Owner thread only.
    pub(crate) fn was_given_last(&self, block: *mut u8) -> bool {
        let cursor = self.give.load(Ordering::Relaxed);
        if cursor.is_null() {
            return false;
        }
        // SAFETY: [bin-single-writer] a giving cursor has a round or the floor below it.
        unsafe { &*cursor.wrapping_sub(1) }.load(Ordering::Relaxed) == block
    }

    /// Returns whether a push would find no place.
    pub(crate) fn is_full(&self) -> bool {
        is_end(self.give.load(Ordering::Relaxed))
    }

    /// Returns the blocks in the bin; any thread, a snapshot.
    pub(crate) fn count(&self, rounds: usize) -> usize {
        self.taken_count(rounds) + self.given_count(rounds)
    }

    /// Returns the blocks in the giving magazine; any thread, a snapshot.
    #[inline]
    pub(crate) fn given_count(&self, rounds: usize) -> usize {
        let cursor = address(self.give.load(Ordering::Relaxed));
        if cursor == 0 {
            return 0;
        }
        let index = (cursor - size_of::<Round>()) % MAGAZINE_BYTES / size_of::<Round>();
        index.saturating_sub(MAGAZINE_ROUNDS_MAX - rounds)
    }

    /// Returns the blocks in the taking magazine; any thread, a snapshot.
    fn taken_count(&self, rounds: usize) -> usize {
        let cursor = self.take.load(Ordering::Relaxed);
        if is_no_round(cursor) {
            return 0;
        }
        let index = address(cursor) % MAGAZINE_BYTES / size_of::<Round>();
        index.saturating_sub(MAGAZINE_ROUNDS_MAX - rounds)
    }

    /// Calls `act` for every block in the bin. Nobody else uses it.
    pub(crate) fn for_each_block(&self, rounds: usize, mut act: impl FnMut(usize)) {
        let first = MAGAZINE_ROUNDS_MAX - rounds;
        let loaded = [
            (self.taking_magazine(), self.taken_count(rounds)),
            (given_magazine(self.give.load(Ordering::Relaxed)), self.given_count(rounds)),
        ];
        for (magazine, count) in loaded {
            // SAFETY: [bin-single-writer] null or a loaded magazine.
            if let Some(magazine) = unsafe { magazine.as_ref() } {
                (first..first + count).for_each(|index| act(magazine.round(index)));
            }
        }
    }

    /// Forgets both magazines.
    pub(crate) fn clear(&self) {
        self.take.store((&raw const NO_ROUND).cast_mut(), Ordering::Relaxed);
        self.give.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Loads an empty magazine for giving; the bin had none.
    pub(crate) fn load_giving(&self, magazine: *mut Magazine, rounds: usize) {
        self.give.store(empty_floor(magazine, rounds).wrapping_add(1), Ordering::Relaxed);
    }

    /// Takes the full giving magazine out; the bin is left without one. Null if it had none.
    pub(crate) fn unload_given(&self) -> *mut Magazine {
        given_magazine(self.give.swap(ptr::null_mut(), Ordering::Relaxed))
    }

    /// Puts the full giving magazine back that `unload_given` returned.
    pub(crate) fn reload_given(&self, magazine: *mut Magazine) {
        self.give.store(magazine.wrapping_add(1).cast(), Ordering::Relaxed);
    }

    /// Loads a full magazine at rest for taking and returns the empty one it replaces, or null.
    pub(crate) fn load_taking(&self, magazine: *mut Magazine, rounds: usize) -> *mut Magazine {
        let empty = self.taking_magazine();
        let floor = empty_floor(magazine, rounds);
        self.take.store(floor.wrapping_add(rounds), Ordering::Relaxed);
        empty
    }

    /// Takes the empty taking magazine out; null if there is none.
    pub(crate) fn unload_taking(&self) -> *mut Magazine {
        let magazine = self.taking_magazine();
        self.take.store((&raw const NO_ROUND).cast_mut(), Ordering::Relaxed);
        magazine
    }

    /// Returns whether there is a magazine for taking, empty or not.
    pub(crate) fn has_taking(&self) -> bool {
        !is_no_round(self.take.load(Ordering::Relaxed))
    }

    /// Loads an empty magazine for taking; the bin had none.
    pub(crate) fn load_empty_taking(&self, magazine: *mut Magazine, rounds: usize) {
        self.take.store(empty_floor(magazine, rounds), Ordering::Relaxed);
    }

    /// Refills the empty taking magazine from `feed` and returns the last block, which the caller
    /// hands out; null when there was none. One block more than the rounds may come at most.
    pub(crate) fn fill(&self, feed: impl FnOnce(&mut Filler)) -> *mut u8 {
        let floor = self.take.load(Ordering::Relaxed);
        let mut filler = Filler { at: floor, last: ptr::null_mut() };
        feed(&mut filler);
        self.take.store(filler.at, Ordering::Relaxed);
        filler.last
    }

    /// Returns the taking magazine, null when there is none.
    fn taking_magazine(&self) -> *mut Magazine {
        let cursor = self.take.load(Ordering::Relaxed);
        if is_no_round(cursor) {
            return ptr::null_mut();
        }
        at_address(address(cursor) & !(MAGAZINE_BYTES - 1))
    }
}

/// Writes blocks into an empty magazine; the one to hand out at once stays outside.
#[derive(Debug)]
pub(crate) struct Filler {
    at: *mut Round,
    last: *mut u8,
}

impl Filler {
    /// Adds the blocks of one bitmap word, at least one: bit `n` is the block of `block_bytes`
    /// bytes number `n` from `first_block` on. The lowest is handed out at once, and pops take
    /// the others in the order of their addresses.
    #[inline]
    pub(crate) fn add_word(&mut self, first_block: usize, block_bytes: usize, bits: u64) {
        let block = |bits: u64| first_block + bits.trailing_zeros() as usize * block_bytes;
        let has_last = !self.last.is_null();
        let top = self.at.wrapping_add(bits.count_ones() as usize - usize::from(!has_last));
        let mut at = top;
        if has_last {
            write(at, self.last);
            at = at.wrapping_sub(1);
        }
        let mut rest = bits & (bits - 1);
        while rest != 0 {
            write(at, at_address(block(rest)));
            at = at.wrapping_sub(1);
            rest &= rest - 1;
        }
        self.last = at_address(block(bits));
        self.at = top;
    }
}

/// Writes one round of the magazine that is being filled.
#[inline]
fn write(round: *mut Round, block: *mut u8) {
    // SAFETY: [magazine-one-owner] `fill` is given at most one block more than the magazine has
    // rounds, and one is kept outside: the round is inside.
    unsafe { &*round }.store(block, Ordering::Relaxed);
}

/// Returns the mark at which a bin of `rounds` rounds has been given `least` blocks: the offset, in
/// its magazine, of the round given last.
pub(crate) const fn exchange_mark(rounds: usize, least: usize) -> u16 {
    ((MAGAZINE_ROUNDS_MAX - rounds + least) * size_of::<Round>()) as u16
}

/// Returns whether a giving cursor is at its magazine's end, or null.
#[inline(always)]
fn is_end(cursor: *mut Round) -> bool {
    cursor.cast::<Magazine>().is_aligned()
}

fn is_no_round(cursor: *mut Round) -> bool {
    ptr::eq(cursor, &raw const NO_ROUND)
}

/// Returns the magazine a giving cursor belongs to, at its end too; null for null.
fn given_magazine(cursor: *mut Round) -> *mut Magazine {
    let inside = address(cursor).saturating_sub(size_of::<Round>());
    at_address(inside & !(MAGAZINE_BYTES - 1))
}

/// Nulls the floor of a magazine and returns it.
fn empty_floor(magazine: *mut Magazine, rounds: usize) -> *mut Round {
    let floor = magazine.cast::<Round>().wrapping_add(MAGAZINE_ROUNDS_MAX - rounds);
    // SAFETY: [magazine-one-owner] the caller owns the magazine; the floor is its link or a round.
    unsafe { &*floor }.store(ptr::null_mut(), Ordering::Relaxed);
    floor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn magazine() -> Box<Magazine> {
        let null = || AtomicPtr::new(ptr::null_mut());
        Box::new(Magazine { link: null(), rounds: core::array::from_fn(|_| null()) })
    }

    #[test]
    fn an_unloaded_bin_has_nothing_and_takes_nothing() {
        let bin = Bin::unloaded();
        assert!(bin.pop().is_null());
        assert!(!bin.push(at_address(64)));
        assert_eq!(bin.count(MAGAZINE_ROUNDS_MAX), 0);
    }

    #[test]
    fn blocks_given_come_back_after_an_exchange_last_in_first() {
        for rounds in [1, 4, MAGAZINE_ROUNDS_MAX] {
            let (bin, mut first, mut second) = (Bin::unloaded(), magazine(), magazine());
            bin.load_empty_taking(&raw mut *first, rounds);
            bin.load_giving(&raw mut *second, rounds);
            for block in 1..=rounds {
                assert!(bin.push(at_address(block * 16)));
                assert!(bin.pop().is_null(), "given blocks are not taken before the exchange");
                assert_eq!(bin.count(rounds), block);
            }
            assert!(bin.is_full() && !bin.push(at_address(9_999)));
            let mut listed = Vec::new();
            bin.for_each_block(rounds, |block| listed.push(block));
            assert_eq!(listed, (1..=rounds).map(|block| block * 16).collect::<Vec<_>>());
            assert!(bin.exchange(exchange_mark(rounds, rounds)));
            for block in (1..=rounds).rev() {
                assert_eq!(bin.count(rounds), block);
                assert_eq!(address(bin.pop()), block * 16);
            }
            assert!(bin.pop().is_null() && bin.push(at_address(64)));
        }
    }

    #[test]
    fn a_full_magazine_rests_and_is_taken_elsewhere() {
        for rounds in [4, MAGAZINE_ROUNDS_MAX] {
            let (bin, mut given) = (Bin::unloaded(), magazine());
            bin.load_giving(&raw mut *given, rounds);
            (1..=rounds).for_each(|block| assert!(bin.push(at_address(block * 16))));
            let at_rest = bin.unload_given();
            // SAFETY: the magazine lives in this test's box.
            assert_eq!(unsafe { &*at_rest }.blocks(rounds).count(), rounds);
            assert!(bin.load_taking(at_rest, rounds).is_null());
            assert_eq!(address(bin.pop()), rounds * 16);
            assert_eq!(bin.count(rounds), rounds - 1);
        }
    }

    #[test]
    fn the_block_given_last_is_refused_again() {
        let (bin, mut given) = (Bin::unloaded(), magazine());
        bin.load_giving(&raw mut *given, 8);
        assert!(bin.push(at_address(64)));
        assert!(!bin.push(at_address(64)) && bin.was_given_last(at_address(64)));
        assert!(bin.push(at_address(128)) && !bin.was_given_last(at_address(64)));
        assert_eq!(bin.count(8), 2);
    }

    #[test]
    fn filling_hands_out_the_lowest_and_pops_follow_in_address_order() {
        for bits in [1, 0b1010, u64::MAX, 1 << 63, 0xf0f0_0000_ffff_0001] {
            let (bin, mut taking) = (Bin::unloaded(), magazine());
            bin.load_empty_taking(&raw mut *taking, MAGAZINE_ROUNDS_MAX);
            let first = bin.fill(|filler| filler.add_word(4096, 16, bits));
            let popped =
                core::iter::from_fn(|| Some(address(bin.pop())).filter(|&block| block != 0));
            let blocks: Vec<usize> = core::iter::once(address(first)).chain(popped).collect();
            let expected = (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| 4096 + bit * 16);
            assert_eq!(blocks, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn filling_from_several_words_loses_none() {
        let (bin, mut taking) = (Bin::unloaded(), magazine());
        bin.load_empty_taking(&raw mut *taking, MAGAZINE_ROUNDS_MAX);
        let first = bin.fill(|filler| {
            filler.add_word(4096, 16, 0b101);
            filler.add_word(8192, 16, 0b1);
            filler.add_word(16_384, 16, 0b11);
        });
        assert_eq!(bin.count(MAGAZINE_ROUNDS_MAX), 4);
        let mut blocks = vec![address(first)];
        bin.for_each_block(MAGAZINE_ROUNDS_MAX, |block| blocks.push(block));
        blocks.sort_unstable();
        assert_eq!(blocks, [4096, 4128, 8192, 16_384, 16_400]);
    }
}
