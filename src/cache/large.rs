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

use core::ptr::{self, NonNull};

use super::flush::{report, report_misuse, stranger_kind};
use super::large_cache::LargeCache;
use super::store::Store;
use super::thread_heap::ThreadHeap;
use crate::base::{
    Colour, LARGE_CLASSES, Large, MAPPING_CLASSES, SPAN_CLASSES, address, at_address, is_aligned,
    large_class_bytes,
};
use crate::config::{CHUNK_BYTES, HUGE_GROWTH_BYTES_LOW, REGION_BYTES};
use crate::os::FaultKind;
use crate::policy::HugePages;
use crate::region::{
    EntryKind, RegionRef, adopt_cached_mapping, advise_mapping, lookup, map_block, mapping_at,
    mapping_bytes, mapping_colour, mapping_place, retire_mapping, set_mapping_colour,
    set_mapping_kept, set_mapping_live,
};
use crate::slab::Span;
use crate::sync::Ordering;

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

/// Takes a block of `class` that the thread keeps, to be handed out by [`hand_out`]; 0 when there is
/// none.
// Inlined always: benchmark `large`, a call's arguments go through memory.
#[inline(always)]
pub(crate) fn take_kept(thread_heap: &ThreadHeap, class: usize) -> usize {
    match thread_heap.large() {
        Some(cache) => cache.take(class),
        None => 0,
    }
}

/// Frees a block into the thread's cache; returns false, having done nothing, when there is no
/// place or the block does not lie in the heap in a slot, given
/// as eight times that.
// Inlined always: as `take_kept`.
#[inline(always)]
pub(crate) fn keep_quickly(
    thread_heap: &ThreadHeap,
    eightfold_slot: usize,
    large: Large,
    block: usize,
) -> bool {
    let Some(cache) = thread_heap.large() else { return false };
    let kind = if large.is_span() { EntryKind::Region } else { EntryKind::Mapping };
    lookup(block).is_kind_of(kind, eightfold_slot) && cache.keep(large.class, block)
}

/// Chooses where a block starts in the run or mapping that `inside` lies in, at its first unit.
#[inline(always)]
pub(crate) fn hand_out(inside: usize, large: Large) -> usize {
    let base = base_of(inside, large);
    hand_out_with(base, large, large.colour(base))
}

/// [`hand_out`] of a block that grows: it starts where its run does, or it would have to move where a
/// length leaves no slack.
pub(crate) fn hand_out_at_start(inside: usize, large: Large) -> usize {
    hand_out_with(base_of(inside, large), large, large.colour_at(0))
}

#[inline(always)]
fn base_of(inside: usize, large: Large) -> usize {
    let unit_bytes = if large.is_span() { CHUNK_BYTES } else { REGION_BYTES };
    inside & !(unit_bytes - 1)
}

#[inline(always)]
fn hand_out_with(base: usize, large: Large, colour: Colour) -> usize {
    if large.is_span() {
        // SAFETY: [kept-once] spans lie in regions of this heap.
        let region = unsafe { RegionRef::of(base) };
        region.set_colour((base - region.base()) / CHUNK_BYTES, colour);
    } else {
        set_mapping_colour(base, colour);
    }
    base + colour.offset_bytes()
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
    LargeBlock { pointer: at_address(hand_out(span.base(), large)), is_zero }
}

/// Takes a run or a mapping for a block that grows, and may grow further; null without memory.
pub(crate) fn take_growing(store: &Store, large: Large) -> *mut u8 {
    if !large.is_span() {
        let taken = take_mapping(store, large).pointer;
        if !taken.is_null() {
            return at_address(hand_out_at_start(address(taken), large));
        }
        return taken;
    }
    let Some((span, _)) = store.take_growing_span(large.chunks()) else { return ptr::null_mut() };
    store.count_taken(large.bytes);
    at_address(hand_out_at_start(span.base(), large))
}

fn take_mapping(store: &Store, large: Large) -> LargeBlock {
    let has_any_align = large.align <= REGION_BYTES;
    if !has_any_align && !store.policy.origin.is_system() {
        return LargeBlock::NONE;
    }
    if has_any_align && let Some(base) = load_kept(store, large) {
        set_mapping_live(base);
        return LargeBlock { pointer: at_address(hand_out(base, large)), is_zero: false };
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
        None => match map_anew(store, large, place) {
            Some((base, _)) => (base, true),
            None => {
                store.uncharge(large.bytes);
                return LargeBlock::NONE;
            }
        },
    };
    store.mapped_bytes.fetch_add(large.bytes, Ordering::Relaxed);
    store.count_taken(large.bytes);
    let block = hand_out(address(base.as_ptr()), large);
    LargeBlock { pointer: at_address(block), is_zero }
}

