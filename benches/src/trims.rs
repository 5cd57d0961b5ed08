//! Trims of the peers that have a call for it: what is free goes back to the system. The others have none, or one that
//! does nothing (rpmalloc), or one for their heaps alone (rusty_alloc).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

pub(crate) fn mimalloc() {
    // SAFETY: no precondition.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

pub(crate) fn glibc() {
    // SAFETY: no precondition.
    unsafe { libc::malloc_trim(0) };
}

/// Empties the thread's cache and purges all arenas: 4 096 stands for all of them (`MALLCTL_ARENAS_ALL`).
pub(crate) fn jemalloc() {
    command(c"thread.tcache.flush");
    command(c"arena.4096.purge");
}

fn command(name: &CStr) {
    let (none, no_length) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the name ends with a zero; these controls neither read nor write a value.
    let error = unsafe { _rjem_mallctl(name.as_ptr(), none, no_length, none, 0) };
    debug_assert_eq!(error, 0);
}

unsafe extern "C" {
    /// jemalloc's entrance for commands, under the prefix that the crate builds it with.
    fn _rjem_mallctl(
        name: *const c_char,
        old: *mut c_void,
        old_length: *mut usize,
        new: *mut c_void,
        new_length: usize,
    ) -> c_int;
}
