//! Statistics: a snapshot worked out from what the structures hold anyway.
//!
//! Nothing is counted on the fast paths. Live blocks are the blocks out of the slabs less those in
//! caches; exact when no thread is inside, close otherwise.
//!
//! *Concurrency*: any thread, lock-free; a snapshot of a moving thing.
//!
//! *Neighbours*: stands on `core`, `slab` and `cache`.

use core::fmt;

use super::core::{HeapCore, live_slots};
use super::{Heap, HeapId};
use crate::base::{
    LARGE_CLASSES, META_CLASS, SLAB_CLASSES, align_down, large_class_bytes, magazine_bytes,
    magazine_rounds, slab_block_bytes,
};
use crate::cache::Tenure;
use crate::config::{NAME_BYTES_MAX, REGION_BYTES, REGION_CHUNKS};
use crate::region::{
    EntryKind, RegionRef, cached_mapping_bytes, cached_regions, listed_mapping, lookup,
    mapping_bytes, mapping_colour,
};
use crate::slab::{Slab, span_around};
use crate::sync::Ordering;

/// What a heap holds, as of one moment.
///
/// # Examples
/// ```
/// let heap = polyheap::Heap::builder().name("net").build();
/// let list = heap.vec_from([0u8; 1000]);
/// let stats = heap.stats();
/// assert_eq!((stats.live_blocks, stats.live_bytes), (1, 1024));
/// assert!(stats.held_bytes > 1024);
/// println!("{stats}");
/// # drop(list);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeapStats {
    /// Bytes of live blocks, rounded up to their classes.
    pub live_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// The most bytes that were out of the slabs at once: live blocks and those cached with them.
    pub peak_live_bytes: usize,
    /// Bytes the system may have to hold for the heap, headers included.
    pub held_bytes: usize,
    /// Bytes of free blocks in caches of threads and in depots.
    pub cached_bytes: usize,
    /// Of these, the bytes in depots, for whichever thread comes.
    pub depot_bytes: usize,
    /// Bytes of free spans and mappings that threads and the heap keep for the next ones.
    pub kept_large_bytes: usize,
    /// Of these, the bytes of mappings the heap keeps for whichever thread comes.
    pub depot_large_bytes: usize,
    /// Bytes of freed chunks the system still holds; [`trim`](Heap::trim) returns them.
    pub dirty_bytes: usize,
    /// Regions of 4 MiB of address space.
    pub regions: usize,
    /// Live blocks with a mapping of their own.
    pub mappings: usize,
    /// Threads bound to the heap.
    pub threads: usize,
    /// Thread heaps made, idle ones included.
    pub thread_heaps: usize,
    /// Requests refused by a limit.
    pub denied_by_limit: u64,
    /// Requests refused by the system.
    pub denied_by_system: u64,
    /// The slab classes, small ones first.
    pub classes: [ClassStats; SLAB_CLASSES],
}

/// One size class of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ClassStats {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// Free blocks in caches.
    pub cached_blocks: usize,
    /// Slabs.
    pub slabs: usize,
}

/// A heap of the process, as [`heaps`] lists it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HeapSummary {
    /// The heap's number.
    pub id: HeapId,
    /// Bytes out of the slabs and in spans and mappings: live blocks and cached ones.
    pub taken_bytes: usize,
    /// Bytes the system may have to hold for the heap, headers included.
    pub held_bytes: usize,
    name: [u8; NAME_BYTES_MAX],
    name_bytes: usize,
}

impl HeapSummary {
    /// Returns the heap's name.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes]).unwrap_or("")
    }
}

/// What the process keeps of dropped heaps for the next ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ProcessStats {
    /// Bytes of regions kept with their contents.
    pub warm_region_bytes: usize,
    /// Regions of which only the address space is kept.
    pub cold_regions: usize,
    /// Bytes of mappings kept.
    pub mapping_bytes: usize,
}

