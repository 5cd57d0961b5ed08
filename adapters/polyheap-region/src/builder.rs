//! The options of a region and the builder that sets them.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: makes regions and scopes.

use polyheap::Heap;
use polyheap::allocator_api2::alloc::AllocError;

use crate::arena::{Arena, Policy};
use crate::config::CURSOR_ALIGN;
use crate::error::or_panic;
use crate::os::Protection;
use crate::region::Region;
use crate::scope::{Scope, with_arena};
use crate::secret::SecretRegion;

/// Sets up a region before it is made.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap_region::Region;
///
/// let heap = Heap::new();
/// let request = Region::builder().max_bytes(1 << 20).build_in(&heap);
/// assert!(request.try_alloc_slice_fill_with(2 << 20, |_| 0u8).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder makes nothing until `build_in` or `scope` is called"]
pub struct RegionBuilder {
    policy: Policy,
    capacity_bytes: usize,
}

impl RegionBuilder {
    pub(crate) const fn new() -> RegionBuilder {
        let policy = Policy {
            max_bytes: usize::MAX & !(CURSOR_ALIGN - 1),
            is_secret: false,
            protection: Protection::NONE,
        };
        RegionBuilder { policy, capacity_bytes: 0 }
    }

    /// Makes the region take a first chunk with room for so many bytes when it is built.
    pub const fn capacity_bytes(mut self, bytes: usize) -> RegionBuilder {
        self.capacity_bytes = bytes;
        self
    }

    /// Limits the bytes handed out at a time, those spent on alignment counted; rounded down to a
    /// multiple of 8. Requests beyond it are refused.
    ///
    /// The memory taken from the heap is bounded by it up to one chunk.
    pub const fn max_bytes(mut self, bytes: usize) -> RegionBuilder {
        self.policy.max_bytes = bytes & !(CURSOR_ALIGN - 1);
        self
    }

    /// Clears every byte handed out before it is given back or up, on every way out: the scope's or
    /// region's end, also by a panic, rewinding, resetting, freeing. See [`SecretRegion`].
    pub const fn secret(mut self) -> RegionBuilder {
        self.policy.is_secret = true;
        self
    }

    /// Keeps the memory in RAM (`mlock`), so that it is never written to swap.
    ///
    /// A request fails when the system does not let the process lock another chunk
    /// (`RLIMIT_MEMLOCK`). Costs a system call or two a chunk.
    pub const fn locked(self) -> RegionBuilder {
        self.protected(Protection::LOCKED)
    }

    /// Keeps the memory out of core dumps (Linux; elsewhere every request fails). Costs two system
    /// calls a chunk.
    pub const fn undumped(self) -> RegionBuilder {
        self.protected(Protection::UNDUMPED)
    }

    /// Makes the memory read as zeros in a forked process (Linux; elsewhere every request fails).
    /// Costs two system calls and an OS page a chunk.
    pub const fn wiped_on_fork(self) -> RegionBuilder {
        self.protected(Protection::WIPED_ON_FORK)
    }

    const fn protected(mut self, protection: Protection) -> RegionBuilder {
        self.policy.protection = self.policy.protection.and(protection);
        self
    }

    /// Returns the region.
    ///
    /// # Panics
    /// When there is no memory for the capacity asked for.
    pub fn build_in(self, heap: &Heap) -> Region<'_> {
        or_panic(self.try_build_in(heap))
    }

    /// Returns the region.
    ///
    /// # Errors
    /// When there is no memory for the capacity asked for.
    pub fn try_build_in(self, heap: &Heap) -> Result<Region<'_>, AllocError> {
        let region = Region::with_policy(heap, self.policy);
        region.arena().reserve(self.capacity_bytes)?;
        Ok(region)
    }

    /// Returns the region as one whose type says that it is secret.
    ///
    /// # Panics
    /// When there is no memory for the capacity asked for.
    pub fn build_secret_in(self, heap: &Heap) -> SecretRegion<'_> {
        or_panic(self.try_build_secret_in(heap))
    }

    /// Returns the region as one whose type says that it is secret.
    ///
    /// # Errors
    /// When there is no memory for the capacity asked for.
    pub fn try_build_secret_in(self, heap: &Heap) -> Result<SecretRegion<'_>, AllocError> {
        Ok(SecretRegion::from_secret(self.secret().try_build_in(heap)?))
    }

    /// Opens a scope with a region of its own, as [`scope`](crate::scope()) does.
    ///
    /// # Panics
    /// When there is no memory for the capacity asked for.
    ///
    /// # Examples
    /// ```
    /// use polyheap::Heap;
    /// use polyheap_region::Region;
    ///
    /// let heap = Heap::new();
    /// let is_refused = Region::builder().max_bytes(64).scope(&heap, |r| {
    ///     r.alloc([0u8; 60]);
    ///     r.try_alloc(1u8).is_err()
    /// });
    /// assert!(is_refused);
    /// ```
    pub fn scope<'env, R>(
        self,
        heap: &'env Heap,
        body: impl for<'r> FnOnce(&mut Scope<'r, 'env>) -> R,
    ) -> R {
        let arena = Arena::new(heap, self.policy);
        or_panic(arena.reserve(self.capacity_bytes));
        with_arena(&arena, body)
    }

    pub(crate) const fn policy(self) -> Policy {
        self.policy
    }
}
