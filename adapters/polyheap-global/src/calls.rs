//! The calls of `GlobalAlloc` in terms of a heap.
//!
//! *Concurrency*: any thread, as the heap.
//!
//! *Neighbours*: stands on `polyheap`; both global allocators call it.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{AllocError, Allocator};

/// Allocates; null when there is no memory.
#[inline]
pub(crate) fn allocate(heap: &Heap, layout: Layout) -> *mut u8 {
    start_of(heap.allocate(layout))
}

/// Allocates a block that reads as zero; null when there is no memory.
#[inline]
pub(crate) fn allocate_zeroed(heap: &Heap, layout: Layout) -> *mut u8 {
    start_of(heap.allocate_zeroed(layout))
}

/// Resizes a block; null when there is no memory, the block being as it was.
///
/// # Safety
/// 1. `block` is a live block of `heap` that fits `from`.
#[inline]
pub(crate) unsafe fn resize(heap: &Heap, block: NonNull<u8>, from: Layout, size: usize) -> *mut u8 {
    let Ok(to) = Layout::from_size_align(size, from.align()) else { return ptr::null_mut() };
    start_of(match size >= from.size() {
        // SAFETY: (1) of this function's contract; the new size is not smaller.
        true => unsafe { heap.grow(block, from, to) },
        // SAFETY: (1) of this function's contract; the new size is not larger.
        false => unsafe { heap.shrink(block, from, to) },
    })
}

#[inline]
fn start_of(block: Result<NonNull<[u8]>, AllocError>) -> *mut u8 {
    block.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
}
