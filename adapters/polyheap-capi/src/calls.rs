//! The calls of `malloc`'s family in terms of a heap; `plain` and `named` give them their names.
//!
//! A size of zero asks for one byte, so that the block has an address of its own. A size above
//! `PTRDIFF_MAX` has no layout and is refused before anything is computed with it.
//!
//! *Concurrency*: any thread, as the heap.
//!
//! *Neighbours*: stands on `polyheap` and `errno`.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{AllocError, Allocator};

use crate::errno;

/// The alignment of every block, in bytes: enough for any type of C.
pub(crate) const MALLOC_ALIGN: usize = 16;

/// Returns the layout of a request; `None` when it is larger than any object can be, or when `align`
/// is no power of two.
#[inline]
pub(crate) fn layout(size: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(size.max(1), align).ok()
}

/// Allocates with an alignment that is a power of two; null and ENOMEM when there is no memory.
#[inline]
pub(crate) fn allocate(heap: &Heap, size: usize, align: usize) -> *mut c_void {
    match layout(size, align) {
        Some(layout) => granted(heap.allocate(layout)),
        None => denied(libc::ENOMEM),
    }
}

/// Allocates `count` times `size` bytes that read as zero.
#[inline]
pub(crate) fn allocate_zeroed(heap: &Heap, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size).and_then(|bytes| layout(bytes, MALLOC_ALIGN)) {
        Some(layout) => granted(heap.allocate_zeroed(layout)),
        None => denied(libc::ENOMEM),
    }
}

/// Allocates with any alignment; null and EINVAL when that is no power of two.
pub(crate) fn allocate_aligned(heap: &Heap, align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { allocate(heap, size, align) } else { denied(libc::EINVAL) }
}

/// `posix_memalign`: the outcome is returned, and `errno` as well as what `result` points to are
/// left alone unless it is 0.
///
/// # Safety
/// 1. `result` is valid for a write.
pub(crate) unsafe fn allocate_into(
    heap: &Heap,
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let block = errno::keep(|| allocate(heap, size, align));
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: (1) of this function's contract.
    unsafe { *result = block };
    0
}

/// Resizes a block of `heap`; null and ENOMEM when there is no memory, the block being as it was.
///
/// # Safety
/// 1. If a block of `heap` starts at `block`, it is the caller's, who gives it up for the result.
pub(crate) unsafe fn resize(heap: &Heap, block: NonNull<u8>, size: usize) -> *mut c_void {
    match layout(size, MALLOC_ALIGN) {
        // SAFETY: (1) is this function's contract.
        Some(layout) => granted(unsafe { heap.resize_unsized(block, layout) }),
        None => denied(libc::ENOMEM),
    }
}

/// Returns a block's address; null and ENOMEM when there is none.
#[inline]
fn granted(block: Result<NonNull<[u8]>, AllocError>) -> *mut c_void {
    match block {
        Ok(block) => block.as_ptr().cast(),
        Err(AllocError) => denied(libc::ENOMEM),
    }
}

/// Returns null and says why.
// Apart, so that the fast path is a leaf but for this.
#[cold]
#[inline(never)]
pub(crate) fn denied(code: c_int) -> *mut c_void {
    errno::set(code);
    ptr::null_mut()
}
