//! Resources that can tell their blocks from others'.
//!
//! `MemoryResource::owns` may answer that it does not know. A [`Fallback`](super::Fallback) cannot
//! work on that, so it asks for this trait of its primary: an allocator that cannot tell is refused by
//! the compiler. Behind `&dyn` nothing is left to the compiler, and one that cannot tell has no block.
//!
//! *Concurrency*: as the resource.
//!
//! *Neighbours*: stands on `memory_resource`; `fallback` asks, `faces` implements it for the
//! ready-made.

use core::ptr::NonNull;

use super::MemoryResource;
use crate::buffer::BufferHeap;
#[cfg(feature = "std")]
use crate::heap::{Heap, SharedHeap};

/// A resource that can tell whether a block is its own.
///
/// # Safety
/// 1. `has` is true of all its live blocks, or never true.
/// 2. It is true of other resources' blocks only if they may be freed here as well.
///
/// # Examples
/// ```
/// use core::ptr::NonNull;
/// use polyheap::{Heap, resource::{Monotonic, Owner}};
///
/// let (heap, other) = (Heap::new(), Heap::new());
/// let scratch = Monotonic::new(&heap);
/// let value = polyheap::allocator_api2::boxed::Box::new_in(1, &scratch);
/// let block = NonNull::from(&*value).cast();
/// assert!(scratch.has(block) && heap.has(block) && !other.has(block));
/// ```
pub unsafe trait Owner {
    /// Returns whether `block`, a live block of some resource that is not of size 0, is one of this
    /// resource's.
    fn has(&self, block: NonNull<u8>) -> bool;
}

// SAFETY: a heap knows its memory.
#[cfg(feature = "std")]
unsafe impl Owner for Heap {
    fn has(&self, block: NonNull<u8>) -> bool {
        Heap::owns(self, block)
    }
}

// SAFETY: as its heap.
#[cfg(feature = "std")]
unsafe impl Owner for SharedHeap {
    fn has(&self, block: NonNull<u8>) -> bool {
        Heap::owns(self, block)
    }
}

// SAFETY: it knows its memory.
unsafe impl Owner for BufferHeap<'_> {
    fn has(&self, block: NonNull<u8>) -> bool {
        BufferHeap::owns(self, block)
    }
}

// SAFETY: as what it refers to.
unsafe impl<T: Owner + ?Sized> Owner for &T {
    fn has(&self, block: NonNull<u8>) -> bool {
        (**self).has(block)
    }
}

macro_rules! implement_owner {
    ($($target:ty),+) => {
        $(
            // SAFETY: (6) of the trait: it knows its blocks, or says `None` to all.
            unsafe impl Owner for $target {
                fn has(&self, block: NonNull<u8>) -> bool {
                    self.owns(block) == Some(true)
                }
            }
        )+
    };
}

implement_owner!(
    dyn MemoryResource + '_,
    dyn MemoryResource + Send + '_,
    dyn MemoryResource + Sync + '_,
    dyn MemoryResource + Send + Sync + '_
);
