//! Memory-mapped files, for the source of that name.
//!
//! *Concurrency*: any thread.
//!
//! *Neighbours*: stands on `libc` and `unix`; `heap::sources` maps through it.

use core::ptr::NonNull;
use std::fs::File;
use std::os::fd::AsRawFd;

use super::unix::{discard, map_aligned};

/// Maps `bytes` of `file` from `offset` on, shared, at a multiple of `align`; the file has so many.
pub(crate) fn map_file(
    file: &File,
    offset: u64,
    bytes: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    let offset = libc::off_t::try_from(offset).ok()?;
    let place = map_aligned(bytes, align)?;
    // SAFETY: MAP_FIXED replaces the mapping just made, which nobody uses.
    let base = unsafe {
        libc::mmap(
            place.as_ptr().cast(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            offset,
        )
    };
    if base == libc::MAP_FAILED {
        // SAFETY: (1) mapped just so; (2) nobody uses it.
        unsafe { discard(place, bytes) };
        return None;
    }
    Some(place)
}

/// Makes `file` long enough for `bytes` from `offset` on, and takes the blocks from the file system now, so
/// that a full one is met here and not at a write to memory; returns whether there are any.
pub(crate) fn reserve_in_file(file: &File, offset: u64, bytes: usize) -> bool {
    let range = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes));
    let (Ok(offset), Ok(bytes)) = range else { return false };
    // SAFETY: the call has no preconditions.
    #[cfg(not(target_os = "macos"))]
    let is_there = unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, bytes) == 0 };
    // SAFETY: the call has no preconditions.
    #[cfg(target_os = "macos")]
    let is_there = unsafe { libc::ftruncate(file.as_raw_fd(), offset + bytes) == 0 };
    is_there
}

/// Gives the blocks of a part of `file` back to the file system, after which it reads as zero; returns
/// whether the system did so.
pub(crate) fn punch_hole(file: &File, offset: u64, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        let range = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes));
        let (Ok(offset), Ok(bytes)) = range else { return false };
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the call has no preconditions.
        unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, offset, bytes);
        false
    }
}
