//! A resource with a limit on the bytes it has handed out.
//!
//! Bytes are charged as asked for, before the upstream is asked, in one exchange that compares with
//! the limit; what the upstream then refuses is taken off again.
//!
//! *Concurrency*: any thread, if the upstream may; the limit is at no moment passed.
//!
//! *Neighbours*: stands on `provider`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, exactly, resize_within};
use super::{MemoryResource, Owner};
use crate::sync::{AtomicUsize, Ordering};

/// A resource that refuses what would take the bytes of its live blocks above a limit.
///
/// The bytes are those asked for: what the upstream's size classes or headers add is not seen. To
/// limit what a heap holds of the system, give the heap itself a
/// [limit](crate::HeapBuilder::max_bytes).
///
/// # Concurrency
/// Any number of threads, if the upstream allows it.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::Budget;
///
/// let heap = Heap::new();
/// let budget = Budget::new(&heap, 1000);
/// let mut list = Vec::<u8, _>::with_capacity_in(900, &budget);
/// assert!(list.try_reserve_exact(1200).is_err());
/// assert_eq!((budget.used_bytes(), budget.denied_requests()), (900, 1));
/// ```
#[derive(Debug)]
pub struct Budget<U> {
    /// Bytes of the live blocks, as asked for. Written by whoever calls, Relaxed: it publishes nothing.
    used_bytes: AtomicUsize,
    /// Requests refused by the limit. Relaxed, likewise.
    denied_requests: AtomicUsize,
    max_bytes: usize,
    upstream: U,
}

impl<U> Budget<U> {
    /// Returns a resource that lets `max_bytes` bytes of `upstream`'s be live at once.
    pub const fn new(upstream: U, max_bytes: usize) -> Budget<U> {
        Budget {
            used_bytes: AtomicUsize::new(0),
            denied_requests: AtomicUsize::new(0),
            max_bytes,
            upstream,
        }
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Returns the most bytes that may be live at once.
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns the bytes of the live blocks, as asked for.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns how many requests the limit refused so far.
    pub fn denied_requests(&self) -> usize {
        self.denied_requests.load(Ordering::Relaxed)
    }

    fn charge(&self, bytes: usize) -> Result<(), AllocError> {
        let add = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.max_bytes);
        let charged = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if charged.is_err() {
            self.denied_requests.fetch_add(1, Ordering::Relaxed);
        }
        charged.map(|_| ()).or(Err(AllocError))
    }

    fn refund(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: the upstream keeps each promise; the bytes cut off its blocks are not used.
unsafe impl<U: MemoryResource> Provider for Budget<U> {
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        self.charge(layout.size())?;
        let block = allocate_from(&self.upstream, layout, fill);
        let block = block.inspect_err(|_| self.refund(layout.size()))?;
        Ok(exactly(block, layout.size()))
    }

    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the contract is this function's.
        unsafe { self.upstream.deallocate(block, layout) };
        // After the block went, so that the limit holds for what the upstream has out.
        self.refund(layout.size());
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let gained_bytes = to.size().saturating_sub(from.size());
        self.charge(gained_bytes)?;
        // SAFETY: the contract is this function's.
        let resized = unsafe { resize_within(&self.upstream, block, from, to, fill) };
        let resized = resized.inspect_err(|_| self.refund(gained_bytes))?;
        self.refund(from.size().saturating_sub(to.size()));
        Ok(exactly(resized, to.size()))
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        self.upstream.owns(block)
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

ready_made!([U: MemoryResource] Budget<U>);
owner_by!([U: Owner] Budget<U> => upstream);
