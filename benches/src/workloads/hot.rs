//! `hot`: allocate a block, write its first byte, free it. The size is opaque to the compiler. `large` goes on from 32 KiB.
//!
//! `hotconst`: the same with the size known at compile time.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_loop;
use crate::opaque::opaque;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};

pub(crate) const HOT: Workload = Workload {
    name: "hot",
    about: "allocate N, write the first byte, free",
    tasks: hot_tasks,
    run: run_hot,
};

pub(crate) const HOTCONST: Workload = Workload {
    name: "hotconst",
    about: "the same, N known at compile time",
    tasks: const_tasks,
    run: run_const,
};

const SIZES: &[usize] = &[16, 64, 256, 1024, 4096, 16 << 10];

const QUICK_SIZES: &[usize] = &[16, 64, 1024];

const CONST_SIZES: &[usize] = &[16, 64, 256, 1024];

fn hot_tasks(options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(SIZES, QUICK_SIZES);
    sizes.iter().map(|size| Task::new("hot", format!("{size}"), Field::Loops)).collect()
}

fn const_tasks(options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(CONST_SIZES, &[64]);
    let compiled = sizes.iter().filter(|size| CONST_SIZES.contains(size));
    compiled.map(|size| Task::new("hotconst", format!("{size}"), Field::Loops)).collect()
}

fn run_hot(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Hot(context))
}

fn run_const(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, HotConst(context))
}

pub(super) struct Hot<'a>(pub(super) &'a Context);

impl Job for Hot<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let size = self.0.size();
        vec![time_loop(self.0, |pairs| hot(subject, size, pairs))]
    }
}

#[inline(never)]
pub(super) fn hot<S: Subject>(subject: &S, size: usize, pairs: u64) {
    for _ in 0..pairs {
        Block::new(subject, opaque(size)).free(subject);
    }
}

struct HotConst<'a>(&'a Context);

impl Job for HotConst<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let pass = match self.0.size() {
            16 => hot_const::<S, 16>,
            64 => hot_const::<S, 64>,
            256 => hot_const::<S, 256>,
            _ => hot_const::<S, 1024>,
        };
        vec![time_loop(self.0, |pairs| pass(subject, pairs))]
    }
}

#[inline(never)]
fn hot_const<S: Subject, const SIZE: usize>(subject: &S, pairs: u64) {
    for _ in 0..pairs {
        Block::new(subject, SIZE).free(subject);
    }
}
