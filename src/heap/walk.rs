//! Questions about addresses, and the walk over live blocks.
//!
//! *Concurrency*: look-ups by any thread; the walk needs the heap exclusively.
//!
//! *Neighbours*: stands on the region map, `slab` and `core`.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::core::HeapCore;
use super::{Heap, HeapId, table};
use crate::base::{META_CLASS, address, at_address, slab_block_bytes, slab_blocks};
use crate::config::REGION_CHUNKS;
use crate::region::{
    EntryKind, RegionRef, listed_mapping, lookup, mapping_at, mapping_bytes, mapping_colour,
    owner_slot,
};
use crate::slab::{Slab, span_around};
use crate::sync::Ordering;

/// A live block, as [`Heap::visit_blocks`] shows it.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pointer: NonNull<u8>,
    bytes: usize,
    _heap: PhantomData<&'a Heap>,
}

impl Block<'_> {
    /// Returns the block's start.
    pub fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Returns the block's usable bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the heap whose memory `pointer` points into, whatever address it is.
///
/// # Concurrency
/// Any thread, lock-free; touches no memory that may be going away. For a heap being dropped
/// meanwhile the answer may be its number or `None`.
///
/// # Examples
/// ```
/// let heap = polyheap::Heap::new();
/// let value = heap.boxed(1);
/// let place = core::ptr::NonNull::from(&*value).cast();
/// assert_eq!(polyheap::heap_of(place), Some(heap.id().unwrap()));
/// assert_eq!(polyheap::heap_of(core::ptr::NonNull::dangling()), None);
/// ```
pub fn heap_of(pointer: NonNull<u8>) -> Option<HeapId> {
    owner_slot(address(pointer.as_ptr())).map(|slot| HeapId(table::heap_number(slot)))
}

impl Heap {
    /// Returns whether `pointer` points into memory of this heap, allocated or not.
    ///
    /// # Concurrency
    /// Any thread, lock-free. Cost: two dependent loads.
    ///
    /// # Examples
    /// ```
    /// let (net, disk) = (polyheap::Heap::new(), polyheap::Heap::new());
    /// let value = net.boxed(1);
    /// let place = core::ptr::NonNull::from(&*value).cast();
    /// assert!(net.owns(place) && !disk.owns(place));
    /// ```
    pub fn owns(&self, pointer: NonNull<u8>) -> bool {
        let Some(core) = self.core() else { return false };
        owner_slot(address(pointer.as_ptr())) == Some(core.store.slot)
    }

    /// Returns the usable bytes of the block that starts at `pointer`; `None` when no block of
    /// this heap starts there. A block that was freed may still be answered for.
    ///
    /// # Concurrency
    /// Any thread, lock-free.
    ///
    /// # Examples
    /// ```
    /// let heap = polyheap::Heap::new();
    /// let value = heap.boxed([0u8; 100]);
    /// let place = core::ptr::NonNull::from(&*value).cast();
    /// assert_eq!(heap.usable_size(place), Some(112));
    /// ```
    pub fn usable_size(&self, pointer: NonNull<u8>) -> Option<usize> {
        let core = self.core()?;
        let place = address(pointer.as_ptr());
        if let Some((base, head)) = mapping_at(place, lookup(place)) {
            let colour = mapping_colour(base);
            let is_block = head.slot() == core.store.slot && base + colour.offset_bytes() == place;
            return is_block.then(|| colour.usable_bytes(mapping_bytes(base)));
        }
        if !lookup(place).is_region_of(core.store.slot) {
            return None;
        }
        // SAFETY: the map says that a region of this heap lies there.
        let region = unsafe { RegionRef::of(place) };
        if let Some(span) = span_around(region, place) {
            return (span.block == place).then_some(span.bytes);
        }
        let (slab, index) = Slab::around(region, place)?;
        let is_block = slab.block(index) == place && slab.class() != META_CLASS;
        is_block.then(|| slab_block_bytes(slab.class()))
    }

    /// Calls `visit` for every live block, in no particular order.
    ///
    /// Empties the caches of all threads into the slabs first, so that cached blocks are not
    /// taken for live ones.
    ///
    /// # Cost
    /// O(cached blocks + slabs + live blocks).
    ///
    /// # Examples
    /// ```
    /// let mut heap = polyheap::Heap::new();
    /// core::mem::forget(heap.boxed(5u64));
    /// let mut bytes = 0;
    /// heap.visit_blocks(|block| bytes += block.bytes());
    /// assert_eq!(bytes, 16);
    /// ```
    pub fn visit_blocks(&mut self, mut visit: impl FnMut(Block<'_>)) {
        let Some(core) = self.core() else { return };
        let held = core.hold();
        held.drain();
        core.for_each_live(|block, bytes| {
            if let Some(pointer) = NonNull::new(at_address(block)) {
                visit(Block { pointer, bytes, _heap: PhantomData });
            }
        });
    }
}

impl HeapCore {
    /// Calls `act` with address and bytes of every block that is out of the slabs. After
    /// `quiesce` those are the live ones.
    pub(super) fn for_each_live(&self, mut act: impl FnMut(usize, usize)) {
        for region in self.store.all_regions() {
            for slab in Slab::all_of(region).filter(|slab| slab.class() != META_CLASS) {
                for_each_taken(slab, |block| act(block, slab_block_bytes(slab.class())));
            }
            for_each_span(region, &mut act);
        }
        for base in self.store.mappings.iter() {
            let listed = listed_mapping(base, self.store.slot);
            if listed.head.kind() == EntryKind::Mapping {
                let colour = listed.colour;
                act(base + colour.offset_bytes(), colour.usable_bytes(listed.bytes));
            }
        }
    }
}

fn for_each_taken(slab: Slab, mut act: impl FnMut(usize)) {
    for index in 0..slab_blocks(slab.class()) {
        let word = slab.words().bits[index / 64].load(Ordering::Relaxed);
        if word >> (index % 64) & 1 == 0 {
            act(slab.block(index));
        }
    }
}

fn for_each_span(region: RegionRef, act: &mut impl FnMut(usize, usize)) {
    let mut chunk = 1;
    while chunk < REGION_CHUNKS {
        match span_around(region, region.chunk_base(chunk)) {
            Some(span) if span.chunk == chunk => {
                act(span.block, span.bytes);
                chunk += span.chunks;
            }
            _ => chunk += 1,
        }
    }
}
