//! `phases MiB`: what stays resident. 400 MiB of 64 B, freed; as much of 1 KiB, freed; a second of idling; a few
//! operations. Resident bytes beyond the start at each point, and at the highest.

use super::Workload;
use crate::block::Block;
use crate::chain::Chain;
use crate::context::Context;
use crate::memory::{peak_rss_bytes, resident_bytes};
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::thread::sleep;
use std::time::Duration;

pub(crate) const PHASES: Workload = Workload {
    name: "phases",
    about: "RSS over 400 MiB of 64 B, then of 1 KiB, each freed",
    tasks,
    run,
};

const VOLUME_MIB: usize = 400;
const QUICK_VOLUME_MIB: usize = 40;
const IDLE: Duration = Duration::from_secs(1);
const OPERATIONS: usize = 10_000;

fn tasks(options: &Options) -> Vec<Task> {
    let volume = if options.quick { QUICK_VOLUME_MIB } else { VOLUME_MIB };
    vec![Task::new("phases", format!("{volume}"), Field::Globals)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Phases(context))
}

struct Phases<'a>(&'a Context);

impl Job for Phases<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let volume = self.0.size() << 20;
        let before = resident_bytes();
        let beyond = |bytes: u64| bytes.saturating_sub(before);
        let point = |label| Reading::resident(label, beyond(resident_bytes()));
        let small = Chain::fill(subject, volume, 64);
        let mut readings = vec![point("64B-live")];
        small.free();
        readings.push(point("64B-freed"));
        let large = Chain::fill(subject, volume, 1024);
        readings.push(point("1Ki-live"));
        readings.push(Reading::resident("peak", beyond(peak_rss_bytes())));
        large.free();
        readings.push(point("freed"));
        sleep(IDLE);
        readings.push(point("idle-1s"));
        for turn in 0..OPERATIONS {
            Block::new(subject, 16 + turn % 1000).free(subject);
        }
        readings.push(point("idle+ops"));
        readings
    }
}
