//! Giving up what a region has: the contents of chunks, pages of the header, the addresses of all chunks.
//!
//! Each is an owner like any other: it takes what it gives up out of the free words first.
//!
//! *Invariants held here*: `[chunk-one-owner]`, `[region-stays]`.
//!
//! *Concurrency*: any thread, lock-free; calls the OS.
//!
//! *Neighbours*: stands on `header`, `chunks` and the origin; sweeps, trims and short address spaces use
//! it.

use super::chunks::{
    claim_run_at, fill_up, give_run, hollow_out, is_hollow, purge_run, settle_hollow,
};
use super::header::{
    BUSY_MAGAZINES, FIRST_PAGE_MAGAZINES, FURTHER_MAGAZINES, PAGE_BYTES, REACH_BYTES, RegionRef,
    UNIT_BYTES,
};
use super::map;
use super::source::Origin;
use crate::base::run_mask;
use crate::config::{CHUNK_BYTES, REGION_BYTES, REGION_CHUNKS};
use crate::os::{debug_check, map_here, os_page_bytes, unmap};
use crate::sync::{AtomicU8, Ordering};

impl RegionRef {
    /// Drops the contents of `run` chunks from `first` on, if all of them are free; returns the
    /// bytes the system got back. They are out of the free word meanwhile, so nobody takes them.
    pub(crate) fn purge_free_run(self, first: usize, run: usize, origin: Origin) -> usize {
        let drop_contents = || {
            let base = self.area::<u8>(first * CHUNK_BYTES);
            // SAFETY: (1) whole chunks of a region mapped there; (2) claimed, and free before.
            unsafe { origin.purge(base, run * CHUNK_BYTES) }
        };
        let (steps, was_taken) = purge_run(&self.free, &self.reached, first, run, drop_contents);
        debug_check!(was_taken, "chunk-one-owner");
        steps * REACH_BYTES
    }

    /// Drops the header's pages that only bitmaps and magazines lie on, if all chunks and all those
    /// magazines are free; returns the bytes the heap was charged for them. The contents of a free
    /// chunk's bitmap mean nothing. All of them are out of their free words meanwhile.
    pub(crate) fn purge_free_header(self, origin: Origin) -> usize {
        let further = run_mask(BUSY_MAGAZINES + FIRST_PAGE_MAGAZINES, FURTHER_MAGAZINES);
        let used_magazines = self.used_magazines.load(Ordering::Relaxed) & further;
        let used_bitmaps = self.used_bitmaps.load(Ordering::Relaxed);
        if used_magazines == 0 && used_bitmaps == 0
            || !claim_run_at(&self.free, 1, REGION_CHUNKS - 1)
        {
            return 0;
        }
        let (first, count) = (further.trailing_zeros() as usize, FURTHER_MAGAZINES);
        let mut purged_bytes = 0;
        if claim_run_at(&self.magazines, first, count) {
            if self.purge_further_pages(origin) {
                let used_magazines = self.used_magazines.fetch_and(!further, Ordering::Relaxed);
                let used_bitmaps = self.used_bitmaps.swap(0, Ordering::Relaxed);
                let units = (used_magazines & further).count_ones() + used_bitmaps.count_ones();
                purged_bytes = units as usize * UNIT_BYTES;
            }
            give_run(&self.magazines, first, count);
        }
        self.give(1, REGION_CHUNKS - 1);
        purged_bytes
    }

    /// Drops all pages of the header but the first and the busy one; returns whether the system
    /// did so.
    fn purge_further_pages(self, origin: Origin) -> bool {
        let busy = self.busy_page();
        let parts = [(PAGE_BYTES, busy), (busy + PAGE_BYTES, CHUNK_BYTES)];
        // Pages of the system may be larger: what shares one with the two pages stays.
        let page = os_page_bytes();
        parts.into_iter().all(|(from, to)| {
            let (from, to) = (from.next_multiple_of(page), to - to % page);
            // SAFETY: (1) whole pages of a region mapped there; (2) the caller took all that lies on
            // them out of the free words.
            from >= to || unsafe { origin.purge(self.area(from), to - from) }
        })
    }

    /// Gives the addresses of all chunks back to the system if all of them are free, which has their
    /// contents already; returns whether it did. The header stays.
    pub(crate) fn hollow_out(self, slot: usize) -> bool {
        let (chunks, bytes) = (REGION_CHUNKS - 1, REGION_BYTES - CHUNK_BYTES);
        let unmap = || {
            let is_reached = |reached: &AtomicU8| reached.load(Ordering::Relaxed) != 0;
            if self.reached[1..].iter().any(is_reached) {
                return false;
            }
            // Before the system may hand the addresses to others.
            map::set_hollow_region(self.base(), slot);
            // SAFETY: (1) a part of a region the system mapped, whole pages; (2) all chunks are the
            // caller's.
            let is_unmapped = unsafe { unmap(self.area(CHUNK_BYTES), bytes) };
            if !is_unmapped {
                map::relabel_region(self.base(), slot);
            }
            is_unmapped
        };
        hollow_out(&self.free, &self.hollow, 1, chunks, unmap)
    }

    /// Maps the chunks of a hollow region again; returns whether it was one and the system agreed.
    pub(crate) fn fill_up(self, slot: usize) -> bool {
        let (chunks, bytes) = (REGION_CHUNKS - 1, REGION_BYTES - CHUNK_BYTES);
        let map = || {
            let is_mapped = map_here(self.area(CHUNK_BYTES), bytes);
            if is_mapped {
                map::relabel_region(self.base(), slot);
            }
            is_mapped
        };
        fill_up(&self.free, &self.hollow, 1, chunks, map)
    }

    /// Decides whether the region is hollow, in a forked child whose parent had a thread that was changing
    /// that: it is if the map says so. Its addresses may be lost to the child then.
    pub(crate) fn settle_hollow(self) {
        let says_so = map::lookup(self.base()).kind() == map::EntryKind::HollowRegion;
        settle_hollow(&self.free, &self.hollow, 1, REGION_CHUNKS - 1, says_so);
    }

    /// Returns whether the chunks have no memory.
    pub(crate) fn is_hollow(self) -> bool {
        is_hollow(&self.hollow)
    }
}
