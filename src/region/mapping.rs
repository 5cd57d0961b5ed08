//! Mappings: blocks too large for a span, one system mapping each.
//!
//! A mapping starts at a multiple of 4 MiB, so that no region map entry is shared; the rest of its
//! last 4 MiB is address space nobody else maps entries for. Its length and its place in the
//! heap's roster lie in the region map; the mapping itself holds the caller's bytes only.
//!
//! ```text
//! Nothing ── map ──> live (Mapping) <── keep, wake ──> KeptMapping, in its heap's depot
//!    ^                     │                                │
//!    └────── unmap ────────┴──────────── retire ────────────┴──> CachedMapping, the process's
//! ```
//!
//! *Invariants held here*: `[mapping-one-block]`, `[mapping-one-owner]`.
//!
//! *Concurrency*: any thread; each call is at most some system calls and a few stores to entries
//! only this mapping's owner writes.
//!
//! *Neighbours*: stands on the region map, `mapping_depot` and `os`; `cache::large` hands mappings
//! out.

use core::ptr::NonNull;

use super::map::{self, Entry, EntryKind, MapLinks};
use super::mapping_depot::MappingDepot;
use super::source::Origin;
use crate::base::{MAPPING_CLASSES, SPAN_CLASSES, address, at_address, mapping_class};
use crate::config::{
    COLOUR_BYTES, PROCESS_MAPPING_BYTES_MAX, PROCESS_MAPPINGS_KEPT, REGION_BYTES, REGION_LOG2,
};
use crate::os::{
    Target, advise_huge_pages, discard, map_aligned, offer_leftovers, os_page_bytes, purge,
    remap_in_place, remap_to, unmap,
};
use crate::policy::HugePages;
use crate::sync::TaggedStack;

/// Payload of the entry of nothing where a mapping was.
const WAS_MAPPING: u64 = 1;

/// Mappings of dropped heaps, for the next ones.
static PROCESS: MappingDepot<MAPPING_CLASSES, PROCESS_MAPPINGS_KEPT> = MappingDepot::new();

/// Mappings the system did not take back. Their contents are dropped; they are offered again.
static LEFTOVERS: TaggedStack = TaggedStack::new();

/// Maps a zeroed block of at least `bytes` for the heap in `slot`; `place` returns its roster
/// place.
///
/// Returns the block and its length in bytes, or `None` when the system refuses.
pub(crate) fn map_block(
    slot: usize,
    bytes: usize,
    align: usize,
    huge_pages: HugePages,
    origin: Origin,
    place: impl FnOnce(usize) -> Option<usize>,
) -> Option<(NonNull<u8>, usize)> {
    let page = os_page_bytes();
    if bytes > isize::MAX as usize - page {
        return None;
    }
    let bytes = bytes.next_multiple_of(page);
    let block = origin.map(bytes, align.max(REGION_BYTES))?;
    let base = address(block.as_ptr());
    let is_clear = || origin.is_system() || map::cover(base);
    let placed = if map::prepare(base, bytes) && is_clear() { place(base) } else { None };
    let Some(place) = placed else {
        map::uncover(base);
        // SAFETY: (1) the range was just mapped whole; (2) it was never published.
        unsafe { origin.discard(block, bytes, align.max(REGION_BYTES)) };
        return None;
    };
    if origin.is_system() {
        advise_huge_pages(block, bytes, huge_pages);
    }
    map::set_length(base, bytes);
    set_tails(base, REGION_BYTES, bytes, EntryKind::MappingTail);
    map::set(base, Entry::new(EntryKind::Mapping, slot, place as u64));
    Some((block, bytes))
}

/// Tells the system the policy about huge pages for the mapping at `base`.
pub(crate) fn advise_mapping(base: usize, bytes: usize, policy: HugePages) {
    if let Some(block) = NonNull::new(at_address(base)) {
        advise_huge_pages(block, bytes, policy);
    }
}

/// Takes a mapping of `bytes` out of the process's cache for the heap in `slot`.
pub(crate) fn adopt_cached_mapping(
    slot: usize,
    bytes: usize,
    place: impl FnOnce(usize) -> Option<usize>,
) -> Option<NonNull<u8>> {
    let class = mapping_class(bytes)?;
    let base = PROCESS.load(class, bytes)?;
    match place(base) {
        Some(place) => {
            map::set(base, Entry::new(EntryKind::Mapping, slot, place as u64));
            NonNull::new(at_address(base))
        }
        None => {
            give_back(base, Origin::System);
            None
        }
    }
}

/// Returns the roster place that the first entry of a heap's mapping names.
pub(crate) fn mapping_place(head: Entry) -> usize {
    head.payload() as usize
}

