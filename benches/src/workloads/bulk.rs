//! `bulk`: 1 024 blocks are allocated, then freed, last first (LIFO) or first first (FIFO). An operation is a pair.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_loop;
use crate::opaque::opaque;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};

pub(crate) const BULK: Workload = Workload {
    name: "bulk",
    about: "1 024 blocks allocated, then freed, LIFO or FIFO",
    tasks,
    run,
};

pub(super) const BLOCKS: usize = 1024;

fn tasks(options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(&[16, 64, 256, 1024], &[64]);
    let task = |order, size| Task::new("bulk", format!("{order} {size}"), Field::Loops);
    ["LIFO", "FIFO"]
        .iter()
        .flat_map(|order| sizes.iter().map(move |size| task(order, size)))
        .collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Bulk(context))
}

pub(super) struct Bulk<'a>(pub(super) &'a Context);

impl Job for Bulk<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let size = self.0.size();
        let mut blocks: [Block; BLOCKS] = std::array::from_fn(|_| Block::nothing());
        let round = if self.0.case.starts_with("LIFO") { lifo::<S> } else { fifo::<S> };
        vec![time_loop(self.0, |pairs| {
            let mut left = pairs as usize;
            while left > 0 {
                let count = left.min(BLOCKS);
                round(subject, size, &mut blocks[..count]);
                left -= count;
            }
        })]
    }
}

#[inline(always)]
fn fill<S: Subject>(subject: &S, size: usize, blocks: &mut [Block]) {
    for block in blocks {
        *block = Block::new(subject, opaque(size));
    }
}

#[inline(never)]
fn lifo<S: Subject>(subject: &S, size: usize, blocks: &mut [Block]) {
    fill(subject, size, blocks);
    for block in blocks.iter_mut().rev() {
        std::mem::replace(block, Block::nothing()).free(subject);
    }
}

#[inline(never)]
fn fifo<S: Subject>(subject: &S, size: usize, blocks: &mut [Block]) {
    fill(subject, size, blocks);
    for block in blocks {
        std::mem::replace(block, Block::nothing()).free(subject);
    }
}
