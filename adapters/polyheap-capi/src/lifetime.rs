//! Heaps: making and ending them, and what can be asked of and done to one.
//!
//! *Concurrency*: any thread. `polyheap_delete`, `polyheap_destroy`, `polyheap_visit_blocks` and
//! `polyheap_verify` want the heap for themselves: no other thread is in it, or frees a block of it,
//! meanwhile.
//!
//! *Neighbours*: stands on `handle`, `options` and `text`; C programs call it.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::num::NonZeroUsize;
use core::ptr::{self, NonNull};

use crate::handle::{DEFAULT, Handle, handle_at, list, unlist};
use crate::options::Options;
use crate::plain::{allocate_place, free_place};
use crate::{errno, text};

/// The version, as the header of the same package names it.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// What `polyheap_visit_blocks` calls: a block, its usable bytes, and the caller's word; a result
/// other than 0 ends the calls.
pub type Visitor = unsafe extern "C" fn(*mut c_void, usize, *mut c_void) -> c_int;

/// Returns the library's version.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Returns the default heap.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_default() -> *mut Handle {
    (&raw const DEFAULT).cast_mut()
}

/// Makes a heap with default options; null and ENOMEM when there is no memory or no place for it.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_new() -> *mut Handle {
    // SAFETY: null stands for the defaults.
    unsafe { polyheap_new_with(ptr::null()) }
}

/// Makes a heap; null and ENOMEM, or EINVAL for options that are not known.
///
/// # Safety
/// 1. `options` is null, or valid for reads of as many bytes as its first member says, and its name
///    is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_new_with(options: *const Options) -> *mut Handle {
    // SAFETY: (1) is this function's contract.
    let known = unsafe { Options::read(options) };
    // SAFETY: (1) of this function's contract.
    let Some(builder) = known.and_then(|options| unsafe { options.builder() }) else {
        errno::set(libc::EINVAL);
        return ptr::null_mut();
    };
    let heap = builder.build();
    let Ok(id) = heap.id() else {
        errno::set(libc::ENOMEM);
        return ptr::null_mut();
    };
    let Some(place) = allocate_place::<Handle>() else { return ptr::null_mut() };
    // SAFETY: the place is large and aligned enough, and this function's alone.
    unsafe { place.write(Handle::new(heap)) };
    list(id.number(), place);
    place.as_ptr()
}

/// Ends a heap; its live blocks belong to the default heap afterwards. Returns 0, or EINVAL for the
/// default heap, which stays. Null is ignored.
///
/// # Safety
/// 1. `heap` is null or a live heap, which is used no more, and by nobody meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_delete(heap: *mut Handle) -> c_int {
    // SAFETY: (1) is this function's contract.
    unsafe { end(heap, |ended| ended.into_heap().leak_into(DEFAULT.heap())) }
}

/// Ends a heap and all its blocks. Returns 0, or EINVAL for the default heap, which stays. Null is
/// ignored.
///
/// # Safety
/// 1. `heap` is null or a live heap, which is used no more, and neither are its blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_destroy(heap: *mut Handle) -> c_int {
    // SAFETY: (1) is this function's contract.
    unsafe { end(heap, |ended| drop(ended.into_heap())) }
}

/// Takes the heap out of its handle, ends it, and frees the handle. Keeps `errno`, as frees do.
///
/// # Safety
/// 1. As [`polyheap_delete`].
unsafe fn end(heap: *mut Handle, act: impl FnOnce(Handle)) -> c_int {
    let Some(place) = NonNull::new(heap) else { return 0 };
    // SAFETY: (1) of this function's contract.
    let handle = unsafe { place.as_ref() };
    if handle.is_default() {
        return libc::EINVAL;
    }
    errno::keep(|| {
        if let Ok(id) = handle.heap().id() {
            unlist(id.number());
        }
        // SAFETY: by (1) nobody uses the handle any more; its place is freed below, not dropped.
        act(unsafe { place.read() });
        // SAFETY: (1) every handle but the default one came from there.
        unsafe { free_place(place) };
    });
    0
}

/// Returns the heap that `pointer` points into; null when it was not made by this library.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_heap_of(pointer: *const c_void) -> *mut Handle {
    let pointer = NonNull::new(pointer.cast_mut().cast());
    pointer.and_then(handle_at).map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// Returns whether `pointer` points into memory of this heap.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_contains(heap: &Handle, pointer: *const c_void) -> bool {
    let pointer = NonNull::new(pointer.cast_mut().cast());
    pointer.is_some_and(|pointer| heap.heap().owns(pointer))
}

/// Gives memory without a live owner back to the system; returns the bytes.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_trim(heap: &Handle) -> usize {
    errno::keep(|| heap.heap().trim())
}

/// [`polyheap_trim`] of all heaps, and of what the process keeps between them.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_trim_all() -> usize {
    errno::keep(polyheap::trim_all)
}

/// Sets the most bytes the heap may hold, 0 for no limit; returns 0 or ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_set_limit(heap: &Handle, max_bytes: usize) -> c_int {
    let outcome = heap.heap().set_limit(NonZeroUsize::new(max_bytes));
    outcome.map_or(libc::ENOMEM, |()| 0)
}

/// Sets the bytes above which the heap gives back before it takes, 0 for no such limit; returns 0
/// or ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_set_soft_limit(heap: &Handle, max_bytes: usize) -> c_int {
    let outcome = heap.heap().set_soft_limit(NonZeroUsize::new(max_bytes));
    outcome.map_or(libc::ENOMEM, |()| 0)
}

/// Calls `visit` for every live block, in no particular order, until it returns something else than
/// 0; returns what it returned last.
///
/// # Safety
/// 1. No other thread uses the heap, and neither does `visit`.
/// 2. `visit` is a function that may be called so, and it does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_visit_blocks(
    heap: &Handle,
    visit: Option<Visitor>,
    argument: *mut c_void,
) -> c_int {
    let Some(visit) = visit else { return 0 };
    let mut outcome = 0;
    // SAFETY: (1) is this function's contract.
    unsafe { heap.exclusive() }.visit_blocks(|block| {
        if outcome == 0 {
            // SAFETY: (2) of this function's contract.
            outcome = unsafe { visit(block.pointer().as_ptr().cast(), block.bytes(), argument) };
        }
    });
    outcome
}

/// Checks every structure of the heap; returns 0 when all is well, else the bytes of a text that says
/// what is not, written as `snprintf` writes.
///
/// # Safety
/// 1. No other thread uses the heap.
/// 2. `buffer` is null or valid for writes of `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_verify(
    heap: &Handle,
    buffer: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: (1) by (2) of this function's contract.
    let mut buffer = unsafe { text::Buffer::new(buffer, bytes) };
    // SAFETY: (1) is this function's contract.
    if let Err(violation) = unsafe { heap.exclusive() }.verify() {
        // Writing to a buffer never fails: it cuts.
        let _ = write!(buffer, "{violation}");
    }
    buffer.needed_bytes()
}
