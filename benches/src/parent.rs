//! The parent: enumerates the tasks and runs each in several rounds of fresh processes, the allocators in turn.
//!
//! Every round starts with another allocator, so that none always follows the same one. An allocator that once took
//! longer than the limit is not run again in that task. Tasks that take long get fewer rounds, and those that mostly sleep
//! run as many children at once as there are cores.

use crate::context::Context;
use crate::options::Options;
use crate::reading::Outcome;
use crate::spawn::{Failure, run_child};
use crate::summary::{self, Cell};
use crate::task::{Field, Pace, Rank, Task};
use crate::workloads::{self, Workload};
use crate::{callgrind, report};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

/// Tasks that take long get one round in this many.
const LONG_ROUNDS: u32 = 5;

/// All runs of one allocator in one task.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) allocator: &'static str,
    pub(crate) rank: Rank,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) failures: Vec<Failure>,
}

/// Does what the command line says.
///
/// # Errors
/// An unknown name, or a file that cannot be written.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let workloads = pick_workloads(&options.workload)?;
    check_peers(&options.peers)?;
    if options.list {
        report::list(&all_allocators());
        return Ok(());
    }
    let tasks: Vec<Task> =
        workloads.iter().flat_map(|workload| (workload.tasks)(options)).collect();
    if options.callgrind {
        return callgrind::run_tasks(options, &tasks);
    }
    let start = Instant::now();
    let mut cells: Vec<Cell> = Vec::new();
    for task in &tasks {
        let task_cells = summary::cells(task, &rounds(options, task));
        task_cells.iter().for_each(report::print_cell);
        cells.extend(task_cells);
    }
    report::print_means(&cells);
    println!(
        "{} cells in {:.0} s, {} rounds{}",
        cells.len(),
        start.elapsed().as_secs_f64(),
        options.rounds,
        mode(options)
    );
    match &options.json {
        Some(file) => {
            report::write_json(file, &cells).map_err(|error| format!("{}: {error}", file.display()))
        }
        None => Ok(()),
    }
}

/// The allocators of `task` that were asked for.
pub(crate) fn contenders(options: &Options, task: &Task) -> Vec<(&'static str, Rank)> {
    let is_wanted =
        |name: &str| options.peers.is_empty() || options.peers.iter().any(|peer| peer == name);
    task.field.members().into_iter().filter(|(name, _)| is_wanted(name)).collect()
}

/// What a child is told.
pub(crate) fn context(options: &Options, task: &Task, allocator: &str) -> Context {
    let quick = options.quick;
    Context {
        workload: task.workload.into(),
        case: task.case.clone(),
        threads: task.threads,
        allocator: allocator.into(),
        sample_ms: if quick { 8 } else { 40 },
        threaded_sample_ms: if quick { 40 } else { 200 },
        samples: if quick { 2 } else { 3 },
        iterations: None,
    }
}

pub(crate) fn limit(options: &Options) -> Duration {
    Duration::from_secs(options.limit.unwrap_or(if options.quick { 20 } else { 120 }))
}

fn mode(options: &Options) -> &'static str {
    if options.quick { ", quick: short samples, for a look and not for figures" } else { "" }
}

fn rounds(options: &Options, task: &Task) -> Vec<Runs> {
    let start =
        |(allocator, rank)| Runs { allocator, rank, outcomes: Vec::new(), failures: Vec::new() };
    let mut all: Vec<Runs> = contenders(options, task).into_iter().map(start).collect();
    let (rounds, at_once) = match task.pace {
        Pace::Busy => (options.rounds, 1),
        Pace::Long => (options.rounds.div_ceil(LONG_ROUNDS), 1),
        Pace::Asleep => {
            let cores = available_parallelism().map_or(1, usize::from);
            (options.rounds.div_ceil(LONG_ROUNDS), cores)
        }
    };
    for round in 0..rounds as usize {
        let mut turns: Vec<&mut Runs> = all.iter_mut().collect();
        let first = round % turns.len().max(1);
        turns.rotate_left(first);
        for group in turns.chunks_mut(at_once) {
            scope(|scope| {
                for runs in group {
                    scope.spawn(|| run_once(options, task, runs));
                }
            });
        }
    }
    all
}

fn run_once(options: &Options, task: &Task, runs: &mut Runs) {
    if runs.failures.iter().any(|failure| matches!(failure, Failure::TimedOut)) {
        return;
    }
    match run_child(&context(options, task, runs.allocator), limit(options)) {
        Ok(outcome) => runs.outcomes.push(outcome),
        Err(failure) => runs.failures.push(failure),
    }
}

fn pick_workloads(names: &[String]) -> Result<Vec<&'static Workload>, String> {
    if names.is_empty() {
        return Ok(workloads::ALL.iter().collect());
    }
    let find = |name: &String| {
        workloads::find(name).ok_or_else(|| {
            let known: Vec<_> = workloads::ALL.iter().map(|workload| workload.name).collect();
            format!("no workload {name}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

fn check_peers(names: &[String]) -> Result<(), String> {
    let known = all_allocators();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("no allocator {name}; there are {}", known.join(", "))),
        None => Ok(()),
    }
}

fn all_allocators() -> Vec<&'static str> {
    let mut names = Vec::new();
    let fields = [
        Field::MixedLoops,
        Field::Cycles,
        Field::Bins,
        Field::Parsers,
        Field::Preloads,
        Field::Resources,
        Field::Bumps,
    ];
    for (name, _) in fields.into_iter().flat_map(Field::members) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
