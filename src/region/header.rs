//! The header of a region, in its first chunk.
//!
//! The head (free chunks, partial sets, a control word a chunk) is a Rust struct at the region's
//! start. Behind it lie areas whose contents belong to rooms above: one thread heap, the heap's
//! core (used in the first region of a heap only), magazines, and a bitmap a chunk. A fresh
//! region is all zeros, and `initialise` makes a used one equal to it but for `reached`.
//!
//! *Invariants held here*: `[region-stays]`, `[chunk-one-owner]`.
//!
//! *Concurrency*: all fields are atomics, each with its own note. A region stays mapped while its
//! heap lives, so a stale look is harmless.
//!
//! *Neighbours*: stands on `base` and `chunks`; slab interprets the control words.

use core::ops::Deref;
use core::ptr::NonNull;

use super::chunks::{claim_run, claim_run_at, give_run};
use crate::base::{
    Colour, PARTIAL_CLASSES, address, align_down, at_address, bits_of, find_run, run_mask,
};
use crate::config::{
    BITMAP_WORDS_MAX, CHUNK_BYTES, LINE_BYTES, MAGAZINE_BYTES, REGION_BYTES, REGION_CHUNKS,
};
use crate::os::{advise_huge_pages, debug_check};
use crate::policy::HugePages;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes of one step of `reached`; a divisor of every OS page in use.
pub(super) const REACH_BYTES: usize = 4096;
const REACH_STEPS: usize = CHUNK_BYTES / REACH_BYTES;

/// Mark of a region whose thread heap is being built: that of no thread heap.
pub(crate) const LEASED_FOR_BUILDING: u32 = u32::MAX;

const HEAD_BYTES: usize = 1536;
/// Bytes a thread heap may have.
pub(crate) const THREAD_AREA_BYTES: usize = 2112;
/// Bytes of the area for the heap's core.
pub(crate) const CORE_AREA_BYTES: usize = 1536;
const CORE_AREA: usize = HEAD_BYTES;

/// Bytes of one page of the header; where it is matters for address translation, not to the OS.
pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const UNIT_BYTES: usize = MAGAZINE_BYTES;
const PAGE_UNITS: usize = PAGE_BYTES / UNIT_BYTES;

/// Units behind the core: the first page's magazines.
const FIRST_PAGE_UNIT: usize = (CORE_AREA + CORE_AREA_BYTES) / UNIT_BYTES;
pub(super) const FIRST_PAGE_MAGAZINES: usize = PAGE_UNITS - FIRST_PAGE_UNIT;
/// The busy page: the thread heap, shifted by some cache lines, two magazines and a bitmap.
const BUSY_PAGES: usize = CHUNK_BYTES / PAGE_BYTES - 1;
const BUSY_BITMAP: usize = PAGE_BYTES - UNIT_BYTES;
pub(super) const BUSY_MAGAZINES: usize = 2;
const BUSY_MAGAZINE: usize = BUSY_BITMAP - BUSY_MAGAZINES * UNIT_BYTES;
const THREAD_COLOURS: usize = (BUSY_MAGAZINE - THREAD_AREA_BYTES) / LINE_BYTES + 1;
/// The pages left over hold the other bitmaps, then magazines.
const FURTHER_BITMAPS: usize = REGION_CHUNKS - 2;
pub(super) const FURTHER_MAGAZINES: usize = (BUSY_PAGES - 1) * PAGE_UNITS - FURTHER_BITMAPS;
const MAGAZINES: usize = BUSY_MAGAZINES + FIRST_PAGE_MAGAZINES + FURTHER_MAGAZINES;

/// Chunks among which the first one taken is chosen: those of the first 2 MiB, so that a small
/// region needs one page of page tables.
const FIRST_CHUNKS: usize = 28;

