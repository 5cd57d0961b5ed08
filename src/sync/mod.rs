//! The import point of atomics (std's, or loom's under `--cfg loom`) and the shared structures
//! that know nothing of memory: the tagged stack.
//!
//! *Neighbours*: stands on nothing; every shared structure above imports its atomics here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::Ordering;
#[cfg(all(loom, not(test)))]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

mod tagged_stack;
pub(crate) use tagged_stack::{Links, TaggedStack};

#[cfg(all(loom, test))]
mod models;
#[cfg(all(loom, test))]
pub(crate) use models::{AtomicPtr, AtomicU64, Contents, beside, explore, explore_within};
