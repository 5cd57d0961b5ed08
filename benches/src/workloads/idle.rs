//! `idle MiB`: one thread allocates 100 MiB of 16-1 024 B and parks for good; another frees them all and then only
//! allocates a little now and then. Resident bytes beyond the start while all live and at moments after the last free: what
//! the parked thread's caches hold, and whether memory goes back although the thread that took it never runs again.

use super::Workload;
use super::waiting::wait_until;
use crate::block::Block;
use crate::context::Context;
use crate::memory::{Baseline, touched_list};
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Pace, Task};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

pub(crate) const IDLE: Workload = Workload {
    name: "idle",
    about: "RSS after 100 MiB of a parked thread's are freed by another",
    tasks,
    run,
};

const VOLUME_MIB: usize = 100;
const QUICK_VOLUME_MIB: usize = 10;
const SIZES: (usize, usize) = (16, 1024);
const MEAN_BYTES: usize = usize::midpoint(SIZES.0, SIZES.1);

const SECONDS: &[u64] = &[0, 1, 2, 5, 10];
const QUICK_SECONDS: &[u64] = &[0, 1, 2];

fn tasks(options: &Options) -> Vec<Task> {
    let volume = if options.quick { QUICK_VOLUME_MIB } else { VOLUME_MIB };
    let task = Task::new("idle", format!("{volume}"), Field::MixedSizes);
    vec![task.with_threads(2).with_pace(Pace::Asleep)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Idle(context))
}

struct Idle<'a>(&'a Context);

impl Job for Idle<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let is_quick = self.0.size() == QUICK_VOLUME_MIB;
        let seconds = if is_quick { QUICK_SECONDS } else { SECONDS };
        let count = (self.0.size() << 20) / MEAN_BYTES;
        let (give, to_fill) = channel::<Vec<Block>>();
        let (full, to_free) = channel::<Vec<Block>>();
        let (release, released) = channel::<()>();
        scope(|scope| {
            scope.spawn(move || fill_and_park(subject, count, &to_fill, &full, &released));
            // The thread says that it runs, so that its stack is not counted.
            _ = to_free.recv();
            let blocks = touched_list(count);
            let baseline = Baseline::take();
            let point = |label: &str| Reading::resident(label, baseline.beyond());
            give.send(blocks).expect("the thread waits for it");
            let mut blocks = to_free.recv().expect("the thread gives it back");
            let mut readings = vec![point("live")];
            blocks.drain(..).for_each(|block| block.free(subject));
            let start = Instant::now();
            for &second in seconds {
                wait_until(subject, start + Duration::from_secs(second));
                readings.push(point(&format!("{second}s after the frees")));
            }
            drop(release);
            readings
        })
    }
}

/// Fills the list it is given, hands it back and does nothing until its peer drops the other end of `released`.
fn fill_and_park<S: Subject>(
    subject: &S,
    count: usize,
    to_fill: &Receiver<Vec<Block>>,
    full: &Sender<Vec<Block>>,
    released: &Receiver<()>,
) {
    let mut rng = Rng::new(0);
    full.send(Vec::new()).expect("the main thread waits for it");
    let mut blocks = to_fill.recv().expect("the main thread sends it");
    blocks.extend((0..count).map(|_| Block::new(subject, rng.between(SIZES.0, SIZES.1))));
    full.send(blocks).expect("the main thread waits for it");
    // Ends with an error, when the main thread has dropped the sender.
    _ = released.recv();
}
