//! Blocks above the slab classes: spans of chunks and mappings of their own.
//!
//! ```text
//! span      thread's cache ⇄ free chunks of the heap's regions ⇄ the process's regions ⇄ system
//! mapping   thread's cache ⇄ the heap's depot ⇄ the process's depot ⇄ system
//! ```
//!
//! A span that the thread does not keep frees its run: the regions' free words are the heap's tier
//! of spans, where neighbouring runs melt together. Every free passes on its own block and no
//! other. Every block is checked when it comes back, at once.
//!
//! *Invariants held here*: `[mapping-one-owner]`, `[kept-once]`.
//!
//! *Concurrency*: any thread, lock-free; the last tier calls the OS.
//!
//! *Neighbours*: stands on `slab` (spans), `region` (mappings) and the store; the heap's cold path
//! calls it.

use core::ptr;

use super::flush::{report, report_misuse, stranger_kind};
use super::large_cache::LargeCache;
use super::store::Store;
use super::thread_heap::ThreadHeap;
use crate::base::{
    Colour, LARGE_CLASSES, MAPPING_CLASSES, SPAN_CLASSES, Tier, at_address, is_aligned,
    large_class, large_class_bytes, mapping_class,
};
use crate::config::{ALIGN_BYTES_MAX, CHUNK_BYTES, COLOUR_BYTES, LINE_BYTES, REGION_BYTES};
use crate::os::{FaultKind, os_page_bytes};
use crate::region::{
    EntryKind, RegionRef, adopt_cached_mapping, lookup, map_block, mapping_at, mapping_bytes,
    mapping_colour, mapping_place, retire_mapping, set_mapping_kept, set_mapping_live,
};
use crate::slab::Span;
use crate::sync::Ordering;

/// A request above the slab classes: what its layout says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Large {
    /// Bytes of the run or mapping.
    bytes: usize,
    /// Alignment, in bytes.
    align: usize,
    /// Whether the block may start some cache lines into its run.
    has_colours: bool,
    /// The large class; `None` past the last one.
    class: Option<usize>,
}

impl Large {
    /// Returns the request of a layout of tier Span or Mapping, `None` for the others.
    #[inline]
    pub(crate) fn of(tier: Tier, size: usize, align: usize) -> Option<Large> {
        let (bytes, class) = match tier {
            Tier::Span { chunks } => (chunks * CHUNK_BYTES, Some(large_class(chunks))),
            Tier::Mapping { bytes } => match mapping_class(bytes) {
                Some(class) => (bytes, Some(class)),
                None => (bytes.checked_next_multiple_of(os_page_bytes()).unwrap_or(bytes), None),
            },
            Tier::Zero | Tier::Slab(_) => return None,
        };
        let has_colours = bytes - size >= COLOUR_BYTES && align <= LINE_BYTES;
        Some(Large { bytes, align, has_colours, class })
    }

    /// Returns the bytes the caller may use, wherever in its run the block starts.
    #[inline]
    pub(crate) fn usable_bytes(self) -> usize {
        if self.has_colours { self.bytes - COLOUR_BYTES } else { self.bytes }
    }

    /// Returns the colour of a block that starts `offset_bytes` into its run, whoever chose that.
    fn colour_at(self, offset_bytes: usize) -> Colour {
        if self.has_colours { Colour::of_line(offset_bytes / LINE_BYTES) } else { Colour::NONE }
    }

    fn is_span(self) -> bool {
        self.class.is_some_and(|class| class < SPAN_CLASSES)
    }

    fn chunks(self) -> usize {
        self.bytes / CHUNK_BYTES
    }

    /// Returns where in a run at `base` the block starts: elsewhere in neighbouring runs, whatever
    /// their length.
    #[inline]
    fn colour(self, base: usize) -> Colour {
        if !self.has_colours {
            return Colour::NONE;
        }
        let number = base / CHUNK_BYTES;
        Colour::of_line(number + (number >> 2) + (number >> 4) + (number >> 6))
    }
}

