//! A task: what one child process runs, and which allocators take part in it.

use crate::options::Options;
use crate::workloads::{bins, buffers, preload, regions, resources};
use crate::{arena_subject, heap_subject, subject};

/// Case of a workload at a number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) workload: &'static str,
    pub(crate) case: String,
    pub(crate) threads: usize,
    pub(crate) field: Field,
    pub(crate) pace: Pace,
}

/// How a task spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It computes, and measures time: one child after another.
    Busy,
    /// It computes for long: a fifth of the rounds.
    Long,
    /// It mostly sleeps, and measures memory: a fifth of the rounds, and children side by side.
    Asleep,
}

/// The allocators that take part in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// Allocators called as a global allocator is, blocks of one size.
    Globals,
    /// The same, and eight polyheap heaps at once, picked by block size.
    MixedSizes,
    /// The same as [`Field::Globals`], and the empty loop.
    Loops,
    /// As [`Field::MixedSizes`], and the empty loop.
    MixedLoops,
    /// Heap instances with per-block free.
    Heaps,
    /// Heap instances, arenas, and global allocators that free each block.
    Cycles,
    /// Representations of a thread's bin, and the empty loop.
    Bins,
    /// Bump arenas.
    Arenas,
    /// The same, and the global allocator.
    Parsers,
    /// Libraries to load in front of a program.
    Preloads,
    /// Allocators inside one buffer.
    Buffers,
    /// Memory resources that free blocks.
    Resources,
    /// Memory resources that free all at once, and their peer.
    Bumps,
}

/// What an allocator is in a task's comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// polyheap in one of its forms.
    Ours,
    /// A peer that the ratio is taken against.
    Peer,
    /// An arena without per-block free: a ratio of its own.
    Arena,
    /// Shown for comparison, no ratio.
    Shown,
}

impl Task {
    pub(crate) fn new(workload: &'static str, case: impl Into<String>, field: Field) -> Task {
        Task { workload, case: case.into(), threads: 1, field, pace: Pace::Busy }
    }

    pub(crate) fn with_threads(mut self, threads: usize) -> Task {
        self.threads = threads;
        self
    }

    /// Makes a busy task a long one where the whole set must be short.
    pub(crate) fn long_if_quick(self, options: &Options) -> Task {
        if options.quick { self.with_pace(Pace::Long) } else { self }
    }

    pub(crate) fn with_pace(mut self, pace: Pace) -> Task {
        self.pace = pace;
        self
    }
}

impl Field {
    /// Names and ranks of the allocators, in the order they are run.
    pub(crate) fn members(self) -> Vec<(&'static str, Rank)> {
        let mut members = Vec::new();
        match self {
            Field::Preloads => add(&mut members, preload::ALLOCATORS, Rank::Peer),
            Field::Buffers => add(&mut members, buffers::ALLOCATORS, Rank::Peer),
            Field::Resources => add(&mut members, resources::FREEING, Rank::Shown),
            Field::Bumps => add(&mut members, resources::BUMPING, Rank::Shown),
            Field::Bins => add(&mut members, bins::REPRESENTATIONS, Rank::Shown),
            Field::Heaps => add(&mut members, heap_subject::HEAPS, Rank::Peer),
            Field::Cycles => {
                add(&mut members, heap_subject::HEAPS, Rank::Peer);
                add(&mut members, heap_subject::ARENAS, Rank::Arena);
                add(&mut members, subject::PEERS, Rank::Shown);
            }
            Field::Arenas | Field::Parsers => {
                add(&mut members, arena_subject::OURS, Rank::Ours);
                add(&mut members, arena_subject::PEERS, Rank::Peer);
                add(&mut members, arena_subject::KEPT, Rank::Arena);
            }
            _ => {
                add(&mut members, subject::OURS, Rank::Ours);
                add(&mut members, subject::PEERS, Rank::Peer);
            }
        }
        if matches!(self, Field::MixedSizes | Field::MixedLoops) {
            add(&mut members, subject::OURS_BY_SIZE, Rank::Ours);
        }
        if matches!(self, Field::Loops | Field::MixedLoops | Field::Bins) {
            members.push((subject::NULL, Rank::Shown));
        }
        if self == Field::Parsers {
            members.push((regions::GLOBAL, Rank::Shown));
        }
        members
    }
}

fn add(members: &mut Vec<(&'static str, Rank)>, names: &[&'static str], rank: Rank) {
    for &name in names {
        let rank = if name.starts_with("polyheap") { Rank::Ours } else { rank };
        members.push((name, rank));
    }
}
