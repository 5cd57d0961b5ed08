//! What one processor core keeps of a buffer: recent frees, behind a lock that only code on the same
//! core wants.
//!
//! A program that can tell on which core it runs gives a function for it; then most requests up to
//! half a kilobyte touch nothing that other cores touch. Blocks here still count as live in their
//! part, and are checked when they go back there.
//!
//! *Concurrency*: one lock a cache. Code that is moved to another core in the middle is no danger, it
//! only waits a little.
//!
//! *Neighbours*: stands on `cells` and `lock`; `heap` asks here before it asks a part.

use super::cells::{Granules, NONE, Run};
use super::lock::Lock;
use crate::os::check;

/// Lengths kept, in granules.
pub(super) const CACHED_GRANULES_MAX: u32 = 32;

/// Blocks of one length that a core keeps.
const CACHED_BLOCKS_MAX: u32 = 32;

/// What became of a block that was to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// It is kept.
    Now,
    /// It was the one kept last already.
    Before,
    /// There is no place for it.
    NoPlace,
}

/// The blocks one core keeps.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct CoreCache {
    /// The block kept last, by length.
    heads: Lock<[u32; CACHED_GRANULES_MAX as usize]>,
}

impl CoreCache {
    /// Returns a cache that keeps nothing.
    pub(super) const fn new() -> CoreCache {
        CoreCache { heads: Lock::new([NONE; CACHED_GRANULES_MAX as usize]) }
    }

    /// Takes a block of `length` granules; `NONE` when there is none.
    #[inline]
    pub(super) fn take(&self, granules: Granules, length: u32) -> u32 {
        let Some(list) = list_of(length) else { return NONE };
        self.heads.with(|heads| {
            let block = heads[list];
            if block != NONE {
                heads[list] = granules.run(block).next;
                check!(heads[list] == NONE || heads[list] < granules.count(), "buffer-links-agree");
            }
            block
        })
    }

    /// Keeps a block if there is place.
    #[inline]
    pub(super) fn put(&self, granules: Granules, block: u32, length: u32) -> Kept {
        let Some(list) = list_of(length) else { return Kept::NoPlace };
        self.heads.with(|heads| {
            let next = heads[list];
            let behind = if next == NONE { 0 } else { granules.run(next).granules };
            if next == block {
                return Kept::Before;
            }
            if behind >= CACHED_BLOCKS_MAX {
                return Kept::NoPlace;
            }
            granules.set_run(block, Run { next, previous: NONE, granules: behind + 1 });
            heads[list] = block;
            Kept::Now
        })
    }

    /// Returns how many blocks are kept, and their granules.
    pub(super) fn count(&self, granules: Granules) -> (u32, u32) {
        self.heads.with(|heads| {
            let kept = heads.iter().zip(1..).filter(|(head, _)| **head != NONE);
            kept.fold((0, 0), |(blocks, sum), (&head, length)| {
                let count = granules.run(head).granules;
                (blocks + count, sum + count * length)
            })
        })
    }

    /// Forgets all blocks.
    pub(super) fn clear(&self) {
        self.heads.with(|heads| *heads = [NONE; CACHED_GRANULES_MAX as usize]);
    }
}

#[inline]
fn list_of(length: u32) -> Option<usize> {
    (length <= CACHED_GRANULES_MAX).then_some(length as usize - 1)
}
