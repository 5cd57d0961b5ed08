//! `malloc`'s family over the default heap.
//!
//! What frees, resizes or measures takes blocks of every heap of the process: an address says which.
//!
//! *Concurrency*: any thread.
//!
//! *Neighbours*: stands on `calls`, `handle` and `policy`; C programs call it.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use polyheap::allocator_api2::alloc::Allocator;

use crate::calls::{self, MALLOC_ALIGN};
use crate::handle::{DEFAULT, handle_at};
use crate::policy;

/// Allocates `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_malloc(size: usize) -> *mut c_void {
    calls::allocate(DEFAULT.heap(), size, MALLOC_ALIGN)
}

/// Allocates `count` times `size` bytes that read as zero.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_calloc(count: usize, size: usize) -> *mut c_void {
    calls::allocate_zeroed(DEFAULT.heap(), count, size)
}

/// Allocates `size` bytes at a multiple of `align`, a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_aligned_alloc(align: usize, size: usize) -> *mut c_void {
    calls::allocate_aligned(DEFAULT.heap(), align, size)
}

/// Allocates `size` bytes at a multiple of `align` and stores where; returns 0 or what went wrong.
///
/// # Safety
/// 1. `result` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_posix_memalign(
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    // SAFETY: (1) is this function's contract.
    unsafe { calls::allocate_into(DEFAULT.heap(), result, align, size) }
}

/// Makes a block `size` bytes long, in the heap it is in; null is a block yet to be made.
///
/// # Safety
/// 1. `block` is null, or the caller's live block of any heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(block) = NonNull::new(block.cast()) else { return polyheap_malloc(size) };
    match handle_at(block) {
        Some(handle) => {
            // SAFETY: by (1) the block is live, and its heap with it.
            let handle = unsafe { handle.as_ref() };
            // SAFETY: (1) by (1) of this function's contract.
            unsafe { calls::resize(handle.heap(), block, size) }
        }
        // SAFETY: (1) by (1) of this function's contract.
        None => unsafe { resize_stranger(block, size) },
    }
}

/// Makes a block `count` times `size` bytes long; null and ENOMEM when that overflows.
///
/// # Safety
/// 1. As [`polyheap_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: (1) is this function's contract.
        Some(bytes) => unsafe { polyheap_realloc(block, bytes) },
        None => calls::denied(libc::ENOMEM),
    }
}

/// Frees a block of whichever heap; null is ignored.
///
/// # Safety
/// 1. `block` is null, or the caller's live block of any heap, which nobody deletes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_free(block: *mut c_void) {
    let Some(block) = NonNull::new(block.cast()) else { return };
    // SAFETY: (1) of this function's contract.
    if !unsafe { DEFAULT.heap().deallocate_if_owned(block) } {
        // SAFETY: (1) of this function's contract.
        unsafe { free_elsewhere(block) };
    }
}

/// Frees a block whose size the caller knows.
///
/// # Safety
/// 1. As [`polyheap_free`]; the block was asked for with `size` bytes, and no alignment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_free_sized(block: *mut c_void, size: usize) {
    policy::verify_size(block, size, MALLOC_ALIGN);
    // SAFETY: (1) is this function's contract.
    unsafe { polyheap_free(block) };
}

/// Frees a block whose alignment and size the caller knows.
///
/// # Safety
/// 1. As [`polyheap_free`]; the block was asked for with this alignment and `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_free_aligned_sized(
    block: *mut c_void,
    align: usize,
    size: usize,
) {
    policy::verify_size(block, size, align);
    // SAFETY: (1) is this function's contract.
    unsafe { polyheap_free(block) };
}

/// Returns the bytes of a block that may be used; 0 for null and for what is no block.
///
/// # Safety
/// 1. `block` is null, an address in no heap, or a live block of any heap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_usable_size(block: *const c_void) -> usize {
    let Some(block) = NonNull::new(block.cast_mut().cast()) else { return 0 };
    let own = DEFAULT.heap().usable_size(block);
    match own.or_else(|| polyheap::usable_size_anywhere(block)) {
        Some(bytes) => bytes,
        None if polyheap::heap_of(block).is_some() => 0,
        None => policy::foreign_usable_size(block),
    }
}

/// Returns whether `pointer` points into memory of any heap of the process.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_owns(pointer: *const c_void) -> bool {
    NonNull::new(pointer.cast_mut().cast())
        .is_some_and(|pointer| polyheap::heap_of(pointer).is_some())
}

/// Frees what is not of the default heap.
///
/// # Safety
/// 1. As [`polyheap_free`].
#[cold]
unsafe fn free_elsewhere(block: NonNull<u8>) {
    // SAFETY: (1) and (2) by this function's contract.
    if !unsafe { polyheap::deallocate_anywhere(block) } {
        // SAFETY: (1) the address is in no heap.
        unsafe { policy::free_foreign(block) };
    }
}

/// Resizes a block of a heap this library has no handle of: one that the program's Rust parts made.
///
/// # Safety
/// 1. As [`polyheap_realloc`].
#[cold]
unsafe fn resize_stranger(block: NonNull<u8>, size: usize) -> *mut c_void {
    let Some(usable_bytes) = polyheap::usable_size_anywhere(block) else {
        if polyheap::heap_of(block).is_some() {
            // SAFETY: no block starts there, so this reports the fault and aborts.
            unsafe { DEFAULT.heap().deallocate_unsized(block) };
        }
        // SAFETY: (1) the address is in no heap.
        return unsafe { policy::resize_foreign(block, size) };
    };
    let moved = polyheap_malloc(size);
    if let Some(target) = NonNull::new(moved.cast::<u8>()) {
        // SAFETY: both blocks have so many bytes, and a fresh block overlaps none.
        unsafe { target.copy_from_nonoverlapping(block, usable_bytes.min(size)) };
        // SAFETY: (1) and (2) by this function's contract.
        unsafe { free_elsewhere(block) };
    }
    moved
}

/// Allocates a place for a `T` in the default heap; `None` and ENOMEM when there is no memory.
pub(crate) fn allocate_place<T>() -> Option<NonNull<T>> {
    let block = calls::allocate(DEFAULT.heap(), size_of::<T>(), align_of::<T>());
    NonNull::new(block.cast())
}

/// Frees a place of [`allocate_place`].
///
/// # Safety
/// 1. The place came from there, and nothing uses it any more.
pub(crate) unsafe fn free_place<T>(place: NonNull<T>) {
    let layout = core::alloc::Layout::new::<T>();
    // SAFETY: by (1) the block is live and has this layout.
    unsafe { DEFAULT.heap().deallocate(place.cast(), layout) };
}
