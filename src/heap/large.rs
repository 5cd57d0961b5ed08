//! Blocks above the slab classes: spans of chunks and mappings of their own.
//!
//! *Concurrency*: any thread, lock-free; mappings call the OS.
//!
//! *Neighbours*: stands on `slab` (spans), `region` (mappings) and the heap's core.

use core::ptr::{self, NonNull};

use super::core::HeapCore;
use crate::base::{address, at_address};
use crate::cache::{report, report_misuse, stranger_kind};
use crate::config::{ALIGN_BYTES_MAX, CHUNK_BYTES};
use crate::os::{FaultKind, os_page_bytes};
use crate::region::{RegionRef, lookup, map_block, mapping_at, mapping_bytes, unmap_block};
use crate::sync::Ordering;

/// Takes a span of `chunks` chunks; null when the system refuses memory.
pub(super) fn allocate_span(core: &HeapCore, chunks: usize, align: usize) -> *mut u8 {
    let step = align.div_ceil(CHUNK_BYTES);
    let Some(span) = core.store.take_span(chunks, step) else { return ptr::null_mut() };
    core.store.count_taken(chunks * CHUNK_BYTES);
    at_address(span)
}

/// Frees a span of `chunks` chunks, or reports why it cannot.
pub(super) fn free_span(core: &HeapCore, block: usize, chunks: usize) {
    let store = &core.store;
    let given_bytes = chunks * CHUNK_BYTES;
    if !lookup(block).is_region_of(store.slot) {
        report(store, stranger_kind(store, block), block, given_bytes, 0);
    }
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    match crate::slab::free_span(region, block, chunks) {
        Ok(()) => {
            store.count_given(given_bytes);
            store.roomy.mark(region.index());
        }
        Err(misuse) => report_misuse(store, misuse, block, given_bytes),
    }
}

/// Maps a block of at least `bytes`; null when the system refuses or the alignment is too large.
pub(super) fn allocate_mapping(core: &HeapCore, bytes: usize, align: usize) -> *mut u8 {
    if align > ALIGN_BYTES_MAX {
        return ptr::null_mut();
    }
    let place = |base| core.mappings.insert(base, |_| ());
    let Some((block, bytes)) = map_block(core.store.slot, bytes, align, place) else {
        return ptr::null_mut();
    };
    core.mapped_bytes.fetch_add(bytes, Ordering::Relaxed);
    core.store.count_taken(bytes);
    block.as_ptr()
}

/// Unmaps the mapping at `block`, or reports why it cannot.
pub(super) fn free_mapping(core: &HeapCore, block: usize, bytes: usize) {
    let store = &core.store;
    let entry = lookup(block);
    match mapping_at(block, entry) {
        Some(base) if base == block && entry.slot() == store.slot => {}
        Some(_) if entry.slot() == store.slot => {
            report(store, FaultKind::InteriorPointer, block, bytes, 0)
        }
        _ => report(store, stranger_kind(store, block), block, bytes, 0),
    }
    let block_bytes = mapping_bytes(block);
    if mapping_block_bytes(bytes) != block_bytes {
        report(store, FaultKind::WrongLayout, block, bytes, block_bytes);
    }
    core.mappings.remove(entry.payload() as usize);
    core.mapped_bytes.fetch_sub(block_bytes, Ordering::Relaxed);
    store.count_given(block_bytes);
    if let Some(block) = NonNull::new(at_address(block)) {
        // SAFETY: (1) the entry says that a mapping starts there; the caller gave it up.
        unsafe { unmap_block(block) };
    }
}

/// Returns the bytes of a block of `bytes` bytes of tier Mapping.
pub(super) fn mapping_block_bytes(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(os_page_bytes()).unwrap_or(usize::MAX)
}

/// Returns the address of the mapping of this heap around `pointer`.
pub(super) fn own_mapping(core: &HeapCore, pointer: NonNull<u8>) -> Option<usize> {
    let entry = lookup(address(pointer.as_ptr()));
    if entry.slot() != core.store.slot {
        return None;
    }
    mapping_at(address(pointer.as_ptr()), entry)
}
