//! The ends of a heap other than a plain drop: reset, close with a report, merging into another.
//!
//! *Concurrency*: all take the heap by value or exclusively, so no thread is inside; threads on
//! their way out are waited for.
//!
//! *Neighbours*: stands on `core` and `walk`.

use core::fmt;

use super::core::HeapCore;
use super::{Heap, table};
use crate::base::{SLAB_CLASSES, Tier, address, class_of, slab_block_bytes};
use crate::cache::drain_kept_mappings;
use crate::config::REGION_BYTES;
use crate::region::{
    RegionRef, listed_mapping, mapping_bytes, relabel_mapping, relabel_region, retire_mapping,
    set_hollow_region,
};
use crate::slab::{Slab, State};
use crate::sync::Ordering;

/// Addresses a leak report keeps.
const FIRST_ADDRESSES: usize = 8;

/// What was still allocated when a heap was [closed](Heap::close).
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// let heap = Heap::new();
/// core::mem::forget(heap.boxed([7u8; 100]));
/// let report = heap.close();
/// assert_eq!((report.blocks, report.bytes), (1, 112));
/// assert_eq!(report.classes().next().unwrap().block_bytes, 112);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeakReport {
    /// Blocks still allocated.
    pub blocks: usize,
    /// Bytes of those blocks, rounded up to their classes.
    pub bytes: usize,
    classes: [LeakedClass; SLAB_CLASSES],
    first: [usize; FIRST_ADDRESSES],
}

/// The blocks of one size class in a [`LeakReport`]; spans and mappings are in its sums only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LeakedClass {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Blocks still allocated.
    pub blocks: usize,
}

impl LeakReport {
    const CLEAN: LeakReport = LeakReport {
        blocks: 0,
        bytes: 0,
        classes: [LeakedClass { block_bytes: 0, blocks: 0 }; SLAB_CLASSES],
        first: [0; FIRST_ADDRESSES],
    };

    /// Returns whether nothing was still allocated.
    pub fn is_clean(&self) -> bool {
        self.blocks == 0
    }

    /// Iterates over the size classes with blocks, small ones first.
    pub fn classes(&self) -> impl Iterator<Item = LeakedClass> + '_ {
        self.classes.iter().copied().filter(|class| class.blocks != 0)
    }

    /// Iterates over the addresses of the first eight blocks found.
    pub fn first_addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.first.iter().copied().take(self.blocks.min(FIRST_ADDRESSES))
    }

    fn add(&mut self, block: usize, bytes: usize) {
        if let Some(place) = self.first.get_mut(self.blocks) {
            *place = block;
        }
        self.blocks += 1;
        self.bytes += bytes;
        if let Tier::Slab(class) = class_of(bytes, 1) {
            self.classes[class].block_bytes = slab_block_bytes(class);
            self.classes[class].blocks += 1;
        }
    }
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks, {} bytes not freed", self.blocks, self.bytes)?;
        for class in self.classes() {
            write!(f, "; {} x {} B", class.blocks, class.block_bytes)?;
        }
        if !self.is_clean() {
            f.write_str("; first at")?;
        }
        for block in self.first_addresses() {
            write!(f, " {block:#x}")?;
        }
        Ok(())
    }
}

impl Heap {
    /// Frees every block at once and keeps the memory warm for the next ones.
    ///
    /// # Cost
    /// O(regions + mappings + threads that used the heap); one system call a mapping.
    ///
    /// # Examples
    /// ```
    /// let mut heap = polyheap::Heap::new();
    /// core::mem::forget(heap.vec_from([1, 2, 3]));
    /// heap.reset();
    /// assert_eq!(heap.stats().live_blocks, 0);
    /// ```
    pub fn reset(&mut self) {
        let Some(core) = self.core() else { return };
        let _held = core.hold();
        clear(core);
    }

    /// Drops the heap and returns what was still allocated in it.
    ///
    /// # Cost
    /// As a drop, and O(cached blocks + slabs) for the report.
    pub fn close(self) -> LeakReport {
        let mut report = LeakReport::CLEAN;
        if let Some(core) = self.core() {
            let held = core.hold();
            held.drain();
            core.for_each_live(|block, bytes| report.add(block, bytes));
        }
        report
    }

