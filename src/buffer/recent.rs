//! Recent frees: blocks freed a moment ago, by length, as they were.
//!
//! A list for each length up to a kilobyte, singly linked through the blocks' first words. A list has at
//! most [`RECENT_MAX`] blocks and all together a small share of the part: blocks that wait here keep
//! their neighbours apart, and are given back one by one when a request finds nothing else.
//!
//! *Concurrency*: under the part's lock.
//!
//! *Neighbours*: stands on `cells`; the engine asks here first.

use super::cells::{Cells, Granules, NONE, Run};

/// Blocks of one length that wait here.
pub(super) const RECENT_MAX: u32 = 32;

/// The share of a part that blocks which wait here may have: one in so many granules.
const RECENT_SHARE: u32 = 32;

/// Lists of blocks freed a moment ago.
#[derive(Debug)]
pub(super) struct Recent {
    /// The block freed last, by length.
    heads: Cells<u32>,
    /// Granules for which blocks may yet come.
    granules_left: u32,
}

impl Recent {
    /// Returns empty lists with these heads, all of them `NONE`: one for each length from one granule
    /// on, for a part of `granules` granules.
    pub(super) const fn new(heads: Cells<u32>, granules: u32) -> Recent {
        Recent { heads, granules_left: granules / RECENT_SHARE }
    }

    /// Returns the granules of the longest blocks that wait here.
    #[inline]
    pub(super) fn granules_max(&self) -> u32 {
        self.heads.count() as u32
    }

    /// Takes the block of `length` granules freed last; `NONE` when there is none.
    #[inline]
    pub(super) fn take(&mut self, granules: Granules, length: u32) -> u32 {
        if length > self.granules_max() {
            return NONE;
        }
        let list = length as usize - 1;
        let block = self.heads.get(list);
        if block != NONE {
            let next = granules.run(block).next;
            crate::os::check!(next == NONE || next < granules.count(), "buffer-links-agree");
            self.heads.set(list, next);
            self.granules_left += length;
        }
        block
    }

    /// Keeps a block; returns false when it is too long or enough of its length wait.
    #[inline]
    pub(super) fn put(&mut self, granules: Granules, block: u32, length: u32) -> bool {
        if length > self.granules_max() || length > self.granules_left {
            return false;
        }
        let list = length as usize - 1;
        let next = self.heads.get(list);
        let behind = if next == NONE { 0 } else { granules.run(next).granules };
        if behind >= RECENT_MAX {
            return false;
        }
        // In a recent block the third number counts the list from here on.
        granules.set_run(block, Run { next, previous: NONE, granules: behind + 1 });
        self.heads.set(list, block);
        self.granules_left -= length;
        true
    }
}
