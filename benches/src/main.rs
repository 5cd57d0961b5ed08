//! Measures polyheap beside its peers.
//!
//! The parent enumerates tasks (a workload, a case, a number of threads) and runs every task in several fresh child
//! processes per allocator, in turn; a process settles at one of two speeds on a shared machine, so one process an
//! allocator proves nothing. A child is the same program with the hidden `--child` argument; it runs one task once and
//! prints one line of JSON. Whatever the harness itself allocates comes from the system's allocator.
//!
//! ```text
//! main ── parent ── rounds of  spawn ── child ── workloads::* ── subject | heap_subject
//!            │                                        └── measure (clock, memory)
//!            └── summary ── table, JSON
//! ```

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a program that prints, and that stops when the machine refuses it a thread or a file"
)]

mod arena_subject;
mod block;
mod callgrind;
mod chain;
mod child;
mod clock;
mod context;
mod heap_subject;
mod measure;
mod memory;
mod opaque;
mod options;
mod ours;
mod parent;
mod reading;
mod report;
mod rng;
mod spawn;
mod subject;
mod summary;
mod task;
mod trims;
mod via;
mod workloads;
mod zipf;

use clap::Parser;
use std::alloc::System;
use std::process::ExitCode;

#[global_allocator]
static BOOKKEEPING: System = System;

fn main() -> ExitCode {
    let options = options::Options::parse();
    if let Some(context) = &options.child {
        return child::run(context);
    }
    match parent::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("polyheap-benches: {message}");
            ExitCode::from(2)
        }
    }
}
