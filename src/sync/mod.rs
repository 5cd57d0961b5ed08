//! The import point of atomics (std's, or loom's under `--cfg loom`) and the shared structures
//! that know nothing of memory: the tagged stack.
//!
//! *Neighbours*: stands on nothing; every shared structure above imports its atomics here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

mod tagged_stack;
pub(crate) use tagged_stack::{Links, TaggedStack};

#[cfg(all(loom, test))]
mod models;
