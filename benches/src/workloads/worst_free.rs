//! `worstfree CxS`: C blocks of S bytes are allocated, shuffled, and freed one by one: how long a single free takes. Median,
//! percentiles, and the worst; the empty loop shows what of it is the machine's.
//!
//! A free is timed by two readings of the processor's time stamp. The thread may lose its core in between, and then the time
//! is not the allocator's. So after every free longer than [`SLOW_NS`], and else every [`STRETCH`] frees, the CPU time of the
//! thread is read too, and compared with the wall time since it was last read: what is missing was spent off the core.
//! Losing the core takes longer than that limit, so had an earlier free of the stretch lost it, the stretch would have ended
//! there; all that is missing belongs to the free just timed and comes off it. The CPU time is read outside the stretch of
//! wall time at both ends, so too little comes off rather than too much. What stays in are interrupts, the scheduler's own
//! work, and a host that runs another machine meanwhile; they take tens of microseconds now and then. The scheduler's part is
//! missing from `worst, undisturbed`, the worst of the frees that kept the core. For the rest there are the empty loop and the
//! best of several processes.
//!
//! All rows but `worst, raw` are net of time off the core.

use super::Workload;
use super::churn::parse;
use crate::block::Block;
use crate::clock::{ns_per_tick, thread_cpu, ticks};
use crate::context::Context;
use crate::memory::touched_list;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::time::Duration;

pub(crate) const WORST_FREE: Workload = Workload {
    name: "worstfree",
    about: "10 million frees in random order: median to worst",
    tasks,
    run,
};

const COUNT: usize = 10_000_000;
const QUICK_COUNT: usize = 1_000_000;

/// No switch to another thread and back is shorter.
const SLOW_NS: f64 = 2_000.0;
/// With less than this missing, the thread has kept the core: the two clocks do not agree to the last digit.
const KEPT_NS: f64 = 500.0;
/// Frees after which the clocks are compared anyway, before their rates can drift apart.
const STRETCH: usize = 4096;

fn tasks(options: &Options) -> Vec<Task> {
    let count = if options.quick { QUICK_COUNT } else { COUNT };
    let sizes = options.sizes_or(&[16, 64], &[16, 64]);
    let task = |size| Task::new("worstfree", format!("{count}x{size}"), Field::Loops);
    sizes.iter().map(|size| task(size).long_if_quick(options)).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, WorstFree(context))
}

struct WorstFree<'a>(&'a Context);

impl Job for WorstFree<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let (count, size, _) = parse(&self.0.case).expect("a case CxS");
        let count = self.0.iterations.map_or(count, |count| count as usize);
        let mut blocks = touched_list(count);
        let mut times = Times::new(count);
        blocks.extend((0..count).map(|_| Block::new(subject, size)));
        Rng::new(0).shuffle(&mut blocks);
        free_all(subject, blocks, &mut times);
        times.readings()
    }
}

#[inline(never)]
fn free_all<S: Subject>(subject: &S, blocks: Vec<Block>, times: &mut Times) {
    let mut last = times.start_stretch();
    for (number, block) in blocks.into_iter().enumerate() {
        block.free(subject);
        let now = ticks();
        let taken = now.saturating_sub(last);
        last = now;
        if taken < times.slow_ticks && !number.is_multiple_of(STRETCH) {
            times.push(taken);
        } else {
            last = times.end_stretch(taken, now);
        }
    }
}

/// How long each free took, in ticks.
struct Times {
    ns_per_tick: f64,
    slow_ticks: u64,
    net_ticks: Vec<u32>,
    worst_raw_ticks: u64,
    worst_undisturbed_ticks: u64,
    /// Both clocks at the start of the stretch.
    start_cpu: Duration,
    start_ticks: u64,
}

impl Times {
    fn new(count: usize) -> Times {
        let ns_per_tick = ns_per_tick();
        Times {
            ns_per_tick,
            slow_ticks: (SLOW_NS / ns_per_tick) as u64,
            net_ticks: touched_list(count),
            worst_raw_ticks: 0,
            worst_undisturbed_ticks: 0,
            start_cpu: Duration::ZERO,
            start_ticks: 0,
        }
    }

    /// Reads the CPU time, then the ticks; returns these.
    fn start_stretch(&mut self) -> u64 {
        self.start_cpu = thread_cpu();
        self.start_ticks = ticks();
        self.start_ticks
    }

    #[inline(always)]
    fn push(&mut self, ticks: u64) {
        // Longer ones than fit, of seconds, count as the longest that does.
        self.net_ticks.push(u32::try_from(ticks).unwrap_or(u32::MAX));
    }

    /// Takes note of a free of `taken` ticks that ended at `now`, starts the next stretch and returns its start.
    #[cold]
    #[inline(never)]
    fn end_stretch(&mut self, taken: u64, now: u64) -> u64 {
        let cpu = thread_cpu();
        let cpu_ticks = (cpu - self.start_cpu).as_nanos() as f64 / self.ns_per_tick;
        let off_ticks = now.saturating_sub(self.start_ticks).saturating_sub(cpu_ticks as u64);
        self.push(taken.saturating_sub(off_ticks));
        self.worst_raw_ticks = self.worst_raw_ticks.max(taken);
        if off_ticks as f64 * self.ns_per_tick < KEPT_NS {
            self.worst_undisturbed_ticks = self.worst_undisturbed_ticks.max(taken);
        }
        self.start_cpu = cpu;
        self.start_ticks = ticks();
        self.start_ticks
    }

    fn readings(mut self) -> Vec<Reading> {
        self.net_ticks.sort_unstable();
        let ns = |ticks: f64| ticks * self.ns_per_tick;
        let last = self.net_ticks.len() - 1;
        let at = |label, share: f64| {
            let ticks = self.net_ticks[(last as f64 * share) as usize];
            Reading::time(label, ns(f64::from(ticks)))
        };
        vec![
            at("median", 0.5),
            at("p99", 0.99),
            at("p99.9", 0.999),
            at("p99.99", 0.9999),
            Reading::time("worst, raw", ns(self.worst_raw_ticks as f64)),
            at("worst, net", 1.0),
            Reading::time("worst, undisturbed", ns(self.worst_undisturbed_ticks as f64)),
        ]
    }
}
