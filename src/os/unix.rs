//! The system contract on Linux and other Unix systems.
//!
//! Mappings are private and anonymous and count against nothing until touched
//! (`MAP_NORESERVE`). Alignment above an OS page is had by mapping more and cutting off both ends.
//!
//! *Concurrency*: every function may be called from any thread. None takes a lock of ours.
//!
//! *Neighbours*: stands on `libc`; called by the region room and by thread binding.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use crate::base::{address, align_up, at_address};
use crate::policy::HugePages;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

/// What runs when a thread that armed it ends; receives the argument given then.
pub(super) type ExitHook = unsafe extern "C" fn(*mut c_void);

/// Returns the bytes of an OS page of the running system.
#[inline]
pub(crate) fn os_page_bytes() -> usize {
    #[cfg(test)]
    if let Some(simulated) = super::refusals::simulated_page_bytes() {
        return simulated;
    }
    real_page_bytes()
}

fn real_page_bytes() -> usize {
    // Written once with the same value by whoever comes first; publishes nothing else.
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
    let known = PAGE_BYTES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: sysconf has no preconditions.
    let asked = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let bytes = usize::try_from(asked).unwrap_or(4096);
    PAGE_BYTES.store(bytes, Ordering::Relaxed);
    bytes
}

/// Maps `bytes` (whole OS pages) of zeroed memory at a multiple of `align`, a power of two.
///
/// Returns `None` when the system refuses. May call the OS up to three times.
pub(crate) fn map_aligned(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    // A test may simulate larger pages than the system's.
    let (align, page) = (align.max(os_page_bytes()), real_page_bytes());
    if align <= page {
        return map(bytes);
    }
    let wide_bytes = bytes.checked_add(align - page)?;
    let wide = map(wide_bytes)?;
    let start = address(wide.as_ptr());
    let head_bytes = align_up(start, align)? - start;
    let tail_bytes = wide_bytes - head_bytes - bytes;
    // SAFETY: `head_bytes` is below `wide_bytes`, so the result lies in the mapping.
    let base = unsafe { wide.add(head_bytes) };
    if head_bytes != 0 {
        // SAFETY: the head is a whole-page part of the mapping just made and nobody uses it.
        unsafe { discard(wide, head_bytes) };
    }
    if tail_bytes != 0 {
        // SAFETY: `bytes` is within the mapping after the head.
        let tail = unsafe { base.add(bytes) };
        // SAFETY: the tail is a whole-page part of the mapping just made and nobody uses it.
        unsafe { discard(tail, tail_bytes) };
    }
    Some(base)
}

/// Maps `bytes` of zeroed memory anywhere.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    if is_refused() {
        return None;
    }
    // SAFETY: an anonymous mapping without MAP_FIXED replaces nothing.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast()) }
}

