//! The workloads, one a file.

pub(crate) mod bins;
mod bins_kinds;
pub(crate) mod buffers;
mod bulk;
mod cache_lines;
mod churn;
mod fragmentation;
mod frames;
mod heaps;
mod heaps_many;
mod hot;
mod idle;
mod json;
mod kv;
mod large;
mod larson;
mod lru;
mod mstress;
mod phases;
pub(crate) mod preload;
mod realloc;
pub(crate) mod regions;
pub(crate) mod resources;
mod rptest;
mod thread_churn;
mod waiting;
mod worst_free;
mod xmalloc;

use crate::context::Context;
use crate::options::Options;
use crate::reading::Reading;
use crate::task::Task;

/// Workload: which tasks it has, and how a child runs one.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) tasks: fn(&Options) -> Vec<Task>,
    pub(crate) run: fn(&Context) -> Vec<Reading>,
}

/// All workloads, in the order they are run.
pub(crate) const ALL: &[Workload] = &[
    hot::HOT,
    hot::HOTCONST,
    large::LARGE,
    bulk::BULK,
    churn::CHURN,
    larson::LARSON,
    mstress::MSTRESS,
    xmalloc::XMALLOC,
    rptest::RPTEST,
    cache_lines::SCRATCH,
    cache_lines::THRASH,
    realloc::REALLOC,
    thread_churn::THREADS,
    heaps::HEAPS,
    phases::PHASES,
    idle::IDLE,
    fragmentation::FRAGMENTATION,
    frames::FRAMES,
    worst_free::WORST_FREE,
    json::JSON,
    lru::LRU,
    kv::KV,
    bins::BINS,
    regions::REGIONS,
    preload::PRELOAD,
    resources::RESOURCES,
    buffers::BUFFERS,
];

/// The workload called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}
