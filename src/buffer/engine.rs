//! The engine of a part: taking blocks out of free runs and melting them together again.
//!
//! *Invariants held here*: `[buffer-runs-melt]`, `[buffer-live-once]`.
//!
//! *Concurrency*: none; whoever holds the part's lock calls it.
//!
//! *Neighbours*: stands on `bins`, `recent` and `cells`; `part` shares it.

use super::bins::{Bins, Fit, Wanted};
use super::cells::{Bits, GRANULE_BYTES, Granules, NONE};
use super::recent::Recent;
use crate::base::address;

/// Why a block cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Misuse {
    /// No live block starts there.
    NotLive,
    /// It ends behind the buffer, or another block starts in it.
    WrongLength,
}

/// What a part's blocks come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    pub(super) live_granules: u32,
    pub(super) peak_granules: u32,
    pub(super) live_blocks: u32,
}

/// Free and live granules of one part.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) granules: Granules,
    /// Bit = granule that is the first or the last of a run in `bins`.
    pub(super) ends: Bits,
    /// Bit = granule at which a live block starts.
    pub(super) live: Bits,
    pub(super) bins: Bins,
    pub(super) recent: Recent,
    pub(super) tally: Tally,
}

impl Engine {
    /// Takes a block; `NONE` when there is no run for it.
    #[inline]
    pub(super) fn take(&mut self, length: u32, align: u32) -> u32 {
        let mut block = NONE;
        if align == 1 {
            block = self.recent.take(self.granules, length);
        }
        if block == NONE {
            block = self.take_from_runs(length, align);
        }
        if block != NONE {
            self.note_taken(block, length);
        }
        block
    }

    #[inline]
    fn note_taken(&mut self, block: u32, length: u32) {
        self.live.set(block);
        let tally = &mut self.tally;
        tally.live_blocks += 1;
        tally.live_granules += length;
        tally.peak_granules = tally.peak_granules.max(tally.live_granules);
    }

    fn take_from_runs(&mut self, length: u32, align: u32) -> u32 {
        if length > self.granules.count() || align > self.granules.count() {
            return NONE;
        }
        let first = address(self.granules.at(0).as_ptr()) / GRANULE_BYTES;
        let wanted =
            Wanted { granules: length, align, skew: (first & (align as usize - 1)) as u32 };
        let fit = self.bins.find(self.granules, wanted).or_else(|| {
            self.settle();
            self.bins.find(self.granules, wanted)
        });
        match fit {
            Some(fit) => self.cut(fit, length),
            None => NONE,
        }
    }

    /// Cuts a block out of a run; what is left on both sides stays free.
    fn cut(&mut self, fit: Fit, length: u32) -> u32 {
        self.unlist(fit.run);
        let (before, end) = (fit.block - fit.run, fit.block + length);
        let behind = fit.run + fit.granules - end;
        if before != 0 {
            self.list(fit.run, before);
        }
        if behind != 0 {
            self.list(end, behind);
        }
        fit.block
    }

    /// Frees a block, or says why it cannot be.
    #[inline]
    pub(super) fn give(&mut self, block: u32, length: u32) -> Result<(), Misuse> {
        if !self.live.get(block) {
            return Err(Misuse::NotLive);
        }
        if !self.fits_live(block, length) {
            return Err(Misuse::WrongLength);
        }
        self.live.clear(block);
        self.tally.live_blocks -= 1;
        self.tally.live_granules = self.tally.live_granules.wrapping_sub(length);
        if !self.recent.put(self.granules, block, length) {
            self.melt(block, length);
        }
        Ok(())
    }

    /// Returns whether a live block of `length` granules can start at `block`: whether nothing else
    /// starts in it. Cost: a word of bits, twice, for each kilobyte.
    #[inline]
    fn fits_live(&self, block: u32, length: u32) -> bool {
        let is_inside = length <= self.granules.count() - block;
        is_inside && {
            let end = block + length;
            self.live.is_clear(block + 1, end) && self.ends.is_clear(block + 1, end)
        }
    }

    /// Gives all recent blocks back to the runs.
    pub(super) fn settle(&mut self) {
        for length in 1..=self.recent.granules_max() {
            loop {
                let block = self.recent.take(self.granules, length);
                if block == NONE {
                    break;
                }
                self.melt(block, length);
            }
        }
    }

    /// Makes granules free and melts them with the free runs on both sides.
    pub(super) fn melt(&mut self, at: u32, length: u32) {
        let (mut first, mut end) = (at, at + length);
        if first != 0 && self.ends.get(first - 1) {
            let before = self.granules.length_at_end(first - 1);
            crate::os::check!(before != 0 && before <= first, "buffer-links-agree");
            first -= before;
            self.unlist(first);
        }
        if end < self.granules.count() && self.ends.get(end) {
            end += self.unlist(end);
        }
        self.list(first, end - first);
    }

    /// Makes a block longer or shorter where it lies; returns whether it could.
    pub(super) fn resize(&mut self, block: u32, from: u32, to: u32) -> bool {
        if !self.live.get(block) || from > self.granules.count() - block {
            return false;
        }
        let end = block + from;
        if to < from {
            self.melt(block + to, from - to);
        } else if to > from {
            let more = to - from;
            if end >= self.granules.count() || !self.ends.get(end) {
                return false;
            }
            let behind = self.granules.run(end).granules;
            if behind < more {
                return false;
            }
            self.unlist(end);
            if behind > more {
                self.list(end + more, behind - more);
            }
        }
        self.tally.live_granules = self.tally.live_granules.wrapping_add(to.wrapping_sub(from));
        self.tally.peak_granules = self.tally.peak_granules.max(self.tally.live_granules);
        true
    }

    /// Forgets all blocks: everything is one free run.
    pub(super) fn clear(&mut self) {
        self.settle();
        for bin in 0..self.bins.count() {
            self.forget_runs(bin);
        }
        let mut at = 0;
        while at < self.granules.count() {
            at = self.live.next(at, self.granules.count());
            if at < self.granules.count() {
                self.live.clear(at);
            }
        }
        self.tally = Tally { peak_granules: self.tally.peak_granules, ..Tally::default() };
        self.list(0, self.granules.count());
    }

    fn forget_runs(&mut self, bin: usize) {
        loop {
            let mut first = NONE;
            self.bins.for_each(self.granules, bin, |run, _| {
                if first == NONE {
                    first = run;
                }
            });
            if first == NONE {
                return;
            }
            self.unlist(first);
        }
    }

    /// Lists a free run and marks its ends.
    pub(super) fn list(&mut self, at: u32, length: u32) {
        self.ends.set(at);
        self.ends.set(at + length - 1);
        self.bins.put(self.granules, at, length);
    }

    /// Takes a free run off its list and clears its ends; returns its granules.
    fn unlist(&mut self, at: u32) -> u32 {
        let length = self.bins.take(self.granules, at);
        self.ends.clear(at);
        self.ends.clear(at + length - 1);
        length
    }
}
