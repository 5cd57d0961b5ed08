//! Clearing that the optimiser cannot remove.
//!
//! Memory that is cleared and then never read again is a dead store to the compiler. Here the
//! address escapes into an empty piece of assembly that may read all memory, so the zeros must have
//! been written before it. Where there is no inline assembly, the bytes are written one by one as
//! volatile. Inlined, so that the optimiser sees what the test has it see.
//!
//! *Concurrency*: the caller owns the bytes.
//!
//! *Neighbours*: stands on nothing; `zeroizing` calls it.

use core::ptr::NonNull;

/// Overwrites `bytes` bytes with zeros.
///
/// # Safety
/// 1. The bytes from `start` on may be written, and nobody else uses them.
#[cfg(all(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64"), not(miri)))]
#[inline]
pub(super) unsafe fn clear(start: NonNull<u8>, bytes: usize) {
    // SAFETY: (1).
    unsafe { start.write_bytes(0, bytes) };
    // SAFETY: the code is empty; without `nomem` the compiler takes it to read what `start` leads to.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) start.as_ptr(), options(nostack, preserves_flags));
    }
}

/// Overwrites `bytes` bytes with zeros.
///
/// # Safety
/// 1. The bytes from `start` on may be written, and nobody else uses them.
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64"),
    not(miri)
)))]
#[inline]
pub(super) unsafe fn clear(start: NonNull<u8>, bytes: usize) {
    for offset in 0..bytes {
        // SAFETY: (1): inside the bytes that may be written.
        let byte = unsafe { start.add(offset) };
        // SAFETY: as above.
        unsafe { byte.write_volatile(0) };
    }
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}
