//! The traits of the ready-made resources, and the way from `dyn MemoryResource` to the allocators.
//!
//! A ready-made resource is a `MemoryResource` itself and an allocator by reference: `&Monotonic` is
//! one, `Monotonic` is not. So what empties a resource, which takes it by `&mut`, cannot be called
//! under a container; and a resource can say more of itself than an allocator can (see `known`).
//!
//! *Concurrency*: as the resource.
//!
//! *Neighbours*: stands on `provider`; each resource's file calls the macro.

use super::MemoryResource;

/// Writes `MemoryResource` for a provider and the allocator traits for references to it:
/// `ready_made!([U: MemoryResource] Counting<U>)`.
macro_rules! ready_made {
    ([$($generics:tt)*] $target:ty) => {
        // SAFETY: as the provider; requests of size 0 take no memory.
        unsafe impl<$($generics)*> $crate::resource::MemoryResource for $target {
            #[inline]
            fn allocate(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                $crate::resource::provider::allocate(self, layout, Fill::Any)
            }

            #[inline]
            fn allocate_zeroed(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                $crate::resource::provider::allocate(self, layout, Fill::Zeroed)
            }

            #[inline]
            unsafe fn deallocate(
                &self,
                block: core::ptr::NonNull<u8>,
                layout: core::alloc::Layout,
            ) {
                // SAFETY: the same contract.
                unsafe { $crate::resource::provider::deallocate(self, block, layout) }
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                // SAFETY: the same contract.
                unsafe { $crate::resource::provider::resize(self, block, from, to, Fill::Any) }
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                // SAFETY: the same contract.
                unsafe { $crate::resource::provider::resize(self, block, from, to, Fill::Zeroed) }
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                // SAFETY: the same contract.
                unsafe { $crate::resource::provider::resize(self, block, from, to, Fill::Any) }
            }

            fn owns(&self, block: core::ptr::NonNull<u8>) -> Option<bool> {
                self.is_own(block)
            }

            fn upstream(&self) -> Option<&dyn $crate::resource::MemoryResource> {
                self.stands_on()
            }
        }

        $crate::resource::faces::implement_allocators!([$($generics)*] &$target => $target);
    };
}

/// Writes [`Owner`](super::Owner) for a resource that has what the fields named have.
macro_rules! owner_by {
    ([$($generics:tt)*] $target:ty => $($field:ident)|+) => {
        // SAFETY: as what it stands on, which has all its blocks.
        unsafe impl<$($generics)*> $crate::resource::Owner for $target {
            fn has(&self, block: core::ptr::NonNull<u8>) -> bool {
                $(self.$field.has(block))||+
            }
        }
    };
}

/// Writes every version of the allocator trait for `$target` from `$resource`'s `MemoryResource`.
macro_rules! implement_allocators {
    ([$($generics:tt)*] $target:ty => $resource:ty) => {
        $crate::resource::faces::implement_allocator!(
            [$($generics)*] allocator_api2::alloc::Allocator,
            allocator_api2::alloc::AllocError, $target => $resource
        );

        #[cfg(feature = "allocator-api2-04")]
        $crate::resource::faces::implement_allocator!(
            [$($generics)*] allocator_api2_04::alloc::Allocator,
            allocator_api2_04::alloc::AllocError, $target => $resource
        );

        #[cfg(feature = "nightly")]
        $crate::resource::faces::implement_allocator!(
            [$($generics)*] core::alloc::Allocator, core::alloc::AllocError, $target => $resource
        );
    };
}

macro_rules! implement_allocator {
    ([$($generics:tt)*] $face:path, $error:path, $target:ty => $resource:ty) => {
        // SAFETY: as `MemoryResource`, whose promises include these; what empties a resource takes
        // it by `&mut`, and an allocator here is or lies behind a shared reference.
        unsafe impl<$($generics)*> $face for $target {
            #[inline]
            fn allocate(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, $error> {
                <$resource as $crate::resource::MemoryResource>::allocate(self, layout)
                    .or(Err($error))
            }

            #[inline]
            fn allocate_zeroed(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, $error> {
                <$resource as $crate::resource::MemoryResource>::allocate_zeroed(self, layout)
                    .or(Err($error))
            }

            #[inline]
            unsafe fn deallocate(
                &self,
                block: core::ptr::NonNull<u8>,
                layout: core::alloc::Layout,
            ) {
                // SAFETY: the same contract.
                unsafe {
                    <$resource as $crate::resource::MemoryResource>::deallocate(self, block, layout)
                }
            }

            #[inline]
            unsafe fn grow(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, $error> {
                // SAFETY: the same contract.
                unsafe {
                    <$resource as $crate::resource::MemoryResource>::grow(self, block, from, to)
                }
                .or(Err($error))
            }

            #[inline]
            unsafe fn grow_zeroed(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, $error> {
                // SAFETY: the same contract.
                unsafe {
                    <$resource as $crate::resource::MemoryResource>::grow_zeroed(
                        self, block, from, to,
                    )
                }
                .or(Err($error))
            }

            #[inline]
            unsafe fn shrink(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, $error> {
                // SAFETY: the same contract.
                unsafe {
                    <$resource as $crate::resource::MemoryResource>::shrink(self, block, from, to)
                }
                .or(Err($error))
            }
        }
    };
}

pub(super) use {implement_allocator, implement_allocators, owner_by, ready_made};

implement_allocators!([] dyn MemoryResource + '_ => dyn MemoryResource + '_);
implement_allocators!([] dyn MemoryResource + Send + '_ => dyn MemoryResource + Send + '_);
implement_allocators!([] dyn MemoryResource + Sync + '_ => dyn MemoryResource + Sync + '_);
implement_allocators!(
    [] dyn MemoryResource + Send + Sync + '_ => dyn MemoryResource + Send + Sync + '_
);
