//! The fork handler of the process.
//!
//! It is registered by a constructor. A fork before that is one of a process with a single thread,
//! which needs no handler. Children's handlers run in the order of their registration, so this one
//! mostly runs before those of the program, which may allocate.
//!
//! *Concurrency*: the loader runs the constructor once.
//!
//! *Neighbours*: stands on `polyheap`; the loader and the C library call it.

/// The loader's entry for this library.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = register;

extern "C" fn register() {
    // Registering may allocate, which is served as always. Nothing to do before and in the parent:
    // there is no lock to take and to free again. Where the system refuses, children can allocate
    // all the same.
    // SAFETY: the handler is a function that may run in any child.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(enter_child)) };
}

unsafe extern "C" fn enter_child() {
    // SAFETY: (1) the C library calls this in the only thread of a forked child; no heap calls
    // code that forks, so the thread was in none.
    unsafe { polyheap::after_fork_in_child() };
}
