//! A slab of a region: making it, taking magazines full of blocks, giving groups of blocks back.
//!
//! *Invariants held here*: `[slab-one-class]`, `[slab-one-taker]`.
//!
//! *Concurrency*: as the protocol says; a `Slab` is a plain reference into the region's header.
//!
//! *Neighbours*: stands on `protocol` and `region`; used by refill, flush and the direct path.

use super::control::{Control, State};
use super::protocol::{Left, Settled, SlabWords};
use crate::base::{
    block_index, first_bit_mask, run_mask, slab_block_bytes, slab_blocks, slab_run_chunks,
};
use crate::config::{CHUNK_BYTES, REGION_CHUNKS};
use crate::region::RegionRef;
use crate::sync::Ordering;

/// A slab, by its region and the first chunk of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slab {
    region: RegionRef,
    chunk: usize,
    class: usize,
}

/// What a taker got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Blocks taken.
    pub(crate) count: usize,
    /// The word to start from next time.
    pub(crate) word: usize,
    /// Whether there were blocks that the heap may not be charged for.
    pub(crate) is_denied: bool,
}

/// Why an address cannot be freed with a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misuse {
    /// The chunk is in no run: whatever was there is free.
    Free,
    /// A span lies there.
    InSpan,
    /// A slab of another class, with blocks of so many bytes, lies there.
    OtherClass(usize),
    /// No block starts there.
    Interior,
}

impl Slab {
    /// Cuts a fresh run of `region` into a slab of `class`, if the heap may be charged for its
    /// bitmap; the caller is its taker.
    pub(crate) fn create(
        region: RegionRef,
        class: usize,
        charge: impl Fn(usize) -> bool,
    ) -> Option<Slab> {
        let run = slab_run_chunks(class);
        let chunk = region.claim(run, 1)?;
        if !region.use_bitmap(chunk, charge) {
            region.give(chunk, run);
            return None;
        }
        let slab = Slab { region, chunk, class };
        slab.fill_bitmap();
        let controls = &region.controls[chunk..chunk + run];
        for (distance, control) in controls.iter().enumerate().skip(1) {
            let previous = Control(control.load(Ordering::Relaxed));
            control.store(Control::tail(distance, previous).0, Ordering::Release);
        }
        let previous = Control(controls[0].load(Ordering::Relaxed));
        let control = Control::new(State::Active, class, run, previous);
        // Release: publishes the bitmap to givers, which look the slab up by address.
        controls[0].store(control.0, Ordering::Release);
        Some(slab)
    }

    /// Returns the slab whose run starts at `chunk`, if there is one.
    pub(crate) fn at(region: RegionRef, chunk: usize) -> Option<Slab> {
        let control = Control(region.controls[chunk].load(Ordering::Acquire));
        control.is_slab().then(|| Slab { region, chunk, class: control.class() })
    }

    /// Finds the slab of `class` and the block that starts at `block_address` in it.
    pub(crate) fn locate(
        region: RegionRef,
        block_address: usize,
        class: usize,
    ) -> Result<(Slab, usize), Misuse> {
        let mut chunk = (block_address - region.base()) / CHUNK_BYTES;
        let mut control = Control(region.controls[chunk].load(Ordering::Acquire));
        if control.state() == State::Tail {
            chunk -= control.live().min(chunk);
            control = Control(region.controls[chunk].load(Ordering::Acquire));
        }
        if !control.is_slab() {
            let is_span = control.state() == State::Span;
            return Err(if is_span { Misuse::InSpan } else { Misuse::Free });
        }
        if control.class() != class {
            return Err(Misuse::OtherClass(slab_block_bytes(control.class())));
        }
        let slab = Slab { region, chunk, class };
        match block_index(class, block_address - slab.base()) {
            Some(index) => Ok((slab, index)),
            None => Err(Misuse::Interior),
        }
    }

    /// Finds the slab and block that `address` lies in, whatever its class.
    pub(crate) fn around(region: RegionRef, address: usize) -> Option<(Slab, usize)> {
        let mut chunk = (address - region.base()) / CHUNK_BYTES;
        let control = Control(region.controls[chunk].load(Ordering::Acquire));
        if control.state() == State::Tail {
            chunk -= control.live().min(chunk);
        }
        let slab = Slab::at(region, chunk)?;
        let index = (address - slab.base()) / slab_block_bytes(slab.class);
        (index < slab_blocks(slab.class)).then_some((slab, index))
    }

    /// Returns the slabs of `region`, whatever their state.
    pub(crate) fn all_of(region: RegionRef) -> impl Iterator<Item = Slab> {
        (1..REGION_CHUNKS).filter_map(move |chunk| Slab::at(region, chunk))
    }

    /// Claims some slab of `class` from the partial set of `region`.
    pub(crate) fn claim_partial(region: RegionRef, class: usize) -> Option<Slab> {
        let mut word = region.partial[class].load(Ordering::Relaxed);
        while word != 0 {
            let chunk = word.trailing_zeros() as usize;
            let slab = Slab { region, chunk, class };
            if slab.words().claim() {
                return Some(slab);
            }
            word &= word - 1;
        }
        None
    }

    /// Returns the slab's region.
    pub(crate) fn region(self) -> RegionRef {
        self.region
    }

