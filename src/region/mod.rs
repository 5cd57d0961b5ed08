//! Regions: 4 MiB of address space, aligned to their size, cut into 64 chunks of 64 KiB.
//!
//! ```text
//! chunk 0: the header, pages of 4 KiB
//! page 0                  busy page, one of 15         the other 14 pages
//! ┌──────┬──────┬──────┐ ┌────────────┬──────┬──────┐ ┌───────────┬──────┐
//! │ head │ core │ mag. │ │ thread heap│ mag. │ bits │ │ bitmaps   │ mag. │
//! └──────┴──────┴──────┘ └────────────┴──────┴──────┘ └───────────┴──────┘
//! chunks 1 to 63: slabs, spans, unused
//! ```
//!
//! What is used on every call lies on the busy page, which is another one in neighbouring regions,
//! as is the chunk taken first: regions are 4 MiB apart, and the same place in many of them would
//! fight for the same sets of the caches and translation buffers.
//!
//! A region belongs to one heap at a time and holds that heap's metadata in its first chunk, so
//! dropping a heap hands everything back at once. The region map finds the region, or the
//! mapping, of any address; the region cache keeps regions between heaps.
//!
//! *Neighbours*: stands on `os`, `sync` and `base`; slab and cache cut its chunks up.

mod chunks;
#[cfg(not(loom))]
mod give_up;
#[cfg(not(loom))]
mod header;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod mapping;
mod mapping_depot;
#[cfg(not(loom))]
mod region_cache;
#[cfg(not(loom))]
mod roster;
#[cfg(not(loom))]
mod source;

#[cfg(not(loom))]
pub(crate) use header::{LEASED_FOR_BUILDING, Region, RegionRef};
#[cfg(not(loom))]
pub(crate) use map::{
    EntryKind, listed_mapping, lookup, mapping_colour, relabel_region, set_hollow_region,
    set_mapping_colour,
};
#[cfg(not(loom))]
pub(crate) use mapping::{
    adopt_cached_mapping, advise_mapping, cached_mapping_bytes, drop_cached_mappings, map_block,
    mapping_at, mapping_bytes, mapping_place, move_mapping, owner_slot, relabel_mapping,
    resize_mapping, retire_mapping, set_mapping_kept, set_mapping_live, was_mapping_of,
};
pub(crate) use mapping_depot::MappingDepot;
#[cfg(not(loom))]
pub(crate) use region_cache::{
    Sharing, acquire_region, cached_regions, purge_warm_regions, release_cold_regions,
    release_region,
};
#[cfg(not(loom))]
pub(crate) use roster::Roster;
#[cfg(not(loom))]
pub(crate) use source::Origin;
#[cfg(not(loom))]
pub use source::Source;

#[cfg(all(loom, test))]
mod models;
