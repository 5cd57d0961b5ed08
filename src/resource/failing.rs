//! A resource that fails on purpose, for tests of what happens then.
//!
//! *Concurrency*: any thread, if the upstream may; requests are numbered across all threads.
//!
//! *Neighbours*: stands on `provider`.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::faces::{owner_by, ready_made};
use super::provider::{Fill, Provider, allocate_from, resize_within};
use super::{MemoryResource, Owner};
use crate::sync::{AtomicUsize, Ordering};

/// Which requests a [`Failing`] resource refuses. Allocating, growing and shrinking are requests, but
/// for those of size 0; they are numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailWhen {
    /// None.
    Never,
    /// The one with this number.
    Nth(usize),
    /// Those whose number is a multiple of this one; 0 is none.
    EveryNth(usize),
    /// The one with this number and all later ones.
    FromNth(usize),
    /// Those of more bytes than this.
    LargerThan(usize),
}

/// A resource that refuses chosen requests and passes the others on.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::{FailWhen, Failing};
///
/// let heap = Heap::new();
/// let failing = Failing::new(&heap, FailWhen::Nth(2));
/// let mut list = Vec::<u8, _>::new_in(&failing);
/// assert!(list.try_reserve(10).is_ok());
/// assert!(list.try_reserve(100).is_err());
/// assert!(list.try_reserve(100).is_ok());
/// assert_eq!((failing.requests(), failing.denied_requests()), (3, 1));
/// ```
#[derive(Debug)]
pub struct Failing<U> {
    /// Requests so far. Relaxed: each takes one number, and nothing is published.
    requests: AtomicUsize,
    /// Requests refused here so far. Relaxed.
    denied_requests: AtomicUsize,
    when: FailWhen,
    upstream: U,
}

impl<U> Failing<U> {
    /// Returns a resource that refuses what `when` says and takes the rest from `upstream`.
    pub const fn new(upstream: U, when: FailWhen) -> Failing<U> {
        Failing {
            requests: AtomicUsize::new(0),
            denied_requests: AtomicUsize::new(0),
            when,
            upstream,
        }
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Returns the requests made so far, refused ones counted.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the requests refused here so far.
    pub fn denied_requests(&self) -> usize {
        self.denied_requests.load(Ordering::Relaxed)
    }

    fn admit(&self, bytes: usize) -> Result<(), AllocError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let is_denied = match self.when {
            FailWhen::Never => false,
            FailWhen::Nth(nth) => number == nth,
            FailWhen::EveryNth(nth) => nth != 0 && number.is_multiple_of(nth),
            FailWhen::FromNth(nth) => number >= nth,
            FailWhen::LargerThan(most) => bytes > most,
        };
        if is_denied {
            self.denied_requests.fetch_add(1, Ordering::Relaxed);
            return Err(AllocError);
        }
        Ok(())
    }
}

// SAFETY: the upstream keeps each promise.
unsafe impl<U: MemoryResource> Provider for Failing<U> {
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        self.admit(layout.size())?;
        allocate_from(&self.upstream, layout, fill)
    }

    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
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
        self.admit(to.size())?;
        // SAFETY: the contract is this function's.
        unsafe { resize_within(&self.upstream, block, from, to, fill) }
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        self.upstream.owns(block)
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

ready_made!([U: MemoryResource] Failing<U>);
owner_by!([U: Owner] Failing<U> => upstream);
