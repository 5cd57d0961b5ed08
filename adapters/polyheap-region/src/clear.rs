//! Clearing that the optimiser cannot remove.
//!
//! Memory that is cleared and then never read again is a dead store to the compiler. Here the
//! address escapes into an empty piece of assembly that may read all memory, so the zeros must have
//! been written before it. Where there is no inline assembly, the bytes are written one by one as
//! volatile.
//!
//! The build setting `--cfg polyheap_region_no_clearing` leaves the clearing out. It exists for one
//! test, which must then find the secret; a feature would let a dependency switch it off.
//!
//! *Concurrency*: the caller owns the bytes.
//!
//! *Neighbours*: stands on nothing; `arena` calls it.

use core::ptr::NonNull;

/// Overwrites `bytes` bytes with zeros.
///
/// # Safety
/// 1. The bytes from `start` on may be written, and nobody else uses them.
#[inline(never)]
pub(crate) unsafe fn clear(start: NonNull<u8>, bytes: usize) {
    if !is_left_out() {
        // SAFETY: the caller's promise is the callee's.
        unsafe { write_zeros(start, bytes) };
    }
}

#[allow(unexpected_cfgs, reason = "the test's own setting, see the file's text")]
const fn is_left_out() -> bool {
    cfg!(polyheap_region_no_clearing)
}

/// # Safety
/// As [`clear`].
#[cfg(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64"))]
unsafe fn write_zeros(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise is the callee's.
    unsafe { start.write_bytes(0, bytes) };
    // SAFETY: the code is empty; without `nomem` the compiler takes it to read what `start` leads to.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) start.as_ptr(), options(nostack, preserves_flags));
    }
}

/// # Safety
/// As [`clear`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
unsafe fn write_zeros(start: NonNull<u8>, bytes: usize) {
    for offset in 0..bytes {
        // SAFETY: the caller's promise: inside the bytes that may be written.
        let byte = unsafe { start.add(offset) };
        // SAFETY: as above.
        unsafe { byte.write_volatile(0) };
    }
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}
