//! The command line.

use clap::Parser;
use std::path::PathBuf;

/// Measures polyheap beside its peers, every cell in fresh processes.
#[derive(Debug, Parser)]
#[command(name = "polyheap-benches", version)]
pub(crate) struct Options {
    /// Workloads to run (all by default); see --list.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) workload: Vec<String>,
    /// Block sizes, in the workloads that have any: 16,64 or 8..1024.
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    pub(crate) sizes: Vec<String>,
    /// Thread counts, in the workloads that have several.
    #[arg(long, value_delimiter = ',', value_name = "COUNTS")]
    pub(crate) threads: Vec<usize>,
    /// Allocators to run (all by default); see --list.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) peers: Vec<String>,
    /// Fresh processes per allocator and task.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: u32,
    /// The whole set in under five minutes: fewer sizes and cases, shorter samples. For a look, not for figures.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Writes an array of cells to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Counts instructions under valgrind instead of time (hot, hotconst, large, bulk, churn, frames, worstfree, bins).
    #[arg(long)]
    pub(crate) callgrind: bool,
    /// Seconds a child may take before it is ended and reported as failed [default: 120, quick 20].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) limit: Option<u64>,
    /// Lists workloads and allocators.
    #[arg(long)]
    pub(crate) list: bool,
    /// One task for a child process, as JSON.
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

impl Options {
    /// The numeric sizes asked for, or else `full`, or `quick` under `--quick`.
    pub(crate) fn sizes_or(&self, full: &[usize], quick: &[usize]) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.iter().filter_map(|size| size.parse().ok()).collect();
        }
        if self.quick { quick.to_vec() } else { full.to_vec() }
    }

    /// Whether a workload of the fixed size `size` was asked for.
    pub(crate) fn wants_size(&self, size: &str) -> bool {
        self.sizes.is_empty() || self.sizes.iter().any(|wanted| wanted == size)
    }

    /// The thread counts asked for, or else `full`, or `quick` under `--quick`.
    pub(crate) fn threads_or(&self, full: &[usize], quick: &[usize]) -> Vec<usize> {
        if !self.threads.is_empty() {
            return self.threads.clone();
        }
        if self.quick { quick.to_vec() } else { full.to_vec() }
    }
}
