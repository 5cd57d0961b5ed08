//! Slabs: runs of chunks cut into blocks of one class, with a bitmap of the free ones.
//!
//! All shared state is a control word, a bitmap and a bit in the region's partial set:
//!
//! ```text
//!             claim (partial bit 1 -> 0)                 live = capacity
//!   Partial ───────────────────────────> Active ─────────────────────────────> Full
//!      ^  ^                                │ │                                  │
//!      │  └──────── leave with room ───────┘ └── leave with live = 0 ─> Free    │
//!      └───────────── a give that finds Full: exchange, then publish ───────────┘
//! ```
//!
//! Only the one that claimed a slab takes blocks from it, so `live` grows in Active alone. Anyone
//! gives blocks back at any time. Metadata lies in the region's header, nothing in the blocks.
//!
//! *Neighbours*: stands on `region`; the thread caches and the direct path take from here.

mod control;
mod protocol;
#[cfg(not(loom))]
mod slab_ref;
#[cfg(not(loom))]
mod span;

pub(crate) use control::{Control, State};
pub(crate) use protocol::{Left, Settled};
#[cfg(not(loom))]
pub(crate) use slab_ref::{Misuse, Slab, Taken};
#[cfg(not(loom))]
pub(crate) use span::{Span, span_around};

#[cfg(all(loom, test))]
mod models;
