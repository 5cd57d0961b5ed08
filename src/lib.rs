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
//! The rooms, each standing only on those before it: `config`, `error`, `policy`, `base` · `os`, `sync` ·
//! `region` · `slab` · `cache` · `heap`.

#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![cfg_attr(loom, allow(dead_code, unused_imports, missing_docs))]
#![deny(missing_docs)]

mod base;
mod config;
mod error;
#[cfg(not(loom))]
mod os;
mod policy;
mod sync;

mod cache;
mod heap;
mod region;
mod slab;

#[cfg(not(loom))]
pub mod guide;

pub use allocator_api2;
pub use error::HeapError;
#[cfg(not(loom))]
pub use heap::*;
#[cfg(not(loom))]
pub use os::{Fault, FaultHandler, FaultKind, set_fault_handler};
pub use policy::{Decay, HugePages};

/// The README's code, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
