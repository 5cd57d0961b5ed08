//! The `Allocator` faces of heaps in buffers.
//!
//! *Concurrency*: as the heap.
//!
//! *Neighbours*: stands on `heap`; containers call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::cells::{GRANULE_BYTES, GRANULE_LOG2};
use super::heap::BufferHeap;
use crate::base::{address, at_address, is_aligned};

/// What a layout asks for, in granules; zero for no memory at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    length: u32,
    align: u32,
}

impl Asked {
    /// Returns what `layout` asks for; `None` for more than any buffer has.
    #[inline]
    pub(super) fn of(layout: Layout) -> Option<Asked> {
        let length = u32::try_from(layout.size().div_ceil(GRANULE_BYTES)).ok()?;
        let align = u32::try_from(layout.align().div_ceil(GRANULE_BYTES)).ok()?;
        Some(Asked { length, align })
    }

    fn bytes(self) -> usize {
        (self.length as usize) << GRANULE_LOG2
    }
}

impl BufferHeap<'_> {
    /// Allocates a block; `None` when there is no memory. Of its length, what `layout` asks for
    /// rounded up to 16 bytes.
    #[inline]
    pub(super) fn allocate_block(&self, layout: Layout) -> Option<NonNull<[u8]>> {
        let asked = Asked::of(layout)?;
        let block = match asked.length {
            0 => NonNull::new(at_address(layout.align()))?,
            length => self.take(length, asked.align)?,
        };
        Some(NonNull::slice_from_raw_parts(block, asked.bytes()))
    }

    /// Frees a block.
    ///
    /// # Safety
    /// 1. `block` was allocated from this heap with a layout of this alignment and a size that
    ///    rounds up to the same multiple of 16, and not freed since.
    #[inline]
    pub(super) unsafe fn deallocate_block(&self, block: NonNull<u8>, layout: Layout) {
        match Asked::of(layout) {
            Some(Asked { length: 0, .. }) | None => {}
            Some(asked) => self.give(block, asked.length),
        }
    }

    /// Makes a block fit `to`; `None` when there is no memory, the block being as it was. It reads as
    /// zero behind the caller's bytes if `tail` says so.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap that fits `from`.
    pub(super) unsafe fn resize_block(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        tail: Tail,
    ) -> Option<NonNull<[u8]>> {
        let (old, new) = (Asked::of(from)?, Asked::of(to)?);
        let is_in_place = old.length != 0
            && new.length != 0
            && is_aligned(address(block.as_ptr()), to.align())
            && self.resize(block, old.length, new.length);
        let kept_bytes = from.size().min(to.size());
        let resized = match is_in_place {
            true => NonNull::slice_from_raw_parts(block, new.bytes()),
            false => {
                let moved = self.allocate_block(to)?;
                // SAFETY: both blocks have at least so many bytes, and a fresh block overlaps none.
                unsafe { moved.cast::<u8>().copy_from_nonoverlapping(block, kept_bytes) };
                // SAFETY: (1) of this function's contract.
                unsafe { self.deallocate_block(block, from) };
                moved
            }
        };
        if tail == Tail::Zeroed {
            // SAFETY: the block has at least so many bytes.
            let rest = unsafe { resized.cast::<u8>().add(kept_bytes) };
            // SAFETY: as above.
            unsafe { rest.write_bytes(0, new.bytes() - kept_bytes) };
        }
        Some(resized)
    }
}

/// What the bytes behind the caller's are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// Anything.
    Any,
    /// Zero, to the end of the block.
    Zeroed,
}

macro_rules! implement_allocator {
    ($face:path, $error:path) => {
        // SAFETY: blocks stay valid until freed or until the heap goes, and do not move with it. Any
        // length from the one asked for to the one returned rounds up to the same granules.
        unsafe impl $face for BufferHeap<'_> {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                self.allocate_block(layout).ok_or($error)
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.deallocate_block(block, layout) };
            }

            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.resize_block(block, from, to, Tail::Any) }.ok_or($error)
            }

            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.resize_block(block, from, to, Tail::Zeroed) }.ok_or($error)
            }

            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.resize_block(block, from, to, Tail::Any) }.ok_or($error)
            }
        }
    };
}

implement_allocator!(allocator_api2::alloc::Allocator, allocator_api2::alloc::AllocError);

#[cfg(feature = "allocator-api2-04")]
implement_allocator!(allocator_api2_04::alloc::Allocator, allocator_api2_04::alloc::AllocError);

#[cfg(feature = "nightly")]
implement_allocator!(core::alloc::Allocator, core::alloc::AllocError);
