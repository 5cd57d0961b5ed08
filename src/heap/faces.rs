//! The `Allocator` faces: allocator-api2 0.2 always, 0.4 and the standard library's by feature.
//!
//! The traits are implemented for [`Heap`] by value; `&Heap` has them by the blanket impls. One
//! macro writes the same body for each, so that the versions cannot drift apart.
//!
//! *Concurrency*: as `handle`.
//!
//! *Neighbours*: stands on `handle` and `resize`; containers call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::resize::{Tail, block_bytes};
use super::{Heap, SharedHeap};

macro_rules! implement_allocator {
    ($face:path, $error:path, $target:ty) => {
        // SAFETY: blocks stay valid until freed or until the last handle goes, which no clone or
        // move of a handle brings about; `SharedHeap`'s clones are handles of the same heap. The
        // length returned is the block's; any length from the one asked for up to it has the same
        // class, `[class-pure]`.
        unsafe impl $face for $target {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                self.allocate_block(layout).slice().ok_or($error)
            }

            #[inline]
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                let block = self.allocate_zeroed_block(layout).ok_or($error)?;
                Ok(NonNull::slice_from_raw_parts(block, block_bytes(layout)))
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.deallocate_block(block, layout) };
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                let block = unsafe { self.resize_block(block, from, to, Tail::Any) };
                Ok(NonNull::slice_from_raw_parts(block.ok_or($error)?, block_bytes(to)))
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                let block = unsafe { self.resize_block(block, from, to, Tail::Zeroed) };
                Ok(NonNull::slice_from_raw_parts(block.ok_or($error)?, block_bytes(to)))
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                let block = unsafe { self.resize_block(block, from, to, Tail::Any) };
                Ok(NonNull::slice_from_raw_parts(block.ok_or($error)?, block_bytes(to)))
            }
        }
    };
}

implement_allocator!(allocator_api2::alloc::Allocator, allocator_api2::alloc::AllocError, Heap);
implement_allocator!(
    allocator_api2::alloc::Allocator,
    allocator_api2::alloc::AllocError,
    SharedHeap
);

#[cfg(feature = "allocator-api2-04")]
implement_allocator!(
    allocator_api2_04::alloc::Allocator,
    allocator_api2_04::alloc::AllocError,
    Heap
);
#[cfg(feature = "allocator-api2-04")]
implement_allocator!(
    allocator_api2_04::alloc::Allocator,
    allocator_api2_04::alloc::AllocError,
    SharedHeap
);

#[cfg(feature = "nightly")]
implement_allocator!(core::alloc::Allocator, core::alloc::AllocError, Heap);
#[cfg(feature = "nightly")]
implement_allocator!(core::alloc::Allocator, core::alloc::AllocError, SharedHeap);
