//! The `Allocator` faces: `&Region` and `&Scope`, in every version of the trait that the core has.
//!
//! *Concurrency*: not `Sync`, so neither is a container in a region.
//!
//! *Neighbours*: stands on `arena` and `resize`; containers call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::region::Region;
use crate::scope::Scope;

macro_rules! implement_allocator {
    ($face:path, $error:path, $target:ty) => {
        // SAFETY: a block lives until the region is reset, rewound or dropped or the scope ends or
        // an inner one opens, all of which need the region or scope unborrowed, and a copy of the
        // reference borrows it. Any length from the one asked for to the one returned pads to the
        // same bytes.
        unsafe impl $face for $target {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $error> {
                self.arena().take_slice(layout).or(Err($error))
            }

            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.arena().free(block, layout) };
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.arena().grow(block, from, to) }.or(Err($error))
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                let grown = unsafe { self.arena().grow(block, from, to) }.or(Err($error))?;
                // SAFETY: not below the block's length, which is not below that of `to`.
                let gained = unsafe { grown.cast::<u8>().add(from.size()) };
                // SAFETY: from the old size to the block's end.
                unsafe { gained.write_bytes(0, grown.len() - from.size()) };
                Ok(grown)
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                from: Layout,
                to: Layout,
            ) -> Result<NonNull<[u8]>, $error> {
                // SAFETY: the trait's contract is this function's.
                unsafe { self.arena().shrink(block, from, to) }.or(Err($error))
            }
        }
    };
}

macro_rules! implement_allocators {
    ($target:ty) => {
        implement_allocator!(
            polyheap::allocator_api2::alloc::Allocator,
            polyheap::allocator_api2::alloc::AllocError,
            $target
        );

        #[cfg(feature = "allocator-api2-04")]
        implement_allocator!(
            allocator_api2_04::alloc::Allocator,
            allocator_api2_04::alloc::AllocError,
            $target
        );

        #[cfg(feature = "nightly")]
        implement_allocator!(core::alloc::Allocator, core::alloc::AllocError, $target);
    };
}

implement_allocators!(&Region<'_>);
implement_allocators!(&Scope<'_, '_>);
