//! What the tests share: a seeded generator, held blocks that check themselves, processes of one's
//! own, and the list of allocators every suite runs over.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

pub(crate) mod contract;
mod held;
mod process;
mod random;
mod subjects;

pub(crate) use held::{Held, Region, assert_disjoint};
pub(crate) use process::{
    Child, Ending, alone, current_address_space_bytes, current_resident_bytes, mapping_count,
    minor_faults, run_to_the_end, scaled, scenario, size_from_env,
};
pub(crate) use random::Random;
pub(crate) use subjects::for_each_allocator;

/// One size in every tier and on both sides of each border between two, in bytes.
pub(crate) const SIZES: [usize; 36] = [
    1, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 80, 127, 128, 129, 255, 640, 1_024, 1_025, 4_095,
    4_096, 4_097, 10_000, 32_767, 32_768, 32_769, 65_536, 65_537, 700_000, 2_097_151, 2_097_152,
    2_097_153, 4_194_304, 5_000_001, 70_000_000,
];
