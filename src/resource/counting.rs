//! A resource that counts what passes.
//!
//! Bytes are counted as asked for. They add up because a block has exactly the bytes asked for, and
//! so comes back with that length (see `provider`).
//!
//! *Concurrency*: any thread, if the upstream may; every counter is exact whenever no thread is
//! inside.
//!
//! *Neighbours*: stands on `provider`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, exactly, resize_within};
use super::{MemoryResource, Owner};
use crate::sync::{AtomicUsize, Ordering};

/// A resource that counts the blocks and bytes its upstream hands out through it.
///
/// # Concurrency
/// Any number of threads, if the upstream allows it.
///
/// # Cost
/// A few atomic additions a call. Blocks have no slack: their length is the one asked for.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::boxed::Box;
/// use polyheap::resource::Counting;
///
/// let heap = Heap::new();
/// let counting = Counting::new(&heap);
/// let kept = Box::new_in([0u8; 100], &counting);
/// drop(Box::new_in([0u8; 200], &counting));
/// let counts = counting.counts();
/// assert_eq!((counts.live_blocks, counts.live_bytes), (1, 100));
/// assert_eq!((counts.allocated_blocks, counts.peak_live_bytes), (2, 300));
/// drop(kept);
/// ```
#[derive(Debug, Default)]
pub struct Counting<U> {
    // All counters: written by whoever calls, read by `counts`, Relaxed; they publish nothing.
    allocated_blocks: AtomicUsize,
    freed_blocks: AtomicUsize,
    resized_blocks: AtomicUsize,
    denied_requests: AtomicUsize,
    live_bytes: AtomicUsize,
    peak_live_bytes: AtomicUsize,
    upstream: U,
}

/// What a [`Counting`] resource counted; a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Blocks allocated and not freed.
    pub live_blocks: usize,
    /// Bytes of those blocks, as asked for.
    pub live_bytes: usize,
    /// Most bytes that were live at once.
    pub peak_live_bytes: usize,
    /// Blocks allocated so far.
    pub allocated_blocks: usize,
    /// Blocks freed so far.
    pub freed_blocks: usize,
    /// Blocks grown or shrunk so far, moved or not.
    pub resized_blocks: usize,
    /// Requests that the upstream refused so far.
    pub denied_requests: usize,
}

impl<U> Counting<U> {
    /// Returns a resource that counts what `upstream` hands out.
    pub const fn new(upstream: U) -> Counting<U> {
        Counting {
            allocated_blocks: AtomicUsize::new(0),
            freed_blocks: AtomicUsize::new(0),
            resized_blocks: AtomicUsize::new(0),
            denied_requests: AtomicUsize::new(0),
            live_bytes: AtomicUsize::new(0),
            peak_live_bytes: AtomicUsize::new(0),
            upstream,
        }
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Returns what was counted so far.
    ///
    /// # Concurrency
    /// Any thread. The numbers agree with each other when no thread is inside.
    pub fn counts(&self) -> Counts {
        // Frees first, so that a block freed meanwhile does not take the difference below zero.
        let freed_blocks = self.freed_blocks.load(Ordering::Relaxed);
        let allocated_blocks = self.allocated_blocks.load(Ordering::Relaxed);
        Counts {
            live_blocks: allocated_blocks.saturating_sub(freed_blocks),
            live_bytes: self.live_bytes.load(Ordering::Relaxed),
            peak_live_bytes: self.peak_live_bytes.load(Ordering::Relaxed),
            allocated_blocks,
            freed_blocks,
            resized_blocks: self.resized_blocks.load(Ordering::Relaxed),
            denied_requests: self.denied_requests.load(Ordering::Relaxed),
        }
    }

    fn add_bytes(&self, bytes: usize) {
        let before = self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.peak_live_bytes.fetch_max(before.wrapping_add(bytes), Ordering::Relaxed);
    }

    fn note_denied(&self) {
        self.denied_requests.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the upstream keeps each promise; the bytes cut off its blocks are not used.
unsafe impl<U: MemoryResource> Provider for Counting<U> {
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        let block = allocate_from(&self.upstream, layout, fill);
        let block = block.inspect_err(|_| self.note_denied())?;
        self.allocated_blocks.fetch_add(1, Ordering::Relaxed);
        self.add_bytes(layout.size());
        Ok(exactly(block, layout.size()))
    }

    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        // Before the block goes: what another thread makes of it is never counted beside it.
        self.live_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        self.freed_blocks.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the contract is this function's.
        unsafe { self.upstream.deallocate(block, layout) };
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the contract is this function's.
        let resized = unsafe { resize_within(&self.upstream, block, from, to, fill) };
        let resized = resized.inspect_err(|_| self.note_denied())?;
        self.resized_blocks.fetch_add(1, Ordering::Relaxed);
        match to.size().checked_sub(from.size()) {
            Some(gained) => self.add_bytes(gained),
            None => {
                self.live_bytes.fetch_sub(from.size() - to.size(), Ordering::Relaxed);
            }
        }
        Ok(exactly(resized, to.size()))
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        self.upstream.owns(block)
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

ready_made!([U: MemoryResource] Counting<U>);
owner_by!([U: Owner] Counting<U> => upstream);