    /// Drops the heap and hands its live blocks, and all its memory, to `parent`, which frees them
    /// one by one or as a whole like its own.
    ///
    /// When the parent has no memory for taking them over, or takes its memory from another source,
    /// the blocks stay valid for ever instead.
    ///
    /// # Cost
    /// O(regions + mappings + cached blocks).
    ///
    /// # Examples
    /// ```
    /// use polyheap::Heap;
    /// use polyheap::allocator_api2::boxed::Box;
    ///
    /// let parent = Heap::new();
    /// let child = Heap::new();
    /// let raw = Box::into_raw(child.boxed(7));
    /// child.leak_into(&parent);
    /// // SAFETY: the block belongs to `parent` now, and nothing else refers to it.
    /// let boxed = unsafe { Box::from_raw_in(raw, &parent) };
    /// assert_eq!(*boxed, 7);
    /// ```
    pub fn leak_into(mut self, parent: &Heap) {
        let Some(child) = self.take_core() else { return };
        let Ok(parent) = parent.bound_core() else { return };
        // SAFETY: the handle owned the heap and is unbound now, so the core is this call's alone.
        let child = unsafe { child.as_ref() };
        if !child.store.policy.origin.is_same(parent.store.policy.origin) {
            return;
        }
        child.withdraw();
        child.hold().drain();
        drain_kept_mappings(&child.store);
        child.store.dismantle_depots();
        if move_into(child, parent) {
            table::give_slot(child.store.slot);
        }
    }
}

/// Frees everything in a heap whose thread heaps are held.
fn clear(core: &HeapCore) {
    let store = &core.store;
    store.forget_depots();
    for thread_heap in store.thread_heaps() {
        thread_heap.reset(store);
    }
    for region in store.all_regions() {
        let resident_bytes = region.resident_bytes();
        // SAFETY: (1) the caller holds the heap exclusively and gives up its blocks; magazines
        // were forgotten just now.
        unsafe { region.clear() };
        store.uncharge(resident_bytes - region.resident_bytes());
        store.chunks_freed(region);
    }
    for index in 0..store.mappings.end() {
        if let Some(base) = store.mappings.get(index) {
            store.mappings.remove(index);
            store.uncharge(mapping_bytes(base));
            // SAFETY: (1) the roster lists mappings of this heap, whose blocks are given up; its
            // tiers were forgotten.
            unsafe { retire_mapping(base, store.shares_contents(), store.policy.origin) };
        }
    }
    store.mapped_bytes.store(0, Ordering::Relaxed);
    store.recount(0);
}

/// Moves the regions and mappings of `child` to `parent`; returns whether all of them went.
fn move_into(child: &HeapCore, parent: &HeapCore) -> bool {
    let slot = parent.store.slot;
    parent.store.count_taken(child.store.taken_and_peak_bytes().0);
    let mut has_moved_all = true;
    parent.store.account.charge_anyway(child.store.account.charged_bytes());
    for base in child.store.mappings.iter() {
        let child_slot = child.store.slot;
        let bytes = listed_mapping(base, child_slot).bytes;
        let label = |place| relabel_mapping(base, child_slot, slot, place);
        has_moved_all &= parent.store.mappings.insert(base, label).is_some();
        parent.store.mapped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    // SAFETY: the child is this call's alone.
    unsafe { child.store.mappings.dismantle() };
    let regions = child.store.regions.end();
    let own_base = crate::base::align_down(address(&raw const *child), REGION_BYTES);
    for region in (0..regions).filter_map(|index| child.store.region(index)) {
        if region.base() != own_base {
            has_moved_all &= move_region(region, parent);
        }
    }
    // SAFETY: the child is this call's alone.
    unsafe { child.store.regions.dismantle() };
    // SAFETY: [core-in-first-region] the child's own region is mapped.
    has_moved_all & move_region(unsafe { RegionRef::at(own_base) }, parent)
}

fn move_region(region: RegionRef, parent: &HeapCore) -> bool {
    let store = &parent.store;
    match region.is_hollow() {
        true => set_hollow_region(region.base(), store.slot),
        false => relabel_region(region.base(), store.slot),
    }
    region.end_lease();
    if !store.adopt_region(region, 0) {
        return false;
    }
    for slab in Slab::all_of(region).filter(|slab| slab.control().state() == State::Partial) {
        store.partial[slab.class()].mark(region.index());
    }
    true
}
