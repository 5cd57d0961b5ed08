//! A resource that remembers the last requests.
//!
//! The events lie in a ring inside the resource, so that tracing allocates nothing and can be left on
//! under an allocator. Blocks are seen as the upstream hands them out: nothing is cut or rounded.
//!
//! *Concurrency*: any thread, if the upstream may; see `ring`.
//!
//! *Neighbours*: stands on `provider` and `ring`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, resize_within};
use super::ring::{Event, EventKind, Ring};
use super::{MemoryResource, Owner};
use crate::base::address;

/// A resource that keeps the last `EVENTS` requests and frees, in a ring without allocation.
///
/// # Concurrency
/// Any number of threads, if the upstream allows it. Threads that write to the ring's same place at
/// once lose an event each but one, which is [counted](Traced::lost_events).
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::boxed::Box;
/// use polyheap::resource::{EventKind, Traced};
///
/// let heap = Heap::new();
/// let traced = Traced::<_, 16>::new(&heap);
/// drop(Box::new_in([0u64; 4], &traced));
/// let kinds: Vec<_> = traced.events().map(|event| (event.kind, event.bytes)).collect();
/// assert_eq!(kinds, [(EventKind::Allocate, 32), (EventKind::Deallocate, 0)]);
/// ```
#[derive(Debug)]
pub struct Traced<U, const EVENTS: usize> {
    upstream: U,
    ring: Ring<EVENTS>,
}

impl<U, const EVENTS: usize> Traced<U, EVENTS> {
    /// Returns a resource that keeps what `upstream` is asked. `EVENTS` is not 0.
    pub const fn new(upstream: U) -> Traced<U, EVENTS> {
        Traced { upstream, ring: Ring::new() }
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Iterates over the last events, oldest first; those that are being written or overwritten
    /// meanwhile are left out.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.ring.events()
    }

    /// Returns how many events there were, those no longer in the ring counted.
    pub fn seen_events(&self) -> usize {
        self.ring.seen()
    }

    /// Returns how many events were lost to another at the same place.
    pub fn lost_events(&self) -> usize {
        self.ring.lost()
    }

    fn note_request(
        &self,
        kind: EventKind,
        old: Option<(NonNull<u8>, Layout)>,
        asked: Layout,
        granted: &Result<NonNull<[u8]>, AllocError>,
    ) {
        let new_address = |block: &NonNull<[u8]>| address(block.cast::<u8>().as_ptr());
        self.ring.write(Event {
            number: 0,
            kind,
            old_address: old.map_or(0, |(block, _)| address(block.as_ptr())),
            old_bytes: old.map_or(0, |(_, layout)| layout.size()),
            address: granted.as_ref().map_or(0, new_address),
            bytes: asked.size(),
            align_bytes: asked.align(),
        });
    }

    fn note_free(&self, block: NonNull<u8>, layout: Layout) {
        self.ring.write(Event {
            number: 0,
            kind: EventKind::Deallocate,
            old_address: address(block.as_ptr()),
            old_bytes: layout.size(),
            address: 0,
            bytes: 0,
            align_bytes: layout.align(),
        });
    }
}

// SAFETY: the upstream keeps each promise.
unsafe impl<U: MemoryResource, const EVENTS: usize> Provider for Traced<U, EVENTS> {
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        let block = allocate_from(&self.upstream, layout, fill);
        let kind = match fill {
            Fill::Any => EventKind::Allocate,
            Fill::Zeroed => EventKind::AllocateZeroed,
        };
        self.note_request(kind, None, layout, &block);
        block
    }

    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        // Before the block goes, so that its next allocation comes after.
        self.note_free(block, layout);
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
        let kind = match fill {
            Fill::Any => EventKind::Resize,
            Fill::Zeroed => EventKind::ResizeZeroed,
        };
        self.note_request(kind, Some((block, from)), to, &resized);
        resized
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        self.upstream.owns(block)
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

ready_made!([U: MemoryResource, const EVENTS: usize] Traced<U, EVENTS>);
owner_by!([U: Owner, const EVENTS: usize] Traced<U, EVENTS> => upstream);
