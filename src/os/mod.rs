//! The system contract: mapping memory, a hook for thread exit, and the report of faults.
//!
//! One file per system implements the contract, `bare` the little that is left without one; `report`
//! turns a caller's bug into one line on standard error and an abort. Nothing here allocates, and every freeing call keeps `errno`.
//!
//! *Neighbours*: stands on `libc`; the region room maps through it, every room reports through it.

#[cfg(not(feature = "std"))]
mod bare;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
mod line;
#[cfg(feature = "std")]
mod local;
#[cfg(all(test, feature = "std"))]
mod refusals;
mod report;
#[cfg(feature = "std")]
mod unix;

#[cfg(not(feature = "std"))]
pub(crate) use bare::spin_wait;
#[cfg(feature = "std")]
pub(crate) use file::{map_file, punch_hole, reserve_in_file};
#[cfg(feature = "std")]
pub(crate) use local::thread_words;
#[cfg(all(
    feature = "initial-exec",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) use local::{InitialExec, words_symbol};
#[cfg(all(test, feature = "std"))]
pub(crate) use refusals::{refuse_call, refused_calls, simulate_page_bytes};
pub use report::{Fault, FaultHandler, FaultKind, set_fault_handler};
pub(crate) use report::{FaultSite, fault};
#[cfg(feature = "std")]
pub(crate) use unix::{
    Target, advise_huge_pages, arm_exit_hook, discard, map_aligned, map_here, offer_leftovers,
    os_page_bytes, purge, remap_in_place, remap_to, spin_wait, ticks_ms, ticks_ns, unmap,
};

/// Stops the process when a condition of ours does not hold, naming the invariant.
///
/// Never unwinds and never allocates: inside an allocator a panic would come back in by the
/// front door.
macro_rules! check {
    ($condition:expr, $invariant:literal) => {
        if !$condition {
            $crate::os::broken_invariant($invariant);
        }
    };
}

/// [`check!`] in debug builds and tests, nothing otherwise.
macro_rules! debug_check {
    ($condition:expr, $invariant:literal) => {
        if cfg!(debug_assertions) {
            $crate::os::check!($condition, $invariant);
        }
    };
}

pub(crate) use report::broken_invariant;
pub(crate) use {check, debug_check};
