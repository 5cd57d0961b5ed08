//! Large blocks: requests that would waste much of a chunk get a block of the heap's own.
//!
//! Each has a descriptor, likewise a block of the heap, in a list with the latest first. Its serial
//! number, the arena's count of takings, says whether it came after a mark. One of the latest large
//! blocks is freed and resized at once; others wait for the end of their scope.
//!
//! *Concurrency*: as its arena's.
//!
//! *Neighbours*: adds to `arena`; stands on `upstream`.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use crate::arena::Arena;
use crate::clear::clear;
use crate::config::{LARGE_BYTES_MIN, LARGE_SEARCH_MAX};
use crate::os;
use crate::place::padded_bytes;
use crate::upstream;

/// The descriptor of a large block.
#[derive(Debug)]
pub(crate) struct Large {
    /// The large block made before this one.
    below: Cell<Option<NonNull<Large>>>,
    start: Cell<NonNull<u8>>,
    /// What the heap was asked for.
    layout: Cell<Layout>,
    /// Bytes handed out.
    bytes: Cell<usize>,
    /// Bytes of the heap's block.
    held_bytes: Cell<usize>,
    serial: u64,
}

/// Where a descriptor is linked: in the arena or in another descriptor.
type Link = Cell<Option<NonNull<Large>>>;

/// Returns whether a block of `layout` may be a large one.
#[inline(always)]
pub(crate) fn is_perhaps_large(layout: Layout) -> bool {
    layout.size().saturating_add(layout.align()) > LARGE_BYTES_MIN
}

