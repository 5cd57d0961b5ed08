//! Options of a subsystem and the builder that sets them.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `subsystem`; the macro calls it.

use polyheap::{Decay, Heap, HeapBuilder, HugePages};

use crate::Subsystem;
use crate::budget::UNLIMITED;

/// Sets up a [`Subsystem`] before it is made. All methods are `const`: subsystems are statics.
///
/// # Examples
/// ```
/// use polyheap_subsystem::Subsystem;
///
/// static INDEX: Subsystem = Subsystem::builder("index").max_bytes(1 << 30).isolated(true).build();
///
/// // Without the macro a subsystem is listed from its first use, or from here on.
/// INDEX.register();
/// assert_eq!(INDEX.name(), "index");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build` is called"]
pub struct SubsystemBuilder {
    pub(crate) name: &'static str,
    pub(crate) heap: HeapBuilder,
    pub(crate) max_bytes: usize,
    pub(crate) soft_max_bytes: usize,
    pub(crate) is_isolated: bool,
}

impl SubsystemBuilder {
    pub(crate) const fn new(name: &'static str) -> SubsystemBuilder {
        SubsystemBuilder {
            name,
            heap: Heap::builder().name(name),
            max_bytes: UNLIMITED,
            soft_max_bytes: UNLIMITED,
            is_isolated: false,
        }
    }

    /// Sets the most bytes the subsystem may hold, as [`Subsystem::set_limit`] does.
    pub const fn max_bytes(self, bytes: usize) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.max_bytes(bytes), max_bytes: bytes, ..self }
    }

    /// Sets the soft limit in bytes, as [`Subsystem::set_soft_limit`] does.
    pub const fn soft_max_bytes(self, bytes: usize) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.soft_max_bytes(bytes), soft_max_bytes: bytes, ..self }
    }

    /// Sets whether the subsystem's memory is its own for ever: it comes fresh from the system and
    /// goes back to it, and never was or will be another heap's.
    pub const fn isolated(self, is_on: bool) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.isolated(is_on), is_isolated: is_on, ..self }
    }

    /// Sets whether threads keep caches in the subsystem; see [`HeapBuilder::thread_cache`].
    pub const fn thread_cache(self, is_on: bool) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.thread_cache(is_on), ..self }
    }

    /// Sets the bytes of spare magazines each thread keeps; see [`HeapBuilder::thread_cache_bytes`].
    pub const fn thread_cache_bytes(self, bytes: usize) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.thread_cache_bytes(bytes), ..self }
    }

    /// Sets the bytes of freed large blocks each thread keeps; see
    /// [`HeapBuilder::thread_large_bytes`].
    pub const fn thread_large_bytes(self, bytes: usize) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.thread_large_bytes(bytes), ..self }
    }

    /// Sets the bytes of freed large blocks kept for all threads; see
    /// [`HeapBuilder::heap_large_bytes`].
    pub const fn heap_large_bytes(self, bytes: usize) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.heap_large_bytes(bytes), ..self }
    }

    /// Sets when idle memory goes back to the system; see [`HeapBuilder::decay`].
    pub const fn decay(self, decay: Decay) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.decay(decay), ..self }
    }

    /// Sets whether the memory may lie in huge pages; see [`HeapBuilder::huge_pages`].
    pub const fn huge_pages(self, policy: HugePages) -> SubsystemBuilder {
        SubsystemBuilder { heap: self.heap.huge_pages(policy), ..self }
    }

    /// Makes the subsystem. It takes memory from the system at its first allocation, not here.
    pub const fn build(self) -> Subsystem {
        Subsystem::with_options(self)
    }
}
