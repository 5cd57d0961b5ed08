//! `fragmentation MiB`: 200 MiB of 64 B; 90 % freed at random; as much of 256 B; all freed. Resident bytes beyond the
//! start at each point.

use super::Workload;
use crate::chain::Chain;
use crate::context::Context;
use crate::memory::resident_bytes;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};

pub(crate) const FRAGMENTATION: Workload = Workload {
    name: "fragmentation",
    about: "RSS after 90 % of 200 MiB are freed at random",
    tasks,
    run,
};

const VOLUME_MIB: usize = 200;
const QUICK_VOLUME_MIB: usize = 20;

fn tasks(options: &Options) -> Vec<Task> {
    let volume = if options.quick { QUICK_VOLUME_MIB } else { VOLUME_MIB };
    vec![Task::new("fragmentation", format!("{volume}"), Field::Globals)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Fragmentation(context))
}

struct Fragmentation<'a>(&'a Context);

impl Job for Fragmentation<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let volume = self.0.size() << 20;
        let mut rng = Rng::new(0);
        let before = resident_bytes();
        let point = |label| Reading::resident(label, resident_bytes().saturating_sub(before));
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
