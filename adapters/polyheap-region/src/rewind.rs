//! Going back: to a mark, to the start, to nothing.
//!
//! A chunk is popped when all of it was taken since; the one that has the mark stays and the cursor
//! is lowered in it. Whatever is given up has been cleared before, if the region is secret.
//!
//! *Concurrency*: as its arena's.
//!
//! *Neighbours*: adds to `arena`; regions and scopes call it.

use core::ptr::NonNull;

use crate::arena::{Arena, NOWHERE};
use crate::chunk::{Chunk, give_chunk};
use crate::header::Header;
use crate::upstream::give_arena_chunk;

/// A position to go back to. The cursor says which chunk it is in, as chunks do not overlap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    cursor: NonNull<u8>,
    /// The arena's, at that time.
    takings: u64,
}

impl Arena<'_> {
    /// Returns the present position.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark { cursor: self.cursor.get(), takings: self.takings.get() }
    }

    /// Goes back to `mark`. A mark from before the first chunk leads to the oldest chunk's start:
    /// the chunk stays for what comes next.
    ///
    /// # Safety
    /// 1. `is_mark(mark)`.
    /// 2. Nobody uses what was taken since any more.
    #[inline]
    pub(crate) unsafe fn rewind(&self, mark: Mark) {
        if self.takings.get() == mark.takings {
            // SAFETY: (1) no chunk was taken since, so it is in the newest. (2) as this function's (2).
            unsafe { self.lower(mark.cursor) };
        } else {
            // SAFETY: as this function's.
            unsafe { self.rewind_slow(mark) };
        }
    }

    /// # Safety
    /// As [`rewind`](Arena::rewind).
    #[cold]
    #[inline(never)]
    unsafe fn rewind_slow(&self, mark: Mark) {
        // SAFETY: (2).
        unsafe { self.free_large_since(mark.takings) };
        while let Some(top) = self.top()
            && !top.has(mark.cursor)
            && top.below.get().is_some()
        {
            // SAFETY: (1) the mark's chunk is below, so all of this one was taken since: (2).
            unsafe { self.pop_chunk() };
        }
        if let Some(top) = self.top() {
            let to = if top.has(mark.cursor) { mark.cursor } else { top.data() };
            // SAFETY: (1) in what is now the newest chunk. (2) as this function's (2).
            unsafe { self.lower(to) };
        }
        self.settle_end();
    }

    /// Returns whether `mark` is a position that this arena can go back to: before the cursor, in
    /// a chunk of the stack.
    pub(crate) fn is_mark(&self, mark: Mark) -> bool {
        if let Some(top) = self.top() {
            top.filled.set(self.cursor.get());
        }
        let is_filled =
            |header: &Header| header.has(mark.cursor) && mark.cursor <= header.filled.get();
        let is_from_here = mark.cursor == NOWHERE || self.headers().any(is_filled);
        is_from_here && mark.takings <= self.takings.get()
    }

    /// Empties the arena and keeps its newest chunk.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if let Some(top) = self.top()
            && top.below.get().is_none()
            && self.large.get().is_none()
        {
            // SAFETY: (1) where its data begins. (2) `&mut self`: nobody uses a block any more.
            unsafe { self.lower(top.data()) };
        } else {
            self.reset_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn reset_slow(&mut self) {
        // SAFETY: `&mut self`: nobody uses a block any more.
        unsafe { self.free_large_since(0) };
        let Some(kept) = self.top.get() else { return };
        // SAFETY: [chunk-stack] live.
        let fields = unsafe { kept.as_ref() };
        // SAFETY: (1) where its data begins. (2) `&mut self`: nobody uses a block any more.
        unsafe { self.lower(fields.data()) };
        if let Some(below) = fields.below.take() {
            fields.used_below_bytes.set(0);
            self.top.set(Some(below));
            // SAFETY: [chunk-stack] live.
            self.cursor.set(unsafe { below.as_ref() }.filled.get());
            // SAFETY: `&mut self`: nobody uses a block any more.
            unsafe { self.pop_all() };
            self.top.set(Some(kept));
            self.cursor.set(fields.data());
        }
        self.settle_end();
    }

    /// Gives back all there is, at the arena's end.
    #[inline]
    pub(crate) fn close(&mut self) {
        if self.policy.is_secret { self.clear_and_close() } else { self.close_cleared() }
    }

    #[inline(never)]
    fn clear_and_close(&mut self) {
        if let Some(top) = self.top() {
            // SAFETY: (1) where its data begins. (2) `&mut self`: nobody uses a block any more.
            unsafe { self.lower(top.data()) };
        }
        self.close_cleared();
    }

    /// Closes an arena whose newest chunk has nothing to clear. What closing a scope costs: no look
    /// at the chunk, as those of nested scopes lie at the same places of the processor's caches.
    #[inline(never)]
    fn close_cleared(&mut self) {
        if self.is_single.get()
            && let Some(header) = self.top.get()
        {
            // SAFETY: (1) [single-chunk] an arena chunk of this heap, and all there is; with
            // `&mut self` nobody uses a block any more.
            return unsafe { give_arena_chunk(self.heap, header.cast()) };
        }
        self.close_slow();
    }

    #[cold]
    #[inline(never)]
    fn close_slow(&mut self) {
        // SAFETY: `&mut self`: nobody uses a block any more.
        unsafe { self.free_large_since(0) };
        // SAFETY: as above.
        unsafe { self.pop_all() };
    }

    /// Gives back all chunks.
    ///
    /// # Safety
    /// 1. Nobody uses a block of a chunk any more.
    unsafe fn pop_all(&self) {
        while self.top.get().is_some() {
            // SAFETY: (1).
            unsafe { self.pop_chunk() };
        }
    }

    /// Gives back the newest chunk, cleared up to `cursor` if the region is secret.
    ///
    /// # Safety
    /// 1. Nobody uses its blocks any more.
    unsafe fn pop_chunk(&self) {
        let Some(header) = self.top.get() else { return };
        // SAFETY: [chunk-stack] a header in the stack is live until it is popped.
        let fields = unsafe { header.as_ref() };
        let below = fields.below.get();
        // SAFETY: (1) where its data begins. (2) as this function's (1).
        unsafe { self.lower(fields.data()) };
        self.top.set(below);
        let cursor = self.top().map_or(NOWHERE, |below| below.filled.get());
        self.cursor.set(cursor);
        self.end.set(cursor);
        // SAFETY: (1), and it is out of the stack.
        unsafe { self.give_back(header) };
    }

    /// Gives a chunk back whose data is clear, if the region is secret.
    ///
    /// # Safety
    /// 1. The chunk is out of the stack and nobody uses its blocks any more.
    unsafe fn give_back(&self, header: NonNull<Header>) {
        // SAFETY: (1) the header is still there.
        let fields = unsafe { header.as_ref() };
        let chunk = Chunk { start: header.cast(), bytes: fields.chunk_bytes() };
        if self.unprotect_chunk(&chunk) {
            // SAFETY: (1) taken from this heap, as every chunk of the stack; not used any more.
            unsafe { give_chunk(self.heap, chunk) };
        }
    }
}