/// A block above the slab classes, just taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeBlock {
    /// The block; null when there is no memory.
    pub(crate) pointer: *mut u8,
    /// Whether all of it reads as zero.
    pub(crate) is_zero: bool,
}

impl LargeBlock {
    const NONE: LargeBlock = LargeBlock { pointer: ptr::null_mut(), is_zero: false };
}

/// Takes a block that the thread keeps; null when there is none.
#[inline]
pub(crate) fn take_kept(thread_heap: &ThreadHeap, large: Large) -> *mut u8 {
    let (Some(cache), Some(class)) = (thread_heap.large(), large.class) else {
        return ptr::null_mut();
    };
    let natural = if class < SPAN_CLASSES { CHUNK_BYTES } else { REGION_BYTES };
    if large.align > natural {
        return ptr::null_mut();
    }
    match cache.take(class, large.bytes) {
        0 => ptr::null_mut(),
        base => wake(base, large),
    }
}

/// Hands out a kept run or mapping.
#[inline]
fn wake(base: usize, large: Large) -> *mut u8 {
    let colour = large.colour(base);
    if large.is_span() {
        // SAFETY: [kept-once] kept spans lie in regions of this heap.
        unsafe { Span::kept(base, large.chunks()) }.wake(colour);
    } else {
        set_mapping_live(base, colour);
    }
    at_address(base + colour.offset_bytes())
}

/// Takes a block from the heap's tier or a further one.
pub(crate) fn take_large(store: &Store, large: Large) -> LargeBlock {
    if large.is_span() { take_span(store, large) } else { take_mapping(store, large) }
}

fn take_span(store: &Store, large: Large) -> LargeBlock {
    let step = large.align.div_ceil(CHUNK_BYTES);
    let Some((span, is_zero)) = store.take_span(large.chunks(), step) else {
        return LargeBlock::NONE;
    };
    store.count_taken(large.bytes);
    LargeBlock { pointer: wake(span.base(), large), is_zero }
}

fn take_mapping(store: &Store, large: Large) -> LargeBlock {
    if large.align > ALIGN_BYTES_MAX || large.bytes > isize::MAX as usize {
        return LargeBlock::NONE;
    }
    let has_any_align = large.align <= REGION_BYTES;
    if has_any_align && let Some(base) = load_kept(store, large) {
        return LargeBlock { pointer: wake(base, large), is_zero: false };
    }
    if !store.charge(large.bytes) {
        return LargeBlock::NONE;
    }
    let slot = store.slot;
    let place = |base| store.mappings.insert(base, |_| ());
    let cached = match store.shares_contents() && has_any_align {
        true => adopt_cached_mapping(slot, large.bytes, place),
        false => None,
    };
    let (base, is_zero) = match cached {
        Some(base) => (base, false),
        None => match map_block(slot, large.bytes, large.align, store.policy.huge_pages, place) {
            Some((base, _)) => (base, true),
            None => {
                store.uncharge(large.bytes);
                return LargeBlock::NONE;
            }
        },
    };
    store.mapped_bytes.fetch_add(large.bytes, Ordering::Relaxed);
    store.count_taken(large.bytes);
    LargeBlock { pointer: wake(crate::base::address(base.as_ptr()), large), is_zero }
}

fn load_kept(store: &Store, large: Large) -> Option<usize> {
    store.kept_mappings()?.load(large.class? - SPAN_CLASSES, large.bytes)
}

/// Frees a block, or reports why it cannot.
#[inline]
pub(crate) fn free_large(
    store: &Store,
    thread_heap: Option<&ThreadHeap>,
    large: Large,
    block: usize,
) {
    let base = if large.is_span() {
        end_span(store, large, block)
    } else {
        end_mapping(store, large, block)
    };
    let kept = thread_heap.zip(large.class).is_some_and(|(thread_heap, class)| {
        let cache = thread_heap.large_or_new(store, |cache| cache.has_place(class, large.bytes));
        cache.is_some_and(|cache| cache.keep(class, large.bytes, base))
    });
    if !kept {
        pass_on(store, large.class, large.bytes, base);
    }
}

