//! The region map: what lies at an address, for all 2^64 of them.
//!
//! ```text
//! address >> 22 ─┬─ high 13 bits ─> ROOT ─> leaf (mapped on demand, never unmapped)
//!                └─ low 13 bits  ─> entry { kind : 3 | slot : 16 | payload : 45 }
//! ```
//!
//! An entry names the owning heap's slot itself, so a look-up touches no memory that may be going
//! away. The payload is what the kind needs: a mapping's place in its heap's roster, the distance
//! back to a mapping's first entry, or the link of a cached region (`sync::Links`).
//!
//! *Invariants held here*: `[map-total]`, `[map-stays]`.
//!
//! *Concurrency*: entries are written by the owner of the address range (Release) and read by
//! anyone (Acquire). Leaves are installed by one exchange.
//!
//! *Neighbours*: stands on `os`; region cache, mappings and every check of a free ask it.

use core::ptr;

use crate::base::{Colour, at_address};
use crate::config::REGION_LOG2;
use crate::os::{discard, map_aligned, os_page_bytes};
use crate::sync::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Links, Ordering};

const LEAF_LOG2: u32 = 13;
const LEAF_ENTRIES: usize = 1 << LEAF_LOG2;
const ADDRESS_BITS: u32 = if usize::BITS < 48 { usize::BITS } else { 48 };
const ROOT_ENTRIES: usize = if ADDRESS_BITS > REGION_LOG2 + LEAF_LOG2 {
    1 << (ADDRESS_BITS - REGION_LOG2 - LEAF_LOG2)
} else {
    1
};

const KIND_BITS: u32 = 3;
const SLOT_BITS: u32 = 16;
const PAYLOAD_SHIFT: u32 = KIND_BITS + SLOT_BITS;

/// What lies at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// Nothing of ours.
    Nothing = 0,
    /// A region of the heap in `slot`.
    Region = 1,
    /// The first 4 MiB of a mapping of the heap in `slot`; the payload is its roster place.
    Mapping = 2,
    /// A further part of a mapping, live or not; the payload is the distance to the first, in
    /// entries. Its owner stands in the first entry.
    MappingTail = 3,
    /// A region between heaps, or a mapping the system did not take back; the payload is a link.
    Cached = 4,
    /// The first 4 MiB of a mapping that the heap in `slot` keeps; the payload as in `Mapping`.
    KeptMapping = 5,
    /// The first 4 MiB of a mapping between heaps; `slot` had it last.
    CachedMapping = 6,
    /// A region of the heap in `slot` whose header alone has memory: what lies behind it may be
    /// anybody's.
    HollowRegion = 7,
}

/// One word of the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(u64);

impl Entry {
    /// Returns an entry of these parts.
    pub(crate) fn new(kind: EntryKind, slot: usize, payload: u64) -> Entry {
        Entry(kind as u64 | (slot as u64) << KIND_BITS | payload << PAYLOAD_SHIFT)
    }

    /// Returns what lies there.
    pub(crate) fn kind(self) -> EntryKind {
        match self.0 & ((1 << KIND_BITS) - 1) {
            1 => EntryKind::Region,
            2 => EntryKind::Mapping,
            3 => EntryKind::MappingTail,
            4 => EntryKind::Cached,
            5 => EntryKind::KeptMapping,
            6 => EntryKind::CachedMapping,
            7 => EntryKind::HollowRegion,
            _ => EntryKind::Nothing,
        }
    }

    /// Returns the slot of the owning heap.
    pub(crate) fn slot(self) -> usize {
        (self.0 >> KIND_BITS) as usize & ((1 << SLOT_BITS) - 1)
    }

    /// Returns the kind's payload.
    pub(crate) fn payload(self) -> u64 {
        self.0 >> PAYLOAD_SHIFT
    }

    /// Returns whether this is a `kind` of the heap in `slot`, given as eight times the slot.
    #[inline(always)]
    pub(crate) fn is_kind_of(self, kind: EntryKind, eightfold_slot: usize) -> bool {
        const { assert!(KIND_BITS == 3, "the slot is given as it stands in an entry") };
        let mask = (1 << PAYLOAD_SHIFT) - 1;
        self.0 & mask == kind as u64 | eightfold_slot as u64
    }

    /// Returns whether this is a region of the heap in `slot`.
    #[inline]
    pub(crate) fn is_region_of(self, slot: usize) -> bool {
        self.0 == (EntryKind::Region as u64 | (slot as u64) << KIND_BITS)
    }
}

