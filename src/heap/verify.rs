//! Verify: walking every structure of a heap and asserting every invariant that can be seen.
//!
//! Cached blocks are marked as free in the bitmaps for the duration of the walk: a block that is
//! free already, or marked twice, is in two places at once.
//!
//! *Concurrency*: needs the heap exclusively; every thread heap is held meanwhile.
//!
//! *Neighbours*: stands on `core`, `slab` and `cache`; the model tests call it after each step.

use super::Heap;
use super::core::HeapCore;
use crate::base::{LARGE_CLASSES, PARTIAL_CLASSES, SLAB_CLASSES, address, run_mask, slab_blocks};
use crate::cache::{Store, ThreadHeap};
use crate::config::REGION_CHUNKS;
use crate::error::Violation;
use crate::region::{EntryKind, RegionRef, listed_mapping, lookup, mapping_place};
use crate::slab::{Control, Slab, State};
use crate::sync::Ordering;

impl Heap {
    /// Checks every structure of the heap.
    ///
    /// # Errors
    /// The first [`Violation`] found: a bug in polyheap, or memory overwritten by its user.
    ///
    /// # Cost
    /// O(slabs + cached blocks). For tests and diagnosis.
    ///
    /// # Examples
    /// ```
    /// let mut heap = polyheap::Heap::new();
    /// drop(heap.vec_from([1, 2, 3]));
    /// assert_eq!(heap.verify(), Ok(()));
    /// ```
    pub fn verify(&mut self) -> Result<(), Violation> {
        let Some(core) = self.core() else { return Ok(()) };
        let _held = core.hold();
        verify_held(core)
    }
}

fn verify_held(core: &HeapCore) -> Result<(), Violation> {
    for region in core.store.all_regions() {
        verify_region(&core.store, region)?;
    }
    verify_takers(core)?;
    verify_mappings(&core.store)?;
    verify_account(core)?;
    verify_counts(core)?;
    verify_kept(core)?;
    verify_caches(core)
}

/// Checks that every mapping is the heap's and knows its place, and that their bytes add up.
fn verify_mappings(store: &Store) -> Result<(), Violation> {
    let mut bytes = 0;
    for index in 0..store.mappings.end() {
        let Some(base) = store.mappings.get(index) else { continue };
        let listed = listed_mapping(base, store.slot);
        let head = listed.head;
        let is_mapping = matches!(head.kind(), EntryKind::Mapping | EntryKind::KeptMapping);
        let is_own = is_mapping && head.slot() == store.slot && mapping_place(head) == index;
        hold(is_own, "mapping-one-block", base)?;
        bytes += listed.bytes;
    }
    hold(bytes == store.mapped_bytes.load(Ordering::Relaxed), "mapping-one-owner", 0)
}

/// Checks that the heap is charged for what it holds, and is so within its limit.
fn verify_account(core: &HeapCore) -> Result<(), Violation> {
    let held_bytes = super::stats::held_bytes(core);
    let place = address(&raw const *core);
    hold(core.store.account.charged_bytes() == held_bytes, "charged-is-held", place)
}

fn verify_region(store: &Store, region: RegionRef) -> Result<(), Violation> {
    let base = region.base();
    let entry = lookup(base);
    let is_hollow_of_it = entry.kind() == EntryKind::HollowRegion && entry.slot() == store.slot;
    let is_entered =
        if region.is_hollow() { is_hollow_of_it } else { entry.is_region_of(store.slot) };
    hold(is_entered, "map-total", base)?;
    let is_listed = store.region(region.index()) == Some(region);
    hold(is_listed, "roster-places-stay", base)?;
    verify_chunks(region)?;
    let mut published = [0u64; PARTIAL_CLASSES];
    for slab in Slab::all_of(region) {
        verify_slab(slab)?;
        if slab.control().state() == State::Partial {
            published[slab.class()] |= slab.words().bit;
        }
    }
    for (class, published) in published.iter().enumerate() {
        let bits = region.partial[class].load(Ordering::Relaxed);
        hold(bits == *published, "partial-bit-published", base)?;
        let is_marked = bits == 0 || store.partial[class].is_marked(region.index());
        hold(is_marked, "summary-never-misses", base)?;
    }
    let is_marked = region.free_chunks() == 0 || store.roomy.is_marked(region.index());
    hold(is_marked, "summary-never-misses", base)
}

/// Checks that runs do not overlap and that free chunks are in none.
fn verify_chunks(region: RegionRef) -> Result<(), Violation> {
    // All of them are taken, by nobody.
    let free = if region.is_hollow() { !1 } else { region.free_chunks() };
    let mut chunk = 1;
    while chunk < REGION_CHUNKS {
        let control = Control(region.controls[chunk].load(Ordering::Relaxed));
        let at = region.chunk_base(chunk);
        let run = match control.state() {
            State::Free => {
                hold(free >> chunk & 1 == 1, "chunk-one-owner", at)?;
                1
            }
            State::Tail => return broken("chunk-one-owner", at),
            _ => control.run(),
        };
        if control.state() != State::Free {
            hold(free & run_mask(chunk, run) == 0, "chunk-one-owner", at)?;
            for distance in 1..run {
                let tail = Control(region.controls[chunk + distance].load(Ordering::Relaxed));
                let is_tail = tail.state() == State::Tail && tail.live() == distance;
                hold(is_tail, "chunk-one-owner", at)?;
            }
        }
        chunk += run;
    }
    Ok(())
}