/// Maps `bytes` of zeroed memory at `start`, where nothing is mapped; returns whether the system did so
/// just there.
pub(crate) fn map_here(start: NonNull<u8>, bytes: usize) -> bool {
    if is_refused() {
        return false;
    }
    // SAFETY: without MAP_FIXED the address is a wish, and the mapping replaces nothing.
    let base = unsafe {
        libc::mmap(
            start.as_ptr().cast(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    let Some(mapped) = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED) else {
        return false;
    };
    if mapped != start {
        // SAFETY: mapped just so, and nobody uses it.
        unsafe { discard(mapped, bytes) };
    }
    mapped == start
}

/// Gives the address range back to the system; returns whether the system took it. When it did
/// not, the range is as it was.
///
/// # Safety
/// 1. `[base, base + bytes)` is whole OS pages of mappings made by [`map_aligned`].
/// 2. Nobody uses the range any more, unless the system does not take it.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) -> bool {
    let _keep = KeepErrno::new();
    // SAFETY: (1) and (2) of this function's contract.
    !is_refused() && unsafe { libc::munmap(base.as_ptr().cast(), bytes) } == 0
}

/// Gives the address range back to the system. When the system does not take it, its contents are
/// dropped, and it is offered again by [`offer_leftovers`].
///
/// # Safety
/// 1. As [`unmap`].
/// 2. Nobody uses the range any more.
pub(crate) unsafe fn discard(base: NonNull<u8>, bytes: usize) {
    // SAFETY: (1) and (2) of this function's contract.
    if unsafe { unmap(base, bytes) } {
        return;
    }
    // SAFETY: the range is still mapped and unused, by the same contract.
    unsafe { purge(base, bytes) };
    for leftover in &LEFTOVERS {
        let is_mine = leftover.bytes.load(Ordering::Relaxed) == 0
            && leftover
                .bytes
                .compare_exchange(0, RESERVED, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine {
            leftover.base.store(base.as_ptr(), Ordering::Relaxed);
            // Release: the address is there before the length says so.
            return leftover.bytes.store(bytes, Ordering::Release);
        }
    }
}

/// Offers the system what it did not take when it was discarded.
pub(crate) fn offer_leftovers() {
    for leftover in &LEFTOVERS {
        // Acquire: pairs with the store of the length.
        let bytes = leftover.bytes.swap(RESERVED, Ordering::Acquire);
        if bytes == RESERVED {
            continue;
        }
        let base = NonNull::new(leftover.base.load(Ordering::Relaxed));
        let is_taken = match base {
            // SAFETY: (1), (2) a discarded range, taken out of the list by the exchange.
            Some(base) if bytes != 0 => unsafe { unmap(base, bytes) },
            _ => true,
        };
        leftover.bytes.store(if is_taken { 0 } else { bytes }, Ordering::Release);
    }
}

/// A range the system did not take.
struct Leftover {
    base: AtomicPtr<u8>,
    /// Bytes of the range; 0 for none, `RESERVED` while a thread works on the entry.
    bytes: AtomicUsize,
}

const RESERVED: usize = usize::MAX;

/// What is left over when the list is full stays mapped, empty, to the end of the process.
static LEFTOVERS: [Leftover; 256] =
    [const { Leftover { base: AtomicPtr::new(ptr::null_mut()), bytes: AtomicUsize::new(0) } }; 256];

/// Drops the contents of the range, which reads as zero afterwards; returns whether the system
/// did so. The range stays mapped.
///
/// # Safety
/// 1. `[base, base + bytes)` is whole OS pages of mappings made by [`map_aligned`].
/// 2. Nobody needs the contents.
pub(crate) unsafe fn purge(base: NonNull<u8>, bytes: usize) -> bool {
    let _keep = KeepErrno::new();
    // SAFETY: (1) and (2) of this function's contract.
    !is_refused() && unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// Tells the system what the policy says about huge pages in a range of whole pages. A system that
/// knows none refuses, and nothing is lost.
pub(crate) fn advise_huge_pages(base: NonNull<u8>, bytes: usize, policy: HugePages) {
    #[cfg(target_os = "linux")]
    {
        let advice = match policy {
            HugePages::System => return,
            HugePages::Always => libc::MADV_HUGEPAGE,
            HugePages::Never => libc::MADV_NOHUGEPAGE,
        };
        let _keep = KeepErrno::new();
        // SAFETY: the advice changes no contents, whatever is mapped there.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, advice) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (base, bytes, policy);
}

/// Makes the mapping at `base` longer where it lies; returns whether the system agreed.
pub(crate) fn remap_in_place(base: usize, old_bytes: usize, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        let start: *mut c_void = at_address(base);
        // SAFETY: without MREMAP_MAYMOVE the mapping stays where it is and only gains pages behind
        // its end, where nothing else is mapped.
        !is_refused() && unsafe { libc::mremap(start, old_bytes, bytes, 0) } == start
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (base, old_bytes, bytes);
        false
    }
}

/// What lies at the target of a remapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The pages.
    HasPages,
    /// What was mapped there before.
    AsItWas,
    /// Nothing, or what was there, or already something of another thread's.
    Unknown,
}

/// Moves the pages of the mapping at `base` to `target`, where `bytes` bytes of the caller's are
/// mapped; returns what became of the target. The pages are where they were unless they moved.
pub(crate) fn remap_to(base: usize, old_bytes: usize, bytes: usize, target: usize) -> Target {
    #[cfg(target_os = "linux")]
    {
        let (from, to): (*mut c_void, *mut c_void) = (at_address(base), at_address(target));
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if is_refused() {
            return Target::AsItWas;
        }
        // SAFETY: both ranges are the caller's alone: the first one's pages move, the second one's
        // are replaced.
        let moved = unsafe { libc::mremap(from, old_bytes, bytes, flags, to) };
        // The system clears the target before it moves anything.
        if moved == to { Target::HasPages } else { Target::Unknown }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (base, old_bytes, bytes, target);
        Target::AsItWas
    }
}

/// Returns the milliseconds of a clock that only goes forward, read cheaply and exact to a few.
#[inline]
pub(crate) fn ticks_ms() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    read_clock(CLOCK) / 1_000_000
}

/// Returns the nanoseconds of a clock that only goes forward.
pub(crate) fn ticks_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write; a monotonic clock exists on every system served.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns whether a test wants the system to refuse this call.
#[cfg(not(test))]
#[inline(always)]
fn is_refused() -> bool {
    false
}

#[cfg(test)]
use super::refusals::is_refused;

/// Lets another thread run; called in the few waits there are, after some spinning.
pub(crate) fn spin_wait(round: &mut u32) {
    *round += 1;
    if *round < 32 {
        core::hint::spin_loop();
    } else {
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
}

/// Arranges for `hook(argument)` to run when the calling thread ends; returns whether the system
/// agreed. One key serves the whole process, whatever the number of heaps and threads.
///
/// May allocate inside the C library on its first call in a thread, so the caller's own state
/// must allow an allocation to come in meanwhile.
pub(crate) fn arm_exit_hook(hook: ExitHook, argument: NonNull<u8>) -> bool {
    let Some(key) = exit_key(hook) else { return false };
    // SAFETY: the key was made by pthread_key_create and is never deleted.
    unsafe { libc::pthread_setspecific(key, argument.as_ptr().cast()) == 0 }
}

/// Returns the process's exit key, making it on the first call.
fn exit_key(hook: ExitHook) -> Option<libc::pthread_key_t> {
    // The key plus one; 0 until made. Written once by the winner of the exchange.
    static KEY: AtomicUsize = AtomicUsize::new(0);
    let known = KEY.load(Ordering::Relaxed);
    if known != 0 {
        return Some((known - 1) as libc::pthread_key_t);
    }
    let mut made: libc::pthread_key_t = 0;
    // SAFETY: `made` is valid for a write and `hook` is a function.
    if unsafe { libc::pthread_key_create(&raw mut made, Some(hook)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, made as usize + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Some(made),
        Err(winner) => {
            // SAFETY: this thread just made the key and no thread has set it.
            unsafe { libc::pthread_key_delete(made) };
            Some((winner - 1) as libc::pthread_key_t)
        }
    }
}

/// Restores `errno` when dropped: a free must not disturb the caller's error.
struct KeepErrno(i32);

impl KeepErrno {
    fn new() -> KeepErrno {
        // SAFETY: the C library returns a pointer to this thread's errno.
        KeepErrno(unsafe { *errno_place() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as in `new`; the place is this thread's own.
        unsafe { *errno_place() = self.0 };
    }
}

#[cfg(any(target_os = "linux", target_os = "emscripten"))]
fn errno_place() -> *mut i32 {
    // SAFETY: no preconditions.
    unsafe { libc::__errno_location() }
}

#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
fn errno_place() -> *mut i32 {
    // SAFETY: no preconditions.
    unsafe { libc::__error() }
}
