//! `realloc`: a vector grows through the allocator's own entrance for it, and is freed. An operation is the whole growth.
//!
//! | case | growth |
//! |---|---|
//! | `double-16..64Ki` | doubling, nothing written |
//! | `double-16..64Mi` | doubling, every OS page of what was added written |
//! | `step4Ki..32Mi` | by 4 KiB, which are written to |
//! | `step8..3200000` | by 8 B, which are written: 400 000 elements pushed without any spare capacity |
//!
//! Of the first growth in a process, as multiples of the final size: the highest resident set, and what was moved. A block
//! that comes back at another address counts as moved in full; whether its bytes were copied or its pages handed to another
//! address, nobody can tell from outside.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_loop;
use crate::memory::Baseline;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::ops::Range;

pub(crate) const REALLOC: Workload = Workload {
    name: "realloc",
    about: "growth of a vector: doubling, by 4 KiB, by 8 B",
    tasks,
    run,
};

const SMALL: &str = "double-16..64Ki";
const LARGE: &str = "double-16..64Mi";

const OS_PAGE_BYTES: usize = 4096;

/// Case of equal steps: name, step and final size in bytes.
type Steps = (&'static str, usize, usize);

const STEPS: [Steps; 2] =
    [("step4Ki..32Mi", OS_PAGE_BYTES, 32 << 20), ("step8..3200000", 8, 3_200_000)];

/// Short enough for those that copy at every step.
const QUICK_STEPS: [Steps; 2] =
    [("step4Ki..2Mi", OS_PAGE_BYTES, 2 << 20), ("step8..400000", 8, 400_000)];

fn tasks(options: &Options) -> Vec<Task> {
    let [pages, words] = if options.quick { QUICK_STEPS } else { STEPS };
    let task = |case| Task::new("realloc", case, Field::Globals);
    let slow_task = |case| task(case).long_if_quick(options);
    vec![task(SMALL), slow_task(LARGE), slow_task(pages.0), slow_task(words.0)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Realloc(context))
}

struct Realloc<'a>(&'a Context);

impl Job for Realloc<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        match self.0.case.as_str() {
            SMALL => vec![self.time(|| _ = double(subject, 64 << 10, |_, _| ()))],
            LARGE => self.time_and_memory(64 << 20, |bytes| double(subject, bytes, write_pages)),
            case => {
                let mut cases = STEPS.into_iter().chain(QUICK_STEPS);
                let (_, step_bytes, last) =
                    cases.find(|(name, ..)| *name == case).expect("one of the cases");
                self.time_and_memory(last, |bytes| step(subject, step_bytes, bytes))
            }
        }
    }
}

impl Realloc<'_> {
    fn time(&self, growth: impl Fn()) -> Reading {
        time_loop(self.0, |growths| (0..growths).for_each(|_| growth()))
    }

    /// Readings of `growth`, which grows a block to that many bytes and returns how many were moved on the way.
    fn time_and_memory(&self, bytes: usize, growth: impl Fn(usize) -> u64) -> Vec<Reading> {
        let baseline = Baseline::take();
        let moved = growth(bytes);
        let peak = baseline.peak_beyond();
        let time = self.time(|| _ = growth(bytes));
        vec![
            time,
            Reading::multiple("peak RSS / final", peak, bytes),
            Reading::multiple("moved / final", moved, bytes),
        ]
    }
}

#[inline(never)]
fn double<S: Subject>(subject: &S, last: usize, write: impl Fn(&mut Block, Range<usize>)) -> u64 {
    let mut vector = Vector { block: Block::new(subject, 16), bytes: 16, moved: 0 };
    while vector.bytes < last {
        let added = vector.bytes..2 * vector.bytes;
        vector = vector.grow(subject, 2 * added.start);
        write(&mut vector.block, added);
    }
    vector.end(subject)
}

fn write_pages(block: &mut Block, added: Range<usize>) {
    added.step_by(OS_PAGE_BYTES).for_each(|offset| block.write_word(offset));
}

/// Grows by `step` bytes, of which a word is written.
#[inline(never)]
fn step<S: Subject>(subject: &S, step: usize, last: usize) -> u64 {
    let mut vector = Vector { block: Block::new(subject, step), bytes: step, moved: 0 };
    while vector.bytes < last {
        let added = vector.bytes;
        vector = vector.grow(subject, added + step);
        vector.block.write_word(added);
    }
    vector.end(subject)
}

/// Block that grows, with the bytes moved so far.
struct Vector {
    block: Block,
    bytes: usize,
    moved: u64,
}

impl Vector {
    #[inline(always)]
    fn grow<S: Subject>(self, subject: &S, bytes: usize) -> Vector {
        let address = self.block.address();
        let block = self.block.resize(subject, bytes);
        let moved = if block.address() == address { 0 } else { self.bytes as u64 };
        Vector { block, bytes, moved: self.moved + moved }
    }

    fn end<S: Subject>(self, subject: &S) -> u64 {
        self.block.free(subject);
        self.moved
    }
}
