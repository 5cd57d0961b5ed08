//! The global allocator over one heap.
//!
//! *Concurrency*: any thread, as the heap.
//!
//! *Neighbours*: stands on `calls` and `fork`; programs install it.

use core::alloc::{GlobalAlloc, Layout};
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use polyheap::allocator_api2::alloc::Allocator;
use polyheap::{Heap, HeapBuilder, HeapError, HeapStats};

use crate::{calls, fork};

/// A global allocator over one heap.
///
/// # Concurrency
/// As [`Heap`]: on a warm thread no lock, no system call.
///
/// # Examples
/// ```
/// use polyheap_global::{Decay, GlobalHeap, Heap};
///
/// #[global_allocator]
/// static GLOBAL: GlobalHeap =
///     GlobalHeap::from_builder(Heap::builder().name("program").decay(Decay::Eager));
///
/// fn main() {
///     let numbers: Vec<u64> = (0..10_000).collect();
///     assert!(GLOBAL.stats().live_bytes >= 80_000);
///     drop(numbers);
///     println!("{} bytes given back", GLOBAL.trim());
/// }
/// ```
#[derive(Debug)]
pub struct GlobalHeap {
    heap: Heap,
}

impl GlobalHeap {
    /// Returns a global allocator over a heap with default options, which takes memory from the
    /// system at its first use.
    pub const fn new() -> GlobalHeap {
        GlobalHeap::from_builder(Heap::builder().name("global"))
    }

    /// Returns a global allocator over the heap that `builder` makes: name, limits, decay, huge
    /// pages, thread caches are its options.
    pub const fn from_builder(builder: HeapBuilder) -> GlobalHeap {
        fork::link();
        GlobalHeap { heap: builder.build() }
    }

    /// Returns the heap, to allocate from it by name or to look into it.
    pub const fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Returns what the program holds at this moment; see [`Heap::stats`].
    pub fn stats(&self) -> HeapStats {
        self.heap.stats()
    }

    /// Gives memory without a live owner back to the system; returns the bytes. See
    /// [`Heap::trim`].
    pub fn trim(&self) -> usize {
        self.heap.trim()
    }

    /// Sets the most bytes the program may hold; see [`Heap::set_limit`].
    ///
    /// # Errors
    /// As [`Heap::bind`].
    pub fn set_limit(&self, max_bytes: Option<NonZeroUsize>) -> Result<(), HeapError> {
        self.heap.set_limit(max_bytes)
    }
}

impl Default for GlobalHeap {
    fn default() -> GlobalHeap {
        GlobalHeap::new()
    }
}

// SAFETY: the heap keeps `Allocator`'s contract, which is `GlobalAlloc`'s and more, and never
// unwinds.
unsafe impl GlobalAlloc for GlobalHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        calls::allocate(&self.heap, layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        calls::allocate_zeroed(&self.heap, layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block was allocated here, so it is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the caller's block is live and was allocated from this heap with this layout.
        unsafe { self.heap.deallocate(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block was allocated here, so it is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: (1) the caller's block is live and fits this layout.
        unsafe { calls::resize(&self.heap, block, layout, size) }
    }
}
