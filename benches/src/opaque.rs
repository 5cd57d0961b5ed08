//! Values the compiler knows nothing about, kept in a register.
//!
//! `std::hint::black_box` passes them through the stack. Two of them in one loop may share a stack slot, and then the
//! processor's forwarding from one to the other becomes part of what is measured.

/// Returns `value`, of which the compiler then knows nothing.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn opaque(mut value: usize) -> usize {
    // SAFETY: the code is empty.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

/// Returns `value`, of which the compiler then knows nothing; what it points to may have been read and written.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn opaque_pointer(mut value: *mut u8) -> *mut u8 {
    // SAFETY: the code is empty; without `nomem` the compiler assumes that it touches memory.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) value, options(nostack, preserves_flags)) };
    value
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use std::hint::{black_box as opaque, black_box as opaque_pointer};
