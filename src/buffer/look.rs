//! Looking into a heap in a buffer: statistics, ownership, the walk over live blocks, verification.
//!
//! After the recent blocks are settled, every granule is in a free run or in a live block, and a live
//! block ends where the next block or free run starts.
//!
//! *Concurrency*: statistics by any thread, part by part; walks need the heap exclusively.
//!
//! *Neighbours*: stands on `heap` and `engine`.

use core::fmt;
use core::ptr::NonNull;

use super::bins::Bins;
use super::cells::{GRANULE_BYTES, NONE};
use super::engine::Engine;
use super::heap::BufferHeap;
use crate::base::address;
use crate::error::Violation;

/// What a [`BufferHeap`] holds at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BufferStats {
    /// Bytes there are for blocks: the buffers' but for the heap's own.
    pub capacity_bytes: usize,
    /// Bytes of live blocks, each rounded up to 16.
    pub live_bytes: usize,
    /// The most bytes there were of live blocks and of blocks that the cores' caches keep.
    pub peak_live_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// Bytes of blocks that the cores' caches keep.
    pub cached_bytes: usize,
    /// Requests that found no memory.
    pub denied: usize,
    /// Buffers.
    pub buffers: usize,
}

impl fmt::Display for BufferStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} blocks with {} of {} bytes live, {} at most; {} bytes cached; {} requests denied",
            self.live_blocks,
            self.live_bytes,
            self.capacity_bytes,
            self.peak_live_bytes,
            self.cached_bytes,
            self.denied
        )
    }
}

impl BufferHeap<'_> {
    /// Returns what the heap holds.
    ///
    /// # Concurrency
    /// Any thread; a snapshot, one buffer after the other.
    pub fn stats(&self) -> BufferStats {
        let mut stats = BufferStats { denied: self.denied(), ..BufferStats::default() };
        for part in self.parts() {
            let (mut cached_blocks, mut cached) = (0, 0);
            for cache in part.caches() {
                let (blocks, granules) = cache.count(part.granules());
                cached_blocks += blocks as usize;
                cached += granules as usize;
            }
            let tally = part.with(|engine| engine.tally);
            stats.buffers += 1;
            stats.capacity_bytes += part.granules().count() as usize * GRANULE_BYTES;
            stats.cached_bytes += cached * GRANULE_BYTES;
            stats.peak_live_bytes += tally.peak_granules as usize * GRANULE_BYTES;
            let live = (tally.live_granules as usize).saturating_sub(cached);
            stats.live_bytes += live * GRANULE_BYTES;
            stats.live_blocks += (tally.live_blocks as usize).saturating_sub(cached_blocks);
        }
        stats
    }

    /// Returns whether `pointer` points into memory for blocks of this heap, allocated or not.
    ///
    /// # Concurrency
    /// Any thread. Cost: O(buffers).
    pub fn owns(&self, pointer: NonNull<u8>) -> bool {
        self.parts().any(|part| part.granule_of(pointer).is_some())
    }

    /// Returns the bytes of the largest block that can be allocated now, aligned to 16.
    ///
    /// # Cost
    /// Empties the cores' caches, and melts what was freed; O(free runs about that long).
    pub fn largest_free_bytes(&self) -> usize {
        self.empty_caches();
        let longest = self.parts().map(|part| {
            part.with(|engine| {
                engine.settle();
                engine.bins.longest(engine.granules)
            })
        });
        longest.max().unwrap_or(0) as usize * GRANULE_BYTES
    }

    /// Drops all blocks: the heap is as it was when it was made, with its buffers.
    ///
    /// # Cost
    /// O(buffer / 128 + free runs).
    ///
    /// # Examples
    /// ```
    /// # use core::mem::MaybeUninit;
    /// use polyheap::BufferHeap;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 2048];
    /// let mut heap = BufferHeap::new(&mut memory).unwrap();
    /// let largest = heap.largest_free_bytes();
    /// for _frame in 0..1000 {
    ///     std::mem::forget(polyheap::allocator_api2::boxed::Box::new_in([0u8; 700], &heap));
    ///     heap.reset();
    /// }
    /// assert_eq!(heap.largest_free_bytes(), largest);
    /// ```
    pub fn reset(&mut self) {
        self.forget_all();
    }

    /// Calls `visit` with start and bytes of every live block, buffer by buffer, by address.
    ///
    /// # Cost
    /// O(buffer / 128 + live blocks).
    pub fn visit_blocks(&mut self, mut visit: impl FnMut(NonNull<u8>, usize)) {
        self.empty_caches();
        for part in self.parts() {
            part.with(Engine::settle);
            let granules = part.granules();
            let mut at = 0;
            // Outside the lock, as `visit` may do anything; the heap is borrowed exclusively.
            while let Some((block, length)) = part.with(|engine| engine.next_block(at)) {
                visit(granules.at(block), length as usize * GRANULE_BYTES);
                at = block + length;
            }
        }
    }

    /// Checks every structure of the heap.
    ///
    /// # Errors
    /// The first [`Violation`] found: a bug in polyheap, or memory overwritten by its user.
    ///
    /// # Cost
    /// O(buffer / 128 + free runs + live blocks). For tests and diagnosis.
    pub fn verify(&mut self) -> Result<(), Violation> {
        self.empty_caches();
        self.parts().try_for_each(|part| part.with(|engine| engine.verify()))
    }
}