fn verify_slab(slab: Slab) -> Result<(), Violation> {
    let capacity = slab_blocks(slab.class());
    let mut free = 0;
    for (number, word) in slab.words().bits.iter().enumerate() {
        let bits = word.load(Ordering::Relaxed);
        let within = run_mask(0, (capacity - number * 64).min(64));
        hold(bits & !within == 0, "slab-one-class", slab.base())?;
        free += bits.count_ones() as usize;
    }
    hold(free + slab.control().live() == capacity, "live-covers-bits", slab.base())?;
    let is_full = slab.control().state() == State::Full;
    hold(!is_full || free == 0, "live-covers-bits", slab.base())
}

/// Checks that every Active slab has one taker among the thread heaps.
fn verify_takers(core: &HeapCore) -> Result<(), Violation> {
    for region in core.store.all_regions() {
        for slab in Slab::all_of(region).filter(|slab| slab.control().state() == State::Active) {
            let is_taken = |heap: &&ThreadHeap| heap.class(slab.class()).slab() == Some(slab);
            let takers = core.store.thread_heaps().filter(is_taken).count();
            hold(takers == 1, "slab-one-taker", slab.base())?;
        }
    }
    Ok(())
}

/// Checks that the counters of each thread heap say what it caches.
fn verify_counts(core: &HeapCore) -> Result<(), Violation> {
    for thread_heap in core.store.thread_heaps() {
        let mut counts = [0; SLAB_CLASSES];
        thread_heap.for_each_cached(&mut |class, _| counts[class] += 1);
        for (class, &count) in counts.iter().enumerate() {
            let is_exact = thread_heap.cached_blocks(class) == count;
            hold(is_exact, "cached-count-exact", address(&raw const *thread_heap))?;
        }
    }
    Ok(())
}

/// Checks that what threads keep of large blocks is live and kept once.
fn verify_kept(core: &HeapCore) -> Result<(), Violation> {
    for class in 0..LARGE_CLASSES {
        let kept = |heap: &ThreadHeap| heap.large().map_or(0, |cache| cache.kept(class));
        for (number, heap) in core.store.thread_heaps().enumerate() {
            let block = kept(heap);
            let others = core.store.thread_heaps().skip(number + 1);
            let is_once = block == 0 || others.into_iter().all(|other| kept(other) != block);
            hold(is_once, "kept-once", block)?;
        }
    }
    let chunks = || {
        core.store
            .thread_heaps()
            .filter_map(ThreadHeap::large)
            .flat_map(|cache| cache.kept_chunks())
    };
    for (number, chunk) in chunks().enumerate() {
        hold(chunks().skip(number + 1).all(|other| other != chunk), "kept-once", chunk)?;
    }
    Ok(())
}

/// Checks that cached blocks are taken, of their bin's class, and cached once.
fn verify_caches(core: &HeapCore) -> Result<(), Violation> {
    let mut marked = 0;
    let mut result = Ok(());
    for_each_cached(core, |class, block| {
        if result.is_ok() {
            result = mark(&core.store, class, block);
            marked += usize::from(result.is_ok());
        }
    });
    for_each_cached(core, |class, block| {
        if marked != 0 {
            marked -= 1;
            unmark(&core.store, class, block);
        }
    });
    result
}

fn for_each_cached(core: &HeapCore, mut act: impl FnMut(usize, usize)) {
    for thread_heap in core.store.thread_heaps() {
        thread_heap.for_each_cached(&mut act);
    }
    core.store.for_each_stored(&mut act);
}

fn mark(store: &Store, class: usize, block: usize) -> Result<(), Violation> {
    let (slab, index) = locate(store, class, block)?;
    let was_free = slab.words().give(index / 64, 1 << (index % 64)) != 0;
    hold(!was_free, "magazine-one-owner", block)
}

fn unmark(store: &Store, class: usize, block: usize) {
    if let Ok((slab, index)) = locate(store, class, block) {
        slab.words().bits[index / 64].fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
    }
}

fn locate(store: &Store, class: usize, block: usize) -> Result<(Slab, usize), Violation> {
    hold(lookup(block).is_region_of(store.slot), "flush-checks-all", block)?;
    // SAFETY: the map says that a region of this heap lies there.
    let region = unsafe { RegionRef::of(block) };
    let found = Slab::locate(region, block, class);
    found.map_err(|_| Violation { invariant: "slab-one-class", address: block })
}

fn hold(condition: bool, invariant: &'static str, address: usize) -> Result<(), Violation> {
    if condition { Ok(()) } else { broken(invariant, address) }
}

fn broken(invariant: &'static str, address: usize) -> Result<(), Violation> {
    Err(Violation { invariant, address })
}
