//! A child process: one task, one allocator, one line of JSON.

use crate::context::Context;
use crate::memory::peak_rss_bytes;
use crate::reading::Outcome;
use crate::workloads;
use std::process::ExitCode;

/// Runs the task that `context` tells in JSON and prints the outcome.
pub(crate) fn run(context: &str) -> ExitCode {
    let context: Context = match serde_json::from_str(context) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("polyheap-benches: --child: {error}");
            return ExitCode::from(2);
        }
    };
    let Some(workload) = workloads::find(&context.workload) else {
        eprintln!("polyheap-benches: --child: no workload {}", context.workload);
        return ExitCode::from(2);
    };
    let readings = (workload.run)(&context);
    let outcome = Outcome { readings, peak_rss_bytes: peak_rss_bytes() };
    println!("{}", serde_json::to_string(&outcome).expect("numbers and text serialise"));
    // Threads may still be on their way out of the allocator under test; its handlers at exit are none of the task's.
    // SAFETY: no precondition; a line just printed has been written, as standard output is line-buffered.
    unsafe { libc::_exit(0) }
}
