//! `malloc` and its kin.
//!
//! The names are those of C, POSIX, glibc and musl, and glibc's second names, which wrappers of
//! `malloc` call. Where the standards leave a choice, the answer is glibc's: `realloc(block, 0)`
//! frees, `memalign` rounds an odd alignment up.
//!
//! The sizes given to sized frees are not looked at: C++ programs are often wrong about them (a
//! class deleted by its base), and the address tells.
//!
//! *Concurrency*: any thread.
//!
//! *Neighbours*: stands on `heap`; any program calls it.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use crate::heap::{
    ALIGN_BYTES, allocate, allocate_aligned, allocate_zeroed, deallocate, errno, out_of_memory,
    resize, set_errno, usable_bytes,
};

/// Exports functions, each under all of its names.
macro_rules! export {
    ($([$($name:ident),+] $arguments:tt -> $result:ty $body:block)*) => {$($(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name $arguments -> $result $body
    )+)*};
}

export! {
    [malloc, __libc_malloc] (bytes: usize) -> *mut c_void {
        allocate(bytes).cast()
    }

    [free, cfree, __libc_free, __libc_cfree] (block: *mut c_void) -> () {
        // SAFETY: (1) the caller's contract is that of `free`.
        unsafe { deallocate(block.cast()) };
    }

    [free_sized] (block: *mut c_void, _bytes: usize) -> () {
        // SAFETY: (1) the caller's contract is that of `free`.
        unsafe { deallocate(block.cast()) };
    }

    [free_aligned_sized] (block: *mut c_void, _align: usize, _bytes: usize) -> () {
        // SAFETY: (1) the caller's contract is that of `free`.
        unsafe { deallocate(block.cast()) };
    }

    [calloc, __libc_calloc] (count: usize, bytes: usize) -> *mut c_void {
        match count.checked_mul(bytes) {
            Some(bytes) => allocate_zeroed(bytes).cast(),
            None => out_of_memory().cast(),
        }
    }

    [realloc, __libc_realloc] (block: *mut c_void, bytes: usize) -> *mut c_void {
        // SAFETY: (1) the caller's contract is that of `realloc`.
        unsafe { resize_or_free(block, bytes) }
    }

    [reallocarray, __libc_reallocarray] (block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
        match count.checked_mul(bytes) {
            // SAFETY: (1) the caller's contract is that of `realloc`.
            Some(bytes) => unsafe { resize_or_free(block, bytes) },
            None => out_of_memory().cast(),
        }
    }

    [aligned_alloc] (align: usize, bytes: usize) -> *mut c_void {
        if !align.is_power_of_two() {
            set_errno(libc::EINVAL);
            return ptr::null_mut();
        }
        allocate_aligned(bytes, align).cast()
    }

    [memalign, __libc_memalign] (align: usize, bytes: usize) -> *mut c_void {
        match align.checked_next_power_of_two() {
            Some(align) => allocate_aligned(bytes, align).cast(),
            None => {
                set_errno(libc::EINVAL);
                ptr::null_mut()
            }
        }
    }

    [posix_memalign, __posix_memalign] (place: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
        if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
            return libc::EINVAL;
        }
        // The result says it all, errno is the caller's.
        let kept = errno();
        let block = allocate_aligned(bytes, align);
        if block.is_null() {
            set_errno(kept);
            return libc::ENOMEM;
        }
        // SAFETY: the caller's place takes a pointer.
        unsafe { *place = block.cast() };
        0
    }

    [valloc, __libc_valloc] (bytes: usize) -> *mut c_void {
        allocate_aligned(bytes, page_bytes()).cast()
    }

    [pvalloc, __libc_pvalloc] (bytes: usize) -> *mut c_void {
        match bytes.max(1).checked_next_multiple_of(page_bytes()) {
            Some(bytes) => allocate_aligned(bytes, page_bytes()).cast(),
            None => out_of_memory().cast(),
        }
    }

    [malloc_usable_size] (block: *mut c_void) -> usize {
        // SAFETY: (1) the caller's contract is that of `malloc_usable_size`.
        unsafe { usable_bytes(block.cast()) }
    }
}

/// What `realloc` does.
///
/// # Safety
/// 1. `block` is null or a live block and the caller's.
unsafe fn resize_or_free(block: *mut c_void, bytes: usize) -> *mut c_void {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return allocate(bytes).cast() };
    if bytes == 0 {
        // SAFETY: (1) of this function's contract.
        unsafe { deallocate(block.as_ptr()) };
        return ptr::null_mut();
    }
    // SAFETY: (1) of this function's contract.
    unsafe { resize(block, bytes) }.cast()
}

/// Returns the bytes of an OS page.
fn page_bytes() -> usize {
    // SAFETY: no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(ALIGN_BYTES)
}
