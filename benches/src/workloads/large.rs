//! `large`: the loop of `hot` with large blocks, alone and from several threads at once, which share one heap.
//!
//! `of the 64 B rate` is the rate as a share of what the same process reaches with 64 B just before: the cliff between small
//! and large blocks, without the differences between processes. Alone in CPU time a pair, threads in pairs a second of wall
//! time.

use super::Workload;
use super::hot::hot;
use crate::context::Context;
use crate::measure::{time_loop, time_threads};
use crate::options::Options;
use crate::reading::{Reading, Unit};
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::thread::scope;
use std::time::Instant;

pub(crate) const LARGE: Workload = Workload {
    name: "large",
    about: "the loop of hot from 32 KiB to 64 MiB, 1 to 4 threads",
    tasks,
    run,
};

const SMALL_BYTES: usize = 64;

const SIZES: &[usize] =
    &[SMALL_BYTES, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20, 64 << 20];

const QUICK_SIZES: &[usize] = &[64 << 10, 4 << 20];

/// Pairs between two looks at the clock: short beside a sample even where every pair is two system calls.
const PAIRS: u64 = 128;

fn tasks(options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(SIZES, QUICK_SIZES);
    let threads = options.threads_or(&[1, 2, 4], &[1, 2]);
    let task = |size: usize, count: usize| {
        // The empty loop's one block is not for several threads.
        let field = if count == 1 { Field::Loops } else { Field::Globals };
        let task = Task::new("large", format!("{size}"), field).with_threads(count);
        if count == 1 { task } else { task.long_if_quick(options) }
    };
    threads.iter().flat_map(|&count| sizes.iter().map(move |&size| task(size, count))).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Large(context))
}

struct Large<'a>(&'a Context);

impl Job for Large<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let size = self.0.size();
        if size == SMALL_BYTES || self.0.iterations.is_some() {
            return vec![self.pairs(subject, size)];
        }
        let small = self.pairs(subject, SMALL_BYTES);
        let large = self.pairs(subject, size);
        let share = rate(&large) / rate(&small);
        vec![large, Reading::share("of the 64 B rate", share)]
    }
}

impl Large<'_> {
    fn pairs<S: Subject>(&self, subject: &S, size: usize) -> Reading {
        let threads = self.0.threads;
        if threads == 1 {
            return time_loop(self.0, |pairs| hot(subject, size, pairs));
        }
        time_threads(self.0, |until| {
            scope(|scope| {
                let work = || pairs_until(subject, size, until);
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                workers.into_iter().map(|worker| worker.join().expect("it does not panic")).sum()
            })
        })
    }
}

fn pairs_until<S: Subject>(subject: &S, size: usize, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        hot(subject, size, PAIRS);
        done += PAIRS;
    }
    done
}

/// The median rate, in pairs a second.
fn rate(reading: &Reading) -> f64 {
    match reading.unit {
        Unit::NsPerOp => 1e9 / reading.median,
        _ => reading.median,
    }
}
