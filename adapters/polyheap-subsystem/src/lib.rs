//! Named [`polyheap`] heaps for the subsystems of a program: declared in one place, each with a
//! budget, looked at together.
//!
//! ```
//! use polyheap_subsystem::{Vec, report, subsystem};
//!
//! subsystem! {
//!     /// Syntax trees.
//!     pub static PARSER: "parser", max = 64 << 20;
//!     static CACHE: "cache", soft_max = 16 << 20, isolated;
//! }
//!
//! let mut tokens = Vec::new_in(&PARSER);
//! tokens.extend(["let", "x", "=", "1"]);
//! let answers = CACHE.map::<u32, &str>();
//!
//! assert_eq!(PARSER.leaks().blocks, 1);
//! println!("{}", report());
//! # drop(answers);
//! ```
//!
//! | | |
//! |---|---|
//! | [`subsystem!`] | declares subsystems; [`Subsystem::builder`] does it without the macro |
//! | [`Subsystem`] | dereferences to [`Heap`]; an allocator by reference |
//! | [`Vec`], [`Box`], [`String`], [`HashMap`], [`HashSet`] | containers in a subsystem |
//! | [`enter`], [`current`] | the thread's subsystem, for code that takes no parameter |
//! | [`registry()`] | all subsystems of the process |
//! | [`Subsystem::on_soft_limit`], [`Subsystem::check`], [`check_budgets`] | what to do when a subsystem holds too much |
//! | [`Subsystem::leaks`] | what it has not freed |
//! | [`report()`] | all of them as a table, as JSON or as a web page |
//! | [`Recorder`] | live and held bytes over time, for the page's picture |
//!
//! # Registration
//!
//! On Linux and macOS the macro leaves a constructor with each subsystem, which enters it into the
//! registry when the program, or the library that contains it, is loaded: before `main`, without
//! allocating. So subsystems that were never used are listed too. A library with subsystems must not
//! be unloaded.
//!
//! Elsewhere, and for subsystems declared without the macro, [`Subsystem::register`] enters them, and
//! so do [`enter`] and all other methods that take the subsystem as `&'static`. The macro's constructor
//! counts as unsafe code; a crate that forbids that declares its subsystems with [`Subsystem::builder`].
//!
//! # Nothing here is on the way of an allocation
//!
//! A subsystem's blocks come from its heap directly. The registry is a list without a lock; budgets and
//! recorders have locks that no allocation takes. Callbacks are called by whoever checks a budget, not
//! from within an allocation, so they may allocate, free and give back as they like.

#![cfg_attr(feature = "nightly", feature(allocator_api))]
#![deny(missing_docs)]

mod budget;
mod builder;
mod bytes;
mod chart;
mod containers;
mod faces;
mod history;
mod leaks;
mod macros;
mod page;
mod recorder;
mod registry;
mod report;
mod scope;
mod subsystem;
mod table;

pub use budget::{SoftExcess, check_budgets};
pub use builder::SubsystemBuilder;
pub use containers::{Box, HashMap, HashSet, String, Vec};
pub use history::{History, Sample, SamplePoint};
pub use leaks::Leaks;
pub use polyheap;
pub use polyheap::{Decay, Heap, HeapError, HugePages};
pub use recorder::Recorder;
pub use registry::{Registry, registry};
pub use report::{Report, SubsystemReport, report};
pub use scope::{current, enter};
pub use subsystem::Subsystem;

/// The README's code, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
