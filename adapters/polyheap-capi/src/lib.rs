//! The C library of [`polyheap`]: `malloc`'s family over a default heap, and heap instances, for C and
//! C++.
//!
//! What a C program sees stands in `include/polyheap.h`, for C++ also in `include/polyheap.hpp`; the
//! contract of each function is told there. `install.sh` installs both with the static and the
//! shared library and a pkg-config file. A Rust program uses [`polyheap`] itself; this crate exports
//! the same functions to it only so that they can be linked into its C parts.
//!
//! | | |
//! |---|---|
//! | `plain` | the default heap: `polyheap_malloc`, `polyheap_free`, … |
//! | `named` | the same of a heap that is named: `polyheap_heap_malloc`, … |
//! | `lifetime` | `polyheap_new`, `polyheap_delete`, `polyheap_destroy`, look-ups, limits, walks |
//! | `stats`, `json` | `polyheap_stats`, `polyheap_stats_json` |
//! | `policy` | foreign pointers, sizes given at free, the fault handler |
//!
//! # Rules of the boundary
//!
//! Nothing unwinds across it: every function is `extern "C"`, which turns a panic into an abort, and
//! none has a reason to panic. Nothing allocates but blocks: a handle is a block of the default heap.
//! The functions that return memory set `errno` as POSIX says; those that free leave it alone.

#![deny(missing_docs)]

mod calls;
mod errno;
mod handle;
mod json;
mod lifetime;
mod named;
mod options;
mod plain;
mod policy;
mod stats;
mod text;

pub use handle::Handle;
pub use lifetime::*;
pub use named::*;
pub use options::{ISOLATED, NO_THREAD_CACHE, Options};
pub use plain::*;
pub use policy::*;
pub use stats::{Stats, polyheap_stats, polyheap_stats_json};