impl Arena<'_> {
    /// Takes a large block.
    pub(crate) fn take_large(&self, layout: Layout) -> Option<NonNull<u8>> {
        let bytes = padded_bytes(layout.size());
        let asked = self.large_layout(layout)?;
        let descriptor = upstream::allocate(self.heap, Layout::new::<Large>())?.cast::<Large>();
        let Some(block) = self.take_large_block(asked) else {
            // SAFETY: just allocated with this layout.
            unsafe { upstream::deallocate(self.heap, descriptor.cast(), Layout::new::<Large>()) };
            return None;
        };
        let serial = self.takings.get() + 1;
        let fields = Large {
            below: Cell::new(self.large.get()),
            start: Cell::new(block.cast()),
            layout: Cell::new(asked),
            bytes: Cell::new(bytes),
            held_bytes: Cell::new(block.len()),
            serial,
        };
        // SAFETY: just allocated with the descriptor's layout.
        unsafe { descriptor.write(fields) };
        self.large.set(Some(descriptor));
        self.takings.set(serial);
        self.is_single.set(false);
        self.large_bytes.set(self.large_bytes.get() + bytes);
        self.settle_end();
        Some(block.cast())
    }

    fn take_large_block(&self, asked: Layout) -> Option<NonNull<[u8]>> {
        let protection = self.policy.protection;
        let block = upstream::allocate(self.heap, asked)?;
        if !protection.is_none() && !os::protect(block.cast(), asked.size(), protection) {
            // SAFETY: just allocated with this layout.
            unsafe { upstream::deallocate(self.heap, block.cast(), asked) };
            return None;
        }
        Some(block)
    }

    /// Returns what the heap is asked for: padded as blocks of chunks are, and whole OS pages when
    /// they are to be protected.
    fn large_layout(&self, layout: Layout) -> Option<Layout> {
        let page = if self.policy.protection.is_none() { 1 } else { os::page_bytes() };
        let bytes = padded_bytes(layout.size()).checked_next_multiple_of(page)?;
        Layout::from_size_align(bytes, layout.align().max(page)).ok()
    }

    /// Frees the large blocks made after the one of number `serial`.
    ///
    /// # Safety
    /// 1. Nobody uses them any more.
    pub(crate) unsafe fn free_large_since(&self, serial: u64) {
        while let Some(latest) = self.large.get()
            // SAFETY: [large-list] a descriptor in the list is live.
            && unsafe { latest.as_ref() }.serial > serial
        {
            // SAFETY: (1).
            unsafe { self.free_large(&self.large) };
        }
    }

    /// Frees the large block that begins at `block`, if it is among the latest.
    ///
    /// # Safety
    /// 1. Nobody uses it any more.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn free_if_large(&self, block: NonNull<u8>) {
        if let Some(link) = self.find_large(block) {
            // SAFETY: (1).
            unsafe { self.free_large(link) };
            self.settle_end();
        }
    }

    /// Frees the large block that `link` leads to, cleared if the region is secret.
    ///
    /// # Safety
    /// 1. Nobody uses it any more.
    unsafe fn free_large(&self, link: &Link) {
        let Some(descriptor) = link.get() else { return };
        // SAFETY: [large-list] live.
        let fields = unsafe { descriptor.as_ref() };
        let (start, layout) = (fields.start.get(), fields.layout.get());
        if self.policy.is_secret {
            // SAFETY: (1), and the block has as many bytes.
            unsafe { clear(start, fields.bytes.get()) };
        }
        link.set(fields.below.get());
        self.large_bytes.set(self.large_bytes.get() - fields.bytes.get());
        let protection = self.policy.protection;
        if protection.is_none() || os::unprotect(start, layout.size(), protection) {
            // SAFETY: (1); allocated from this heap with this layout.
            unsafe { upstream::deallocate(self.heap, start, layout) };
        }
        // SAFETY: out of the list; allocated from this heap with this layout.
        unsafe { upstream::deallocate(self.heap, descriptor.cast(), Layout::new::<Large>()) };
    }

    /// Resizes a large block by way of the heap, which may do it without copying. `None`, and
    /// nothing changed, if there is none at `block`, the heap or the limit refuses, or copies of
    /// its contents must not be left behind.
    ///
    /// # Safety
    /// 1. `block` is a live block of this arena.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn resize_large(
        &self,
        block: NonNull<u8>,
        to: Layout,
    ) -> Option<NonNull<u8>> {
        if self.policy.is_secret || !self.policy.protection.is_none() || to.size() == 0 {
            return None;
        }
        let link = self.find_large(block)?;
        // SAFETY: [large-list] live.
        let fields = unsafe { link.get()?.as_ref() };
        let (from, to) = (fields.layout.get(), self.large_layout(to)?);
        let used_otherwise = self.used_bytes() - fields.bytes.get();
        if to.size() > self.policy.max_bytes.saturating_sub(used_otherwise) {
            return None;
        }
        // SAFETY: (1), of this layout.
        let resized = unsafe { upstream::resize(self.heap, block, from, to) }?;
        fields.start.set(resized.cast());
        fields.layout.set(to);
        fields.bytes.set(to.size());
        fields.held_bytes.set(resized.len());
        self.large_bytes.set(used_otherwise + to.size() - self.used_in_chunks_bytes());
        self.settle_end();
        Some(resized.cast())
    }

    /// Returns where the large block at `block` is linked, if it is among the latest.
    fn find_large(&self, block: NonNull<u8>) -> Option<&Link> {
        let mut link = &self.large;
        for _ in 0..LARGE_SEARCH_MAX {
            // SAFETY: [large-list] live.
            let fields = unsafe { link.get()?.as_ref() };
            if fields.start.get() == block {
                return Some(link);
            }
            link = &fields.below;
        }
        None
    }

    /// Returns the large blocks' number and the bytes the heap gave for them.
    pub(crate) fn large_count_and_held_bytes(&self) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let mut next = self.large.get();
        while let Some(descriptor) = next {
            // SAFETY: [large-list] live.
            let fields = unsafe { descriptor.as_ref() };
            count += 1;
            bytes += fields.held_bytes.get();
            next = fields.below.get();
        }
        (count, bytes)
    }
}
