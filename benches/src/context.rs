//! What a child is told: the task, the allocator, how long to sample.

use serde::{Deserialize, Serialize};

/// One run of one task with one allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) workload: String,
    pub(crate) case: String,
    pub(crate) threads: usize,
    pub(crate) allocator: String,
    /// Length of a sample of a single-threaded loop, of CPU time.
    pub(crate) sample_ms: u64,
    /// Length of a sample of a threaded workload, of wall time.
    pub(crate) threaded_sample_ms: u64,
    pub(crate) samples: u32,
    /// Runs exactly this many iterations, untimed, for instruction counts.
    pub(crate) iterations: Option<u64>,
}

impl Context {
    /// The number that the case ends with, after a space if it is more than that.
    ///
    /// # Panics
    /// If there is none: the case was not made by the workload that reads it.
    pub(crate) fn size(&self) -> usize {
        let word = self.case.rsplit(' ').next().unwrap_or_default();
        word.parse().expect("the case ends with a size")
    }
}
