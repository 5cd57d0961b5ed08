//! A resource without memory: the end of a chain.
//!
//! *Concurrency*: any thread.
//!
//! *Neighbours*: stands on `provider`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::ready_made;
use super::provider::{Fill, Provider};
use super::{MemoryResource, Owner};

/// A resource that refuses every request but those of size 0.
///
/// Under a [`Monotonic`](super::Monotonic) with a buffer of its own it sees to it that the buffer is
/// all there is.
///
/// # Examples
/// ```
/// use core::mem::MaybeUninit;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::{Monotonic, Null};
///
/// let mut buffer = [MaybeUninit::uninit(); 256];
/// let scratch = Monotonic::with_buffer(&mut buffer, Null);
/// let mut list = Vec::<u64, _>::new_in(&scratch);
/// assert!(list.try_reserve(10).is_ok());
/// assert!(list.try_reserve(100).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Null;

// SAFETY: it hands out nothing.
unsafe impl Provider for Null {
    fn take(&self, _: Layout, _: Fill) -> Result<NonNull<[u8]>, AllocError> {
        Err(AllocError)
    }

    unsafe fn give(&self, _: NonNull<u8>, _: Layout) {}

    fn is_own(&self, _: NonNull<u8>) -> Option<bool> {
        Some(false)
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        None
    }
}

// SAFETY: it has no block.
unsafe impl Owner for Null {
    fn has(&self, _: NonNull<u8>) -> bool {
        false
    }
}

ready_made!([] Null);
