//! A [`polyheap`] heap as the global allocator of a Rust program.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: polyheap_global::GlobalHeap = polyheap_global::GlobalHeap::new();
//!
//! fn main() {
//!     let words: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
//!     assert!(GLOBAL.stats().live_blocks > words.len());
//! }
//! ```
//!
//! | | |
//! |---|---|
//! | [`GlobalHeap`] | the global allocator, over one heap |
//! | [`RedirectingGlobalHeap`] | the same, with [`with_heap`](RedirectingGlobalHeap::with_heap): a scope whose allocations come from another heap |
//! | [`polyheap`] | the core: further heaps, statistics, look-ups |
//!
//! # Where it works
//!
//! From the first allocation before `main` to the last after it: in constructors, in thread-local
//! destructors, after a thread's locals are gone, in `atexit`, in a panic hook. Nothing needs to be
//! initialised. A thread that is on its way out allocates from the heap's shared tiers.
//!
//! # Fork
//!
//! The crate registers one handler with `pthread_atfork` when the program, or the library that
//! contains it, is loaded: one for the process, however many heaps there are. There is no lock that
//! a fork could copy in its held state, so nothing happens before a fork and in the parent. In the
//! child the handler takes over from the threads that are gone: what they cached goes back to the
//! heaps, and what one of them had in hand is lost to the child, about a magazine or a chunk each.
//! The child may then do everything: allocate, make and drop heaps, start threads, exit.
//!
//! Children made by a bare `clone` run no handlers. They can allocate and free; dropping or walking
//! a heap that a thread was leaving may wait for ever.
//!
//! # Faults
//!
//! Out of memory, or above a limit, requests are answered with null. Freeing what is not the heap's,
//! twice, or with another layout is a bug of the program: it is reported on standard error, without
//! allocating, and the process aborts; see [`polyheap::set_fault_handler`]. Allocating in a signal
//! handler is not supported.

#![deny(missing_docs)]

mod calls;
mod fork;
mod global;
mod redirect;

pub use global::GlobalHeap;
pub use polyheap;
pub use polyheap::{Decay, Heap, HeapBuilder, HeapError, HeapId, HeapStats, HugePages};
pub use redirect::RedirectingGlobalHeap;

/// The README's code, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
