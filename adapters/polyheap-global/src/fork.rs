//! The fork handler of the process.
//!
//! It is registered by a constructor, when the program or library that contains this crate is
//! loaded. So no allocation has to ask whether it is, and the child's handler runs before those
//! that are registered later, which may allocate (children's handlers run in the order of their
//! registration).
//!
//! *Concurrency*: the loader runs the constructor once, before other code of the program. A fork
//! before that is one of a process with a single thread, which needs no handler.
//!
//! *Neighbours*: stands on `polyheap`; `global` and `redirect` link it.

/// Makes sure that a program with a global heap contains the constructor: a static that nobody
/// names may be left in the archive together with its object file.
pub(crate) const fn link() {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let _ = &CONSTRUCTOR;
}

/// The loader's entry for this crate.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static CONSTRUCTOR: extern "C" fn() = register;

#[cfg(any(target_os = "linux", target_os = "macos"))]
extern "C" fn register() {
    // Nothing to do before and in the parent: there is no lock to take and to free again. Where the
    // system refuses, children can allocate all the same.
    // SAFETY: the handler is a function that may run in any child.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(enter_child)) };
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
unsafe extern "C" fn enter_child() {
    // SAFETY: (1) the C library calls this in the only thread of a forked child; no heap calls
    // code that forks, so the thread was in none.
    unsafe { polyheap::after_fork_in_child() };
}
