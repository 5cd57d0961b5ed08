//! Freeing and resizing: at the cursor at once and in place, elsewhere by moving.
//!
//! *Concurrency*: as its arena's.
//!
//! *Neighbours*: adds to `arena`; the `Allocator` faces and `list` call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use polyheap::allocator_api2::alloc::AllocError;

use crate::arena::{Arena, is_last};
use crate::large::is_perhaps_large;
use crate::place::padded_bytes;

impl Arena<'_> {
    /// Takes a block and returns it with its length.
    #[inline(always)]
    pub(crate) fn take_slice(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Ok(usable(self.take(layout)?, layout))
    }

    /// Frees a block: at the cursor at once, a large one at once if it is among the latest, another
    /// with its scope.
    ///
    /// # Safety
    /// 1. `block` is a live block of this arena, and nobody uses it any more.
    /// 2. `layout` has the alignment it was taken with, and a size between the one asked for and
    ///    the one returned.
    #[inline]
    pub(crate) unsafe fn free(&self, block: NonNull<u8>, layout: Layout) {
        if is_last(block, layout.size(), self.cursor.get()) {
            // SAFETY: (1) where the last block begins. (2) as this function's (1).
            unsafe { self.lower(block) };
        } else if is_perhaps_large(layout) {
            // SAFETY: (1).
            unsafe { self.free_if_large(block) };
        }
    }

    /// Makes a block larger.
    ///
    /// # Safety
    /// 1. As [`free`](Arena::free), with `from` for the layout.
    /// 2. The size of `to` is not below that of `from`.
    #[inline]
    pub(crate) unsafe fn grow(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let is_aligned = block.addr().get() & (to.align() - 1) == 0;
        if is_aligned && is_last(block, from.size(), self.cursor.get()) {
            let room = self.end.get().addr().get() - block.addr().get();
            if to.size() <= room {
                // SAFETY: `to` fits before the end, which is a multiple of the cursor's alignment.
                self.cursor.set(unsafe { block.add(padded_bytes(to.size())) });
                return Ok(usable(block, to));
            }
        }
        if is_aligned && padded_bytes(to.size()) == padded_bytes(from.size()) {
            return Ok(usable(block, to));
        }
        // SAFETY: (1), (2).
        unsafe { self.move_or_resize(block, from, to) }
    }

    /// Makes a block smaller.
    ///
    /// # Safety
    /// 1. As [`free`](Arena::free), with `from` for the layout.
    /// 2. The size of `to` is not above that of `from`.
    #[inline]
    pub(crate) unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let is_aligned = block.addr().get() & (to.align() - 1) == 0;
        if is_aligned && is_last(block, from.size(), self.cursor.get()) {
            // SAFETY: (2) inside the block.
            let end = unsafe { block.add(padded_bytes(to.size())) };
            // SAFETY: (1) inside the last block. (2) behind what is kept of it.
            unsafe { self.lower(end) };
            return Ok(usable(block, to));
        }
        if is_aligned && !is_perhaps_large(from) {
            return Ok(usable(block, to));
        }
        // SAFETY: (1), (2).
        unsafe { self.move_or_resize(block, from, to) }
    }

    /// # Safety
    /// 1. As [`free`](Arena::free), with `from` for the layout.
    #[cold]
    #[inline(never)]
    unsafe fn move_or_resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if is_perhaps_large(from) {
            // SAFETY: (1).
            if let Some(resized) = unsafe { self.resize_large(block, to) } {
                return Ok(usable(resized, to));
            }
            let is_aligned = block.addr().get() & (to.align() - 1) == 0;
            if is_aligned && to.size() <= from.size() {
                return Ok(usable(block, to));
            }
        }
        let moved = self.take(to)?;
        let kept_bytes = from.size().min(to.size());
        // SAFETY: both blocks are live and at least as long; the new one overlaps no live one.
        unsafe { moved.copy_from_nonoverlapping(block, kept_bytes) };
        // SAFETY: (1), and the contents have moved.
        unsafe { self.free(block, from) };
        Ok(usable(moved, to))
    }
}

#[inline(always)]
fn usable(block: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(block, padded_bytes(layout.size()))
}
