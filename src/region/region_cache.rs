//! The process's regions between heaps.
//!
//! Two stacks: *warm* regions keep their contents for the next heap, up to a count and a sum of
//! resident bytes; *cold* ones have been purged, or never touched, and are kept up to a count; what
//! exceeds that is given back. When both are empty the system is asked for [`RESERVE_REGIONS`] at
//! once, or for a single one where address space is short. An isolated heap's regions are mapped
//! for it alone and unmapped after it.
//!
//! *Invariants held here*: `[region-one-heap]`.
//!
//! *Concurrency*: any thread, lock-free. The sums are hints kept with relaxed counters.
//!
//! *Neighbours*: stands on the region map (links) and `os`; heaps acquire and release through it.

use core::ptr::NonNull;

use super::header::RegionRef;
use super::map::{self, Entry, EntryKind, MapLinks};
use super::source::Origin;
use crate::base::{address, at_address};
use crate::config::{
    CHUNK_BYTES, COLD_REGIONS_MAX, REGION_BYTES, REGION_LOG2, RESERVE_REGIONS, WARM_BYTES_MAX,
    WARM_REGIONS_MAX,
};
use crate::os::{advise_huge_pages, discard, purge};
use crate::policy::HugePages;
use crate::sync::{AtomicUsize, Ordering, TaggedStack};

static WARM: TaggedStack = TaggedStack::new();
static COLD: TaggedStack = TaggedStack::new();

/// Regions in `COLD`, a hint; those it never holds are given back to the system.
static COLD_REGIONS: AtomicUsize = AtomicUsize::new(0);

/// Regions in `WARM`, and the bytes they hold. Raised before a push, lowered after a pop.
static WARM_REGIONS: AtomicUsize = AtomicUsize::new(0);
static WARM_BYTES: AtomicUsize = AtomicUsize::new(0);

/// What a heap shares with heaps before and after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Sharing {
    /// Its regions come from the system and go back to it.
    Nothing,
    /// They come from the process's cache and go there, without their contents.
    Addresses,
    /// They come from there and go there as they are.
    Contents,
}

/// Takes a region for the heap in `slot` and makes it fresh, numbered `index`.
///
/// Returns `None` when the system or the source refuses. Lock-free; may call either.
pub(crate) fn acquire_region(
    slot: usize,
    index: u32,
    sharing: Sharing,
    origin: Origin,
) -> Option<RegionRef> {
    let item = match sharing {
        Sharing::Nothing => reserve_regions(1, origin)?,
        Sharing::Addresses => pop_cold().map_or_else(reserve, Some)?,
        Sharing::Contents => {
            let warm = pop_warm().map(|(item, _)| item);
            warm.or_else(pop_cold).map_or_else(reserve, Some)?
        }
    };
    // SAFETY: items of the stacks are mapped regions that no heap owns; this one is now ours.
    let region = unsafe { RegionRef::at((item as usize) << REGION_LOG2) };
    // SAFETY: [region-one-heap] the region was taken off a stack, so nobody else uses it.
    unsafe { region.initialise(index) };
    map::set(region.base(), Entry::new(EntryKind::Region, slot, 0));
    Some(region)
}

/// Takes a region back from a heap that is going away.
///
/// # Safety
/// 1. No block, thread or structure of the heap uses the region any more.
pub(crate) unsafe fn release_region(region: RegionRef, sharing: Sharing, origin: Origin) {
    if region.is_hollow() {
        let base = region.base();
        map::set(base, Entry::new(EntryKind::Nothing, 0, 0));
        if let Some(start) = NonNull::new(at_address(base)) {
            // SAFETY: (1) the header is what the system mapped of it still; (2) by this function's (1).
            unsafe { discard(start, CHUNK_BYTES) };
        }
        return;
    }
    match sharing {
        Sharing::Contents => {}
        Sharing::Addresses => {
            // SAFETY: (1) by this function's contract.
            unsafe { release_cold(region) };
            return;
        }
        Sharing::Nothing => {
            // SAFETY: (1) by this function's contract.
            unsafe { give_back(region, origin) };
            return;
        }
    }
    let item = (region.base() >> REGION_LOG2) as u64;
    let bytes = region.resident_bytes();
    let warm_bytes = WARM_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    let warm_regions = WARM_REGIONS.fetch_add(1, Ordering::Relaxed) + 1;
    if warm_bytes <= WARM_BYTES_MAX && warm_regions <= WARM_REGIONS_MAX {
        return WARM.push(item, &MapLinks);
    }
    WARM_BYTES.fetch_sub(bytes, Ordering::Relaxed);
    WARM_REGIONS.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: (1) by this function's contract.
    unsafe { release_cold(region) };
}

/// Purges a region and keeps it as a cold one, or as a warm one when the system refuses; returns
/// whether it was purged.
///
/// # Safety
/// 1. Nobody uses the region.
unsafe fn release_cold(region: RegionRef) -> bool {
    let item = (region.base() >> REGION_LOG2) as u64;
    // SAFETY: (1) of this function's contract.
    let is_purged = unsafe { purge_whole(region) };
    if is_purged {
        if COLD_REGIONS.load(Ordering::Relaxed) < COLD_REGIONS_MAX {
            push_cold(item);
        } else {
            // SAFETY: (1) of this function's contract; what is shared is the system's.
            unsafe { give_back(region, Origin::System) };
        }
    } else {
        WARM_BYTES.fetch_add(region.resident_bytes(), Ordering::Relaxed);
        WARM_REGIONS.fetch_add(1, Ordering::Relaxed);
        WARM.push(item, &MapLinks);
    }
    is_purged
}

