//! Caches above the slabs: magazines, thread heaps, depots, and the store they refill from.
//!
//! ```text
//! bin (loaded magazine) ⇄ spares of the thread ⇄ depot of the heap ⇄ slab bits ⇄ regions
//!        exchange / refill, whole magazines          flush / refill, by words
//! ```
//!
//! A free goes into the magazine of the *freeing* thread, whoever allocated the block. Only blocks
//! that share cache lines with their neighbours go home instead (`away`): handing them out here
//! would put two threads on one line.
//!
//! The idea of magazines and a depot is Bonwick's and Adams' (vmem, 2001).
//!
//! *Neighbours*: stands on `slab` and `region`; the heap room binds threads and calls in.

mod account;
mod depot;
mod summary;

#[cfg(not(loom))]
mod away;
#[cfg(not(loom))]
mod class_state;
#[cfg(not(loom))]
mod decay;
#[cfg(not(loom))]
mod direct;
#[cfg(not(loom))]
mod exchange;
#[cfg(not(loom))]
mod flush;
#[cfg(not(loom))]
mod large;
#[cfg(not(loom))]
mod large_cache;
#[cfg(not(loom))]
mod magazine;
#[cfg(not(loom))]
mod refill;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod supply;
#[cfg(not(loom))]
mod thread_heap;

pub(crate) use account::UNLIMITED;
pub(crate) use summary::Look;

#[cfg(not(loom))]
pub(crate) use away::free_stray;
#[cfg(not(loom))]
pub(crate) use decay::{Sweeps, Turn, forget_turn, is_any_idle, lower_due};
#[cfg(not(loom))]
pub(crate) use direct::{give_block, take_block};
#[cfg(not(loom))]
pub(crate) use exchange::{drain_depots, free_at_home, give_with_spares};
#[cfg(not(loom))]
pub(crate) use large::{
    Resized, drain_kept_mappings, free_chunk, free_large, hand_out, hand_out_at_start,
    keep_quickly, resize_large, take_growing, take_kept, take_large,
};
#[cfg(not(loom))]
pub(crate) use large_cache::LargeCache;
#[cfg(not(loom))]
pub(crate) use refill::{recirculate, refill};
#[cfg(not(loom))]
pub(crate) use store::{Store, StorePolicy};
#[cfg(not(loom))]
pub(crate) use thread_heap::{Tenure, ThreadHeap};

#[cfg(all(loom, test))]
mod models;
