//! What the operating system is asked for: chunks that stay in RAM, out of core dumps, and out of
//! forked processes.
//!
//! *Concurrency*: any thread; each call is about the caller's own pages.
//!
//! *Neighbours*: the only file that says `libc`; `arena` and `large` call it.

use core::ptr::NonNull;

/// What protects a region's memory beyond clearing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Protection(u8);

impl Protection {
    /// Nothing.
    pub(crate) const NONE: Protection = Protection(0);
    /// Kept in RAM.
    pub(crate) const LOCKED: Protection = Protection(1);
    /// Kept out of core dumps.
    pub(crate) const UNDUMPED: Protection = Protection(2);
    /// Zeros in a forked process.
    pub(crate) const WIPED_ON_FORK: Protection = Protection(4);

    /// Returns the protection of both.
    pub(crate) const fn and(self, other: Protection) -> Protection {
        Protection(self.0 | other.0)
    }

    /// Returns whether all of `other` is in this.
    pub(crate) const fn has(self, other: Protection) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether this is no protection at all.
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Returns the bytes of an OS page.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: no precondition.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Protects whole OS pages; false, and nothing changed, when the system refuses any part of it.
pub(crate) fn protect(start: NonNull<u8>, bytes: usize, protection: Protection) -> bool {
    let is_done = (!protection.has(Protection::LOCKED) || lock(start, bytes))
        && (!protection.has(Protection::UNDUMPED) || advise(start, bytes, advice::UNDUMPED))
        && (!protection.has(Protection::WIPED_ON_FORK) || advise(start, bytes, advice::WIPED));
    if !is_done {
        unprotect(start, bytes, protection);
    }
    is_done
}

/// Undoes [`protect`]; false when the pages are still wiped on fork and no one else may have them.
pub(crate) fn unprotect(start: NonNull<u8>, bytes: usize, protection: Protection) -> bool {
    if protection.has(Protection::LOCKED) {
        unlock(start, bytes);
    }
    // Pages that stay out of core dumps harm nobody.
    if protection.has(Protection::UNDUMPED) {
        advise(start, bytes, advice::DUMPED);
    }
    !protection.has(Protection::WIPED_ON_FORK) || advise(start, bytes, advice::KEPT)
}

fn lock(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: locking changes no contents; pages that are not mapped make it fail.
    unsafe { libc::mlock(start.as_ptr().cast(), bytes) == 0 }
}

fn unlock(start: NonNull<u8>, bytes: usize) {
    // SAFETY: as `lock`; when it fails the pages stay in RAM, which harms nobody.
    unsafe { libc::munlock(start.as_ptr().cast(), bytes) };
}

#[cfg(target_os = "linux")]
mod advice {
    pub(super) const UNDUMPED: Option<i32> = Some(libc::MADV_DONTDUMP);
    pub(super) const DUMPED: Option<i32> = Some(libc::MADV_DODUMP);
    pub(super) const WIPED: Option<i32> = Some(libc::MADV_WIPEONFORK);
    pub(super) const KEPT: Option<i32> = Some(libc::MADV_KEEPONFORK);
}

/// Elsewhere the system has no such advice, and a region that asks for it gets no memory.
#[cfg(not(target_os = "linux"))]
mod advice {
    pub(super) const UNDUMPED: Option<i32> = None;
    pub(super) const DUMPED: Option<i32> = None;
    pub(super) const WIPED: Option<i32> = None;
    pub(super) const KEPT: Option<i32> = None;
}

fn advise(start: NonNull<u8>, bytes: usize, advice: Option<i32>) -> bool {
    let Some(advice) = advice else { return false };
    // SAFETY: the four pieces of advice above change no contents in this process.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) == 0 }
}