const _: () = assert!(size_of::<Region>() <= HEAD_BYTES, "raise HEAD_BYTES");
const _: () = assert!(BITMAP_WORDS_MAX * 8 == UNIT_BYTES, "a bitmap fills a unit of the header");
const _: () = assert!(
    (CORE_AREA + CORE_AREA_BYTES).is_multiple_of(UNIT_BYTES),
    "the magazines behind the core are aligned to their size"
);
const _: () = assert!(MAGAZINES <= 64, "the header's magazines are the bits of one u64");

/// The head of a region.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Region {
    /// Chunks free to take. Claimed and given by any thread of the heap, see `chunks`.
    pub(super) free: AtomicU64,
    /// Header magazines free to take; same protocol as `free`.
    pub(super) magazines: AtomicU64,
    /// Number of the region in its heap's roster. Written before the region is published.
    index: AtomicU32,
    /// Thread heap that prefers this region: its number plus one, 0 for none. Taken by an
    /// exchange; Release publishes the thread heap in this header when the mark is its own.
    lessee: AtomicU32,
    /// Slabs with room, a word a class: bit = first chunk. The slab protocol's claims.
    pub(crate) partial: [AtomicU64; PARTIAL_CLASSES],
    /// State of each chunk, see `slab::control`.
    pub(crate) controls: [AtomicU64; REGION_CHUNKS],
    /// Chunks whose bitmap was used, and magazines that were: what the heap is charged for. Set by
    /// whoever claims the chunk or the magazine first; nothing depends on the order.
    pub(super) used_bitmaps: AtomicU64,
    pub(super) used_magazines: AtomicU64,
    /// Chunks that were free and reached at the last sweep, and at the one before. Hints: a claim
    /// clears them after the fact, and a sweep claims what it purges anyway.
    aged: [AtomicU64; 2],
    /// The highest chunk with something in `reached`; as it.
    highest: AtomicU8,
    /// How much of each chunk was handed out since it was last known zero, in steps of 4 KiB.
    /// Written by the chunk's exclusive owner; read by statistics and purge.
    pub(super) reached: [AtomicU8; REGION_CHUNKS],
    /// Where in their runs the blocks of spans start, by first chunk. Written by the span's owner
    /// when the span is handed out.
    colours: [AtomicU8; REGION_CHUNKS],
    /// Whether the chunks have memory, see `chunks`. Written by their owner, and by who fills it up.
    pub(super) hollow: AtomicU8,
}

/// A region by address; may be kept as long as its heap lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegionRef(NonNull<Region>);

impl Deref for RegionRef {
    type Target = Region;

    #[inline]
    fn deref(&self) -> &Region {
        // SAFETY: [region-stays] a RegionRef is made for mapped regions only and kept no longer
        // than the heap, while which the region stays mapped; all fields are atomics.
        unsafe { self.0.as_ref() }
    }
}

impl RegionRef {
    /// Returns the region that starts at `base`.
    ///
    /// # Safety
    /// 1. A region is mapped at `base` and belongs to a heap that outlives the result.
    #[inline]
    pub(crate) unsafe fn at(base: usize) -> RegionRef {
        // SAFETY: regions are mapped away from address zero, by this function's contract.
        RegionRef(unsafe { NonNull::new_unchecked(at_address(base)) })
    }

    /// Returns the region a block of the heap lies in.
    ///
    /// # Safety
    /// 1. `block_address` lies in a mapped region whose heap outlives the result.
    #[inline]
    pub(crate) unsafe fn of(block_address: usize) -> RegionRef {
        // SAFETY: regions are aligned to their size, so masking gives the mapped region's base.
        unsafe { RegionRef::at(align_down(block_address, REGION_BYTES)) }
    }

    /// Returns the head, borrowed for as long as the region's heap lives.
    #[inline]
    pub(crate) fn header<'a>(self) -> &'a Region {
        // SAFETY: as in `deref`; the caller keeps the reference no longer than the heap lives.
        unsafe { self.0.as_ref() }
    }

    /// Returns the region's address.
    #[inline]
    pub(crate) fn base(self) -> usize {
        address(self.0.as_ptr())
    }

