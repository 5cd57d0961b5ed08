//! Memory heap instances: as many fast, thread-shared, droppable heaps as a program has subsystems.
//!
//! A [`Heap`] is an allocator that owns its memory. Any number of threads use it by reference; any
//! container that takes an allocator lives in it; its statistics are its own; dropping it releases
//! everything in it at once.
//!
//! ```
//! use polyheap::Heap;
//! use polyheap::allocator_api2::vec::Vec;
//!
//! let net = Heap::new();
//! let mut v = Vec::new_in(&net);
//! v.push(1);
//! println!("{}", net.stats());
//! ```
//!
//! How it works, and why, is told in the [`guide`].
//!
//! Without a system, [`BufferHeap`] and [`StaticHeap`] make the same of a buffer; the crate needs neither
//! `std` nor `alloc` then (`default-features = false`).
//!
//! The rooms, each standing only on those before it: `config`, `error`, `policy`, `base` · `os`, `sync` ·
//! `buffer`, `region` · `slab` · `cache` · `heap` · `resource`.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![cfg_attr(loom, allow(dead_code, unused_imports, missing_docs))]
#![cfg_attr(not(feature = "std"), allow(dead_code, unused_imports, unused_macros))]
#![deny(missing_docs)]

mod base;
mod config;
mod error;
#[cfg(not(loom))]
mod os;
#[cfg(feature = "std")]
mod policy;
mod sync;

#[cfg(not(loom))]
mod buffer;
#[cfg(feature = "std")]
mod cache;
#[cfg(feature = "std")]
mod heap;
#[cfg(feature = "std")]
mod region;
#[cfg(feature = "std")]
mod slab;

#[cfg(not(loom))]
pub mod guide;
pub mod resource;

pub use allocator_api2;
#[cfg(not(loom))]
pub use buffer::{BufferHeap, BufferStats, StaticHeap};
pub use error::{HeapError, Violation};
#[cfg(all(feature = "std", not(loom)))]
pub use heap::*;
#[cfg(not(loom))]
pub use os::{Fault, FaultHandler, FaultKind, set_fault_handler};
#[cfg(feature = "std")]
pub use policy::{Decay, HugePages};

/// The README's code, compiled and run with the other examples.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