/// Marks the live mapping at `base` as kept by its heap for all threads; returns whether it was
/// live: of two threads that give up the same mapping at once, one is told so.
pub(crate) fn set_mapping_kept(base: usize) -> bool {
    let head = map::lookup(base);
    let kept = Entry::new(EntryKind::KeptMapping, head.slot(), head.payload());
    head.kind() == EntryKind::Mapping && map::exchange(base, head, kept)
}

/// Marks the kept mapping at `base` as live.
pub(crate) fn set_mapping_live(base: usize) {
    let head = map::lookup(base);
    map::set(base, Entry::new(EntryKind::Mapping, head.slot(), head.payload()));
}

/// Takes a mapping its heap gives up: keeps it for the next heap if it `may_be_shared` and there
/// is place, gives it back to the system otherwise.
///
/// # Safety
/// 1. The mapping at `base` belongs to the caller's heap, comes from `origin`, is used by nobody and in
///    none of its tiers.
pub(crate) unsafe fn retire_mapping(base: usize, may_be_shared: bool, origin: Origin) {
    let bytes = map::length(base);
    if may_be_shared && let Some(class) = mapping_class(bytes) {
        let slot = map::lookup(base).slot();
        // Remembers whose it was, for the report of a second free.
        map::set(base, Entry::new(EntryKind::CachedMapping, slot, WAS_MAPPING));
        if PROCESS.store(class, base, bytes, PROCESS_MAPPING_BYTES_MAX) {
            return;
        }
    }
    give_back(base, origin);
    retry_leftover();
}

/// Unmaps the mappings the process keeps for the next heaps; returns their bytes.
pub(crate) fn drop_cached_mappings() -> usize {
    let mut dropped_bytes = 0;
    for class in 0..MAPPING_CLASSES {
        let bytes = crate::base::large_class_bytes(SPAN_CLASSES + class);
        while let Some(base) = PROCESS.load(class, bytes) {
            give_back(base, Origin::System);
            dropped_bytes += bytes;
        }
    }
    while retry_leftover() {}
    offer_leftovers();
    dropped_bytes
}

/// Returns the bytes of mappings the process keeps, a snapshot.
pub(crate) fn cached_mapping_bytes() -> usize {
    PROCESS.bytes()
}

/// Makes a mapping longer or shorter where it lies; returns whether the system agreed.
///
/// # Safety
/// 1. The mapping at `base` is the caller's; what lies behind `bytes` is used no more.
pub(crate) unsafe fn resize_mapping(base: usize, bytes: usize) -> bool {
    let old_bytes = map::length(base);
    if bytes <= old_bytes {
        // SAFETY: (1) of this function's contract.
        return unsafe { cut_mapping(base, old_bytes, bytes) };
    }
    if !map::prepare(base, bytes) || !remap_in_place(base, old_bytes, bytes) {
        return false;
    }
    set_tails(base, old_bytes.next_multiple_of(REGION_BYTES), bytes, EntryKind::MappingTail);
    map::set_length(base, bytes);
    true
}

/// # Safety
/// 1. As [`resize_mapping`].
unsafe fn cut_mapping(base: usize, old_bytes: usize, bytes: usize) -> bool {
    let Some(rest) = NonNull::new(at_address(base + bytes)) else { return false };
    // Before the system may hand the addresses to others.
    map::set_length(base, bytes);
    let first = bytes.next_multiple_of(REGION_BYTES);
    set_tails(base, first, old_bytes, EntryKind::Nothing);
    // SAFETY: (1) the rest of one mapping, whole pages; (2) used no more, by (1).
    if old_bytes == bytes || unsafe { unmap(rest, old_bytes - bytes) } {
        return true;
    }
    set_tails(base, first, old_bytes, EntryKind::MappingTail);
    map::set_length(base, old_bytes);
    false
}

/// Moves the pages of a mapping into a longer one of `bytes` bytes elsewhere, aligned to `align`
/// and its unit, without copying;
/// `None` when the system refuses, the mapping being as it was. `replace` is told the roster place
/// and the new address.
///
/// # Safety
/// 1. The mapping at `base` is the caller's, and nobody else uses its addresses.
pub(crate) unsafe fn move_mapping(
    base: usize,
    bytes: usize,
    align: usize,
    replace: impl FnOnce(usize, usize),
) -> Option<NonNull<u8>> {
    let (old_bytes, entry) = (map::length(base), map::lookup(base));
    let target = map_aligned(bytes, align.max(REGION_BYTES))?;
    let target_base = address(target.as_ptr());
    // Before the system may hand the addresses to others.
    set_tails(base, REGION_BYTES, old_bytes, EntryKind::Nothing);
    map::set(base, Entry::new(EntryKind::Nothing, entry.slot(), WAS_MAPPING));
    let became = match map::prepare(target_base, bytes) {
        true => remap_to(base, old_bytes, bytes, target_base),
        false => Target::AsItWas,
    };
    if became != Target::HasPages {
        set_tails(base, REGION_BYTES, old_bytes, EntryKind::MappingTail);
        map::set(base, entry);
        if became == Target::AsItWas {
            // SAFETY: (1) the range was just mapped whole and is so still; (2) never published.
            unsafe { discard(target, bytes) };
        }
        return None;
    }
    map::set_length(target_base, bytes);
    map::set_mapping_colour(target_base, map::mapping_colour(base));
    set_tails(target_base, REGION_BYTES, bytes, EntryKind::MappingTail);
    replace(mapping_place(entry), target_base);
    map::set(target_base, entry);
    Some(target)
}

