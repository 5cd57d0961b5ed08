//! The engine: a stack of chunks and a cursor that moves up through the newest.
//!
//! ```text
//! top ─> │ header │ data █████████ cursor ······· end │
//!            │ below
//!            v
//!        │ header │ data ██████████████ filled │ tail │      (tails are left unused)
//!            │ below
//!            v
//!           none
//! ```
//!
//! A request that fits between cursor and end moves the cursor; `place` decides. One that does not
//! takes a chunk, twice as large as the newest up to a cap, or becomes a large block of its own
//! (`large`), so that one big request neither wastes a tail nor makes later chunks bigger.
//!
//! The end is the chunk's end or, when that is nearer, the place where the region's limit is
//! reached; it is worked out anew (`settle_end`) whenever a chunk or a large block comes or goes.
//! The cursor moves back in one function, `lower`, which clears what it gives up if the region is
//! secret. So in a secret region all bytes from the cursor on are clear or were never handed out.
//!
//! Between any two calls the arena is consistent, and no call runs the caller's code in the middle:
//! closures that allocate, fail or panic come in between.
//!
//! *Invariants held here*:
//! `[chunk-stack]` the headers from `top` down are live, and no other arena has their chunks.
//! `[cursor-in-top]` data ≤ cursor ≤ end ≤ the chunk's end, in the newest chunk; below it, data ≤
//! filled. Cursors and ends are multiples of 8.
//! `[large-list]` the descriptors from `large` down are live, the latest first.
//! `[single-chunk]` while `is_single`, the arena has one chunk, of the length that threads keep and
//! without protection, and no large blocks.
//! `[clear-above]` in a secret region, what was handed out and lies above a cursor has been cleared.
//!
//! *Concurrency*: one thread at a time (`!Sync`).
//!
//! *Neighbours*: stands on `chunk`, `header`, `place`, `clear` and `os`; `rewind`, `large` and
//! `resize` add to it, `values` and the faces call it.

use core::alloc::Layout;
use core::cell::Cell;
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::AllocError;

use crate::chunk::{Chunk, give_chunk, take_chunk};
use crate::clear::clear;
use crate::config::{
    CHUNK_BYTES_FIRST, CHUNK_BYTES_MAX, CURSOR_ALIGN, LARGE_BYTES_MIN, LARGE_SHARE, LINE_BYTES,
};
use crate::header::{HEADER_BYTES, Header};
use crate::large::Large;
use crate::os::{self, Protection};
use crate::place::{needed_bytes, padded_bytes, place, place_value};
use crate::upstream::take_kept_arena_chunk;

/// What an arena is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Bytes the arena hands out at most, a multiple of the cursor's alignment.
    pub(crate) max_bytes: usize,
    /// Whether bytes are cleared before they are given up.
    pub(crate) is_secret: bool,
    pub(crate) protection: Protection,
}

/// The state of a region.
#[derive(Debug)]
pub(crate) struct Arena<'h> {
    /// Where the next block goes: in the newest chunk, or dangling when there is none. A multiple
    /// of the cursor's alignment.
    pub(crate) cursor: Cell<NonNull<u8>>,
    /// The cursor's limit, likewise a multiple.
    pub(crate) end: Cell<NonNull<u8>>,
    /// The newest chunk.
    pub(crate) top: Cell<Option<NonNull<Header>>>,
    /// The latest large block.
    pub(crate) large: Cell<Option<NonNull<Large>>>,
    /// Chunks and large blocks taken so far.
    pub(crate) takings: Cell<u64>,
    /// Bytes of the large blocks there are.
    pub(crate) large_bytes: Cell<usize>,
    /// Whether `take_first` took all there is, see `[single-chunk]`.
    pub(crate) is_single: Cell<bool>,
    pub(crate) heap: &'h Heap,
    pub(crate) policy: Policy,
}

// SAFETY: chunks and large blocks are memory of a `Sync` heap, which any thread may use and give
// back; nothing leads to them but this value. Values in them are never dropped or looked at by it.
unsafe impl Send for Arena<'_> {}

pub(crate) const NOWHERE: NonNull<u8> =
    NonNull::without_provenance(NonZeroUsize::new(CURSOR_ALIGN).unwrap());