    /// Returns a number that differs between neighbouring regions. What is at the same offset in
    /// many regions falls into the same sets of the processor's caches; places that are used
    /// often are moved by this.
    #[inline]
    pub(crate) fn colour(self) -> usize {
        self.base() / REGION_BYTES
    }

    /// Returns the address of chunk `chunk`.
    #[inline]
    pub(crate) fn chunk_base(self, chunk: usize) -> usize {
        self.base() + chunk * CHUNK_BYTES
    }

    /// Returns the first `words` words of the bitmap of chunk `chunk`.
    #[inline]
    pub(crate) fn bitmap<'a>(self, chunk: usize, words: usize) -> &'a [AtomicU64] {
        debug_check!(chunk > 0 && words <= BITMAP_WORDS_MAX, "bitmap-in-header");
        // Numbered from the first chunk taken, whose bitmap lies in the busy page.
        let chunks = REGION_CHUNKS - 1;
        let number = (chunk + chunks - self.first_chunk()) % chunks;
        let offset_bytes = match number.checked_sub(1) {
            None => self.busy_page() + BUSY_BITMAP,
            Some(unit) => self.further_unit(unit),
        };
        let first = at_address(self.base() + offset_bytes);
        // SAFETY: [region-stays] the bitmap lies in the mapped header, is aligned, is only ever
        // used as atomics, and is written by one chunk owner's protocol.
        unsafe { core::slice::from_raw_parts(first, words) }
    }

    /// Returns the area for the lessee's thread heap.
    pub(crate) fn thread_area<T>(self) -> NonNull<T> {
        const { assert!(size_of::<T>() <= THREAD_AREA_BYTES, "raise THREAD_AREA_BYTES") };
        self.area(self.busy_page() + self.colour() % THREAD_COLOURS * LINE_BYTES)
    }

    /// Returns the area for the heap's core.
    pub(crate) fn core_area<T>(self) -> NonNull<T> {
        const { assert!(size_of::<T>() <= CORE_AREA_BYTES, "raise CORE_AREA_BYTES") };
        self.area(CORE_AREA)
    }

    /// Returns the offset of the page that is used most, another one in neighbouring regions: what
    /// lies on the same page of many regions falls into the same sets of the translation buffers.
    #[inline]
    pub(super) fn busy_page(self) -> usize {
        PAGE_BYTES + self.colour() % BUSY_PAGES * PAGE_BYTES
    }

    /// Returns the offset of unit `unit` of the pages that are neither the first nor the busy one.
    #[inline]
    fn further_unit(self, unit: usize) -> usize {
        let offset_bytes = PAGE_BYTES + unit * UNIT_BYTES;
        let skipped = if offset_bytes >= self.busy_page() { PAGE_BYTES } else { 0 };
        offset_bytes + skipped
    }

    /// Returns the chunk to take first.
    #[inline]
    fn first_chunk(self) -> usize {
        1 + self.colour() % FIRST_CHUNKS
    }

    pub(super) fn area<T>(self, offset_bytes: usize) -> NonNull<T> {
        // SAFETY: the base is not null and the offset is inside the header chunk.
        unsafe { NonNull::new_unchecked(at_address(self.base() + offset_bytes)) }
    }

    /// Tells the system the policy about huge pages for the whole region.
    pub(crate) fn advise_huge_pages(self, policy: HugePages) {
        advise_huge_pages(self.area(0), REGION_BYTES, policy);
    }

    /// Frees every chunk and magazine of the region, which keeps its number and its lease.
    ///
    /// # Safety
    /// 1. The caller owns the region's heap exclusively, and its blocks and magazines are dead.
    pub(crate) unsafe fn clear(self) {
        let (index, lessee) = (self.index.load(Ordering::Relaxed), self.lessee());
        // SAFETY: (1) of this function's contract.
        unsafe { self.initialise(index) };
        self.lessee.store(lessee, Ordering::Relaxed);
        if self.is_hollow() {
            self.free.store(0, Ordering::Relaxed);
        }
    }

