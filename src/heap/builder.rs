//! Options of a heap and the builder that sets them.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `config`; the handle carries the options until the heap binds.

use super::Heap;
use crate::cache::{StorePolicy, UNLIMITED};
use crate::config::{
    HEAP_LARGE_BYTES_DEFAULT, NAME_BYTES_MAX, THREAD_CACHE_BYTES_DEFAULT,
    THREAD_LARGE_BYTES_DEFAULT,
};
use crate::error::HeapError;
use crate::policy::{Decay, HugePages};
use crate::region::{Origin, Source};

/// What a heap is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    name: [u8; NAME_BYTES_MAX],
    name_bytes: u8,
    /// Whether threads keep caches in the heap.
    pub(super) has_thread_cache: bool,
    /// What becomes of the heap's memory.
    pub(super) policy: StorePolicy,
    /// Bytes the heap may hold at most.
    pub(super) max_bytes: usize,
    /// Bytes above which it gives back before it takes.
    pub(super) soft_max_bytes: usize,
}

impl Options {
    pub(super) const DEFAULT: Options = Options {
        name: [0; NAME_BYTES_MAX],
        name_bytes: 0,
        has_thread_cache: true,
        policy: StorePolicy {
            thread_cache_bytes: THREAD_CACHE_BYTES_DEFAULT,
            thread_large_bytes: THREAD_LARGE_BYTES_DEFAULT,
            heap_large_bytes: HEAP_LARGE_BYTES_DEFAULT,
            decay_ms: Decay::DEFAULT_MS,
            huge_pages: HugePages::System,
            is_isolated: false,
            origin: Origin::System,
        },
        max_bytes: UNLIMITED,
        soft_max_bytes: UNLIMITED,
    };

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes as usize]).unwrap_or("")
    }
}

/// Sets up a [`Heap`] before it is made. All methods are `const`, so heaps can be statics.
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// static INDEX: Heap = Heap::builder().name("index").thread_cache_bytes(256 * 1024).build();
/// assert_eq!(INDEX.name(), "index");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build` is called"]
pub struct HeapBuilder {
    options: Options,
}

impl HeapBuilder {
    pub(super) const fn new() -> HeapBuilder {
        HeapBuilder { options: Options::DEFAULT }
    }

    /// Names the heap, for reports and statistics. Names longer than 32 bytes are cut at the last
    /// whole character that fits.
    pub const fn name(mut self, name: &str) -> HeapBuilder {
        let bytes = name.as_bytes();
        let mut end = if bytes.len() < NAME_BYTES_MAX { bytes.len() } else { NAME_BYTES_MAX };
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let mut at = 0;
        while at < end {
            self.options.name[at] = bytes[at];
            at += 1;
        }
        self.options.name_bytes = end as u8;
        self
    }

    /// Sets whether threads keep caches in the heap; they do by default.
    ///
    /// Without caches every call goes to the shared bitmaps: several times slower, but no block
    /// rests anywhere, every free is checked at once, and the heap is at its smallest.
    pub const fn thread_cache(mut self, is_on: bool) -> HeapBuilder {
        self.options.has_thread_cache = is_on;
        self
    }

    /// Sets the bytes of full spare magazines each thread keeps in the heap beside the loaded
    /// ones; 1 MiB by default. 0 keeps none.
    pub const fn thread_cache_bytes(mut self, bytes: usize) -> HeapBuilder {
        self.options.policy.thread_cache_bytes = bytes;
        self
    }

    /// Sets the bytes of freed blocks above 32 KiB that each thread keeps in the heap; 64 MiB by
    /// default. 0 keeps none.
    pub const fn thread_large_bytes(mut self, bytes: usize) -> HeapBuilder {
        self.options.policy.thread_large_bytes = bytes;
        self
    }

    /// Sets the bytes of freed blocks above 1.75 MiB that the heap keeps for all its threads; 64 MiB
    /// by default. 0 keeps none.
    pub const fn heap_large_bytes(mut self, bytes: usize) -> HeapBuilder {
        self.options.policy.heap_large_bytes = bytes;
        self
    }

    /// Sets the most bytes the heap may hold; see [`set_limit`](Heap::set_limit). A heap that is
    /// allowed less than its first header, 8 KiB, cannot be used.
    pub const fn max_bytes(mut self, bytes: usize) -> HeapBuilder {
        self.options.max_bytes = bytes;
        self
    }

    /// Sets the bytes above which the heap gives back before it takes more; see
    /// [`set_soft_limit`](Heap::set_soft_limit).
    pub const fn soft_max_bytes(mut self, bytes: usize) -> HeapBuilder {
        self.options.soft_max_bytes = bytes;
        self
    }

    /// Sets when idle memory goes back to the system; after one second by default.
    pub const fn decay(mut self, decay: Decay) -> HeapBuilder {
        self.options.policy.decay_ms = decay.milliseconds();
        self
    }

    /// Sets whether the heap's memory may lie in huge pages. The memory of a heap with
    /// [`HugePages::Always`] goes back to the system when the heap is dropped.
    pub const fn huge_pages(mut self, policy: HugePages) -> HeapBuilder {
        self.options.policy.huge_pages = policy;
        self
    }

    /// Sets whether the heap's memory is its own for ever: it comes fresh from the system and goes
    /// back to it, and never was or will be another heap's. Making and dropping such a heap costs
    /// system calls.
    pub const fn isolated(mut self, is_on: bool) -> HeapBuilder {
        self.options.policy.is_isolated = is_on;
        self
    }

    /// Makes the heap on a source, from which it takes its first region at once. What comes from a
    /// source goes back there and nowhere else, as with [`isolated`](HeapBuilder::isolated).
    ///
    /// # Errors
    /// As [`bind`](Heap::bind).
    ///
    /// # Examples
    /// ```
    /// use polyheap::{AllocatorSource, Heap};
    ///
    /// // A heap of heaps: what the inner one holds is the outer one's.
    /// let outer = Heap::new().share();
    /// let source = Box::leak(Box::new(AllocatorSource(outer.clone())));
    /// let inner = Heap::builder().build_in(source).unwrap();
    /// assert!(outer.stats().live_bytes >= 4 << 20);
    /// drop(inner);
    /// assert_eq!(outer.stats().live_bytes, 0);
    /// ```
    pub fn build_in(self, source: &'static dyn Source) -> Result<Heap, HeapError> {
        let mut options = self.options;
        options.policy.origin = Origin::Source(source);
        options.policy.is_isolated = true;
        let heap = Heap::with_options(options);
        heap.bind()?;
        Ok(heap)
    }

    /// Makes the heap. It takes memory from the system at its first use, not here.
    pub const fn build(self) -> Heap {
        Heap::with_options(self.options)
    }
}