impl<'h> Arena<'h> {
    /// Returns an arena that has no memory yet.
    #[inline]
    pub(crate) const fn new(heap: &'h Heap, policy: Policy) -> Arena<'h> {
        Arena {
            cursor: Cell::new(NOWHERE),
            end: Cell::new(NOWHERE),
            top: Cell::new(None),
            large: Cell::new(None),
            takings: Cell::new(0),
            large_bytes: Cell::new(0),
            is_single: Cell::new(false),
            heap,
            policy,
        }
    }

    /// Takes a block.
    // Inlined always: benchmark `regions`, this is the fast path itself.
    #[inline(always)]
    pub(crate) fn take(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        match self.take_here(layout) {
            Some(block) => Ok(block),
            None => self.take_slow(layout.size(), layout.align()).ok_or(AllocError),
        }
    }

    /// Takes the block for a value.
    // Inlined always: benchmark `regions`, this is the fast path itself.
    #[inline(always)]
    pub(crate) fn take_value<T>(&self) -> Result<NonNull<T>, AllocError> {
        let layout = Layout::new::<T>();
        // SAFETY: (1) the fields' text says so. (2), (3) [cursor-in-top], or both dangle.
        let Some(place) = (unsafe { place_value(self.cursor.get(), self.end.get(), layout) })
        else {
            let block = self.take_slow(layout.size(), layout.align()).ok_or(AllocError)?;
            return Ok(block.cast());
        };
        self.cursor.set(place.next);
        Ok(place.start.cast())
    }

    /// Takes a block from the newest chunk.
    #[inline(always)]
    fn take_here(&self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: (1) the fields' text says so. (2) Both stand in the newest chunk, or both dangle.
        let place = unsafe { place(self.cursor.get(), self.end.get(), layout) }?;
        self.cursor.set(place.next);
        Some(place.start)
    }

    /// Takes a block that does not fit behind the cursor.
    #[cold]
    #[inline(never)]
    fn take_slow(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        if let Some(block) = self.take_first(size, align) {
            return Some(block);
        }
        self.take_elsewhere(size, align)
    }

    /// Takes the first block of an ordinary scope, in a chunk that the thread keeps; `None` when
    /// that is not all there is to it.
    ///
    /// This is what opening a scope costs, so it calls nothing and does nothing that need not be.
    #[inline(always)]
    fn take_first(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let is_small = bytes.wrapping_sub(1) < LARGE_BYTES_MIN && align <= LINE_BYTES;
        let is_first = self.takings.get() == 0 && self.policy.protection.is_none();
        if !is_small || !is_first || self.policy.max_bytes < Heap::ARENA_CHUNK_BYTES {
            return None;
        }
        let start = take_kept_arena_chunk(self.heap)?;
        let chunk = Chunk { start, bytes: Heap::ARENA_CHUNK_BYTES };
        // SAFETY: (1) just taken. (2) a header's bytes, far below those of the chunk.
        let header = unsafe { Header::write(chunk, HEADER_BYTES) };
        // SAFETY: (2) of the line above.
        let block = unsafe { start.add(HEADER_BYTES) };
        self.takings.set(1);
        self.is_single.set(true);
        self.top.set(Some(header));
        // SAFETY: a small block is far shorter than the chunk behind its header.
        self.cursor.set(unsafe { block.add(padded_bytes(bytes)) });
        // SAFETY: the chunk's end, which comes before the limit.
        self.end.set(unsafe { start.add(Heap::ARENA_CHUNK_BYTES) });
        Some(block)
    }

    #[cold]
    #[inline(never)]
    fn take_elsewhere(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(size, align).ok()?;
        if size == 0 {
            return Some(NonNull::without_provenance(NonZeroUsize::new(align)?));
        }
        let needed = needed_bytes(layout);
        if needed > self.room_under_limit() {
            return None;
        }
        if needed > self.next_chunk_bytes() / LARGE_SHARE {
            return self.take_large(layout);
        }
        self.push_chunk(self.next_chunk_bytes(), needed)?;
        self.take_here(layout)
    }

    /// Sees to it that the newest chunk has room for `bytes`.
    #[cold]
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), AllocError> {
        let room = self.end.get().addr().get() - self.cursor.get().addr().get();
        if bytes <= room {
            return Ok(());
        }
        let needed = bytes.checked_next_multiple_of(CURSOR_ALIGN).ok_or(AllocError)?;
        if needed > self.room_under_limit() {
            return Err(AllocError);
        }
        self.push_chunk(self.next_chunk_bytes(), needed).ok_or(AllocError)
    }