fn map_anew(
    store: &Store,
    large: Large,
    place: impl FnOnce(usize) -> Option<usize>,
) -> Option<(NonNull<u8>, usize)> {
    let policy = &store.policy;
    map_block(store.slot, large.bytes, large.align, policy.huge_pages, policy.origin, place)
}

fn load_kept(store: &Store, large: Large) -> Option<usize> {
    store.kept_mappings()?.load(large.mapping_class()?, large.bytes)
}

/// Frees a block, or reports why it cannot.
pub(crate) fn free_large(
    store: &Store,
    thread_heap: Option<&ThreadHeap>,
    large: Large,
    block: usize,
) {
    let found = find(store, large, block);
    let cache = thread_heap.and_then(|thread_heap| thread_heap.large_or_new(store));
    if let Some(cache) = cache {
        if cache.kept(large.class) == block {
            report(store, FaultKind::DoubleFree, block, large.bytes, 0);
        }
        cache.open(large.class);
        if cache.keep(large.class, block) {
            return store.sweeps.note_idle(store.policy.decay_ms);
        }
    }
    pass_on(store, large.class, found);
}

/// A live block above the slab classes.
#[derive(Clone, Copy, Debug)]
enum Found {
    Span(Span),
    Mapping { base: usize, bytes: usize },
}

/// Finds the live block at `block`, or reports why there is none.
fn find(store: &Store, large: Large, block: usize) -> Found {
    if large.is_span() { find_span(store, large, block) } else { find_mapping(store, large, block) }
}

fn find_span(store: &Store, large: Large, block: usize) -> Found {
    if !lookup(block).is_region_of(store.slot) {
        report(store, stranger_kind(store, block), block, large.bytes, 0);
    }
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    match Span::locate(region, block, large.chunks()) {
        Ok(span) => Found::Span(span),
        Err(misuse) => report_misuse(store, misuse, block, large.bytes),
    }
}

fn find_mapping(store: &Store, large: Large, block: usize) -> Found {
    let Some((base, head)) = mapping_at(block, lookup(block)) else {
        report(store, stranger_kind(store, block), block, large.bytes, 0)
    };
    if head.slot() != store.slot {
        report(store, FaultKind::WrongHeap, block, large.bytes, 0);
    }
    if block - base != mapping_colour(base).offset_bytes() {
        report(store, FaultKind::InteriorPointer, block, large.bytes, 0);
    }
    let bytes = mapping_bytes(base);
    if large.bytes != bytes {
        report(store, FaultKind::WrongLayout, block, large.bytes, bytes);
    }
    if head.kind() != EntryKind::Mapping {
        report(store, FaultKind::DoubleFree, block, large.bytes, 0);
    }
    Found::Mapping { base, bytes }
}

/// Gives a block that came back to the tier behind the thread's.
fn pass_on(store: &Store, class: usize, found: Found) {
    match found {
        Found::Span(span) => free_run(store, span),
        Found::Mapping { base, bytes } => {
            if !set_mapping_kept(base) {
                report(store, FaultKind::DoubleFree, base, bytes, 0);
            }
            let is_kept =
                class < LARGE_CLASSES && store.keep_mapping(class - SPAN_CLASSES, base, bytes);
            if !is_kept {
                retire(store, base, bytes, store.shares_contents());
            }
        }
    }
}

fn free_run(store: &Store, span: Span) {
    if !span.free() {
        report(store, FaultKind::DoubleFree, span.base(), span.bytes(), 0);
    }
    store.count_given(span.bytes());
    store.chunks_freed(span.region());
}

/// Takes a kept mapping off the heap's list and gives it to the process if it `may_be_shared`, to the
/// system otherwise.
fn retire(store: &Store, base: usize, bytes: usize, may_be_shared: bool) {
    store.mappings.remove(mapping_place(lookup(base)));
    store.mapped_bytes.fetch_sub(bytes, Ordering::Relaxed);
    store.count_given(bytes);
    store.uncharge(bytes);
    // SAFETY: (1) `[mapping-one-owner]`: kept by this heap, taken out of its tiers by the caller.
    unsafe { retire_mapping(base, may_be_shared, store.policy.origin) };
}

