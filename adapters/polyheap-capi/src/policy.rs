//! Policies of the process: foreign pointers, sizes given at free, and what runs at a fault.
//!
//! *Concurrency*: each policy is one atomic word that publishes nothing else.
//!
//! *Neighbours*: stands on `polyheap` and the C library; `plain` asks it off its fast path.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use polyheap::{Fault, set_fault_handler};

use crate::calls;
use crate::handle::DEFAULT;
use crate::text::Line;

/// A foreign pointer is a fault: the process says so and aborts. The default.
pub const FOREIGN_FAULT: c_int = 0;
/// A foreign pointer goes to the C library's function of the same kind.
pub const FOREIGN_LIBC: c_int = 1;

/// Whether foreign pointers go to the C library.
static PASSES_ON: AtomicBool = AtomicBool::new(false);
/// Whether sizes given at free are verified.
static VERIFIES_SIZES: AtomicBool = AtomicBool::new(cfg!(debug_assertions));
/// The C program's fault handler, null for none.
static HANDLER: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// What a C program wants called at a fault: a line without an end, and the address concerned.
pub type FaultHandler = unsafe extern "C" fn(line: *const c_char, address: *const c_void);

/// Sets what becomes of pointers that no heap of the process has; returns 0, or EINVAL for a policy
/// that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_set_foreign_policy(policy: c_int) -> c_int {
    if policy != FOREIGN_FAULT && policy != FOREIGN_LIBC {
        return libc::EINVAL;
    }
    PASSES_ON.store(policy == FOREIGN_LIBC, Ordering::Relaxed);
    0
}

/// Sets whether sizes and alignments given at free are compared with the block's.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_set_size_checks(is_on: bool) {
    VERIFIES_SIZES.store(is_on, Ordering::Relaxed);
}

/// Sets what runs before the process aborts at a fault, instead of a line on standard error; null
/// brings the line back.
#[unsafe(no_mangle)]
pub extern "C" fn polyheap_set_fault_handler(handler: Option<FaultHandler>) {
    let word = handler.map_or(core::ptr::null_mut(), |function| function as *mut c_void);
    // Release: the handler is there when the core's comes to it.
    HANDLER.store(word, Ordering::Release);
    set_fault_handler(handler.map(|_| tell as polyheap::FaultHandler));
}

/// Hands a fault to the C program's handler.
fn tell(fault: &Fault<'_>) {
    let mut line = Line::new();
    // Writing to a line never fails: it cuts.
    let _ = write!(line, "polyheap: {fault}");
    let word = HANDLER.load(Ordering::Acquire);
    if word.is_null() {
        return;
    }
    // SAFETY: a word that is not null was a `FaultHandler` when it was stored.
    let handler = unsafe { core::mem::transmute::<*mut c_void, FaultHandler>(word) };
    // SAFETY: the program promised a function that may be called so; the line ends with a zero.
    unsafe { handler(line.as_c_str(), core::ptr::without_provenance(fault.address())) };
}

/// Verifies what a sized free says about its block, if that is wished: another size class is a fault.
#[inline]
pub(crate) fn verify_size(block: *mut c_void, size: usize, align: usize) {
    if VERIFIES_SIZES.load(Ordering::Relaxed)
        && let Some(block) = NonNull::new(block.cast::<u8>())
    {
        verify_size_now(block, size, align);
    }
}

#[cold]
fn verify_size_now(block: NonNull<u8>, size: usize, align: usize) {
    if let Some(layout) = calls::layout(size, align.max(1)) {
        // An address in no heap is none of this check's.
        let _ = polyheap::verify_layout_anywhere(block, layout);
    }
}

/// Frees a pointer that is in no heap, or reports it.
///
/// # Safety
/// 1. `block` lies in no heap, and is the caller's to free.
pub(crate) unsafe fn free_foreign(block: NonNull<u8>) {
    if PASSES_ON.load(Ordering::Relaxed) {
        // SAFETY: (1) of this function's contract: it can only be the C library's.
        return unsafe { libc::free(block.as_ptr().cast()) };
    }
    report(block);
}

/// Resizes a pointer that is in no heap, or reports it.
///
/// # Safety
/// 1. `block` lies in no heap, and is the caller's.
pub(crate) unsafe fn resize_foreign(block: NonNull<u8>, size: usize) -> *mut c_void {
    if PASSES_ON.load(Ordering::Relaxed) {
        // Not zero bytes, which the C library takes for a free.
        // SAFETY: (1) of this function's contract: it can only be the C library's.
        return unsafe { libc::realloc(block.as_ptr().cast(), size.max(1)) };
    }
    report(block)
}

/// Returns the usable bytes of a pointer that is in no heap: 0 unless the C library may be asked.
pub(crate) fn foreign_usable_size(block: NonNull<u8>) -> usize {
    #[cfg(target_os = "linux")]
    if PASSES_ON.load(Ordering::Relaxed) {
        // SAFETY: it lies in no heap, so by the caller's contract it is the C library's.
        return unsafe { libc::malloc_usable_size(block.as_ptr().cast()) };
    }
    let _ = block;
    0
}

/// Reports a foreign pointer and aborts.
#[cold]
fn report(block: NonNull<u8>) -> ! {
    // SAFETY: (1) no block of the heap starts there.
    unsafe { DEFAULT.heap().deallocate_unsized(block) };
    // The heap got the address meanwhile: a race of the program's.
    std::process::abort()
}
