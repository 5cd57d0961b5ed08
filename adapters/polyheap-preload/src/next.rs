//! The functions of the same names behind ours: the C library's, or those of a library preloaded
//! after this one.
//!
//! A block that is not the heap's was allocated by code that does not call ours: the loader's own
//! before it had found ours, or a library that brings its own. It is passed on. A function is
//! looked up when it is first needed; the look-up may allocate, which is served as always.
//!
//! *Concurrency*: any thread; two may look up the same function, with the same result.
//!
//! *Neighbours*: stands on the loader; `heap` and `operators` call it.

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function behind ours.
pub(crate) struct Next {
    name: &'static CStr,
    /// Its address once found. Relaxed: it is code, and publishes nothing.
    found: AtomicPtr<c_void>,
}

static FREE: Next = Next::new(c"free");
static REALLOC: Next = Next::new(c"realloc");
static USABLE_SIZE: Next = Next::new(c"malloc_usable_size");

type Free = unsafe extern "C" fn(*mut c_void);
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;

impl Next {
    /// Returns the function called `name` behind the one of this library.
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the function's address; `None` if there is none.
    pub(crate) fn find(&self) -> Option<NonNull<c_void>> {
        self.find_by(|name| {
            // SAFETY: the name ends with a zero byte.
            unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
        })
    }

    /// Returns the function's address, looked up by `look`; `None` if there is none.
    pub(crate) fn find_by(
        &self,
        look: impl FnOnce(&'static CStr) -> *mut c_void,
    ) -> Option<NonNull<c_void>> {
        let known = self.found.load(Ordering::Relaxed);
        NonNull::new(known).or_else(|| {
            let found = look(self.name);
            self.found.store(found, Ordering::Relaxed);
            NonNull::new(found)
        })
    }
}

/// Frees a block by the next `free`; returns false if there is none.
///
/// # Safety
/// 1. `block` is a live block of whoever serves the functions behind ours.
pub(crate) unsafe fn deallocate(block: NonNull<u8>) -> bool {
    let Some(found) = FREE.find() else { return false };
    // SAFETY: the function of that name has this signature.
    let free = unsafe { transmute::<*mut c_void, Free>(found.as_ptr()) };
    // SAFETY: (1) of this function's contract.
    unsafe { free(block.as_ptr().cast()) };
    true
}

/// Resizes a block by the next `realloc`; `None` if there is none.
///
/// # Safety
/// 1. As [`deallocate`].
pub(crate) unsafe fn resize(block: NonNull<u8>, bytes: usize) -> Option<*mut u8> {
    let found = REALLOC.find()?;
    // SAFETY: the function of that name has this signature.
    let realloc = unsafe { transmute::<*mut c_void, Realloc>(found.as_ptr()) };
    // SAFETY: (1) of this function's contract.
    Some(unsafe { realloc(block.as_ptr().cast(), bytes) }.cast())
}

/// Returns the usable bytes the next `malloc_usable_size` tells; 0 if there is none.
///
/// # Safety
/// 1. As [`deallocate`].
pub(crate) unsafe fn usable_bytes(block: NonNull<u8>) -> usize {
    let Some(found) = USABLE_SIZE.find() else { return 0 };
    // SAFETY: the function of that name has this signature.
    let usable_size = unsafe { transmute::<*mut c_void, UsableSize>(found.as_ptr()) };
    // SAFETY: (1) of this function's contract.
    unsafe { usable_size(block.as_ptr().cast()) }
}