struct Leaf {
    /// Kind, owner and payload of each 4 MiB.
    entries: [AtomicU64; LEAF_ENTRIES],
    /// Bytes of the mapping that starts there. Written before its entry, read after.
    lengths: [AtomicUsize; LEAF_ENTRIES],
    /// Where in it the block starts. Written by the mapping's owner when it is handed out.
    colours: [AtomicU8; LEAF_ENTRIES],
    /// The entry of the mapping that another heap's region or mapping there was made of; 0 for none.
    /// Written by the owner of what was made of it.
    covered: [AtomicU64; LEAF_ENTRIES],
    /// Bytes of that mapping. Written before `covered`, read after.
    covered_lengths: [AtomicUsize; LEAF_ENTRIES],
}

static ROOT: [AtomicPtr<Leaf>; ROOT_ENTRIES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; ROOT_ENTRIES];

/// Returns what lies at `address`. Cost: two dependent loads, never a fault (`[map-total]`).
#[inline]
pub(crate) fn lookup(address: usize) -> Entry {
    let unit = address >> REGION_LOG2;
    match leaf_of(unit) {
        // Acquire: pairs with `set`, publishes the length and the header behind the entry.
        Some(leaf) => Entry(leaf.entries[unit % LEAF_ENTRIES].load(Ordering::Acquire)),
        None => Entry(0),
    }
}

/// Makes sure entries exist for `[base, base + bytes)`; returns whether they do.
pub(super) fn prepare(base: usize, bytes: usize) -> bool {
    let (first, last) = (base >> REGION_LOG2, (base + bytes - 1) >> REGION_LOG2);
    (first / LEAF_ENTRIES..=last / LEAF_ENTRIES).all(install_leaf)
}

/// Sets the entry of `address`, whose leaf exists.
pub(super) fn set(address: usize, entry: Entry) {
    let unit = address >> REGION_LOG2;
    if let Some(leaf) = leaf_of(unit) {
        leaf.entries[unit % LEAF_ENTRIES].store(entry.0, Ordering::Release);
    }
}

/// Replaces the entry of `address` if it is `from`; returns whether it was.
pub(super) fn exchange(address: usize, from: Entry, to: Entry) -> bool {
    let unit = address >> REGION_LOG2;
    leaf_of(unit).is_some_and(|leaf| {
        let place = &leaf.entries[unit % LEAF_ENTRIES];
        // AcqRel: as `set` and `lookup`.
        place.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })
}

/// Sets the bytes of the mapping at `address`, before its entry is set.
pub(super) fn set_length(address: usize, bytes: usize) {
    let unit = address >> REGION_LOG2;
    if let Some(leaf) = leaf_of(unit) {
        leaf.lengths[unit % LEAF_ENTRIES].store(bytes, Ordering::Relaxed);
    }
}

/// Returns the bytes of the mapping at `address`.
pub(super) fn length(address: usize) -> usize {
    let unit = address >> REGION_LOG2;
    leaf_of(unit).map_or(0, |leaf| leaf.lengths[unit % LEAF_ENTRIES].load(Ordering::Relaxed))
}

/// Returns where in the mapping at `address` its block starts.
#[inline]
pub(crate) fn mapping_colour(address: usize) -> Colour {
    let unit = address >> REGION_LOG2;
    let colour = |leaf: &Leaf| leaf.colours[unit % LEAF_ENTRIES].load(Ordering::Relaxed);
    leaf_of(unit).map_or(Colour::NONE, |leaf| Colour(colour(leaf).into()))
}

/// Records where in the mapping at `address` its block starts; the caller owns the mapping.
#[inline]
pub(crate) fn set_mapping_colour(address: usize, colour: Colour) {
    let unit = address >> REGION_LOG2;
    if let Some(leaf) = leaf_of(unit) {
        leaf.colours[unit % LEAF_ENTRIES].store(colour.0 as u8, Ordering::Relaxed);
    }
}

/// Puts the entry of `base` aside, if it is that of a mapping, because a heap that has it as its source
/// is about to enter its own. Returns false when that is no mapping, or one lies below already: heaps
/// are stacked two high.
pub(super) fn cover(base: usize) -> bool {
    let (entry, unit) = (lookup(base), base >> REGION_LOG2);
    let Some(leaf) = leaf_of(unit) else { return false };
    let covered = &leaf.covered[unit % LEAF_ENTRIES];
    match entry.kind() {
        EntryKind::Nothing => true,
        EntryKind::Mapping if covered.load(Ordering::Relaxed) == 0 => {
            leaf.covered_lengths[unit % LEAF_ENTRIES].store(length(base), Ordering::Relaxed);
            covered.store(entry.0, Ordering::Release);
            true
        }
        _ => false,
    }
}

/// Brings back what `cover` put aside; returns whether that was anything.
pub(super) fn uncover(base: usize) -> bool {
    let unit = base >> REGION_LOG2;
    let Some(leaf) = leaf_of(unit) else { return false };
    let entry = Entry(leaf.covered[unit % LEAF_ENTRIES].swap(0, Ordering::AcqRel));
    let was_covered = entry != Entry(0);
    if was_covered {
        set_length(base, leaf.covered_lengths[unit % LEAF_ENTRIES].load(Ordering::Relaxed));
        set_mapping_colour(base, Colour::NONE);
        set(base, entry);
    }
    was_covered
}

