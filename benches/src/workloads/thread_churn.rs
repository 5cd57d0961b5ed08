//! `threads N`: 2 000 short threads, one after another, each of 100 allocations of 8-1 024 B. A thread frees half of its
//! blocks; the main thread frees the others when it has ended, or with `hold` keeps them to the end.
//!
//! An operation is one thread, in wall time. `RSS at end` is what is then resident beyond the start, held blocks included.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_wall;
use crate::memory::resident_bytes;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::thread::scope;

pub(crate) const THREADS: Workload =
    Workload { name: "threads", about: "2 000 short threads of 100 allocations", tasks, run };

const SPAWNED: usize = 2000;
const QUICK_SPAWNED: usize = 200;
const BLOCKS: usize = 100;

fn tasks(options: &Options) -> Vec<Task> {
    let spawned = if options.quick { QUICK_SPAWNED } else { SPAWNED };
    let task = |case: &&str| {
        Task::new("threads", format!("{case} {spawned}"), Field::MixedSizes).with_threads(2)
    };
    ["churn", "hold"].iter().map(task).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, ThreadChurn(context))
}

struct ThreadChurn<'a>(&'a Context);

impl Job for ThreadChurn<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let spawned = self.0.size();
        let is_holding = self.0.case.starts_with("hold");
        let before = resident_bytes();
        let mut end_bytes = 0;
        let time = time_wall(self.0, spawned as u64, || {
            let mut held = Vec::with_capacity(spawned * BLOCKS);
            for number in 0..spawned {
                held.extend(one_thread(subject, number));
                if !is_holding {
                    held.drain(..).for_each(|block| block.free(subject));
                }
            }
            end_bytes = resident_bytes().saturating_sub(before);
            held.into_iter().for_each(|block| block.free(subject));
        });
        vec![time, Reading::resident("RSS at end", end_bytes)]
    }
}

/// Runs one short thread; returns the blocks that it leaves.
fn one_thread<S: Subject>(subject: &S, number: usize) -> Vec<Block> {
    let work = || {
        let mut rng = Rng::new(number as u64);
        let mut blocks: Vec<Block> =
            (0..BLOCKS).map(|_| Block::new(subject, rng.between(8, 1024))).collect();
        blocks.drain(..BLOCKS / 2).for_each(|block| block.free(subject));
        blocks
    };
    scope(|scope| scope.spawn(work).join().expect("the thread does not panic"))
}
