//! Regions: 4 MiB of address space, aligned to their size, cut into 64 chunks of 64 KiB.
//!
//! ```text
//! chunk 0                                                   chunk 1 ... 63
//! ┌──────┬──────┬────────┬───────────┬─────────┬──────────┐ ┌─────────────────────┐
//! │ head │ core │ thread │ 4 maga-   │ bitmaps │ 50 maga- │ │ slabs, spans, unused│
//! │      │      │ heap   │ zines     │ 1..=63  │ zines    │ │                     │
//! └──────┴──────┴────────┴───────────┴─────────┴──────────┘ └─────────────────────┘
//! 0      1 KiB  2.3      5.5         7.5       39 KiB
//! ```
//!
//! A region belongs to one heap at a time and holds that heap's metadata in its first chunk, so
//! dropping a heap hands everything back at once. The region map finds the region, or the
//! mapping, of any address; the region cache keeps regions between heaps.
//!
//! *Neighbours*: stands on `os`, `sync` and `base`; slab and cache cut its chunks up.

mod chunks;
#[cfg(not(loom))]
mod header;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod region_cache;
#[cfg(not(loom))]
mod roster;

#[cfg(not(loom))]
pub(crate) use header::{LEASED_FOR_BUILDING, Region, RegionRef};
#[cfg(not(loom))]
pub(crate) use map::{Entry, EntryKind, lookup, relabel};
#[cfg(not(loom))]
pub(crate) use mapping::{map_block, mapping_at, mapping_bytes, owner_slot, unmap_block};
#[cfg(not(loom))]
pub(crate) use region_cache::{acquire_region, purge_warm_regions, release_region};
#[cfg(not(loom))]
pub(crate) use roster::Roster;

#[cfg(all(loom, test))]
mod models;