/// Gives a mapping back to where it comes from, or puts it aside when the system does not take it;
/// returns whether it did.
fn give_back(base: usize, origin: Origin) -> bool {
    let (bytes, slot) = (map::length(base), map::lookup(base).slot());
    // The first entry remembers whose it was, for the report of a second free.
    map::set(base, Entry::new(EntryKind::Nothing, slot, WAS_MAPPING));
    let below = if map::uncover(base) { EntryKind::MappingTail } else { EntryKind::Nothing };
    set_tails(base, REGION_BYTES, bytes, below);
    let Some(block) = NonNull::new(at_address(base)) else { return false };
    // SAFETY: (1) the length is the one mapped, `[mapping-one-block]`; (2) nobody uses it.
    if !unsafe { origin.unmap(block, bytes, REGION_BYTES) } {
        // SAFETY: (1) and (2) as above.
        unsafe { purge(block, bytes) };
        LEFTOVERS.push((base >> REGION_LOG2) as u64, &MapLinks);
        return false;
    }
    true
}

/// Offers the system one mapping it did not take back before; returns whether there was one and
/// the system took it.
fn retry_leftover() -> bool {
    let Some(item) = LEFTOVERS.pop(&MapLinks) else { return false };
    give_back((item as usize) << REGION_LOG2, Origin::System)
}

/// Enters `kind` for the parts of the mapping at `base` from offset `from` to `to`, in bytes.
fn set_tails(base: usize, from: usize, to: usize, kind: EntryKind) {
    for distance in from / REGION_BYTES..to.div_ceil(REGION_BYTES) {
        let payload = if kind == EntryKind::Nothing { 0 } else { distance as u64 };
        map::set(base + distance * REGION_BYTES, Entry::new(kind, 0, payload));
    }
}

/// Returns the address and the first entry of the heap's mapping that `address` lies in, kept ones
/// included. The last 4 MiB of a mapping may be shared with mappings of others: what lies behind
/// its end is not ours.
pub(crate) fn mapping_at(address: usize, entry: Entry) -> Option<(usize, Entry)> {
    let unit_base = crate::base::align_down(address, REGION_BYTES);
    let (base, head) = match entry.kind() {
        EntryKind::Mapping | EntryKind::KeptMapping => (unit_base, entry),
        EntryKind::MappingTail => {
            let base = unit_base - entry.payload() as usize * REGION_BYTES;
            (base, map::lookup(base))
        }
        _ => return None,
    };
    let is_heaps = matches!(head.kind(), EntryKind::Mapping | EntryKind::KeptMapping);
    (is_heaps && address - base < map::length(base)).then_some((base, head))
}

/// Returns whether a mapping of the heap in `slot` started at `address`, or so little before it
/// that a block of it could start there, and nothing else lies there since.
pub(crate) fn was_mapping_of(address: usize, slot: usize) -> bool {
    let entry = map::lookup(address);
    let was = |kind| entry == Entry::new(kind, slot, WAS_MAPPING);
    address % REGION_BYTES < COLOUR_BYTES
        && (was(EntryKind::Nothing) || was(EntryKind::CachedMapping))
}

/// Returns the slot of the heap whose memory `address` points into, whatever address it is.
pub(crate) fn owner_slot(address: usize) -> Option<usize> {
    let entry = map::lookup(address);
    match entry.kind() {
        EntryKind::Region => Some(entry.slot()),
        _ => mapping_at(address, entry).map(|(_, head)| head.slot()),
    }
}

/// Returns the bytes of the mapping at `base`.
pub(crate) fn mapping_bytes(base: usize) -> usize {
    map::length(base)
}

/// Gives the mapping at `base` of the heap in `from_slot` to the heap in `slot`, whose roster lists it at
/// `place`.
pub(crate) fn relabel_mapping(base: usize, from_slot: usize, slot: usize, place: usize) {
    let head = map::listed_mapping(base, from_slot).head;
    map::set_listed_mapping(base, head, Entry::new(head.kind(), slot, place as u64));
}