/// Returns what the process keeps of dropped heaps, as of one moment; [`trim_all`](crate::trim_all)
/// gives it back.
///
/// # Concurrency
/// Any thread, lock-free; a snapshot of a moving thing.
///
/// # Examples
/// ```
/// drop(polyheap::Heap::new().boxed([0u8; 1000]));
/// polyheap::trim_all();
/// assert_eq!(polyheap::process_stats().warm_region_bytes, 0);
/// ```
pub fn process_stats() -> ProcessStats {
    let (warm_region_bytes, cold_regions) = cached_regions();
    ProcessStats { warm_region_bytes, cold_regions, mapping_bytes: cached_mapping_bytes() }
}

/// Iterates over the heaps that are alive and bound, in no particular order.
///
/// # Concurrency
/// Any thread, lock-free; each heap is looked at while it cannot go away.
///
/// # Examples
/// ```
/// let heap = polyheap::Heap::builder().name("listed").build();
/// heap.bind().unwrap();
/// assert!(polyheap::heaps().any(|summary| summary.name() == "listed"));
/// ```
pub fn heaps() -> impl Iterator<Item = HeapSummary> {
    live_slots().filter_map(|slot| HeapCore::with_pinned(slot, summary))
}

fn summary(core: &HeapCore) -> HeapSummary {
    let mut name = [0; NAME_BYTES_MAX];
    let given = core.store.name().as_bytes();
    name[..given.len()].copy_from_slice(given);
    HeapSummary {
        id: HeapId(core.store.id),
        taken_bytes: core.store.taken_and_peak_bytes().0,
        held_bytes: held_bytes(core),
        name,
        name_bytes: given.len(),
    }
}

impl Heap {
    /// Returns what the heap holds at this moment.
    ///
    /// # Concurrency
    /// Any thread, lock-free. Exact when no thread is inside; other threads' operations may be
    /// seen half done.
    ///
    /// # Cost
    /// O(regions + threads); nothing on allocate and free.
    pub fn stats(&self) -> HeapStats {
        match self.core() {
            Some(core) => core.look_in_peace(|| {
                let mut stats = HeapStats::empty();
                stats.look_at(core);
                stats
            }),
            None => HeapStats::empty(),
        }
    }
}

impl HeapStats {
    fn empty() -> HeapStats {
        HeapStats {
            live_bytes: 0,
            live_blocks: 0,
            peak_live_bytes: 0,
            held_bytes: 0,
            cached_bytes: 0,
            depot_bytes: 0,
            kept_large_bytes: 0,
            depot_large_bytes: 0,
            dirty_bytes: 0,
            regions: 0,
            mappings: 0,
            threads: 0,
            thread_heaps: 0,
            denied_by_limit: 0,
            denied_by_system: 0,
            classes: core::array::from_fn(|class| ClassStats {
                block_bytes: slab_block_bytes(class),
                ..ClassStats::default()
            }),
        }
    }

    fn look_at(&mut self, core: &HeapCore) {
        for region in core.store.all_regions() {
            self.regions += 1;
            self.look_at_region(region);
        }
        for base in core.store.mappings.iter() {
            self.look_at_mapping(base, core.store.slot);
        }
        self.look_at_caches(core);
        for class in &mut self.classes {
            class.live_blocks = class.live_blocks.saturating_sub(class.cached_blocks);
            self.live_blocks += class.live_blocks;
            self.live_bytes += class.live_blocks * class.block_bytes;
            self.cached_bytes += class.cached_blocks * class.block_bytes;
        }
        self.held_bytes = held_bytes(core);
        self.peak_live_bytes = core.store.taken_and_peak_bytes().1;
        let account = &core.store.account;
        self.denied_by_limit = account.denied_by_limit.load(Ordering::Relaxed);
        self.denied_by_system = account.denied_by_system.load(Ordering::Relaxed);
    }

