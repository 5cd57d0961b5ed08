//! Limits: how much a heap may hold, and what it does before it denies a request.
//!
//! *Concurrency*: any thread, lock-free. A limit set while others allocate holds from their next
//! charge on.
//!
//! *Neighbours*: stands on `core` and `trim`; the account in `cache` does the counting.

use core::num::NonZeroUsize;

use super::core::HeapCore;
use super::{Heap, thread, trim};
use crate::cache::UNLIMITED;
use crate::error::HeapError;

impl Heap {
    /// Sets the most bytes the heap may hold of the system, headers and caches included; `None` for
    /// no limit.
    ///
    /// A request that would pass it first makes the heap give back what has no live owner, and
    /// fails when that is not enough; nothing is half done then, and the heap works again after
    /// frees. Nothing is taken away when the heap holds more than a new limit.
    ///
    /// # Errors
    /// As [`bind`](Heap::bind): the limit is kept in the heap's memory.
    ///
    /// # Concurrency
    /// Any thread; the bytes held are at no moment above the limit, whoever allocates.
    ///
    /// # Examples
    /// ```
    /// use core::num::NonZeroUsize;
    /// use polyheap::allocator_api2::vec::Vec;
    ///
    /// let heap = polyheap::Heap::new();
    /// heap.set_limit(NonZeroUsize::new(256 * 1024)).unwrap();
    /// let mut bytes = Vec::<u8, _>::new_in(&heap);
    /// assert!(bytes.try_reserve(1 << 20).is_err());
    /// assert_eq!(heap.stats().denied_by_limit, 1);
    /// ```
    pub fn set_limit(&self, max_bytes: Option<NonZeroUsize>) -> Result<(), HeapError> {
        let bytes = max_bytes.map_or(UNLIMITED, NonZeroUsize::get);
        self.bound_core()?.store.account.set_max_bytes(bytes);
        Ok(())
    }

    /// Sets the bytes above which the heap gives back what has no live owner before it takes more
    /// of the system; `None` for no such limit.
    ///
    /// # Errors
    /// As [`set_limit`](Heap::set_limit).
    ///
    /// # Cost
    /// Above the limit, each further 64 KiB cost a trim.
    pub fn set_soft_limit(&self, max_bytes: Option<NonZeroUsize>) -> Result<(), HeapError> {
        let bytes = max_bytes.map_or(UNLIMITED, NonZeroUsize::get);
        self.bound_core()?.store.account.set_soft_max_bytes(bytes);
        Ok(())
    }

    /// Gives back what has no live owner, so that a limit allows more.
    #[cold]
    pub(super) fn relieve(&self, core: &HeapCore) {
        self.gather(core);
        trim::trim_shared(core);
    }

    /// Empties what caches there are but those of other threads that run into the slabs.
    #[cold]
    pub(super) fn gather(&self, core: &HeapCore) {
        if let Some(own) = thread::bound(core.store.slot) {
            own.drain(&core.store);
        }
        trim::drain_shared_caches(core);
    }
}
