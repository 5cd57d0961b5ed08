//! The heap as its users see it: handles, allocation, resizing, lifetimes, statistics.
//!
//! ```text
//! allocate ─ pop of the bin                                  (heap.rs, inlined)
//!   └─ allocate_slow ─ bind ─ refill                         (slow.rs → cache)
//!                    ├─ take_block, the direct path
//!                    └─ span, mapping                        (slow.rs → cache)
//! deallocate ─ push on the bin                               (heap.rs, inlined)
//!   └─ deallocate_slow ─ bind ─ exchange, free_stray         (slow.rs → cache)
//!                      ├─ give_block, the direct path
//!                      └─ span, mapping                      (slow.rs → cache)
//! ```
//!
//! *Neighbours*: stands on `cache`, `slab` and `region`; adapters and users call it.

mod table;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod collections;
#[cfg(not(loom))]
mod containers;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod ends;
#[cfg(not(loom))]
mod faces;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod limits;
#[cfg(not(loom))]
mod resize;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod slow;
#[cfg(not(loom))]
mod sources;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod sweep;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
mod trim;
#[cfg(not(loom))]
mod unsized_free;
#[cfg(not(loom))]
mod verify;
#[cfg(not(loom))]
mod walk;

#[cfg(not(loom))]
pub use crate::region::Source;

#[cfg(not(loom))]
pub use self::{
    builder::HeapBuilder,
    collections::*,
    ends::{LeakReport, LeakedClass},
    fork::after_fork_in_child,
    handle::{Heap, HeapId},
    shared::SharedHeap,
    sources::{
        AllocatorSource, CountingSource, FailingSource, FileSource, HugePageSource, SystemSource,
    },
    stats::{ClassStats, HeapStats, HeapSummary, ProcessStats, heaps, process_stats},
    sweep::{Sweeper, sweep_in_background},
    trim::trim_all,
    unsized_free::{deallocate_anywhere, usable_size_anywhere, verify_layout_anywhere},
    walk::{Block, heap_of},
};

#[cfg(all(loom, test))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