/// Unmaps a region, or keeps it as a cold one when the system does not take it.
///
/// # Safety
/// 1. Nobody uses the region, which comes from `origin`.
unsafe fn give_back(region: RegionRef, origin: Origin) {
    let base = region.base();
    // Before the system may hand the addresses to others.
    map::set(base, Entry::new(EntryKind::Nothing, 0, 0));
    map::uncover(base);
    let Some(start) = NonNull::new(at_address(base)) else { return };
    // SAFETY: (1) a region mapped there, whole; (2) nobody uses it.
    if !unsafe { origin.unmap(start, REGION_BYTES, REGION_BYTES) } {
        // SAFETY: (1) as above.
        unsafe { purge_whole(region) };
        push_cold((base >> REGION_LOG2) as u64);
    }
}

/// Gives the address space of all cold regions back; returns whether there were any.
pub(crate) fn release_cold_regions() -> bool {
    let regions = COLD_REGIONS.load(Ordering::Relaxed);
    // No more than there are now: what the system does not take comes back.
    for _ in 0..regions {
        let Some(item) = pop_cold() else { break };
        // SAFETY: items of the stack are mapped regions; this one is now ours.
        let region = unsafe { RegionRef::at((item as usize) << REGION_LOG2) };
        // SAFETY: (1) the region was taken off a stack, so nobody uses it; it is the system's.
        unsafe { give_back(region, Origin::System) };
    }
    regions != 0
}

fn push_cold(item: u64) {
    COLD_REGIONS.fetch_add(1, Ordering::Relaxed);
    COLD.push(item, &MapLinks);
}

fn pop_cold() -> Option<u64> {
    let item = COLD.pop(&MapLinks)?;
    COLD_REGIONS.fetch_sub(1, Ordering::Relaxed);
    Some(item)
}

/// Returns the bytes of warm regions and the number of cold ones, a snapshot.
pub(crate) fn cached_regions() -> (usize, usize) {
    (WARM_BYTES.load(Ordering::Relaxed), COLD_REGIONS.load(Ordering::Relaxed))
}

/// Drops the contents of all warm regions; returns their bytes.
pub(crate) fn purge_warm_regions() -> usize {
    let mut purged_bytes = 0;
    // No more than there are now: what the system refuses to purge comes back.
    for _ in 0..WARM_REGIONS.load(Ordering::Relaxed) {
        let Some((item, bytes)) = pop_warm() else { break };
        // SAFETY: items of the stack are mapped regions; this one is now ours.
        let region = unsafe { RegionRef::at((item as usize) << REGION_LOG2) };
        // SAFETY: (1) the region was taken off a stack, so nobody uses it.
        if unsafe { release_cold(region) } {
            purged_bytes += bytes;
        }
    }
    purged_bytes
}

/// Takes a warm region and its resident bytes.
fn pop_warm() -> Option<(u64, usize)> {
    let item = WARM.pop(&MapLinks)?;
    // SAFETY: items of the stack are mapped regions; this one is now ours.
    let region = unsafe { RegionRef::at((item as usize) << REGION_LOG2) };
    let bytes = region.resident_bytes();
    WARM_BYTES.fetch_sub(bytes, Ordering::Relaxed);
    WARM_REGIONS.fetch_sub(1, Ordering::Relaxed);
    Some((item, bytes))
}

/// Drops the contents of a whole region with one call, up to the last chunk that was reached.
///
/// # Safety
/// 1. Nobody uses the region.
unsafe fn purge_whole(region: RegionRef) -> bool {
    let bytes = region.chunk_base(region.highest_reached() + 1) - region.base();
    let Some(base) = NonNull::new(at_address(region.base())) else { return false };
    // SAFETY: (1) whole chunks of a region the system mapped; (2) nobody needs them.
    unsafe { purge(base, bytes) }
}

/// Maps regions, keeps all but the first as cold ones, and returns the first.
#[cold]
fn reserve() -> Option<u64> {
    let reserve = |regions| reserve_regions(regions, Origin::System);
    reserve(RESERVE_REGIONS).or_else(|| reserve(1))
}

fn reserve_regions(regions: usize, origin: Origin) -> Option<u64> {
    let bytes = regions * REGION_BYTES;
    let base = origin.map(bytes, REGION_BYTES)?;
    let start = address(base.as_ptr());
    let is_clear = |origin: Origin| origin.is_system() || map::cover(start);
    if !map::prepare(start, bytes) || !is_clear(origin) {
        // SAFETY: (1) the range was just mapped whole; (2) it was never published.
        unsafe { origin.discard(base, bytes, REGION_BYTES) };
        return None;
    }
    if origin.is_system() {
        // A heap with one block would take 2 MiB otherwise, where the system's setting is "always".
        advise_huge_pages(base, bytes, HugePages::Never);
    }
    let first = (start >> REGION_LOG2) as u64;
    for item in (1..regions as u64).rev() {
        push_cold(first + item);
    }
    Some(first)
}
