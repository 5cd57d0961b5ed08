//! Two resources, the second for what the first refuses.
//!
//! At the free nothing but the address says whose a block is. So the primary must know its blocks, and
//! what is handed out is looked at first: a block that the primary hands out and does not know goes
//! back, and so does one of the secondary's that the primary would take for its own. The second
//! happens when both draw on the same memory.
//!
//! *Concurrency*: any thread, if both may.
//!
//! *Neighbours*: stands on `provider` and `owner`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, copy, resize_within};
use super::{MemoryResource, Owner};

/// A resource that asks its primary first and its secondary when that refuses.
///
/// The two must not draw on the same memory: `Fallback::new(Budget::new(&heap, 1000), &heap)` cannot
/// tell whose a block is, and refuses what the budget does. Behind `&dyn`, a primary that cannot tell
/// its blocks is never used.
///
/// # Examples
/// ```
/// use core::mem::MaybeUninit;
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::{Fallback, Monotonic, Null};
///
/// let heap = Heap::new();
/// let mut buffer = [MaybeUninit::uninit(); 1024];
/// let near = Fallback::new(Monotonic::with_buffer(&mut buffer, Null), &heap);
/// let mut list = Vec::new_in(&near);
/// list.extend(0..100u32);
/// assert_eq!(heap.stats().live_blocks, 0);
/// list.extend(0..1000u32);
/// assert_eq!(heap.stats().live_blocks, 1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fallback<P, S> {
    primary: P,
    secondary: S,
}

impl<P, S> Fallback<P, S> {
    /// Returns a resource that asks `primary` first and `secondary` when that refuses.
    pub const fn new(primary: P, secondary: S) -> Fallback<P, S> {
        Fallback { primary, secondary }
    }

    /// Returns the primary.
    pub const fn primary(&self) -> &P {
        &self.primary
    }

    /// Returns the secondary.
    pub const fn secondary(&self) -> &S {
        &self.secondary
    }
}

impl<P: MemoryResource + Owner, S: MemoryResource> Fallback<P, S> {
    fn take_secondary(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        let block = allocate_from(&self.secondary, layout, fill)?;
        if self.primary.has(block.cast()) {
            // SAFETY: just allocated there with this layout.
            unsafe { self.secondary.deallocate(block.cast(), layout) };
            return Err(AllocError);
        }
        Ok(block)
    }

    fn take_primary(&self, layout: Layout, fill: Fill) -> Option<NonNull<[u8]>> {
        let block = allocate_from(&self.primary, layout, fill).ok()?;
        if !self.primary.has(block.cast()) {
            // SAFETY: just allocated there with this layout.
            unsafe { self.primary.deallocate(block.cast(), layout) };
            return None;
        }
        Some(block)
    }
}

// SAFETY: each of the two keeps each promise for its blocks, and a block handed out is had by the
// primary if and only if it is the primary's.
unsafe impl<P: MemoryResource + Owner, S: MemoryResource> Provider for Fallback<P, S> {
    #[inline]
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        match self.take_primary(layout, fill) {
            Some(block) => Ok(block),
            None => self.take_secondary(layout, fill),
        }
    }

    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        match self.primary.has(block) {
            // SAFETY: its block; the contract is this function's.
            true => unsafe { self.primary.deallocate(block, layout) },
            // SAFETY: not the primary's, so its block; the contract is this function's.
            false => unsafe { self.secondary.deallocate(block, layout) },
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if !self.primary.has(block) {
            // SAFETY: not the primary's, so its block; the contract is this function's.
            return unsafe { resize_within(&self.secondary, block, from, to, fill) };
        }
        // SAFETY: its block; the contract is this function's.
        let resized = unsafe { resize_within(&self.primary, block, from, to, fill) };
        if resized.is_ok() {
            return resized;
        }
        let moved = self.take_secondary(to, fill)?;
        // SAFETY: both are live and at least as long as the smaller size, and the new one is apart.
        unsafe { copy(block, moved.cast(), from, to) };
        // SAFETY: its block, which the failed resize left; the contract is this function's.
        unsafe { self.primary.deallocate(block, from) };
        Ok(moved)
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        if self.primary.has(block) { Some(true) } else { self.secondary.owns(block) }
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.secondary)
    }
}

ready_made!([P: MemoryResource + Owner, S: MemoryResource] Fallback<P, S>);
owner_by!([P: Owner, S: Owner] Fallback<P, S> => primary | secondary);
