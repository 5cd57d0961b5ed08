//! Two resources, one for small blocks and one for large ones.
//!
//! At the free the size says whose a block is, and that may be any size from the one asked for to the
//! one returned. So a small block is never said to be longer than the threshold.
//!
//! *Concurrency*: any thread, if both may.
//!
//! *Neighbours*: stands on `provider`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, copy, exactly, resize_within};
use super::{MemoryResource, Owner};

/// A resource that sends requests up to a threshold to one resource and larger ones to another.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::boxed::Box;
/// use polyheap::resource::Segregate;
///
/// let (small, large) = (Heap::new(), Heap::new());
/// let by_size = Segregate::new(256, &small, &large);
/// let boxes = (Box::new_in([0u8; 256], &by_size), Box::new_in([0u8; 257], &by_size));
/// assert_eq!((small.stats().live_blocks, large.stats().live_blocks), (1, 1));
/// drop(boxes);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Segregate<S, L> {
    threshold_bytes: usize,
    small: S,
    large: L,
}

impl<S, L> Segregate<S, L> {
    /// Returns a resource that asks `small` for blocks of up to `threshold_bytes` bytes and `large`
    /// for the others.
    pub const fn new(threshold_bytes: usize, small: S, large: L) -> Segregate<S, L> {
        Segregate { threshold_bytes, small, large }
    }

    /// Returns the most bytes of a small block.
    pub const fn threshold_bytes(&self) -> usize {
        self.threshold_bytes
    }

    /// Returns the resource for small blocks.
    pub const fn small(&self) -> &S {
        &self.small
    }

    /// Returns the resource for large blocks.
    pub const fn large(&self) -> &L {
        &self.large
    }

    #[inline]
    fn is_small(&self, layout: Layout) -> bool {
        layout.size() <= self.threshold_bytes
    }

    /// Returns a block of `small`'s without what lies beyond the threshold.
    #[inline]
    fn cut(&self, block: NonNull<[u8]>) -> NonNull<[u8]> {
        exactly(block, block.len().min(self.threshold_bytes))
    }
}

// SAFETY: each of the two keeps each promise for its blocks; all sizes a block may be freed with lie
// on the same side of the threshold, which says whose it is.
unsafe impl<S: MemoryResource, L: MemoryResource> Provider for Segregate<S, L> {
    #[inline]
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        match self.is_small(layout) {
            true => Ok(self.cut(allocate_from(&self.small, layout, fill)?)),
            false => allocate_from(&self.large, layout, fill),
        }
    }

    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        match self.is_small(layout) {
            // SAFETY: by its size, its block; the contract is this function's.
            true => unsafe { self.small.deallocate(block, layout) },
            // SAFETY: by its size, its block; the contract is this function's.
            false => unsafe { self.large.deallocate(block, layout) },
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        match (self.is_small(from), self.is_small(to)) {
            (true, true) => {
                // SAFETY: by its size, its block; the contract is this function's.
                let resized = unsafe { resize_within(&self.small, block, from, to, fill) };
                Ok(self.cut(resized?))
            }
            // SAFETY: by its size, its block; the contract is this function's.
            (false, false) => unsafe { resize_within(&self.large, block, from, to, fill) },
            _ => {
                let moved = self.take(to, fill)?;
                // SAFETY: both are live and at least as long as the smaller size, and apart.
                unsafe { copy(block, moved.cast(), from, to) };
                // SAFETY: the contract is this function's.
                unsafe { self.give(block, from) };
                Ok(moved)
            }
        }
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        match (self.small.owns(block), self.large.owns(block)) {
            (Some(small), Some(large)) => Some(small || large),
            _ => None,
        }
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.large)
    }
}

ready_made!([S: MemoryResource, L: MemoryResource] Segregate<S, L>);
owner_by!([S: Owner, L: Owner] Segregate<S, L> => small | large);
