//! Lifetimes: of threads in heaps, of heaps under threads, of blocks and of memory.
//!
//! Tests that count resident memory, mappings or thread heaps run in a process of their own. The
//! full numbers are for optimised builds; others run a fraction.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod ends;
mod heaps;
mod memory;
mod threads;

use std::time::Duration;

use polyheap::allocator_api2::alloc::Layout;

/// Bytes by which resident memory may differ and still be called the same.
const NOISE_BYTES: usize = 2 << 20;

/// Bytes of dropped heaps the process may keep warm for the next ones.
const WARM_BYTES: usize = 16 << 20;

/// How long a process of its own may take.
const LIMIT: Duration = Duration::from_secs(150);

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a valid layout")
}
