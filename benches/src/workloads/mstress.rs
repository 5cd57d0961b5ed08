//! `mstress` (after the stress test in mimalloc's tree): rounds of filling and emptying, with random transfer of blocks
//! between threads, mixed sizes.
//!
//! In a round every thread allocates three times out of four and frees a random block of its own otherwise, and now and
//! then exchanges one with a random place of a shared table; at the end of the round it frees all but a part of its
//! blocks and dies. The main thread empties half of the table between rounds. An operation is an allocation or a free.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_threads;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread::scope;
use std::time::Instant;

pub(crate) const MSTRESS: Workload = Workload {
    name: "mstress",
    about: "rounds of filling and emptying, random transfer between threads",
    tasks,
    run,
};

const TABLE: usize = 1000;
const STEPS: usize = 20_000;
/// One step in this many exchanges a block with the table.
const EXCHANGE_EVERY: usize = 16;

fn tasks(options: &Options) -> Vec<Task> {
    let threads = options.threads_or(&[1, 2, 4], &[2]);
    threads
        .iter()
        .map(|&count| Task::new("mstress", "mixed", Field::MixedSizes).with_threads(count))
        .collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Mstress(context))
}

struct Mstress<'a>(&'a Context);

impl Job for Mstress<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let stress = Stress {
            subject,
            table: (0..TABLE).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            done: AtomicU64::new(0),
        };
        let reading = time_threads(self.0, |until| stress.rounds(self.0.threads, until));
        stress.empty_table(1);
        vec![reading]
    }
}

struct Stress<'a, S> {
    subject: &'a S,
    table: Vec<AtomicPtr<u8>>,
    done: AtomicU64,
}

impl<S: Subject> Stress<'_, S> {
    fn rounds(&self, threads: usize, until: Instant) -> u64 {
        self.done.store(0, Ordering::Relaxed);
        let mut kept: Vec<Vec<Block>> = (0..threads).map(|_| Vec::new()).collect();
        let mut round = 0;
        while Instant::now() < until {
            scope(|scope| {
                for (number, kept) in kept.iter_mut().enumerate() {
                    scope.spawn(move || {
                        self.round(Rng::new((round * threads + number) as u64), kept)
                    });
                }
            });
            self.empty_table(2);
            round += 1;
        }
        for block in kept.into_iter().flatten() {
            block.free(self.subject);
        }
        self.done.load(Ordering::Relaxed)
    }

    /// One thread's part in a round; `kept` holds blocks that outlive their thread.
    fn round(&self, mut rng: Rng, kept: &mut Vec<Block>) {
        let mut blocks = Vec::new();
        let mut operations = 0;
        for step in 0..STEPS {
            if rng.below(4) != 0 || blocks.is_empty() {
                blocks.push(Block::new(self.subject, mixed_size(&mut rng)));
            } else {
                blocks.swap_remove(rng.below(blocks.len())).free(self.subject);
            }
            operations += 1;
            if step.is_multiple_of(EXCHANGE_EVERY) {
                self.exchange(&mut rng, &mut blocks);
            }
        }
        operations += blocks.len() + kept.len();
        let keep = blocks.len() / 8;
        kept.drain(..).for_each(|block| block.free(self.subject));
        kept.extend(blocks.drain(..keep));
        blocks.into_iter().for_each(|block| block.free(self.subject));
        self.done.fetch_add((operations - keep) as u64, Ordering::Relaxed);
    }

    fn exchange(&self, rng: &mut Rng, blocks: &mut Vec<Block>) {
        let Some(given) = blocks.pop() else { return };
        // AcqRel: publishes the given block's size and contents, and takes over the other's.
        let taken = self.table[rng.below(TABLE)].swap(given.into_raw(), Ordering::AcqRel);
        if !taken.is_null() {
            // SAFETY: the table holds blocks made raw above, and the swap took this one out.
            blocks.push(unsafe { Block::from_raw(taken) });
        }
    }

    /// Frees one in `every` places of the table.
    fn empty_table(&self, every: usize) {
        for place in self.table.iter().step_by(every) {
            let taken = place.swap(ptr::null_mut(), Ordering::Acquire);
            if !taken.is_null() {
                // SAFETY: as in `exchange`.
                unsafe { Block::from_raw(taken) }.free(self.subject);
            }
        }
    }
}

/// Mostly up to 128 B, one in 16 up to 2 KiB, one in 256 up to 16 KiB, one in 4 096 up to 256 KiB.
fn mixed_size(rng: &mut Rng) -> usize {
    let words = match rng.below(4096) {
        0 => 32 << 10,
        1..16 => 2 << 10,
        16..256 => 256,
        _ => 16,
    };
    8 * rng.between(1, words)
}
