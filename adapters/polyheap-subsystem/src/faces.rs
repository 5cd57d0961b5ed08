//! The `Allocator` faces: those of the heap, passed on.
//!
//! *Concurrency*: as the heap.
//!
//! *Neighbours*: stands on `subsystem`; containers call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::Subsystem;

macro_rules! implement_allocator {
    ($($face:ident)::+, $error:path) => {
        // SAFETY: every call is the heap's, which keeps the contract; moving a subsystem moves no
        // block, and it is not `Clone`.
        unsafe impl $($face)::+ for Subsystem {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                $($face)::+::allocate(self.heap(), layout)
            }

            #[inline]
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                $($face)::+::allocate_zeroed(self.heap(), layout)
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the trait's contract is this function's.
                unsafe { $($face)::+::deallocate(self.heap(), block, layout) }
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { $($face)::+::grow(self.heap(), block, from, to) }
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { $($face)::+::grow_zeroed(self.heap(), block, from, to) }
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { $($face)::+::shrink(self.heap(), block, from, to) }
            }
        }
    };
}

implement_allocator!(
    polyheap::allocator_api2::alloc::Allocator,
    polyheap::allocator_api2::alloc::AllocError
);

#[cfg(feature = "allocator-api2-04")]
implement_allocator!(allocator_api2_04::alloc::Allocator, allocator_api2_04::alloc::AllocError);

#[cfg(feature = "nightly")]
implement_allocator!(core::alloc::Allocator, core::alloc::AllocError);
