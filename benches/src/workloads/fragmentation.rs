//! `fragmentation`: 200 MiB of 64 B; 90 % freed at random; 200 MiB of 256 B; all freed. Resident bytes beyond the start
//! at each point.

use super::Workload;
use crate::chain::Chain;
use crate::context::Context;
use crate::memory::rss_bytes;
use crate::options::Options;
use crate::reading::{Reading, Unit};
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};

pub(crate) const FRAGMENTATION: Workload = Workload {
    name: "fragmentation",
    about: "RSS after 90 % of 200 MiB are freed at random",
    tasks,
    run,
};

const VOLUME_BYTES: usize = 200 << 20;

fn tasks(_: &Options) -> Vec<Task> {
    vec![Task::new("fragmentation", "200Mi", Field::Globals)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Fragmentation(context))
}

struct Fragmentation<'a>(&'a Context);

impl Job for Fragmentation<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let volume = VOLUME_BYTES / self.0.shrink;
        let mut rng = Rng::new(0);
        let before = rss_bytes();
        let point =
            |label| Reading::single(label, Unit::Bytes, rss_bytes().saturating_sub(before) as f64);
        let mut small = Chain::fill(subject, volume, 64);
        let mut readings = vec![point("64B-live")];
        small.free_if(|| rng.below(10) != 0);
        readings.push(point("90%-freed"));
        let large = Chain::fill(subject, volume, 256);
        readings.push(point("256B-live"));
        small.free();
        large.free();
        readings.push(point("all-freed"));
        readings
    }
}
