//! The trait: an allocator that can stand behind `&dyn`.
//!
//! It has `Allocator`'s functions under `Allocator`'s names, and two more that only a chain of
//! resources has a use for: whose a block is, and what a resource stands on. It is a trait of its own
//! because the standard library's `Allocator` is not dyn-compatible.
//!
//! *Concurrency*: the implementer says.
//!
//! *Neighbours*: stands on `known`; `faces` leads back from `dyn MemoryResource` to the allocator
//! traits.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::known;
use super::provider::{Fill, replace};

/// A place memory comes from, usable behind `&dyn`.
///
/// Every `Sized` allocator of allocator-api2 0.2 is one: `&Heap`, `SharedHeap`, `Global`, `&Bump`.
/// So are the ready-made resources of this module. In turn `&dyn MemoryResource`, also with `Send`
/// and `Sync`, is an allocator in every version of the trait that the crate supports.
///
/// To write one, give `allocate` and `deallocate`; the rest follows from these.
///
/// # Safety
/// 1. A block returned has at least the bytes asked for and the alignment asked for, overlaps no
///    other live block, and stays valid and where it is until it is freed, however the resource is
///    moved, or until the resource is dropped or emptied through `&mut`.
/// 2. A block may be freed or resized with any size from the one asked for to the one returned.
/// 3. A resize that fails leaves the block as it was.
/// 4. `allocate_zeroed` returns zeros to the end of the block, `grow_zeroed` from the old size on.
/// 5. No function unwinds.
/// 6. `owns` answers `Some(true)` for a block of another resource only if that block may be freed
///    here as well, and `Some(false)` for none of its own. It answers `None` always or never.
///
/// # Examples
/// ```
/// use core::alloc::Layout;
/// use core::ptr::NonNull;
/// use polyheap::allocator_api2::{alloc::AllocError, boxed::Box};
/// use polyheap::{Heap, resource::MemoryResource};
///
/// struct Loud(Heap);
/// // SAFETY: the heap keeps each promise.
/// unsafe impl MemoryResource for Loud {
///     fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
///         eprintln!("{} B", layout.size()); MemoryResource::allocate(&self.0, layout)
///     }
///     unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
///         // SAFETY: the caller's promise is the heap's.
///         unsafe { MemoryResource::deallocate(&self.0, block, layout) }
///     }
/// }
/// let loud = Loud(Heap::new());
/// assert_eq!(*Box::new_in(7, &loud as &dyn MemoryResource), 7);
/// ```
pub unsafe trait MemoryResource {
    /// Allocates a block; the length returned is the usable one. A request of size 0 takes nothing
    /// and does not fail.
    ///
    /// # Errors
    /// `AllocError` when there is no memory for it.
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError>;

    /// Allocates a block whose bytes are all zero.
    ///
    /// # Errors
    /// As [`allocate`](MemoryResource::allocate).
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.allocate(layout)?;
        // SAFETY: the block has that many bytes and is the caller's alone.
        unsafe { block.cast::<u8>().write_bytes(0, block.len()) };
        Ok(block)
    }

    /// Frees a block. With size 0 it does nothing, whatever `block` points to.
    ///
    /// # Safety
    /// 1. `block` is a live block of this resource, or the size is 0.
    /// 2. `layout` has the block's alignment and a size from the one asked for to the one returned.
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout);

    /// Makes a block as large as `to`, whose alignment may differ.
    ///
    /// # Errors
    /// `AllocError` when there is no memory for it; the block is as it was.
    ///
    /// # Safety
    /// 1. As [`deallocate`](MemoryResource::deallocate), with `from` for the layout.
    /// 2. The size of `to` is not below that of `from`.
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: (1).
        unsafe { replace(self, block, from, to, Fill::Any) }
    }

    /// As [`grow`](MemoryResource::grow), and the bytes gained are zero.
    ///
    /// # Errors
    /// As [`grow`](MemoryResource::grow).
    ///
    /// # Safety
    /// As [`grow`](MemoryResource::grow).
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: (1).
        unsafe { replace(self, block, from, to, Fill::Zeroed) }
    }

    /// Makes a block as small as `to`, whose alignment may differ.
    ///
    /// # Errors
    /// As [`grow`](MemoryResource::grow).
    ///
    /// # Safety
    /// 1. As [`deallocate`](MemoryResource::deallocate), with `from` for the layout.
    /// 2. The size of `to` is not above that of `from`.
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: (1).
        unsafe { replace(self, block, from, to, Fill::Any) }
    }

    /// Returns whether `block`, a live block of some resource that is not of size 0, is one of this
    /// resource's; `None` when it cannot tell. Foreign allocators cannot.
    ///
    /// A resource that passes requests on answers what its upstream answers, and so takes for its
    /// own what was allocated there directly.
    fn owns(&self, block: NonNull<u8>) -> Option<bool> {
        let _ = block;
        None
    }

    /// Returns what the resource stands on, if it stands on another. Of two, it is the one that
    /// serves what the other does not.
    fn upstream(&self) -> Option<&dyn MemoryResource> {
        None
    }
}

// SAFETY: (1) to (5) are what the allocator trait promises. (6) a heap knows its memory, a resource
// behind a reference answers for itself, and all others answer `None`.
unsafe impl<A: Allocator> MemoryResource for A {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Allocator::allocate(self, layout)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Allocator::allocate_zeroed(self, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // `Box` of a zero-size type frees what nobody allocated, and foreign allocators may look.
        if layout.size() != 0 {
            // SAFETY: the same contract, (1) without its exception.
            unsafe { Allocator::deallocate(self, block, layout) };
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the same contract.
        unsafe { Allocator::grow(self, block, from, to) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the same contract.
        unsafe { Allocator::grow_zeroed(self, block, from, to) }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the same contract.
        unsafe { Allocator::shrink(self, block, from, to) }
    }

    #[inline]
    fn owns(&self, block: NonNull<u8>) -> Option<bool> {
        known::owns(self, block)
    }

    #[inline]
    fn upstream(&self) -> Option<&dyn MemoryResource> {
        known::upstream(self)
    }
}