    fn look_at_caches(&mut self, core: &HeapCore) {
        for thread_heap in core.store.thread_heaps() {
            self.thread_heaps += 1;
            self.threads += usize::from(thread_heap.is_in(Tenure::Bound));
            for (class, stats) in self.classes.iter_mut().enumerate() {
                stats.cached_blocks += thread_heap.cached_blocks(class);
            }
            if let Some(cache) = thread_heap.large() {
                (0..LARGE_CLASSES).for_each(|class| self.look_at_kept(class, cache.kept(class)));
                cache.kept_chunks().for_each(|chunk| self.look_at_kept(0, chunk));
            }
        }
        for (class, stats) in self.classes.iter_mut().enumerate() {
            let stored = core.store.depot(class).map_or(0, |depot| depot.count());
            stats.cached_blocks += stored * magazine_rounds(class);
            self.depot_bytes += stored * magazine_bytes(class);
        }
    }

    /// Takes off a block that a thread keeps, counted as a live one elsewhere.
    fn look_at_kept(&mut self, class: usize, block: usize) {
        if block == 0 {
            return;
        }
        let entry = lookup(block);
        let bytes = match entry.kind() {
            EntryKind::Region => {
                // SAFETY: [kept-once] kept spans lie in regions of this heap.
                let region = unsafe { RegionRef::of(block) };
                span_around(region, block).map_or(0, |span| span.bytes)
            }
            _ => {
                self.mappings = self.mappings.saturating_sub(1);
                let base = align_down(block, REGION_BYTES);
                mapping_colour(base).usable_bytes(mapping_bytes(base))
            }
        };
        self.live_blocks = self.live_blocks.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        self.kept_large_bytes += large_class_bytes(class);
    }

    fn look_at_mapping(&mut self, base: usize, slot: usize) {
        let listed = listed_mapping(base, slot);
        if listed.head.kind() == EntryKind::Mapping {
            self.mappings += 1;
            self.live_blocks += 1;
            self.live_bytes += listed.colour.usable_bytes(listed.bytes);
        } else {
            self.kept_large_bytes += listed.bytes;
            self.depot_large_bytes += listed.bytes;
        }
    }

    /// Adds slabs (their blocks out, still counting cached ones as live), spans and dirty chunks.
    fn look_at_region(&mut self, region: RegionRef) {
        for slab in Slab::all_of(region).filter(|slab| slab.class() != META_CLASS) {
            self.classes[slab.class()].slabs += 1;
            self.classes[slab.class()].live_blocks += slab.control().live();
        }
        let free = region.free_chunks();
        for chunk in 1..REGION_CHUNKS {
            if free >> chunk & 1 == 1 {
                self.dirty_bytes += region.reached_bytes(chunk);
            } else if let Some(span) = span_around(region, region.chunk_base(chunk))
                && span.chunk == chunk
            {
                self.live_blocks += 1;
                self.live_bytes += span.bytes;
            }
        }
    }
}

/// Returns the bytes the system may have to hold for the heap.
pub(super) fn held_bytes(core: &HeapCore) -> usize {
    let regions: usize = core.store.all_regions().map(|region| region.resident_bytes()).sum();
    regions + core.store.mapped_bytes.load(Ordering::Relaxed)
}

impl fmt::Display for HeapStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "live {} B in {} blocks (peak {} B), held {} B, cached {} B, kept {} B, dirty {} B",
            self.live_bytes,
            self.live_blocks,
            self.peak_live_bytes,
            self.held_bytes,
            self.cached_bytes,
            self.kept_large_bytes,
            self.dirty_bytes
        )?;
        write!(
            f,
            "{} regions, {} mappings, {} threads, denied {} by limit, {} by the system",
            self.regions, self.mappings, self.threads, self.denied_by_limit, self.denied_by_system
        )?;
        for class in self.classes.iter().filter(|class| class.slabs != 0) {
            write!(
                f,
                "\n{:>8} B: {} live, {} cached, {} slabs",
                class.block_bytes, class.live_blocks, class.cached_blocks, class.slabs
            )?;
        }
        Ok(())
    }
}