    /// Makes the region a fresh one with number `index` in its heap.
    ///
    /// # Safety
    /// 1. The caller owns the region: no heap uses it.
    pub(crate) unsafe fn initialise(self, index: u32) {
        let head: *mut u8 = at_address(self.base());
        let cleared_bytes = core::mem::offset_of!(Region, highest);
        // SAFETY: the caller owns the region, whose head starts with `cleared_bytes` of atomics
        // for which all zeros is a value.
        unsafe { head.write_bytes(0, cleared_bytes) };
        self.index.store(index, Ordering::Relaxed);
        self.free.store(!1, Ordering::Relaxed);
        self.magazines.store(run_mask(0, MAGAZINES), Ordering::Relaxed);
    }

    /// Takes one of the header's magazines, those of the busy page first, if the heap may be
    /// charged for it.
    pub(crate) fn take_magazine(self, charge: impl Fn(usize) -> bool) -> Option<NonNull<u8>> {
        let number = claim_run(&self.magazines, 0, 1, 1)?;
        // Relaxed: the bit is this claim's to set.
        let is_new = self.used_magazines.load(Ordering::Relaxed) >> number & 1 == 0;
        if is_new && number >= BUSY_MAGAZINES {
            if !charge(UNIT_BYTES) {
                give_run(&self.magazines, number, 1);
                return None;
            }
            self.used_magazines.fetch_or(1 << number, Ordering::Relaxed);
        }
        Some(self.area(self.magazine_offset(number)))
    }

    /// Charges the heap for the bitmap of `chunk`, which the caller owns, if it was never used;
    /// returns whether it may be used.
    pub(crate) fn use_bitmap(self, chunk: usize, charge: impl Fn(usize) -> bool) -> bool {
        let is_used = self.used_bitmaps.load(Ordering::Relaxed) >> chunk & 1 == 1;
        if is_used || chunk == self.first_chunk() {
            return true;
        }
        let is_granted = charge(UNIT_BYTES);
        if is_granted {
            self.used_bitmaps.fetch_or(1 << chunk, Ordering::Relaxed);
        }
        is_granted
    }

    /// Gives one of the header's magazines back.
    pub(crate) fn give_magazine(self, magazine: NonNull<u8>) {
        let offset_bytes = address(magazine.as_ptr()) - self.base();
        let number = self.magazine_number(offset_bytes);
        debug_check!(self.magazine_offset(number) == offset_bytes, "magazine-one-owner");
        let was_taken = give_run(&self.magazines, number, 1);
        debug_check!(was_taken, "magazine-one-owner");
    }

    fn magazine_offset(self, number: usize) -> usize {
        if number < BUSY_MAGAZINES {
            return self.busy_page() + BUSY_MAGAZINE + number * UNIT_BYTES;
        }
        let number = number - BUSY_MAGAZINES;
        if number < FIRST_PAGE_MAGAZINES {
            return (FIRST_PAGE_UNIT + number) * UNIT_BYTES;
        }
        self.further_unit(FURTHER_BITMAPS + number - FIRST_PAGE_MAGAZINES)
    }

    fn magazine_number(self, offset_bytes: usize) -> usize {
        let busy_page = self.busy_page();
        if offset_bytes < PAGE_BYTES {
            return BUSY_MAGAZINES + offset_bytes / UNIT_BYTES - FIRST_PAGE_UNIT;
        }
        if offset_bytes - offset_bytes % PAGE_BYTES == busy_page {
            return (offset_bytes % PAGE_BYTES - BUSY_MAGAZINE) / UNIT_BYTES;
        }
        let skipped = if offset_bytes > busy_page { PAGE_BYTES } else { 0 };
        let unit = (offset_bytes - skipped - PAGE_BYTES) / UNIT_BYTES;
        unit - FURTHER_BITMAPS + FIRST_PAGE_MAGAZINES + BUSY_MAGAZINES
    }

