//! The guide: how polyheap works and why, in chapters.
//!
//! The chapters are files beside this one, so that they can be read without rendering the docs. A
//! newcomer reads [`architecture`] first, then [`memory_map`], and looks words up in [`glossary`].
//!
//! *Concurrency*: text only.
//!
//! *Neighbours*: `tests/tidy.rs` holds the ids in [`invariants`] against the code that cites them.

#[doc = include_str!("architecture.md")]
pub mod architecture {}

#[doc = include_str!("memory_map.md")]
pub mod memory_map {}

#[doc = include_str!("recycling.md")]
pub mod recycling {}

#[doc = include_str!("buffers.md")]
pub mod buffers {}

#[doc = include_str!("invariants.md")]
pub mod invariants {}

#[doc = include_str!("concurrency.md")]
pub mod concurrency {}

#[doc = include_str!("performance.md")]
pub mod performance {}

#[doc = include_str!("porting.md")]
pub mod porting {}

#[doc = include_str!("security.md")]
pub mod security {}

#[doc = include_str!("glossary.md")]
pub mod glossary {}
