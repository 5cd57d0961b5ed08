//! A polyheap heap as the `malloc` of any program, by `LD_PRELOAD`.
//!
//! ```text
//! family, operators      malloc and its kin, new and delete: the exported names
//!   ├─ heap              the heap behind them, made at the first request
//!   │    └─ settings     POLYHEAP_* of the environment
//!   └─ next              the functions behind ours, for blocks that are not ours
//! insight                mallinfo and its kin, statistics at exit
//! fork                   the handler of the process
//! ```
//!
//! No request may come too early or too late: the loader asks before any constructor has run, and a
//! thread frees when its thread-local values are gone. So nothing here is initialised by others,
//! nothing allocates, and nothing has a destructor.
//!
//! The names exported are C's and C++'s; there is no Rust interface.

#![deny(missing_docs)]

mod family;
mod fork;
mod heap;
mod insight;
mod next;
mod operators;
mod output;
mod settings;
