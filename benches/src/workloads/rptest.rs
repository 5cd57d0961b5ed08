//! `rptest` (after the benchmark in rpmalloc's tree): long-lived threads, random sizes of 8-16 000 B, cross-thread frees.
//!
//! Every thread has 4 096 places; a step empties a random one and fills it again. One block in four is not freed by its
//! owner but posted to the next thread, in batches, which frees it. An operation is one step.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_threads;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::mem::{replace, take};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;
use std::time::Instant;

pub(crate) const RPTEST: Workload = Workload {
    name: "rptest",
    about: "8-16 000 B, cross-thread frees, long-lived threads",
    tasks,
    run,
};

const PLACES: usize = 4096;
const SIZES: (usize, usize) = (8, 16_000);
const POST_ONE_IN: usize = 4;
const BATCH: usize = 64;
/// Steps between two looks at the clock.
const STRIDE: usize = 1000;

fn tasks(options: &Options) -> Vec<Task> {
    let threads = options.threads_or(&[1, 2, 4], &[2]);
    threads
        .iter()
        .map(|&count| Task::new("rptest", "8..16000", Field::MixedSizes).with_threads(count))
        .collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Rptest(context))
}

struct Rptest<'a>(&'a Context);

impl Job for Rptest<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let threads = self.0.threads;
        vec![time_threads(self.0, |until| {
            let boxes: Vec<Mailbox> = (0..threads).map(|_| Mailbox::default()).collect();
            let workers = (0..threads).map(|number| Worker::new(subject, &boxes, number));
            let steps = scope(|scope| {
                let running: Vec<_> =
                    workers.map(|worker| scope.spawn(move || worker.work(until))).collect();
                running.into_iter().map(|thread| thread.join().expect("workers do not panic")).sum()
            });
            boxes.iter().flat_map(Mailbox::empty).for_each(|block| block.free(subject));
            steps
        })]
    }
}

/// Blocks posted to a thread.
#[derive(Default)]
struct Mailbox(Mutex<Vec<Block>>);

impl Mailbox {
    fn post(&self, batch: &mut Vec<Block>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(batch);
    }

    fn empty(&self) -> Vec<Block> {
        take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Worker<'a, S> {
    subject: &'a S,
    own: &'a Mailbox,
    next: &'a Mailbox,
    rng: Rng,
    places: Vec<Block>,
    to_post: Vec<Block>,
}

impl<'a, S: Subject> Worker<'a, S> {
    fn new(subject: &'a S, boxes: &'a [Mailbox], number: usize) -> Worker<'a, S> {
        Worker {
            subject,
            own: &boxes[number],
            next: &boxes[(number + 1) % boxes.len()],
            rng: Rng::new(number as u64),
            places: Vec::with_capacity(PLACES),
            to_post: Vec::with_capacity(BATCH),
        }
    }

    /// Works until then; returns the number of steps.
    fn work(mut self, until: Instant) -> u64 {
        for _ in 0..PLACES {
            let block = self.allocate();
            self.places.push(block);
        }
        let mut steps = PLACES;
        while Instant::now() < until {
            (0..STRIDE).for_each(|_| self.step());
            self.own.empty().into_iter().for_each(|block| block.free(self.subject));
            steps += STRIDE;
        }
        self.places.drain(..).for_each(|block| block.free(self.subject));
        self.next.post(&mut self.to_post);
        steps as u64
    }

    #[inline(always)]
    fn step(&mut self) {
        let place = self.rng.below(PLACES);
        let block = replace(&mut self.places[place], Block::nothing());
        if place.is_multiple_of(POST_ONE_IN) {
            self.to_post.push(block);
            if self.to_post.len() == BATCH {
                self.next.post(&mut self.to_post);
            }
        } else {
            block.free(self.subject);
        }
        self.places[place] = self.allocate();
    }

    #[inline(always)]
    fn allocate(&mut self) -> Block {
        Block::new(self.subject, self.rng.between(SIZES.0, SIZES.1))
    }
}