    /// Takes a run of `count` chunks whose first is a multiple of `step`, at the start of one of `room` free
    /// chunks.
    pub(crate) fn claim_with_room(self, count: usize, room: usize, step: usize) -> Option<usize> {
        let from = self.first_chunk();
        let free = self.free_chunks();
        let preferred = find_run(free & (u64::MAX << from), room, step);
        let first = preferred.or_else(|| find_run(free, room, step))?;
        // Where another thread came in between, there is no such run any more.
        let is_mine = self.claim_at(first, count);
        if is_mine {
            self.forget_age(run_mask(first, count));
        }
        is_mine.then_some(first)
    }

    /// Takes a run of `count` chunks whose first is a multiple of `step`.
    pub(crate) fn claim(self, count: usize, step: usize) -> Option<usize> {
        let first = claim_run(&self.free, self.first_chunk(), count, step)?;
        self.forget_age(run_mask(first, count));
        Some(first)
    }
}

impl Region {
    /// Returns the region's number in its heap.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed) as usize
    }

    /// Gives the region another number, when it moves to another heap.
    pub(crate) fn set_index(&self, index: u32) {
        self.index.store(index, Ordering::Relaxed);
    }

    /// Returns the lessee's mark, 0 when nobody leases the region.
    #[inline]
    pub(crate) fn lessee(&self) -> u32 {
        // Acquire: pairs with `settle_lease`, for those who go on to the thread heap.
        self.lessee.load(Ordering::Acquire)
    }

    /// Leases the region to `mark` if nobody has it; returns whether it did.
    pub(crate) fn lease(&self, mark: u32) -> bool {
        // AcqRel: whoever leases a region may build its thread heap in the header.
        self.lessee.compare_exchange(0, mark, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Names the lessee of a region leased as [`LEASED_FOR_BUILDING`], whose thread heap is built.
    pub(crate) fn settle_lease(&self, mark: u32) {
        // Release: publishes the thread heap in the header.
        self.lessee.store(mark, Ordering::Release);
    }

    /// Ends the lease, when the lessee's heap is gone.
    pub(crate) fn end_lease(&self) {
        self.lessee.store(0, Ordering::Release);
    }

    /// Takes the run of `count` chunks at `first` if all of them are free.
    pub(crate) fn claim_at(&self, first: usize, count: usize) -> bool {
        claim_run_at(&self.free, first, count)
    }

    /// Chunks in use are not old when they come back.
    fn forget_age(&self, mask: u64) {
        for aged in &self.aged {
            if aged.load(Ordering::Relaxed) & mask != 0 {
                aged.fetch_and(!mask, Ordering::Relaxed);
            }
        }
    }

    /// Returns the chunks that are free and were reached, a snapshot.
    pub(crate) fn dirty_chunks(&self) -> u64 {
        let free = self.free_chunks() & !1;
        let last = self.highest_reached();
        let mut dirty = 0;
        for chunk in bits_of(free & run_mask(0, last + 1)) {
            dirty |= u64::from(self.reached_bytes(chunk) != 0) << chunk;
        }
        dirty
    }

    /// Lets dirty chunks grow older by one sweep; returns those old enough to be purged.
    pub(crate) fn age(&self) -> u64 {
        let dirty = self.dirty_chunks();
        let once = self.aged[0].swap(dirty, Ordering::Relaxed);
        let twice = self.aged[1].swap(dirty & once, Ordering::Relaxed);
        dirty & once & twice
    }

    /// Gives a run of chunks back.
    pub(crate) fn give(&self, first: usize, count: usize) {
        let was_taken = give_run(&self.free, first, count);
        debug_check!(was_taken, "chunk-one-owner");
    }

    /// Returns the free word, a snapshot.
    pub(crate) fn free_chunks(&self) -> u64 {
        self.free.load(Ordering::Acquire)
    }

    /// Returns where the block of the span at `chunk` starts.
    #[inline(always)]
    pub(crate) fn colour_of(&self, chunk: usize) -> Colour {
        Colour(self.colours[chunk % REGION_CHUNKS].load(Ordering::Relaxed).into())
    }

    /// Records where the block of the span at `chunk` starts; the caller owns the span.
    #[inline(always)]
    pub(crate) fn set_colour(&self, chunk: usize, colour: Colour) {
        self.colours[chunk % REGION_CHUNKS].store(colour.0 as u8, Ordering::Relaxed);
    }

    /// Returns the bytes that a hand-out of the first `bytes` bytes of a run reaches first; the
    /// caller owns the run.
    pub(crate) fn newly_reached_bytes(&self, first: usize, bytes: usize) -> usize {
        let steps = bytes.div_ceil(REACH_BYTES);
        let chunks = self.reached[first..].iter().zip(0..steps.div_ceil(REACH_STEPS));
        let new = chunks.map(|(reached, distance)| {
            let here = (steps - distance * REACH_STEPS).min(REACH_STEPS);
            here.saturating_sub(usize::from(reached.load(Ordering::Relaxed)))
        });
        new.sum::<usize>() * REACH_BYTES
    }

    /// Records that a run's first `bytes` bytes have been handed out; the caller owns the run.
    pub(crate) fn reach(&self, first: usize, bytes: usize) {
        let mut steps = bytes.div_ceil(REACH_BYTES);
        let last = first + (bytes - 1) / CHUNK_BYTES;
        // Owners of different chunks race here; an exchange is seldom needed.
        if self.highest.load(Ordering::Relaxed) < last as u8 {
            self.highest.fetch_max(last as u8, Ordering::Relaxed);
        }
        for reached in &self.reached[first..] {
            let here = steps.min(REACH_STEPS);
            if usize::from(reached.load(Ordering::Relaxed)) < here {
                reached.store(here as u8, Ordering::Relaxed);
            }
            steps -= here;
            if steps == 0 {
                return;
            }
        }
    }

    /// Returns the bytes of chunk `chunk` that have been handed out since it was known zero.
    pub(crate) fn reached_bytes(&self, chunk: usize) -> usize {
        usize::from(self.reached[chunk].load(Ordering::Relaxed)) * REACH_BYTES
    }

    /// Returns the highest chunk that was handed out since the region was known zero.
    pub(crate) fn highest_reached(&self) -> usize {
        usize::from(self.highest.load(Ordering::Relaxed))
    }

    /// Returns the bytes of the region that the system may have to hold, header included.
    pub(crate) fn resident_bytes(&self) -> usize {
        let chunks: usize =
            (1..=self.highest_reached()).map(|chunk| self.reached_bytes(chunk)).sum();
        chunks + self.header_bytes()
    }

    /// Returns the bytes of the header that were used: the first page, the busy page, and the
    /// bitmaps and magazines elsewhere.
    fn header_bytes(&self) -> usize {
        let used = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones() as usize;
        let further = used(&self.used_bitmaps) + used(&self.used_magazines);
        2 * PAGE_BYTES + further * UNIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays out the header of regions of every colour: nothing overlaps, everything is inside.
    #[test]
    fn no_two_parts_of_a_header_overlap() {
        for colour in 0..BUSY_PAGES * THREAD_COLOURS * 3 {
            // SAFETY: the address is only calculated with.
            let region = unsafe { RegionRef::at((colour + 1) * REGION_BYTES) };
            let base = region.base();
            let mut parts = vec![(0, HEAD_BYTES), (CORE_AREA, CORE_AREA_BYTES)];
            let thread: NonNull<u8> = region.thread_area();
            parts.push((address(thread.as_ptr()) - base, THREAD_AREA_BYTES));
            for chunk in 1..REGION_CHUNKS {
                let bitmap = region.bitmap(chunk, 0).as_ptr();
                parts.push((address(bitmap) - base, UNIT_BYTES));
            }
            for number in 0..MAGAZINES {
                let offset_bytes = region.magazine_offset(number);
                assert_eq!(region.magazine_number(offset_bytes), number);
                parts.push((offset_bytes, UNIT_BYTES));
            }
            parts.sort_unstable();
            assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:?}");
            assert!(parts.last().is_some_and(|&(start, bytes)| start + bytes <= CHUNK_BYTES));
        }
    }
}