/// Ends the caller's ownership of a span; returns the address of its run.
#[inline]
fn end_span(store: &Store, large: Large, block: usize) -> usize {
    if !lookup(block).is_region_of(store.slot) {
        report(store, stranger_kind(store, block), block, large.bytes, 0);
    }
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    match Span::locate(region, block, large.chunks()) {
        Ok(span) if span.keep() => span.base(),
        Ok(_) => report(store, FaultKind::DoubleFree, block, large.bytes, 0),
        Err(misuse) => report_misuse(store, misuse, block, large.bytes),
    }
}

/// Ends the caller's ownership of a mapping; returns its address.
#[inline]
fn end_mapping(store: &Store, large: Large, block: usize) -> usize {
    let Some((base, head)) = mapping_at(block, lookup(block)) else {
        report(store, stranger_kind(store, block), block, large.bytes, 0)
    };
    if head.slot() != store.slot {
        report(store, FaultKind::WrongHeap, block, large.bytes, 0);
    }
    if block - base != mapping_colour(head).offset_bytes() {
        report(store, FaultKind::InteriorPointer, block, large.bytes, 0);
    }
    let block_bytes = mapping_bytes(base);
    if large.bytes != block_bytes {
        report(store, FaultKind::WrongLayout, block, large.bytes, block_bytes);
    }
    if head.kind() != EntryKind::Mapping || !set_mapping_kept(base, head) {
        report(store, FaultKind::DoubleFree, block, large.bytes, 0);
    }
    base
}

/// Gives a kept block to the tier behind the thread's.
fn pass_on(store: &Store, class: Option<usize>, bytes: usize, base: usize) {
    match class {
        Some(class) if class < SPAN_CLASSES => {
            // SAFETY: [kept-once] the block just came back to this heap.
            free_run(store, unsafe { Span::kept(base, bytes / CHUNK_BYTES) });
        }
        Some(class) if store.keep_mapping(class - SPAN_CLASSES, base, bytes) => {}
        _ => retire(store, base, bytes),
    }
}

fn free_run(store: &Store, span: Span) {
    store.count_given(span.bytes());
    span.free();
    store.chunks_freed(span.region());
}

/// Takes a kept mapping off the heap's list and gives it to the process.
fn retire(store: &Store, base: usize, bytes: usize) {
    store.mappings.remove(mapping_place(lookup(base)));
    store.mapped_bytes.fetch_sub(bytes, Ordering::Relaxed);
    store.count_given(bytes);
    store.uncharge(bytes);
    // SAFETY: (1) `[mapping-one-owner]`: kept by this heap, taken out of its tiers by the caller.
    unsafe { retire_mapping(base, store.shares_contents()) };
}

/// Gives what a thread keeps to the next tier. Holder of the tenure only.
pub(crate) fn drain_large(store: &Store, cache: &LargeCache) {
    for class in 0..LARGE_CLASSES {
        let bytes = large_class_bytes(class);
        loop {
            match cache.take(class, bytes) {
                0 => break,
                base => pass_on(store, Some(class), bytes, base),
            }
        }
    }
}

/// Gives the mappings that the heap keeps for all threads to the process; returns their bytes.
pub(crate) fn drain_kept_mappings(store: &Store) -> usize {
    let Some(kept) = store.kept_mappings() else { return 0 };
    let mut drained_bytes = 0;
    for class in 0..MAPPING_CLASSES {
        let bytes = large_class_bytes(SPAN_CLASSES + class);
        while let Some(base) = kept.load(class, bytes) {
            retire(store, base, bytes);
            drained_bytes += bytes;
        }
    }
    drained_bytes
}

