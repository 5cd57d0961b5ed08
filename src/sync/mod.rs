//! The import point of atomics (std's, or loom's under `--cfg loom`) and the shared structures
//! that know nothing of memory: the tagged stack and the baton.
//!
//! *Neighbours*: stands on nothing; every shared structure above imports its atomics here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::Ordering;
#[cfg(all(loom, not(test)))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

mod baton;
mod tagged_stack;

pub(crate) use baton::Baton;
pub(crate) use tagged_stack::{Links, TaggedStack};

#[cfg(all(loom, test))]
mod models;
#[cfg(all(loom, test))]
pub(crate) use models::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Contents, beside, explore,
    explore_within,
};
