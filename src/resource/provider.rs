//! What a ready-made resource has to do, and what is done for all of them.
//!
//! Requests of size zero are settled here, before a provider sees them: they get an aligned address
//! without memory behind it, and one that comes back is not looked at. No address says whose such a
//! block is, and `Box` frees some that nobody allocated.
//!
//! A resource that counts or clears bytes must know at the free how many there are, but may be told
//! any number from the one asked for to the one returned. So it returns exactly what was asked for,
//! [`exactly`], and the slack is nobody's.
//!
//! *Concurrency*: as the provider.
//!
//! *Neighbours*: stands on `memory_resource`; the ready-made resources implement it, `faces` calls it.

use core::alloc::Layout;
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::MemoryResource;

/// Whether the bytes of a block that hold no contents must read as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fill {
    /// They may hold anything.
    Any,
    /// They are zero, to the end of the block.
    Zeroed,
}

/// A resource that never meets a request of size zero.
///
/// # Safety
/// As [`MemoryResource`].
pub(super) unsafe trait Provider {
    /// Takes a block; the size is not 0.
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError>;

    /// Gives a block back.
    ///
    /// # Safety
    /// As [`MemoryResource::deallocate`]; the size is not 0.
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout);

    /// Makes a block fit `to`, up or down.
    ///
    /// # Safety
    /// As [`MemoryResource::deallocate`], with `from` for the layout; neither size is 0.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let moved = self.take(to, fill)?;
        // SAFETY: both are live and at least as long as the smaller size, and the new one is apart.
        unsafe { copy(block, moved.cast(), from, to) };
        // SAFETY: the contract is this function's.
        unsafe { self.give(block, from) };
        Ok(moved)
    }

    /// As [`MemoryResource::owns`].
    fn is_own(&self, block: NonNull<u8>) -> Option<bool>;

    /// As [`MemoryResource::upstream`].
    fn stands_on(&self) -> Option<&dyn MemoryResource>;
}

/// Allocates from a provider.
#[inline]
pub(super) fn allocate<P: Provider>(
    provider: &P,
    layout: Layout,
    fill: Fill,
) -> Result<NonNull<[u8]>, AllocError> {
    if layout.size() == 0 { Ok(empty(layout)) } else { provider.take(layout, fill) }
}

/// Frees into a provider.
///
/// # Safety
/// As [`MemoryResource::deallocate`].
#[inline]
pub(super) unsafe fn deallocate<P: Provider>(provider: &P, block: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: the contract is this function's, and the size is not 0.
        unsafe { provider.give(block, layout) };
    }
}

/// Resizes a provider's block.
///
/// # Safety
/// As [`MemoryResource::deallocate`], with `from` for the layout.
#[inline]
pub(super) unsafe fn resize<P: Provider>(
    provider: &P,
    block: NonNull<u8>,
    from: Layout,
    to: Layout,
    fill: Fill,
) -> Result<NonNull<[u8]>, AllocError> {
    if from.size() == 0 {
        return allocate(provider, to, fill);
    }
    if to.size() == 0 {
        // SAFETY: the contract is this function's, and the size is not 0.
        unsafe { provider.give(block, from) };
        return Ok(empty(to));
    }
    // SAFETY: the contract is this function's, and neither size is 0.
    unsafe { provider.resize(block, from, to, fill) }
}

/// Returns the block of a request of size 0.
fn empty(layout: Layout) -> NonNull<[u8]> {
    // An alignment is never 0.
    let place = NonZeroUsize::new(layout.align());
    let place = place.map_or(NonNull::dangling(), NonNull::without_provenance);
    NonNull::slice_from_raw_parts(place, 0)
}

/// Returns the first `bytes` bytes of a block.
#[inline]
pub(super) fn exactly(block: NonNull<[u8]>, bytes: usize) -> NonNull<[u8]> {
    NonNull::slice_from_raw_parts(block.cast(), bytes)
}

/// Allocates from an upstream.
#[inline]
pub(super) fn allocate_from<U: MemoryResource + ?Sized>(
    upstream: &U,
    layout: Layout,
    fill: Fill,
) -> Result<NonNull<[u8]>, AllocError> {
    match fill {
        Fill::Any => upstream.allocate(layout),
        Fill::Zeroed => upstream.allocate_zeroed(layout),
    }
}

/// Makes an upstream's block fit `to`, up or down.
///
/// # Safety
/// As [`MemoryResource::deallocate`] of `upstream`, with `from` for the layout.
#[inline]
pub(super) unsafe fn resize_within<U: MemoryResource + ?Sized>(
    upstream: &U,
    block: NonNull<u8>,
    from: Layout,
    to: Layout,
    fill: Fill,
) -> Result<NonNull<[u8]>, AllocError> {
    match fill {
        // SAFETY: the contract is this function's; the new size is smaller.
        _ if to.size() < from.size() => unsafe { upstream.shrink(block, from, to) },
        // SAFETY: the contract is this function's; the new size is not smaller.
        Fill::Any => unsafe { upstream.grow(block, from, to) },
        // SAFETY: the contract is this function's; the new size is not smaller.
        Fill::Zeroed => unsafe { upstream.grow_zeroed(block, from, to) },
    }
}

/// Makes a block fit `to` by moving it to another block of the same resource.
///
/// # Safety
/// As [`MemoryResource::deallocate`], with `from` for the layout.
pub(super) unsafe fn replace<R: MemoryResource + ?Sized>(
    resource: &R,
    block: NonNull<u8>,
    from: Layout,
    to: Layout,
    fill: Fill,
) -> Result<NonNull<[u8]>, AllocError> {
    let moved = allocate_from(resource, to, fill)?;
    // SAFETY: both are live and at least as long as the smaller size, and the new one is apart.
    unsafe { copy(block, moved.cast(), from, to) };
    // SAFETY: the contract is this function's.
    unsafe { resource.deallocate(block, from) };
    Ok(moved)
}

/// Copies what a block that changes from one layout to the other keeps.
///
/// # Safety
/// 1. Both blocks have at least the bytes of the smaller layout, and do not overlap.
#[inline]
pub(super) unsafe fn copy(block: NonNull<u8>, moved: NonNull<u8>, from: Layout, to: Layout) {
    let kept_bytes = from.size().min(to.size());
    // SAFETY: (1).
    unsafe { moved.copy_from_nonoverlapping(block, kept_bytes) };
}
