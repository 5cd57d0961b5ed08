//! `realloc`: a vector grows. Doubling from 16 B to 64 KiB; doubling to 64 MiB, every page written; in steps of 4 KiB
//! to 32 MiB. An operation is the whole growth, ending with the free.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_loop;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};

pub(crate) const REALLOC: Workload =
    Workload { name: "realloc", about: "growth of a vector", tasks, run };

const SMALL: &str = "double-16..64Ki";
const LARGE: &str = "double-16..64Mi";
const STEPS: &str = "step4Ki..32Mi";

const OS_PAGE_BYTES: usize = 4096;

fn tasks(options: &Options) -> Vec<Task> {
    let cases: &[&str] = if options.quick { &[SMALL, LARGE] } else { &[SMALL, LARGE, STEPS] };
    cases.iter().map(|&case| Task::new("realloc", case, Field::Globals)).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Realloc(context))
}

struct Realloc<'a>(&'a Context);

impl Job for Realloc<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let growth = match self.0.case.as_str() {
            SMALL => small::<S>,
            LARGE => large::<S>,
            _ => steps::<S>,
        };
        vec![time_loop(self.0, |growths| (0..growths).for_each(|_| growth(subject)))]
    }
}

#[inline(never)]
fn small<S: Subject>(subject: &S) {
    let mut block = Block::new(subject, 16);
    for log2 in 5..=16 {
        block = block.resize(subject, 1 << log2);
    }
    block.free(subject);
}

#[inline(never)]
fn large<S: Subject>(subject: &S) {
    let mut block = Block::new(subject, 16);
    for log2 in 5..=26 {
        block = block.resize(subject, 1 << log2);
        let added = 1 << (log2 - 1)..1 << log2;
        added.step_by(OS_PAGE_BYTES).for_each(|offset| block.count(offset));
    }
    block.free(subject);
}

#[inline(never)]
fn steps<S: Subject>(subject: &S) {
    let mut block = Block::new(subject, OS_PAGE_BYTES);
    for pages in 2..=(32 << 20) / OS_PAGE_BYTES {
        block = block.resize(subject, pages * OS_PAGE_BYTES);
    }
    block.free(subject);
}
