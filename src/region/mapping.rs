//! Mappings: blocks too large for a span, one system mapping each.
//!
//! A mapping starts at a multiple of 4 MiB, so that no region map entry is shared; the rest of its
//! last 4 MiB is address space nobody else maps entries for. Its length and its place in the
//! heap's roster lie in the region map; the mapping itself holds the caller's bytes only.
//!
//! *Invariants held here*: `[mapping-one-block]`.
//!
//! *Concurrency*: any thread; each call is one system call and a few stores to entries only this
//! mapping owns.
//!
//! *Neighbours*: stands on the region map and `os`; `heap::large` hands mappings out.

use core::ptr::NonNull;

use super::map::{self, Entry, EntryKind};
use crate::base::address;
use crate::config::REGION_BYTES;
use crate::os::{map_aligned, os_page_bytes, unmap};

/// Payload of the entry of nothing where a mapping was.
const WAS_MAPPING: u64 = 1;

/// Maps a zeroed block of at least `bytes` for the heap in `slot`; `place` is its roster place.
///
/// Returns the block and its length in bytes, or `None` when the system refuses.
pub(crate) fn map_block(
    slot: usize,
    bytes: usize,
    align: usize,
    place: impl FnOnce(usize) -> Option<usize>,
) -> Option<(NonNull<u8>, usize)> {
    let page = os_page_bytes();
    if bytes > isize::MAX as usize - page {
        return None;
    }
    let bytes = bytes.next_multiple_of(page);
    let block = map_aligned(bytes, align.max(REGION_BYTES))?;
    let base = address(block.as_ptr());
    let placed = if map::prepare(base, bytes) { place(base) } else { None };
    let Some(place) = placed else {
        // SAFETY: (1) the range was just mapped whole; (2) it was never published.
        unsafe { unmap(block, bytes) };
        return None;
    };
    map::set_length(base, bytes);
    for distance in 1..bytes.div_ceil(REGION_BYTES) {
        let entry = Entry::new(EntryKind::MappingTail, slot, distance as u64);
        map::set(base + distance * REGION_BYTES, entry);
    }
    map::set(base, Entry::new(EntryKind::Mapping, slot, place as u64));
    Some((block, bytes))
}

/// Gives a mapping back to the system.
///
/// # Safety
/// 1. `block` was returned by [`map_block`] and is used by nobody.
pub(crate) unsafe fn unmap_block(block: NonNull<u8>) {
    let base = address(block.as_ptr());
    let (bytes, slot) = (map::length(base), map::lookup(base).slot());
    // The first entry remembers whose it was, for the report of a second free.
    map::set(base, Entry::new(EntryKind::Nothing, slot, WAS_MAPPING));
    for distance in 1..bytes.div_ceil(REGION_BYTES) {
        map::set(base + distance * REGION_BYTES, Entry::new(EntryKind::Nothing, 0, 0));
    }
    // SAFETY: (1) the length is the one mapped, `[mapping-one-block]`; (2) nobody uses it.
    unsafe { unmap(block, bytes) };
}

/// Returns the address of the mapping that `address` lies in, by its entry. The last 4 MiB of a
/// mapping may be shared with mappings of others: what lies behind its end is not ours.
pub(crate) fn mapping_at(address: usize, entry: Entry) -> Option<usize> {
    let unit_base = crate::base::align_down(address, REGION_BYTES);
    let base = match entry.kind() {
        EntryKind::Mapping => unit_base,
        EntryKind::MappingTail => unit_base - entry.payload() as usize * REGION_BYTES,
        _ => return None,
    };
    (address - base < map::length(base)).then_some(base)
}

/// Returns whether a mapping of the heap in `slot` started at `address` and nothing else since.
pub(crate) fn was_mapping_of(address: usize, slot: usize) -> bool {
    let entry = map::lookup(address);
    crate::base::is_aligned(address, REGION_BYTES)
        && entry == Entry::new(EntryKind::Nothing, slot, WAS_MAPPING)
}

/// Returns the slot of the heap whose memory `address` points into, whatever address it is.
pub(crate) fn owner_slot(address: usize) -> Option<usize> {
    let entry = map::lookup(address);
    match entry.kind() {
        EntryKind::Region => Some(entry.slot()),
        _ => mapping_at(address, entry).map(|_| entry.slot()),
    }
}

/// Returns the bytes of the mapping at `base`.
pub(crate) fn mapping_bytes(base: usize) -> usize {
    map::length(base)
}
