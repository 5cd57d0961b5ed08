//! `frames`: a game or a server tick. A frame allocates 10 000 blocks of 16-4 096 B and frees them at its end, but for one in
//! twenty, which lives for ten frames more. Time of a frame, of the thread's CPU: in the mean, the worst one, and the worst
//! one once memory has been taken from the system.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_once;
use crate::memory::touched_list;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};

pub(crate) const FRAMES: Workload = Workload {
    name: "frames",
    about: "10 000 blocks a frame, 5 % live for ten; mean and worst frame",
    tasks,
    run,
};

const COUNT: usize = 600;
const QUICK_COUNT: usize = 60;
const BLOCKS: usize = 10_000;
const SIZES: (usize, usize) = (16, 4096);
/// One block in this many outlives its frame, by `LIFE` frames.
const SURVIVOR_EVERY: usize = 20;
const LIFE: usize = 10;
/// The frames until as many survivors die as are born, twice over.
const WARM_UP: usize = 2 * LIFE;

fn tasks(options: &Options) -> Vec<Task> {
    let count = if options.quick { QUICK_COUNT } else { COUNT };
    let (low, high) = SIZES;
    let case = format!("{BLOCKS}x{low}..{high} {count}");
    vec![Task::new("frames", case, Field::MixedLoops)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Frames(context))
}

struct Frames<'a>(&'a Context);

impl Job for Frames<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let asked = self.0.iterations.map(|blocks| blocks as usize / BLOCKS);
        let count = asked.unwrap_or(self.0.size());
        let mut scene = Scene {
            rng: Rng::new(0),
            burst: touched_list(BLOCKS),
            survivors: std::array::from_fn(|_| touched_list(2 * BLOCKS / SURVIVOR_EVERY)),
        };
        let times: Vec<f64> =
            (0..count).map(|number| time_once(1, || scene.frame(subject, number)).1).collect();
        scene.survivors.into_iter().flatten().for_each(|block| block.free(subject));
        let worst = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        vec![
            Reading::time("mean", times.iter().sum::<f64>() / count as f64),
            Reading::time("worst", worst(&times)),
            Reading::time(&format!("worst after {WARM_UP}"), worst(&times[WARM_UP.min(count)..])),
        ]
    }
}

struct Scene {
    rng: Rng,
    burst: Vec<Block>,
    survivors: [Vec<Block>; LIFE],
}

impl Scene {
    #[inline(never)]
    fn frame<S: Subject>(&mut self, subject: &S, number: usize) {
        let Scene { rng, burst, survivors } = self;
        burst.extend((0..BLOCKS).map(|_| Block::new(subject, rng.between(SIZES.0, SIZES.1))));
        let survivors = &mut survivors[number % LIFE];
        survivors.drain(..).for_each(|block| block.free(subject));
        for block in burst.drain(..) {
            if rng.below(SURVIVOR_EVERY) == 0 {
                survivors.push(block);
            } else {
                block.free(subject);
            }
        }
    }
}
