//! `larson` (Larson and Krishnan, 1998): a server whose threads die and hand their blocks on.
//!
//! Each thread has 1 000 blocks of 8-1 000 B; after 10 000 replacements of a random one it starts a successor, hands it
//! the blocks, and ends. So most blocks are freed by threads that did not allocate them, and the threads that did are
//! gone. An operation is one replacement.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_threads;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::mem::replace;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Scope, scope};
use std::time::Instant;

pub(crate) const LARSON: Workload = Workload {
    name: "larson",
    about: "threads die and hand 1 000 blocks to a successor",
    tasks,
    run,
};

const BLOCKS: usize = 1000;
const REPLACEMENTS: usize = 10_000;
const SIZES: (usize, usize) = (8, 1000);

fn tasks(options: &Options) -> Vec<Task> {
    let threads = options.threads_or(&[1, 2, 4], &[2]);
    threads
        .iter()
        .map(|&count| Task::new("larson", "8..1000", Field::MixedSizes).with_threads(count))
        .collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Larson(context))
}

struct Larson<'a>(&'a Context);

impl Job for Larson<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let threads = self.0.threads;
        vec![time_threads(self.0, |until| {
            let server = Server { subject, until, done: AtomicU64::new(0) };
            scope(|scope| {
                for number in 0..threads {
                    let server = &server;
                    scope.spawn(move || server.first(scope, number));
                }
            });
            server.done.into_inner()
        })]
    }
}

struct Server<'a, S> {
    subject: &'a S,
    until: Instant,
    done: AtomicU64,
}

impl<S: Subject> Server<'_, S> {
    /// The first thread of a line.
    fn first<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        let mut rng = Rng::new(number as u64);
        let block = |_| Block::new(self.subject, rng.between(SIZES.0, SIZES.1));
        let blocks = (0..BLOCKS).map(block).collect();
        self.serve(scope, rng, blocks);
    }

    fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut rng: Rng,
        mut blocks: Vec<Block>,
    ) {
        for _ in 0..REPLACEMENTS {
            let place = rng.below(BLOCKS);
            replace(&mut blocks[place], Block::nothing()).free(self.subject);
            blocks[place] = Block::new(self.subject, rng.between(SIZES.0, SIZES.1));
        }
        self.done.fetch_add(REPLACEMENTS as u64, Ordering::Relaxed);
        if Instant::now() < self.until {
            scope.spawn(move || self.serve(scope, rng, blocks));
        } else {
            blocks.into_iter().for_each(|block| block.free(self.subject));
        }
    }
}
