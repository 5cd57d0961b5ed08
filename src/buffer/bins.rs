//! Bins: the free runs of a part by length.
//!
//! Up to eight granules there is a bin for each length, from there on eight for each doubling. A bin is
//! a list through its runs, linked both ways; a bit for each bin tells whether it has any.
//!
//! *Invariants held here*: `[buffer-links-agree]`.
//!
//! *Concurrency*: under the part's lock.
//!
//! *Neighbours*: stands on `cells`; the engine keeps its free runs here.

use super::cells::{Cells, Granules, NONE, Run};
use crate::os::check;

/// Base-two logarithm of the bins for each doubling.
const FINE_LOG2: u32 = 3;
const FINE: u32 = 1 << FINE_LOG2;

/// Bins of the longest buffer there can be.
const BINS_MAX: usize = bin_of(u32::MAX) + 1;
const OCCUPIED_WORDS: usize = BINS_MAX.div_ceil(usize::BITS as usize);

/// Runs of a bin that are looked at before a longer one is taken.
const RUNS_LOOKED_AT: usize = 8;

/// A free run with place for a request, and where in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fit {
    /// First granule of the run.
    pub(super) run: u32,
    /// Granules of the run.
    pub(super) granules: u32,
    /// First granule of the block.
    pub(super) block: u32,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Granules of the block.
    pub(super) granules: u32,
    /// Alignment of its address, in granules.
    pub(super) align: u32,
    /// What the address of granule 0 is past a multiple of the alignment, in granules.
    pub(super) skew: u32,
}

impl Wanted {
    /// Returns the first granule from `run` on at which such a block may start.
    #[inline]
    fn start(self, run: u32) -> u32 {
        let past = run.wrapping_add(self.skew) & (self.align - 1);
        if past == 0 { run } else { run + (self.align - past) }
    }

    /// Returns where the block lies in a run, if it fits.
    #[inline]
    fn fit(self, run: u32, granules: u32) -> Option<Fit> {
        let block = self.start(run);
        let is_room = u64::from(block - run) + u64::from(self.granules) <= u64::from(granules);
        is_room.then_some(Fit { run, granules, block })
    }
}

/// The bins of one part.
#[derive(Debug)]
pub(super) struct Bins {
    /// First run of each bin.
    heads: Cells<u32>,
    /// Bit = bin that has a run.
    occupied: [usize; OCCUPIED_WORDS],
}

/// Returns how many bins a part of `granules` granules has.
pub(super) const fn bins_for(granules: u32) -> usize {
    bin_of(granules) + 1
}

/// Returns the bin of runs of `granules` granules, at least one.
#[inline]
const fn bin_of(granules: u32) -> usize {
    if granules < FINE {
        return granules as usize - 1;
    }
    let shift = granules.ilog2() - FINE_LOG2;
    ((shift * FINE) + (granules >> shift) - 1) as usize
}

/// Returns the first bin all of whose runs have `granules` granules.
#[inline]
const fn bin_from(granules: u32) -> usize {
    if granules < FINE {
        return granules as usize - 1;
    }
    let step = 1 << (granules.ilog2() - FINE_LOG2);
    match granules.checked_add(step - 1) {
        Some(rounded) => bin_of(rounded),
        None => BINS_MAX,
    }
}

impl Bins {
    /// Returns empty bins with these heads, all of them `NONE`.
    pub(super) const fn new(heads: Cells<u32>) -> Bins {
        Bins { heads, occupied: [0; OCCUPIED_WORDS] }
    }

    /// Finds a run for a request: a short look at the bin of its own length, then the first run of
    /// the first bin that has only longer ones, then whatever fits.
    #[inline]
    pub(super) fn find(&self, granules: Granules, wanted: Wanted) -> Option<Fit> {
        let own = bin_of(wanted.granules);
        if let Some(fit) = self.look(granules, own, wanted, RUNS_LOOKED_AT) {
            return Some(fit);
        }
        let enough = wanted.granules.saturating_add(wanted.align - 1);
        let sure = self.next_occupied(bin_from(enough));
        if let Some(fit) = sure.and_then(|bin| self.look(granules, bin, wanted, 1)) {
            return Some(fit);
        }
        self.find_anywhere(granules, own, wanted)
    }

    /// Looks at every run that may fit.
    #[cold]
    fn find_anywhere(&self, granules: Granules, own: usize, wanted: Wanted) -> Option<Fit> {
        let mut bin = self.next_occupied(own);
        while let Some(at) = bin {
            if let Some(fit) = self.look(granules, at, wanted, usize::MAX) {
                return Some(fit);
            }
            bin = self.next_occupied(at + 1);
        }
        None
    }

