//! The calling thread's `errno`.
//!
//! *Concurrency*: thread-local.
//!
//! *Neighbours*: stands on `libc`.

use core::ffi::c_int;

/// Sets `errno`.
#[cold]
pub(crate) fn set(code: c_int) {
    // SAFETY: the C library's place for this thread is valid for a write.
    unsafe { *place() = code };
}

/// Calls `act` and leaves `errno` as it was.
pub(crate) fn keep<R>(act: impl FnOnce() -> R) -> R {
    // SAFETY: the C library's place for this thread is valid for a read.
    let before = unsafe { *place() };
    let result = act();
    // SAFETY: as above, for a write.
    unsafe { *place() = before };
    result
}

#[cfg(target_os = "macos")]
fn place() -> *mut c_int {
    // SAFETY: no preconditions.
    unsafe { libc::__error() }
}

#[cfg(not(target_os = "macos"))]
fn place() -> *mut c_int {
    // SAFETY: no preconditions.
    unsafe { libc::__errno_location() }
}