impl Engine {
    /// Returns the first live block from granule `at` on, and its granules. Nothing is recent.
    fn next_block(&self, at: u32) -> Option<(u32, u32)> {
        let end = self.granules.count();
        let block = self.live.next(at, end);
        (block < end).then(|| (block, self.end_of(block) - block))
    }

    /// Returns where the live block at `block` ends. Nothing is recent.
    fn end_of(&self, block: u32) -> u32 {
        let next = self.live.next(block + 1, self.granules.count());
        self.ends.next(block + 1, next)
    }

    /// Returns whether granule `at`, at which no live block starts, lies in one. Nothing is recent.
    pub(super) fn is_inside_live(&self, at: u32) -> bool {
        let mut block = 0;
        while let Some((start, length)) = self.next_block(block) {
            if start > at {
                return false;
            }
            if at < start + length {
                return true;
            }
            block = start + length;
        }
        false
    }

    /// Checks that free runs and live blocks make up the part, and that the lists agree with that.
    fn verify(&mut self) -> Result<(), Violation> {
        self.settle();
        let end = self.granules.count();
        let fails = |invariant, at: u32| {
            let place = self.granules.at(at.min(end - 1));
            Err(Violation { invariant, address: address(place.as_ptr()) })
        };
        let (mut at, mut runs, mut live, mut blocks) = (0, 0u32, 0, 0);
        let mut was_free = false;
        while at < end {
            if self.live.get(at) {
                let next = self.end_of(at);
                (live, blocks, was_free) = (live + (next - at), blocks + 1, false);
                at = next;
            } else if self.ends.get(at) {
                let length = self.granules.run(at).granules;
                if length == 0 || length > end - at || !self.ends.get(at + length - 1) {
                    return fails("buffer-links-agree", at);
                }
                let inside = self.live.next(at, at + length) != at + length
                    || length > 2 && self.ends.next(at + 1, at + length - 1) != at + length - 1;
                if was_free || inside || self.granules.length_at_end(at + length - 1) != length {
                    return fails("buffer-runs-melt", at);
                }
                (runs, was_free) = (runs + 1, true);
                at += length;
            } else {
                return fails("buffer-live-once", at);
            }
        }
        if (live, blocks) != (self.tally.live_granules, self.tally.live_blocks) {
            return fails("buffer-live-once", 0);
        }
        let mut wrong = NONE;
        for bin in 0..self.bins.count() {
            self.bins.for_each(self.granules, bin, |run, length| {
                runs = runs.wrapping_sub(1);
                if length == 0 || Bins::bin_of(length) != bin || !self.ends.get(run) {
                    wrong = run;
                }
            });
        }
        if wrong != NONE || runs != 0 {
            return fails("buffer-links-agree", wrong);
        }
        Ok(())
    }
}