    /// Looks at up to `count` runs of a bin.
    #[inline]
    fn look(&self, granules: Granules, bin: usize, wanted: Wanted, count: usize) -> Option<Fit> {
        if bin >= self.heads.count() {
            return None;
        }
        let mut at = self.heads.get(bin);
        for _ in 0..count {
            if at == NONE {
                return None;
            }
            let run = granules.run(at);
            if let Some(fit) = wanted.fit(at, run.granules) {
                return Some(fit);
            }
            at = run.next;
            check!(at == NONE || at < granules.count(), "buffer-links-agree");
        }
        None
    }

    /// Puts a free run into its bin.
    #[inline]
    pub(super) fn put(&mut self, granules: Granules, at: u32, length: u32) {
        let bin = bin_of(length);
        let next = self.heads.get(bin);
        granules.set_run(at, Run { next, previous: NONE, granules: length });
        granules.set_length_at_end(at + length - 1, length);
        if next == NONE {
            self.occupied[bin / usize::BITS as usize] |= 1 << (bin % usize::BITS as usize);
        } else {
            granules.set_run(next, Run { previous: at, ..granules.run(next) });
        }
        self.heads.set(bin, at);
    }

    /// Takes a free run out of its bin; returns its granules.
    #[inline]
    pub(super) fn take(&mut self, granules: Granules, at: u32) -> u32 {
        let run = granules.run(at);
        let is_inside = run.granules != 0 && run.granules <= granules.count() - at;
        check!(is_inside, "buffer-links-agree");
        let bin = bin_of(run.granules);
        if run.next != NONE {
            check!(run.next < granules.count(), "buffer-links-agree");
            let next = granules.run(run.next);
            check!(next.previous == at, "buffer-links-agree");
            granules.set_run(run.next, Run { previous: run.previous, ..next });
        }
        if run.previous != NONE {
            check!(run.previous < granules.count(), "buffer-links-agree");
            let previous = granules.run(run.previous);
            check!(previous.next == at, "buffer-links-agree");
            granules.set_run(run.previous, Run { next: run.next, ..previous });
            return run.granules;
        }
        check!(self.heads.get(bin) == at, "buffer-links-agree");
        self.heads.set(bin, run.next);
        if run.next == NONE {
            self.occupied[bin / usize::BITS as usize] &= !(1 << (bin % usize::BITS as usize));
        }
        run.granules
    }

    /// Returns the granules of the longest free run.
    pub(super) fn longest(&self, granules: Granules) -> u32 {
        let last = self.occupied.iter().rposition(|&word| word != 0);
        let Some(word) = last else { return 0 };
        let bin =
            (word + 1) * usize::BITS as usize - 1 - self.occupied[word].leading_zeros() as usize;
        let mut longest = 0;
        self.for_each(granules, bin, |_, length| longest = length.max(longest));
        longest
    }

    /// Calls `act` with start and length of every run of a bin; stops at a link that leads nowhere.
    pub(super) fn for_each(&self, granules: Granules, bin: usize, mut act: impl FnMut(u32, u32)) {
        let mut at = self.heads.get(bin);
        while at < granules.count() {
            let run = granules.run(at);
            act(at, run.granules);
            at = run.next;
        }
    }

    /// Returns the bin that a run of `granules` granules belongs into.
    pub(super) fn bin_of(granules: u32) -> usize {
        bin_of(granules)
    }

    /// Returns how many bins there are.
    pub(super) fn count(&self) -> usize {
        self.heads.count()
    }

    /// Returns the first bin from `bin` on that has a run.
    #[inline]
    fn next_occupied(&self, bin: usize) -> Option<usize> {
        let mut word = bin / usize::BITS as usize;
        let mut mask = usize::MAX << (bin % usize::BITS as usize);
        while let Some(&bits) = self.occupied.get(word) {
            if bits & mask != 0 {
                return Some(word * usize::BITS as usize + (bits & mask).trailing_zeros() as usize);
            }
            (word, mask) = (word + 1, usize::MAX);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_a_sure_one_has_only_long_runs() {
        let lengths = (1..5_000).chain((1..32).flat_map(|log2| {
            let power = 1u32 << log2;
            [power - 1, power, power + 1, power + power / 3]
        }));
        for length in lengths.filter(|&length| length > 0) {
            let (own, sure) = (bin_of(length), bin_from(length));
            assert!(own <= sure && sure <= own + 1, "{length}");
            assert!(own == 0 || length == 1 || bin_of(length - 1) >= own - 1, "{length}");
            // The shortest run of the sure bin is long enough.
            let mut shortest = length;
            while bin_of(shortest) < sure {
                shortest += 1.max(length / 64);
            }
            assert!(shortest >= length);
            assert!(
                own == sure || bin_of(length.saturating_sub(1)) == own,
                "{length} is a first one"
            );
        }
        assert_eq!(bin_from(u32::MAX), BINS_MAX);
    }
}
