//! Instruction counts under valgrind: exact where times are noisy.
//!
//! A task is run with N and with 2N iterations, so that start-up and warm-up of the first N cancel; what the empty loop
//! takes is taken off. What does not run under valgrind is left out.

use crate::options::Options;
use crate::parent::{contenders, context, limit};
use crate::spawn::{Failure, child_arguments, run};
use crate::subject::NULL;
use crate::task::{Field, Task};
use std::process::{Command, Stdio};

const ITERATIONS: u64 = 200_000;

/// These crash in its emulation.
const NOT_UNDER_VALGRIND: &[&str] = &["snmalloc", "rallocator"];

/// Prints instructions an operation for those of the tasks that are loops.
///
/// # Errors
/// valgrind is not there.
pub(crate) fn run_tasks(options: &Options, tasks: &[Task]) -> Result<(), String> {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    version.map_err(|error| format!("valgrind: {error}"))?;
    println!("instructions an operation (callgrind), less the empty loop's");
    let is_loop =
        |task: &&Task| matches!(task.field, Field::Loops | Field::MixedLoops | Field::Bins);
    for task in tasks.iter().filter(is_loop) {
        println!("{} {}", task.workload, task.case);
        let empty = per_operation(options, task, NULL);
        for (name, _) in contenders(options, task).into_iter().filter(|(name, _)| *name != NULL) {
            print_count(name, &empty, options, task);
        }
    }
    Ok(())
}

fn print_count(name: &str, empty: &Result<f64, Failure>, options: &Options, task: &Task) {
    if NOT_UNDER_VALGRIND.contains(&name) {
        return println!("  {name:<18}left out: does not run under valgrind");
    }
    match (empty, &per_operation(options, task, name)) {
        (Ok(empty), Ok(count)) => println!("  {name:<18}{:>8.1}", count - empty),
        (Err(failure), _) | (_, Err(failure)) => println!("  {name:<18}FAILED: {failure}"),
    }
}

fn per_operation(options: &Options, task: &Task, allocator: &str) -> Result<f64, Failure> {
    let once = count(options, task, allocator, ITERATIONS)?;
    let twice = count(options, task, allocator, 2 * ITERATIONS)?;
    Ok(twice.saturating_sub(once) as f64 / ITERATIONS as f64)
}

fn count(options: &Options, task: &Task, allocator: &str, iterations: u64) -> Result<u64, Failure> {
    let died = |error: std::io::Error| Failure::Died(error.to_string());
    let mut context = context(options, task, allocator);
    context.iterations = Some(iterations);
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(std::env::current_exe().map_err(died)?).args(child_arguments(&context));
    let log = run(&mut command, limit(options))?.stderr;
    let collected = log.lines().find_map(|line| line.split_once("Collected : "));
    let number = collected.and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| Failure::Died("no count from valgrind".into()))
}
