//! The import point of atomics (std's, or loom's under `--cfg loom`) and the shared structures
//! that know nothing of memory: the tagged stack and the baton.
//!
//! *Neighbours*: stands on nothing; every shared structure above imports its atomics here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::Ordering;
#[cfg(all(loom, not(test)))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
// Not there on every processor that heaps in buffers serve.
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

mod baton;
#[cfg(feature = "std")]
mod tagged_stack;

pub(crate) use baton::Baton;
#[cfg(feature = "std")]
pub(crate) use tagged_stack::{Links, TaggedStack};

#[cfg(all(loom, test))]
mod models;
#[cfg(all(loom, test))]
pub(crate) use models::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Contents, beside, explore,
    explore_within,
};