    /// Returns the slab's class.
    pub(crate) fn class(self) -> usize {
        self.class
    }

    /// Returns the address of the slab's first block.
    pub(crate) fn base(self) -> usize {
        self.region.chunk_base(self.chunk)
    }

    /// Returns the address of block `index`.
    pub(crate) fn block(self, index: usize) -> usize {
        self.base() + index * slab_block_bytes(self.class)
    }

    /// Returns the slab's shared words.
    pub(crate) fn words<'a>(self) -> SlabWords<'a> {
        let words = slab_blocks(self.class).div_ceil(64);
        // The references borrow the region's header, not this value; [region-stays].
        let header: &'a crate::region::Region = self.region.header();
        SlabWords {
            control: &header.controls[self.chunk],
            bits: self.region.bitmap(self.chunk, words),
            partial: &header.partial[self.class],
            bit: 1 << self.chunk,
        }
    }

    /// Returns the control word, a snapshot.
    pub(crate) fn control(self) -> Control {
        Control(self.region.controls[self.chunk].load(Ordering::Acquire))
    }

    /// Takes up to `count` blocks, searching the bitmap from word `from` on and around. Each
    /// group found is handed to `sink` as (first block of the word, bits). Blocks on pages that
    /// were not reached before are taken only if the heap may be charged for them. Taker only.
    pub(crate) fn take(
        self,
        from: usize,
        count: usize,
        charge: impl Fn(usize) -> bool,
        mut sink: impl FnMut(usize, u64),
    ) -> Taken {
        let (words, start) = (self.words(), self.first_bit());
        let mut result = Taken { count: 0, word: from, is_denied: false };
        for _ in 0..words.bits.len() {
            if result.word >= words.bits.len() {
                result.word = 0;
            }
            let found = words.take(result.word, start, count - result.count);
            let bits = self.reach(result.word, found, &charge);
            if bits != found {
                words.give(result.word, found & !bits);
                result.is_denied = true;
            }
            if bits != 0 {
                result.count += bits.count_ones() as usize;
                sink(result.word * 64, bits);
                if result.count == count {
                    break;
                }
            }
            result.word += 1;
        }
        if result.count != 0 {
            words.count_taken(result.count);
        }
        result
    }

    /// Records that blocks of bitmap word `word` are handed out; returns those that may be. All of
    /// them, unless the heap may not be charged for pages they reach first.
    fn reach(self, word: usize, bits: u64, charge: &impl Fn(usize) -> bool) -> u64 {
        let block_bytes = slab_block_bytes(self.class);
        let end_bytes = |bits: u64| (word * 64 + 64 - bits.leading_zeros() as usize) * block_bytes;
        let mut bits = bits;
        while bits != 0 {
            let new_bytes = self.region.newly_reached_bytes(self.chunk, end_bytes(bits));
            if new_bytes == 0 {
                break;
            }
            if charge(new_bytes) {
                self.region.reach(self.chunk, end_bytes(bits));
                break;
            }
            // Without the highest; what is left may lie on pages reached before.
            bits &= u64::MAX >> 1 >> bits.leading_zeros();
        }
        bits
    }

    /// Returns the bit of each word to take first: within the first OS page, another one in each
    /// region, so that the first blocks of many heaps do not fall into the same cache sets.
    fn first_bit(self) -> usize {
        self.region.colour() & first_bit_mask(self.class)
    }

    /// Leaves the slab, which the taker found empty.
    pub(crate) fn leave_empty_handed(self) -> Left {
        self.words().leave_empty_handed(slab_blocks(self.class))
    }

    /// Leaves the slab whatever its contents; frees the run when it is empty.
    pub(crate) fn leave(self) -> Settled {
        let settled = self.words().leave(slab_blocks(self.class));
        self.free_if_emptied(settled)
    }

    /// Settles blocks given back by bit; frees the run when the slab is empty.
    pub(crate) fn settle(self, count: usize) -> Settled {
        let settled = self.words().settle(count, slab_blocks(self.class));
        self.free_if_emptied(settled)
    }

    fn free_if_emptied(self, settled: Settled) -> Settled {
        if settled == Settled::Emptied {
            free_run(self.region, self.chunk);
        }
        settled
    }

    fn fill_bitmap(self) {
        let blocks = slab_blocks(self.class);
        for (number, word) in self.words().bits.iter().enumerate() {
            // Relaxed: published by the Release store of the control word.
            word.store(run_mask(0, (blocks - number * 64).min(64)), Ordering::Relaxed);
        }
    }
}

/// Frees the run that starts at `chunk`, which the caller owns.
pub(super) fn free_run(region: RegionRef, chunk: usize) {
    let run = Control(region.controls[chunk].load(Ordering::Relaxed)).run();
    free_chunks(region, chunk, run);
}

/// Frees `run` chunks from `chunk` on, which the caller owns.
pub(super) fn free_chunks(region: RegionRef, chunk: usize, run: usize) {
    for control in &region.controls[chunk..chunk + run] {
        let freed = Control(control.load(Ordering::Relaxed)).freed();
        control.store(freed.0, Ordering::Release);
    }
    region.give(chunk, run);
}
