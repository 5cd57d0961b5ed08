//! `malloc`'s family of a heap that is named.
//!
//! What frees, resizes or measures takes blocks of that heap only: another's block is a fault.
//!
//! *Concurrency*: any thread.
//!
//! *Neighbours*: stands on `calls` and `handle`; C programs call it.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use crate::calls::{self, MALLOC_ALIGN};
use crate::handle::Handle;

/// Allocates `size` bytes in a heap.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_heap_malloc(heap: &Handle, size: usize) -> *mut c_void {
    calls::allocate(heap.heap(), size, MALLOC_ALIGN)
}

/// Allocates `count` times `size` bytes in a heap that read as zero.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_heap_calloc(heap: &Handle, count: usize, size: usize) -> *mut c_void {
    calls::allocate_zeroed(heap.heap(), count, size)
}

/// Allocates `size` bytes in a heap at a multiple of `align`, a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_heap_aligned_alloc(
    heap: &Handle,
    align: usize,
    size: usize,
) -> *mut c_void {
    calls::allocate_aligned(heap.heap(), align, size)
}

/// Allocates `size` bytes in a heap at a multiple of `align` and stores where; returns 0 or what went
/// wrong.
///
/// # Safety
/// 1. `result` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_heap_posix_memalign(
    heap: &Handle,
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    // SAFETY: (1) is this function's contract.
    unsafe { calls::allocate_into(heap.heap(), result, align, size) }
}

/// Makes a block of the heap `size` bytes long; null is a block yet to be made.
///
/// # Safety
/// 1. `block` is null, or the caller's live block of this heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_heap_realloc(
    heap: &Handle,
    block: *mut c_void,
    size: usize,
) -> *mut c_void {
    match NonNull::new(block.cast()) {
        // SAFETY: (1) is this function's contract.
        Some(block) => unsafe { calls::resize(heap.heap(), block, size) },
        None => polyheap_heap_malloc(heap, size),
    }
}

/// Makes a block of the heap `count` times `size` bytes long; null and ENOMEM when that overflows.
///
/// # Safety
/// 1. As [`polyheap_heap_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_heap_reallocarray(
    heap: &Handle,
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: (1) is this function's contract.
        Some(bytes) => unsafe { polyheap_heap_realloc(heap, block, bytes) },
        None => calls::denied(libc::ENOMEM),
    }
}

/// Frees a block of the heap; null is ignored.
///
/// # Safety
/// 1. `block` is null, or the caller's live block of this heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_heap_free(heap: &Handle, block: *mut c_void) {
    if let Some(block) = NonNull::new(block.cast()) {
        // SAFETY: (1) is this function's contract.
        unsafe { heap.heap().deallocate_unsized(block) };
    }
}

/// Returns the bytes of a block of the heap that may be used; 0 for everything else.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_heap_usable_size(heap: &Handle, block: *const c_void) -> usize {
    let block = NonNull::new(block.cast_mut().cast());
    block.and_then(|block| heap.heap().usable_size(block)).unwrap_or(0)
}
