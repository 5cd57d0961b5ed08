//! `phases ORDER MiB`: what stays resident. 400 MiB of 64 B, freed in the order they were allocated or in random order; as
//! much of 1 KiB, freed; 12 s of waiting with a few small allocations now and then; a trim, where the allocator has one.
//! Resident bytes beyond the start at each point, and at the highest.

use super::Workload;
use super::waiting::wait_until;
use crate::block::Block;
use crate::chain::Chain;
use crate::context::Context;
use crate::memory::{Baseline, touched_list};
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Pace, Task};
use std::time::{Duration, Instant};

pub(crate) const PHASES: Workload = Workload {
    name: "phases",
    about: "RSS over 400 MiB of 64 B, then of 1 KiB, each freed, then idle",
    tasks,
    run,
};

const VOLUME_MIB: usize = 400;
const QUICK_VOLUME_MIB: usize = 40;
/// Longer than the time any of the allocators keeps idle memory by default, jemalloc's ten seconds included.
const WAIT: Duration = Duration::from_secs(12);
const QUICK_WAIT: Duration = Duration::from_secs(2);

const SMALL_BYTES: usize = 64;
const LARGE_BYTES: usize = 1024;

fn tasks(options: &Options) -> Vec<Task> {
    let volume = if options.quick { QUICK_VOLUME_MIB } else { VOLUME_MIB };
    let task = |order: &&str| {
        Task::new("phases", format!("{order} {volume}"), Field::Globals).with_pace(Pace::Asleep)
    };
    ["in-order", "random"].iter().map(task).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Phases(context))
}

struct Phases<'a>(&'a Context);

impl Job for Phases<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let volume = self.0.size() << 20;
        let wait = if self.0.size() == QUICK_VOLUME_MIB { QUICK_WAIT } else { WAIT };
        let is_random = self.0.case.starts_with("random");
        let count = if is_random { volume / SMALL_BYTES } else { 0 };
        // Stays to the end: giving it back would change what glibc does later.
        let mut blocks: Vec<Block> = touched_list(count);
        let baseline = Baseline::take();
        let point = |label: &str| Reading::resident(label, baseline.beyond());
        let mut readings = Vec::new();
        if is_random {
            blocks.extend((0..count).map(|_| Block::new(subject, SMALL_BYTES)));
            readings.push(point("64B-live"));
            Rng::new(0).shuffle(&mut blocks);
            blocks.drain(..).for_each(|block| block.free(subject));
        } else {
            let small = Chain::fill(subject, volume, SMALL_BYTES);
            readings.push(point("64B-live"));
            small.free();
        }
        readings.push(point("64B-freed"));
        let large = Chain::fill(subject, volume, LARGE_BYTES);
        readings.push(point("1Ki-live"));
        readings.push(Reading::resident("peak", baseline.peak_beyond()));
        large.free();
        readings.push(point("freed"));
        wait_until(subject, Instant::now() + wait);
        readings.push(point(&format!("{}s later", wait.as_secs())));
        if subject.trim() {
            readings.push(point("trimmed"));
        }
        readings
    }
}
