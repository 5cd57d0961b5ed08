//! The C library as C and C++ programs see it: installed, compiled against, linked both ways, run.
//!
//! The programs lie in `tests/c` and `examples`. Each checks itself and says "well" at its end.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod faults;
mod header;
mod install;
mod kit;
mod loading;
mod programs;