/// What became of a block that was to be resized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resized {
    /// It lies where it lay.
    InPlace,
    /// Its pages lie at this address now, and nothing was copied.
    Moved(*mut u8),
    /// It is as it was.
    Refused,
}

/// Makes a live block that fits `from` fit `to`, without copying.
pub(crate) fn resize_large(store: &Store, block: usize, from: Large, to: Large) -> Resized {
    if from.is_span() != to.is_span() || !is_aligned(block, to.align) {
        return Resized::Refused;
    }
    match from.is_span() {
        true => resize_span(store, block, from, to),
        false => resize_mapping(store, block, from, to),
    }
}

/// Returns whether a block that starts `block - base` into its run has room for what `to` returns.
fn has_room(block: usize, base: usize, to: Large) -> bool {
    block - base + to.usable_bytes() <= to.bytes
}

fn resize_span(store: &Store, block: usize, from: Large, to: Large) -> Resized {
    if !lookup(block).is_region_of(store.slot) {
        return Resized::Refused;
    }
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    let Ok(span) = Span::locate(region, block, from.chunks()) else { return Resized::Refused };
    if !has_room(block, span.base(), to) {
        return Resized::Refused;
    }
    let colour = to.colour_at(block - span.base());
    if !span.resize(to.chunks(), colour, |bytes| store.charge(bytes)) {
        return Resized::Refused;
    }
    if to.bytes > from.bytes {
        store.count_taken(to.bytes - from.bytes);
    } else if to.bytes < from.bytes {
        store.count_given(from.bytes - to.bytes);
        store.chunks_freed(region);
    }
    Resized::InPlace
}

fn resize_mapping(store: &Store, block: usize, from: Large, to: Large) -> Resized {
    let Some((base, head)) = mapping_at(block, lookup(block)) else { return Resized::Refused };
    let is_own = head.slot() == store.slot && head.kind() == EntryKind::Mapping;
    if !is_own || mapping_bytes(base) != from.bytes || to.bytes > isize::MAX as usize {
        return Resized::Refused;
    }
    if !has_room(block, base, to) {
        return Resized::Refused;
    }
    let old_base = base;
    let base = match from.bytes == to.bytes {
        true => Some(base),
        false => remap(store, base, from.bytes, to),
    };
    let Some(base) = base else { return Resized::Refused };
    let colour = to.colour_at(block - old_base);
    set_mapping_live(base, colour);
    let resized = base + colour.offset_bytes();
    if resized == block { Resized::InPlace } else { Resized::Moved(at_address(resized)) }
}

/// Makes a mapping of `from` bytes one for `large`, in place or elsewhere; returns its address.
fn remap(store: &Store, base: usize, from: usize, large: Large) -> Option<usize> {
    let to = large.bytes;
    let more = to.saturating_sub(from);
    if more != 0 && !store.charge(more) {
        return None;
    }
    // SAFETY: (1) the caller's live mapping; the bytes behind `to` are given up by the caller.
    let is_in_place = unsafe { crate::region::resize_mapping(base, to) };
    let mut result = is_in_place.then_some(base);
    if !is_in_place && more != 0 {
        let replace = |place, target| store.mappings.replace(place, target);
        // SAFETY: (1) the caller's live mapping, which it gives up for the new one.
        let target = unsafe { crate::region::move_mapping(base, to, large.align, replace) };
        result = target.map(|target| crate::base::address(target.as_ptr()));
    }
    if result.is_none() {
        store.uncharge(more);
        return None;
    }
    if more != 0 {
        store.mapped_bytes.fetch_add(more, Ordering::Relaxed);
        store.count_taken(more);
    } else {
        store.mapped_bytes.fetch_sub(from - to, Ordering::Relaxed);
        store.count_given(from - to);
        store.uncharge(from - to);
    }
    result
}
