//! Sampling: how long a loop is run and what is kept of it.
//!
//! Single-threaded loops are timed in CPU time of the thread, after a search for the number of iterations that fills
//! a sample. Threaded workloads run for a stretch of wall time and count what they did; a sample in which other
//! processes used a quarter of a core or more is dropped, unless all were so.

use crate::clock::{WallSpan, thread_cpu};
use crate::context::Context;
use crate::reading::{Reading, Unit};
use std::time::{Duration, Instant};

/// A first pass longer than this is the only sample.
const SINGLE_PASS: Duration = Duration::from_secs(2);

/// End of the search for a sample's length, should a loop take no time at all.
const MOST_ITERATIONS: u64 = 1 << 40;

/// Times `pass(n)`, which does an operation `n` times, in ns an operation.
pub(crate) fn time_loop(context: &Context, mut pass: impl FnMut(u64)) -> Reading {
    if let Some(iterations) = context.iterations {
        pass(iterations);
        return Reading::of(Unit::NsPerOp, vec![0.0]);
    }
    let sample = Duration::from_millis(context.sample_ms);
    let mut timed = |iterations: u64| {
        let start = thread_cpu();
        pass(iterations);
        thread_cpu() - start
    };
    let first = timed(1);
    if first > SINGLE_PASS {
        return Reading::of(Unit::NsPerOp, vec![first.as_nanos() as f64]);
    }
    let (iterations, taken) = fill(sample / 4, &mut timed);
    let scale = sample.as_secs_f64() / taken.as_secs_f64().max(1e-9);
    let iterations = ((iterations as f64 * scale) as u64).max(1);
    let one = |_| timed(iterations).as_nanos() as f64 / iterations as f64;
    Reading::of(Unit::NsPerOp, (0..context.samples).map(one).collect())
}

/// Doubles the iterations until they take `target`, twice running, so that no single delay is taken for the loop's speed;
/// returns both.
fn fill(target: Duration, timed: &mut impl FnMut(u64) -> Duration) -> (u64, Duration) {
    let mut iterations = 1;
    loop {
        let taken = timed(iterations);
        if taken >= target || iterations >= MOST_ITERATIONS {
            let again = timed(iterations).min(taken);
            if again >= target / 2 || iterations >= MOST_ITERATIONS {
                return (iterations, again);
            }
        }
        iterations *= 2;
    }
}

/// Runs `pass(until)`, which works until that instant and returns how many operations it did, in operations a second.
pub(crate) fn time_threads(context: &Context, mut pass: impl FnMut(Instant) -> u64) -> Reading {
    let sample = Duration::from_millis(context.threaded_sample_ms);
    let samples: Vec<(f64, bool)> = (0..context.samples)
        .map(|_| {
            let span = WallSpan::start();
            let operations = pass(Instant::now() + sample);
            let (wall, is_quiet) = span.stop();
            (operations as f64 / wall.as_secs_f64(), is_quiet)
        })
        .collect();
    keep_quiet(Unit::OpsPerSecond, &samples)
}

/// Runs `pass()`, which does `operations` operations, in ns of wall time an operation.
pub(crate) fn time_wall(context: &Context, operations: u64, mut pass: impl FnMut()) -> Reading {
    let samples: Vec<(f64, bool)> = (0..context.samples)
        .map(|_| {
            let span = WallSpan::start();
            pass();
            let (wall, is_quiet) = span.stop();
            (wall.as_nanos() as f64 / operations as f64, is_quiet)
        })
        .collect();
    keep_quiet(Unit::NsPerOp, &samples)
}

fn keep_quiet(unit: Unit, samples: &[(f64, bool)]) -> Reading {
    let is_quiet = samples.iter().any(|(_, quiet)| *quiet);
    let kept = samples.iter().filter(|(_, quiet)| *quiet == is_quiet).map(|(value, _)| *value);
    Reading { is_quiet, ..Reading::of(unit, kept.collect()) }
}

/// Times `work` once, in ns of the thread's CPU time, divided by `operations`.
pub(crate) fn time_once<T>(operations: usize, work: impl FnOnce() -> T) -> (T, f64) {
    let start = thread_cpu();
    let result = work();
    let taken = thread_cpu() - start;
    (result, taken.as_nanos() as f64 / operations as f64)
}
