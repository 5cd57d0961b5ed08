//! Scoped bump arenas on [`polyheap`] heaps: allocate by moving a cursor, give everything back at
//! once.
//!
//! ```
//! use polyheap::Heap;
//! use polyheap::allocator_api2::vec::Vec;
//! use polyheap_region as region;
//!
//! let heap = Heap::builder().name("parser").build();
//!
//! // All of it goes when the scope ends, and nothing gets out.
//! let total = region::scope(&heap, |r| {
//!     let text = r.alloc_fmt(format_args!("{} {} {}", 1, 2, 3));
//!     let mut numbers = Vec::new_in(&*r);
//!     numbers.extend(text.split(' ').filter_map(|word| word.parse::<u32>().ok()));
//!     numbers.iter().sum::<u32>()
//! });
//! assert_eq!(total, 6);
//!
//! // The same for secrets: every byte is cleared, on every way out.
//! let tag = region::secret_scope(&heap, |r| {
//!     let key = r.alloc_slice_fill_with(32, |place| place as u8);
//!     key.iter().fold(0u64, |tag, &byte| tag.rotate_left(5) + u64::from(byte))
//! });
//! assert_ne!(tag, 0);
//! ```
//!
//! | | |
//! |---|---|
//! | [`scope`](scope()), [`secret_scope`] | a region for the length of a closure |
//! | [`Region`], [`SecretRegion`] | a region as a value, with [`reset`](Region::reset) and [`rewind`](Region::rewind) |
//! | [`Scope`] | what a closure gets; [`Scope::scope`] opens an inner one in the same chunks |
//! | [`RegionBuilder`] | limit, capacity, locking, keeping out of core dumps and forked processes |
//! | [`RegionBox`] | a value in a region that is dropped |
//! | `&Region`, `&Scope` | allocators: `Vec::new_in(&region)`, `HeapString::new_in(&region)` |
//!
//! # How it works
//!
//! A region takes chunks from its heap, the first of 64 KiB, each further one twice as large as the
//! one before up to 1 MiB, and moves a cursor up through them. Requests above a quarter of the next
//! chunk become blocks of their own. The bookkeeping lies in the chunks and the heap; the global
//! allocator is never asked. What the region holds counts in the heap's statistics.
//!
//! # Values are not dropped
//!
//! The end of a scope gives memory back, it runs no destructors. A value that owns something
//! elsewhere belongs in a [`RegionBox`], or must own it in the region too.

#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![deny(missing_docs)]

#[cfg(test)]
extern crate std;

mod arena;
mod boxed;
mod builder;
mod chunk;
mod clear;
mod config;
mod error;
mod faces;
mod header;
mod large;
#[cfg(test)]
mod ledger;
mod list;
mod methods;
mod os;
mod place;
mod region;
mod resize;
mod rewind;
mod scope;
mod secret;
mod stats;
mod upstream;
mod values;

pub use boxed::RegionBox;
pub use builder::RegionBuilder;
pub use error::{AllocOrInitError, StaleCheckpoint};
pub use region::{Checkpoint, Region};
pub use scope::{Scope, scope, secret_scope};
pub use secret::SecretRegion;
pub use stats::RegionStats;

/// The README's code, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