    fn push_chunk(&self, wished_bytes: usize, data_bytes: usize) -> Option<()> {
        let lead = self.lead_bytes();
        let wished = wished_bytes.max(2 * lead);
        let chunk = take_chunk(self.heap, wished, lead.checked_add(data_bytes)?)?;
        if !self.protect_chunk(&chunk) {
            // SAFETY: (1), (2) just taken from this heap and used by nobody.
            unsafe { give_chunk(self.heap, chunk) };
            return None;
        }
        let below = self.top.get();
        let used_below = self.used_in_chunks_bytes();
        // SAFETY: (1) just taken. (2) the lead is a multiple of the header's size and alignment or
        // an OS page, and the chunk has at least as many bytes.
        let header = unsafe { Header::write(chunk, lead) };
        // SAFETY: just written.
        let fields = unsafe { header.as_ref() };
        fields.below.set(below);
        fields.used_below_bytes.set(used_below);
        if let Some(below) = self.top() {
            below.filled.set(self.cursor.get());
        }
        self.takings.set(self.takings.get() + 1);
        self.is_single.set(false);
        self.top.set(Some(header));
        self.cursor.set(fields.data());
        self.settle_end();
        Some(())
    }

    /// Moves the cursor back to `to`, clearing the bytes given up if the region is secret.
    ///
    /// # Safety
    /// 1. `to` is a cursor's place in the newest chunk and not above the cursor, or the cursor
    ///    itself.
    /// 2. Nobody uses the bytes from `to` on any more.
    #[inline]
    pub(crate) unsafe fn lower(&self, to: NonNull<u8>) {
        let bytes = self.cursor.get().addr().get() - to.addr().get();
        if self.policy.is_secret && bytes != 0 {
            // SAFETY: (1), [cursor-in-top]: the newest chunk's data, (2) which nobody uses.
            unsafe { clear(to, bytes) };
        }
        self.cursor.set(to);
    }

    /// Works out where the cursor must stop.
    pub(crate) fn settle_end(&self) {
        let Some(top) = self.top() else { return };
        let cursor = self.cursor.get();
        let room = (top.data_bytes() - top.used_bytes(cursor)).min(self.room_under_limit());
        // SAFETY: [cursor-in-top] not behind the chunk's end.
        self.end.set(unsafe { cursor.add(room) });
    }

    /// Returns the bytes that may still be handed out.
    pub(crate) fn room_under_limit(&self) -> usize {
        self.policy.max_bytes.saturating_sub(self.used_bytes())
    }

    /// Returns the bytes handed out, gaps and pads counted.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_in_chunks_bytes() + self.large_bytes.get()
    }

    pub(crate) fn used_in_chunks_bytes(&self) -> usize {
        self.top().map_or(0, |top| top.used_below_bytes.get() + top.used_bytes(self.cursor.get()))
    }

    pub(crate) fn next_chunk_bytes(&self) -> usize {
        let doubled = self.top().map_or(0, |top| 2 * top.chunk_bytes());
        doubled.clamp(CHUNK_BYTES_FIRST, CHUNK_BYTES_MAX)
    }

    /// Returns the newest chunk's header.
    #[inline]
    pub(crate) fn top(&self) -> Option<&Header> {
        // SAFETY: [chunk-stack] the headers in the stack are live and shared within this arena.
        self.top.get().map(|header| unsafe { header.as_ref() })
    }

    /// Returns the headers, newest first.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &Header> {
        // SAFETY: [chunk-stack] live.
        let below = |header: &&Header| header.below.get().map(|below| unsafe { below.as_ref() });
        core::iter::successors(self.top(), below)
    }

    /// Returns the bytes from a chunk's start to its data.
    fn lead_bytes(&self) -> usize {
        match self.policy.protection.has(Protection::WIPED_ON_FORK) {
            true => os::page_bytes(),
            false => HEADER_BYTES,
        }
    }

    fn protect_chunk(&self, chunk: &Chunk) -> bool {
        let (start, bytes) = self.protected_part(chunk);
        self.policy.protection.is_none() || os::protect(start, bytes, self.policy.protection)
    }

    pub(crate) fn unprotect_chunk(&self, chunk: &Chunk) -> bool {
        let (start, bytes) = self.protected_part(chunk);
        self.policy.protection.is_none() || os::unprotect(start, bytes, self.policy.protection)
    }

    /// Returns the pages of a chunk that are protected: not the header's, when a forked process
    /// must still read it.
    fn protected_part(&self, chunk: &Chunk) -> (NonNull<u8>, usize) {
        if !self.policy.protection.has(Protection::WIPED_ON_FORK) {
            return (chunk.start, chunk.bytes);
        }
        let lead = self.lead_bytes();
        // SAFETY: a chunk is longer than its lead.
        (unsafe { chunk.start.add(lead) }, chunk.bytes - lead)
    }
}

impl Drop for Arena<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.takings.get() != 0 {
            self.close();
        }
    }
}

/// Returns whether `block`, of `bytes` bytes, lies right before `cursor`.
#[inline(always)]
pub(crate) fn is_last(block: NonNull<u8>, bytes: usize, cursor: NonNull<u8>) -> bool {
    block.addr().get().wrapping_add(padded_bytes(bytes)) == cursor.addr().get()
}
