//! Heaps in a caller's buffer: no system, no thread-local storage, no memory but the buffer's.
//!
//! The slabs of the other heaps want megabytes. A buffer may have four kilobytes and must be full to
//! the last block before a request fails, so it has an allocator of its own: *runs* of 16-byte
//! *granules*, of any length.
//!
//! ```text
//! buffer   ┌ part ┬ list heads ┬ caches ┬ ends: 1 bit a granule ┬ live: 1 bit a granule ┬ granules ┐
//! free run ┌ next │ previous │ granules ┬─ ··· ─┬ granules ┐   in its first and last granule
//!            ends = 1            ···            ends = 1
//! block    ┌ the caller's bytes, nothing else ┐
//!            live = 1 at the first granule
//! ```
//!
//! Rust tells the length at every free, so a block needs no header. What lies beside it is told by
//! the bits: `ends` at the granule before it means that a free run ends there, whose length stands in
//! that granule; `ends` behind it, that one begins. Neighbouring free runs melt at once, but for
//! blocks freed a moment ago: up to a kilobyte they wait in *recent* lists, one for each length, for
//! the next request of that length. A request that finds nothing empties those lists and looks again,
//! so nothing fails while there is a run for it.
//!
//! Free runs are in bins by length, eight a doubling; a request takes from the first bin all of
//! whose runs are long enough (Masmano's two-level segregated fit), after a short look at its own.
//!
//! The lists lie in free memory, unlike everything else in polyheap: a buffer has no other. A link is
//! followed only when the run it leads to points back (`[buffer-links-agree]`).
//!
//! *Invariants held here*: `[buffer-inside]`, `[buffer-runs-melt]`, `[buffer-links-agree]`,
//! `[buffer-live-once]`.
//!
//! *Concurrency*: any thread or core, under one spin lock a part, held for a bounded time; caches for
//! each core if the caller says which core it is.
//!
//! *Neighbours*: stands on `base`, `sync` and the report of faults; programs use it directly.

mod bins;
mod cells;
mod core_cache;
mod engine;
mod faces;
mod geometry;
mod heap;
mod lock;
mod look;
mod part;
mod recent;
mod static_heap;

pub use heap::BufferHeap;
pub use look::BufferStats;
pub use static_heap::StaticHeap;
