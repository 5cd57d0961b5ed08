//! Blocks that a pool passes on to its upstream, in a list, so that they go with the pool.
//!
//! ```text
//! │ block, to a multiple of 16 │ descriptor: previous, next, block, layout │
//! ```
//!
//! The descriptor lies behind the block, at the length asked for rounded up to 16. That is the length
//! returned, so every length the block may be freed with leads to the descriptor. Behind, because in
//! front a large alignment would cost as much again.
//!
//! *Concurrency*: one thread at a time (`!Sync`).
//!
//! *Neighbours*: stands on `provider`; `pool` has one.

use core::alloc::Layout;
use core::cell::Cell;
use core::iter;
use core::ptr::NonNull;

use super::MemoryResource;
use super::provider::{Fill, allocate_from, resize_within};
use crate::base::{address, align_up};

/// Alignment of a descriptor, and what a block's length is rounded up to.
const DESCRIPTOR_ALIGN: usize = 16;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Descriptor {
    previous: Option<NonNull<Descriptor>>,
    next: Option<NonNull<Descriptor>>,
    block: NonNull<u8>,
    /// What the upstream was asked for, descriptor counted.
    layout: Layout,
}

/// A list of an upstream's blocks, the latest first.
#[derive(Debug)]
pub(super) struct LargeList {
    /// The latest block's descriptor; those from it on are live, and their links lead to each other.
    first: Cell<Option<NonNull<Descriptor>>>,
}

impl LargeList {
    pub(super) const fn new() -> LargeList {
        LargeList { first: Cell::new(None) }
    }

    /// Takes a block.
    pub(super) fn take<U: MemoryResource>(
        &self,
        upstream: &U,
        layout: Layout,
        fill: Fill,
    ) -> Option<NonNull<[u8]>> {
        let (whole, bytes) = whole_of(layout)?;
        let block = allocate_from(upstream, whole, fill).ok()?.cast();
        let next = self.first.get();
        let fields = Descriptor { previous: None, next, block, layout: whole };
        // SAFETY: (1) just allocated, with place for the descriptor. (2) the list's first.
        unsafe { self.link(fields, bytes) };
        Some(NonNull::slice_from_raw_parts(block, bytes))
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// 1. `block` is a live block of this list, and `layout` one it may be freed with.
    /// 2. It was taken from `upstream`.
    pub(super) unsafe fn give<U: MemoryResource>(
        &self,
        upstream: &U,
        block: NonNull<u8>,
        layout: Layout,
    ) {
        // SAFETY: (1).
        let fields = unsafe { descriptor_of(block, layout) };
        if let Some(mut next) = fields.next {
            // SAFETY: in the list, so live.
            unsafe { next.as_mut() }.previous = fields.previous;
        }
        match fields.previous {
            // SAFETY: in the list, so live.
            Some(mut previous) => unsafe { previous.as_mut() }.next = fields.next,
            None => self.first.set(fields.next),
        }
        // SAFETY: (2), with the layout it was asked for with; nobody uses it any more.
        unsafe { upstream.deallocate(block, fields.layout) };
    }

    /// Makes a block fit `to`.
    ///
    /// # Safety
    /// As [`give`](LargeList::give), with `from` for the layout.
    pub(super) unsafe fn resize<U: MemoryResource>(
        &self,
        upstream: &U,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Option<NonNull<[u8]>> {
        // SAFETY: (1).
        let mut fields = unsafe { descriptor_of(block, from) };
        let (whole, bytes) = whole_of(to)?;
        // SAFETY: (1), (2): live, with the layout it was asked for with. From here to `link` the
        // neighbours' links lead nowhere, and nobody follows them.
        let resized = unsafe { resize_within(upstream, block, fields.layout, whole, fill) };
        let resized = resized.ok()?.cast::<u8>();
        if fill == Fill::Zeroed && bytes > from.size() {
            // What the upstream cleared begins behind the old descriptor.
            let stale_bytes = fields.layout.size().min(bytes) - from.size();
            // SAFETY: in the block.
            let stale = unsafe { resized.add(from.size()) };
            // SAFETY: not behind the block's end, nor the contents it keeps.
            unsafe { stale.write_bytes(0, stale_bytes) };
        }
        fields.block = resized;
        fields.layout = whole;
        // SAFETY: (1) just allocated, with place for the descriptor. (2) its old neighbours'.
        unsafe { self.link(fields, bytes) };
        Some(NonNull::slice_from_raw_parts(resized, bytes))
    }

    /// Gives all blocks back.
    ///
    /// # Safety
    /// 1. All were taken from `upstream`, and nobody uses them any more.
    pub(super) unsafe fn release<U: MemoryResource>(&self, upstream: &U) {
        let mut next = self.first.take();
        while let Some(descriptor) = next {
            // SAFETY: out of the list, and still there.
            let fields = unsafe { descriptor.read() };
            next = fields.next;
            // SAFETY: (1), with the layout it was asked for with.
            unsafe { upstream.deallocate(fields.block, fields.layout) };
        }
    }

    /// Returns whether `block` lies in one of the blocks.
    pub(super) fn has(&self, block: NonNull<u8>) -> bool {
        let place = address(block.as_ptr());
        // SAFETY: in the list, so live.
        let each = |descriptor: NonNull<Descriptor>| unsafe { descriptor.read() };
        let all = iter::successors(self.first.get().map(each), |fields| fields.next.map(each));
        let mut starts = all.map(|fields| (address(fields.block.as_ptr()), fields.layout.size()));
        starts.any(|(start, bytes)| place.wrapping_sub(start) < bytes)
    }

    /// Writes a descriptor behind `bytes` bytes of its block and leads its neighbours there.
    ///
    /// # Safety
    /// 1. The block is live and has place for it there.
    /// 2. The neighbours it names are live, and neighbours in this list but for it.
    unsafe fn link(&self, fields: Descriptor, bytes: usize) {
        // SAFETY: (1).
        let place = unsafe { fields.block.add(bytes) }.cast::<Descriptor>();
        // SAFETY: (1); aligned, as the block is and `bytes` is a multiple of that.
        unsafe { place.write(fields) };
        if let Some(mut next) = fields.next {
            // SAFETY: (2).
            unsafe { next.as_mut() }.previous = Some(place);
        }
        match fields.previous {
            // SAFETY: (2).
            Some(mut previous) => unsafe { previous.as_mut() }.next = Some(place),
            None => self.first.set(Some(place)),
        }
    }
}

/// Returns what to ask the upstream for, and the bytes of it that are the caller's.
fn whole_of(layout: Layout) -> Option<(Layout, usize)> {
    let bytes = align_up(layout.size(), DESCRIPTOR_ALIGN)?;
    let whole_bytes = bytes.checked_add(size_of::<Descriptor>())?;
    let align = layout.align().max(DESCRIPTOR_ALIGN);
    Some((Layout::from_size_align(whole_bytes, align).ok()?, bytes))
}

/// Returns the descriptor behind a block.
///
/// # Safety
/// 1. `block` is a live block of a list, and `layout` one it may be freed with.
unsafe fn descriptor_of(block: NonNull<u8>, layout: Layout) -> Descriptor {
    let bytes = layout.size().next_multiple_of(DESCRIPTOR_ALIGN);
    // SAFETY: (1): every such length rounds up to the block's.
    let place = unsafe { block.add(bytes) };
    // SAFETY: (1): written there when the block was taken.
    unsafe { place.cast::<Descriptor>().read() }
}
