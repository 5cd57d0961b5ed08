//! A resource that clears what it gives back.
//!
//! Only bytes that the caller was told of can hold a secret, and all of them must be cleared. A block
//! has exactly the bytes asked for, so the length it comes back with is the whole of it (see
//! `provider`).
//!
//! Resizing always moves. The upstream's own grow and shrink give up a block, or a tail, that nobody
//! can clear any more; and a tail cleared before a shrink that then fails would not be as it was.
//!
//! *Concurrency*: any thread, if the upstream may.
//!
//! *Neighbours*: stands on `provider` and `clear`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::clear::clear;
use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, copy, exactly};
use super::{MemoryResource, Owner};

/// A resource that clears each block before its upstream gets it back: freed ones, the block a
/// container grew or shrank out of.
///
/// The compiler cannot remove the clearing. What it does not reach are copies that containers make
/// in registers and on the stack, and what the system wrote to a swap or core file.
///
/// # Cost
/// The length of the block at every free; growing and shrinking copy.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::Zeroizing;
///
/// let heap = Heap::new();
/// let secrets = Zeroizing::new(&heap);
/// let mut key = Vec::new_in(&secrets);
/// key.extend_from_slice(b"correct horse battery staple");
/// drop(key); // nothing of it is left in the heap's memory
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Zeroizing<U> {
    upstream: U,
}

impl<U> Zeroizing<U> {
    /// Returns a resource that clears what it gives back to `upstream`.
    pub const fn new(upstream: U) -> Zeroizing<U> {
        Zeroizing { upstream }
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }
}

// SAFETY: the upstream keeps each promise; the bytes cut off its blocks are not used.
unsafe impl<U: MemoryResource> Provider for Zeroizing<U> {
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        let block = allocate_from(&self.upstream, layout, fill)?;
        Ok(exactly(block, layout.size()))
    }

    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: (1) the caller gives up the block, which has these bytes.
        unsafe { clear(block, layout.size()) };
        // SAFETY: the contract is this function's.
        unsafe { self.upstream.deallocate(block, layout) };
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if from == to {
            return Ok(NonNull::slice_from_raw_parts(block, to.size()));
        }
        let moved = self.take(to, fill)?;
        // SAFETY: both are live and at least as long as the smaller size, and the new one is apart.
        unsafe { copy(block, moved.cast(), from, to) };
        // SAFETY: the contract is this function's.
        unsafe { self.give(block, from) };
        Ok(moved)
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        self.upstream.owns(block)
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

ready_made!([U: MemoryResource] Zeroizing<U>);
owner_by!([U: Owner] Zeroizing<U> => upstream);
