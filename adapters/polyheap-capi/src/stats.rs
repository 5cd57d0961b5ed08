//! Statistics of a heap, as a struct that may grow and as JSON.
//!
//! *Concurrency*: any thread; a snapshot of a moving thing.
//!
//! *Neighbours*: stands on `handle` and `json`; C programs call it.

use core::ffi::{c_char, c_int};

use polyheap::HeapStats;

use crate::handle::Handle;
use crate::{json, text};

/// `polyheap_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Bytes of the struct as the program knows it; set by the program.
    pub size: usize,
    /// Bytes of live blocks, rounded up to their classes.
    pub live_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// The most bytes that were out of the slabs at once.
    pub peak_live_bytes: usize,
    /// Bytes the system may have to hold for the heap.
    pub held_bytes: usize,
    /// Bytes of free blocks in caches.
    pub cached_bytes: usize,
    /// Bytes of free blocks above 32 KiB in caches.
    pub kept_large_bytes: usize,
    /// Bytes of freed memory the system still holds.
    pub dirty_bytes: usize,
    /// Regions of 4 MiB of address space.
    pub regions: usize,
    /// Live blocks with a mapping of their own.
    pub mappings: usize,
    /// Threads bound to the heap.
    pub threads: usize,
    /// Requests refused by a limit.
    pub denied_by_limit: u64,
    /// Requests refused by the system.
    pub denied_by_system: u64,
}

impl Stats {
    fn of(stats: &HeapStats) -> Stats {
        Stats {
            size: size_of::<Stats>(),
            live_bytes: stats.live_bytes,
            live_blocks: stats.live_blocks,
            peak_live_bytes: stats.peak_live_bytes,
            held_bytes: stats.held_bytes,
            cached_bytes: stats.cached_bytes,
            kept_large_bytes: stats.kept_large_bytes,
            dirty_bytes: stats.dirty_bytes,
            regions: stats.regions,
            mappings: stats.mappings,
            threads: stats.threads,
            denied_by_limit: stats.denied_by_limit,
            denied_by_system: stats.denied_by_system,
        }
    }
}

/// Fills the struct as far as the program knows it; what it knows more becomes zero. Returns 0, or
/// EINVAL when the struct has no place for its first member.
///
/// # Safety
/// 1. `result` is valid for reads and writes of as many bytes as its first member says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_stats(heap: &Handle, result: *mut Stats) -> c_int {
    // SAFETY: (1) of this function's contract: the first member is there.
    let size = unsafe { (*result).size };
    if size < size_of::<usize>() {
        return libc::EINVAL;
    }
    let mut stats = Stats::of(&heap.heap().stats());
    stats.size = size;
    let known = size.min(size_of::<Stats>());
    let target: *mut u8 = result.cast();
    // SAFETY: both have that many bytes, by (1) and by the minimum, and do not overlap.
    unsafe { target.copy_from_nonoverlapping((&raw const stats).cast(), known) };
    // SAFETY: inside the struct or at its end.
    let rest = unsafe { target.add(known) };
    // SAFETY: (1) of this function's contract.
    unsafe { rest.write_bytes(0, size - known) };
    0
}

/// Writes the statistics as JSON, as `snprintf` writes: cut to `bytes` with the final zero; returns
/// the bytes of the whole text without it.
///
/// # Safety
/// 1. `buffer` is null or valid for writes of `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn polyheap_stats_json(
    heap: &Handle,
    buffer: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: (1) is this function's contract.
    let mut buffer = unsafe { text::Buffer::new(buffer, bytes) };
    let heap = heap.heap();
    let number = heap.id().map_or(0, |id| id.number());
    // Writing to a buffer never fails: it cuts.
    let _ = json::write(&mut buffer, heap.name(), number, &heap.stats());
    buffer.needed_bytes()
}