/// A mapping as its heap's roster lists it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedMapping {
    /// The entry.
    pub(crate) head: Entry,
    /// Bytes of the mapping.
    pub(crate) bytes: usize,
    /// Where its block starts.
    pub(crate) colour: Colour,
}

/// Returns what the roster of the heap in `slot` lists at `base`, whether or not another heap has its
/// memory there.
pub(crate) fn listed_mapping(base: usize, slot: usize) -> ListedMapping {
    let unit = base >> REGION_LOG2;
    let covered = |leaf: &Leaf| {
        let entry = Entry(leaf.covered[unit % LEAF_ENTRIES].load(Ordering::Acquire));
        (entry, leaf.covered_lengths[unit % LEAF_ENTRIES].load(Ordering::Relaxed))
    };
    match leaf_of(unit).map(covered) {
        Some((head, bytes)) if head != Entry(0) && head.slot() == slot => {
            ListedMapping { head, bytes, colour: Colour::NONE }
        }
        _ => {
            ListedMapping { head: lookup(base), bytes: length(base), colour: mapping_colour(base) }
        }
    }
}

/// Replaces an entry that `listed_mapping` returned.
pub(super) fn set_listed_mapping(base: usize, from: Entry, to: Entry) {
    let unit = base >> REGION_LOG2;
    let Some(leaf) = leaf_of(unit) else { return };
    let covered = &leaf.covered[unit % LEAF_ENTRIES];
    if covered.load(Ordering::Acquire) == from.0 {
        covered.store(to.0, Ordering::Release);
    } else {
        set(base, to);
    }
}

/// Notes that of the region at `base`, of the heap in `slot`, the header alone has memory.
pub(crate) fn set_hollow_region(base: usize, slot: usize) {
    set(base, Entry::new(EntryKind::HollowRegion, slot, 0));
}

/// Gives the region at `base` to the heap in `slot`.
pub(crate) fn relabel_region(base: usize, slot: usize) {
    set(base, Entry::new(EntryKind::Region, slot, 0));
}

/// The links of stacks of cached regions: the payloads of their entries.
#[derive(Debug)]
pub(super) struct MapLinks;

impl Links for MapLinks {
    fn below(&self, item: u64) -> u64 {
        lookup((item as usize) << REGION_LOG2).payload()
    }

    fn set_below(&self, item: u64, below: u64) {
        set((item as usize) << REGION_LOG2, Entry::new(EntryKind::Cached, 0, below));
    }
}

#[inline]
fn leaf_of(unit: usize) -> Option<&'static Leaf> {
    // Acquire: pairs with the installation, publishes the zeroed leaf.
    let leaf = ROOT.get(unit / LEAF_ENTRIES)?.load(Ordering::Acquire);
    // SAFETY: [map-stays] a leaf once installed is mapped for ever and consists of atomics.
    unsafe { leaf.as_ref() }
}

fn install_leaf(root_index: usize) -> bool {
    let Some(place) = ROOT.get(root_index) else { return false };
    if !place.load(Ordering::Acquire).is_null() {
        return true;
    }
    let bytes = size_of::<Leaf>().next_multiple_of(os_page_bytes());
    let Some(made) = map_aligned(bytes, os_page_bytes()) else { return false };
    let leaf: *mut Leaf = at_address(crate::base::address(made.as_ptr()));
    // AcqRel: publishes the zeroed leaf, or sees the winner's.
    let won = place.compare_exchange(ptr::null_mut(), leaf, Ordering::AcqRel, Ordering::Acquire);
    if won.is_err() {
        // SAFETY: (1) this thread mapped the range whole; (2) it was never published.
        unsafe { discard(made, bytes) };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::REGION_BYTES;

    #[test]
    fn every_address_has_an_answer() {
        for address in [0, 1, REGION_BYTES, usize::MAX, usize::MAX / 2, 1 << 47, (1 << 48) - 1] {
            assert_eq!(lookup(address).kind(), EntryKind::Nothing);
        }
    }

    #[test]
    fn parts_of_an_entry_come_back() {
        let entry = Entry::new(EntryKind::MappingTail, 65_535, (1 << 44) + 9);
        assert_eq!(entry.kind(), EntryKind::MappingTail);
        assert_eq!(entry.slot(), 65_535);
        assert_eq!(entry.payload(), (1 << 44) + 9);
        assert!(Entry::new(EntryKind::Region, 7, 0).is_region_of(7));
        assert!(!entry.is_region_of(65_535));
    }
}
