//! `cache-scratch` and `cache-thrash` (the false-sharing programs of Hoard; Berger and others, 2000): each thread
//! allocates one small block, counts in its bytes many times, frees it, and again.
//!
//! In `scratch` the main thread first allocates neighbouring blocks and hands one to each thread, which frees it: an
//! allocator that gives the block back to the thread that freed it makes the threads share a cache line for good. The
//! note says whether blocks of two threads lay in one line after re-allocation. An operation is one count.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_threads;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::collections::HashSet;
use std::sync::Barrier;
use std::thread::scope;
use std::time::Instant;

pub(crate) const SCRATCH: Workload = Workload {
    name: "cache-scratch",
    about: "passive false sharing: blocks handed over by main, freed, allocated again, written",
    tasks: |options| tasks("cache-scratch", options),
    run,
};

pub(crate) const THRASH: Workload = Workload {
    name: "cache-thrash",
    about: "active false sharing: every thread allocates, writes, frees",
    tasks: |options| tasks("cache-thrash", options),
    run,
};

const CACHE_LINE_BYTES: usize = 64;
const COUNTS: usize = 1000;
/// Blocks between two looks at the clock.
const STRIDE: u64 = 10;

fn tasks(workload: &'static str, options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(&[8, 64], &[8]);
    let threads = options.threads_or(&[2], &[2]);
    let task =
        |size, count| Task::new(workload, format!("{size}"), Field::Globals).with_threads(count);
    sizes.iter().flat_map(|size| threads.iter().map(move |&count| task(size, count))).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, CacheLines(context))
}

struct CacheLines<'a>(&'a Context);

impl Job for CacheLines<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let threads = self.0.threads;
        let size = self.0.size();
        let is_handed_over = self.0.workload == SCRATCH.name;
        let mut is_shared = false;
        let mut reading = time_threads(self.0, |until| {
            let barrier = Barrier::new(threads);
            let handed = |_| is_handed_over.then(|| Block::new(subject, size));
            let handed: Vec<_> = (0..threads).map(handed).collect();
            let results: Vec<(u64, usize)> = scope(|scope| {
                let worker = Worker { subject, size, until, barrier: &barrier };
                let running: Vec<_> = handed
                    .into_iter()
                    .map(|block| scope.spawn(move || worker.work(block)))
                    .collect();
                running
                    .into_iter()
                    .map(|thread| thread.join().expect("workers do not panic"))
                    .collect()
            });
            let lines: HashSet<usize> =
                results.iter().map(|(_, address)| address / CACHE_LINE_BYTES).collect();
            is_shared |= lines.len() < threads;
            results.iter().map(|(counts, _)| counts).sum()
        });
        reading.note = Some(if is_shared { "line shared" } else { "lines apart" }.into());
        vec![reading]
    }
}

struct Worker<'a, S> {
    subject: &'a S,
    size: usize,
    until: Instant,
    barrier: &'a Barrier,
}

impl<S> Clone for Worker<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Worker<'_, S> {}

impl<S: Subject> Worker<'_, S> {
    /// Returns the number of counts done, and where the first block lay.
    fn work(self, handed: Option<Block>) -> (u64, usize) {
        if let Some(block) = handed {
            block.free(self.subject);
        }
        let mut block = Block::new(self.subject, self.size);
        let address = block.address();
        self.barrier.wait();
        let mut rounds = 0;
        while Instant::now() < self.until {
            for _ in 0..STRIDE {
                self.count(&mut block);
                block.free(self.subject);
                block = Block::new(self.subject, self.size);
            }
            rounds += STRIDE;
        }
        block.free(self.subject);
        (rounds * COUNTS as u64, address)
    }

    fn count(&self, block: &mut Block) {
        let mask = (1 << self.size.ilog2()) - 1;
        (0..COUNTS).for_each(|turn| block.count(turn & mask));
    }
}
