//! Resources behind `&dyn`: one type of container for every place memory can come from.
//!
//! `Vec<T, &Heap>` and `Vec<T, &Monotonic<..>>` are different types, and a function that is to take
//! both must be generic. A [`MemoryResource`] is an allocator that can stand behind `&dyn`, and
//! `&dyn MemoryResource` is an allocator again, so `Vec<T, &dyn MemoryResource>` is one type for all.
//!
//! ```text
//!  every Allocator ──blanket impl──> MemoryResource ──impl for dyn──> &dyn MemoryResource: Allocator
//!                                        ^
//!     Monotonic · Pool                   │ impl for each, beside Allocator for a reference to each
//!     Counting · Budget · Traced ────────┤
//!     Zeroizing · Failing                │
//!     Fallback · Segregate · Null ───────┘
//! ```
//!
//! The ready-made resources stand on an *upstream*, by value (`Counting<Budget<&Heap>>`) or by
//! reference (`Counting<&dyn MemoryResource>`). Each is a `Provider` that never meets a request
//! of size zero; `faces` writes the traits from that.
//!
//! # Examples
//! ```
//! use polyheap::Heap;
//! use polyheap::allocator_api2::vec::Vec;
//! use polyheap::resource::{Counting, MemoryResource, Monotonic};
//!
//! fn squares(count: u64, resource: &dyn MemoryResource) -> Vec<u64, &dyn MemoryResource> {
//!     let mut list = Vec::new_in(resource);
//!     list.extend((0..count).map(|number| number * number));
//!     list
//! }
//!
//! let heap = Heap::new();
//! let counting = Counting::new(&heap);
//! let scratch = Monotonic::new(&counting);
//! assert_eq!(squares(10, &heap), squares(10, &scratch));
//! assert_eq!(counting.counts().live_blocks, 1);
//! ```
//!
//! *Concurrency*: each says for itself. [`Monotonic`] and [`Pool`] are for one thread at a time; the
//! others may be shared by threads if their upstreams may.
//!
//! *Neighbours*: stands on `heap`, `buffer` and `base`; users and adapters call it. The shape is that of C++'s
//! `std::pmr`; [`Fallback`] and [`Segregate`] are from Alexandrescu's composable allocators.

mod ring;

#[cfg(not(loom))]
mod budget;
#[cfg(not(loom))]
mod chunk_list;
#[cfg(not(loom))]
mod clear;
#[cfg(not(loom))]
mod counting;
#[cfg(not(loom))]
mod default;
#[cfg(not(loom))]
mod faces;
#[cfg(not(loom))]
mod failing;
#[cfg(not(loom))]
mod fallback;
#[cfg(not(loom))]
mod known;
#[cfg(not(loom))]
mod large_list;
#[cfg(not(loom))]
mod memory_resource;
#[cfg(not(loom))]
mod monotonic;
#[cfg(not(loom))]
mod null;
#[cfg(not(loom))]
mod owner;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod provider;
#[cfg(all(feature = "std", not(loom)))]
mod scoped;
#[cfg(not(loom))]
mod segregate;
#[cfg(not(loom))]
mod traced;
#[cfg(not(loom))]
mod zeroizing;

#[cfg(not(loom))]
pub use self::{
    budget::Budget,
    counting::{Counting, Counts},
    default::{DefaultAlreadySet, default_resource, set_default_resource},
    failing::{FailWhen, Failing},
    fallback::Fallback,
    memory_resource::MemoryResource,
    monotonic::Monotonic,
    null::Null,
    owner::Owner,
    pool::Pool,
    ring::{Event, EventKind},
    segregate::Segregate,
    traced::Traced,
    zeroizing::Zeroizing,
};
#[cfg(all(feature = "std", not(loom)))]
pub use scoped::{with_current_resource, with_resource};

#[cfg(all(loom, test))]
mod models;