/// Gives what a thread keeps to the next tier, checking it. Holder of the tenure only.
pub(crate) fn drain_large(store: &Store, cache: &LargeCache) {
    for class in 0..LARGE_CLASSES {
        let block = cache.close(class);
        if block != 0 {
            pass_on(store, class, find(store, Large::of_class(class), block));
        }
    }
    give_chunks(store, || cache.take_chunk());
}

fn give_chunks(store: &Store, take: impl Fn() -> usize) {
    loop {
        match take() {
            0 => return,
            chunk => pass_on(store, 0, find(store, Large::of_class(0), chunk)),
        }
    }
}

/// Frees a chunk of an arena, which the thread keeps if it has place.
pub(crate) fn free_chunk(store: &Store, thread_heap: Option<&ThreadHeap>, chunk: usize) {
    let found = find(store, Large::of_class(0), chunk);
    if let Some(cache) = thread_heap.and_then(|thread_heap| thread_heap.large_or_new(store)) {
        if cache.was_given_last(chunk) {
            report(store, FaultKind::DoubleFree, chunk, CHUNK_BYTES, 0);
        }
        if cache.keep_chunk(chunk) {
            return store.sweeps.note_idle(store.policy.decay_ms);
        }
    }
    pass_on(store, 0, found);
}

/// Gives on what a thread kept and did not use since the last sweep. Holder of the tenure only.
pub(crate) fn sweep_large(store: &Store, cache: &LargeCache) {
    for class in (0..LARGE_CLASSES).filter(|&class| cache.age(class)) {
        let block = cache.close(class);
        if block != 0 {
            pass_on(store, class, find(store, Large::of_class(class), block));
        }
    }
    give_chunks(store, || cache.take_idle_chunk());
    cache.note_sweep();
}

/// Gives the mappings that the heap keeps for all threads to the system; returns their bytes.
pub(crate) fn drain_kept_mappings(store: &Store) -> usize {
    let Some(kept) = store.kept_mappings() else { return 0 };
    let mut drained_bytes = 0;
    for class in 0..MAPPING_CLASSES {
        let bytes = large_class_bytes(SPAN_CLASSES + class);
        while let Some(base) = kept.load(class, bytes) {
            retire(store, base, bytes, false);
            drained_bytes += bytes;
        }
    }
    drained_bytes
}

/// What became of a block that was to be resized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resized {
    /// It lies at this address now, and nothing was copied.
    At {
        /// The block.
        block: *mut u8,
        /// What lies from this offset on reads as zero.
        zero_from: usize,
    },
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
        store.mark_again(region, true);
        return Resized::Refused;
    }
    if to.bytes > from.bytes {
        store.count_taken(to.bytes - from.bytes);
    } else if to.bytes < from.bytes {
        store.count_given(from.bytes - to.bytes);
        store.chunks_freed(region);
    }
    Resized::At { block: at_address(block), zero_from: usize::MAX }
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
    set_mapping_colour(base, colour);
    // The system's pages behind the old end are fresh.
    let zero_from =
        if to.bytes > from.bytes { from.bytes - colour.offset_bytes() } else { usize::MAX };
    Resized::At { block: at_address(base + colour.offset_bytes()), zero_from }
}

/// Asks for huge pages for a mapping that grew, unless the policy says otherwise: what was added is about
/// to be written, and a fault for each small page takes longer than copying would. For all of it, as a
/// mapping with two sorts of advice cannot grow further.
fn advise_growth(store: &Store, base: usize, bytes: usize) {
    if store.policy.huge_pages == HugePages::System {
        advise_mapping(base, bytes, HugePages::Always);
    }
}

/// Makes a mapping of `from` bytes one for `large`, in place or elsewhere; returns its address.
fn remap(store: &Store, base: usize, from: usize, large: Large) -> Option<usize> {
    if !store.policy.origin.is_system() {
        return None;
    }
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
        result = target.map(|target| address(target.as_ptr()));
    }
    if result.is_none() {
        store.uncharge(more);
        return None;
    }
    if more != 0 {
        store.mapped_bytes.fetch_add(more, Ordering::Relaxed);
        store.count_taken(more);
        if let Some(base) = result.filter(|_| to >= HUGE_GROWTH_BYTES_LOW) {
            advise_growth(store, base, to);
        }
    } else {
        store.mapped_bytes.fetch_sub(from - to, Ordering::Relaxed);
        store.count_given(from - to);
        store.uncharge(from - to);
    }
    result
}
