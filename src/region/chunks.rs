//! Claims on the free word of a region: a set bit is a chunk that anyone may take.
//!
//! A single exchange takes a run, so two claimers never own the same chunk (`[chunk-one-owner]`);
//! one `fetch_or` gives it back. A purge is an owner like any other: it claims what it empties.
//!
//! *Invariants held here*: `[chunk-one-owner]`.
//!
//! *Concurrency*: any thread, lock-free. The Release of a give pairs with the Acquire of the claim
//! that takes the chunks next and publishes that their last owner is done with them.
//!
//! *Neighbours*: stands on `base`; the region header holds the word.

use crate::base::{find_run, run_mask};
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// Takes a run of `count` chunks that starts at a multiple of `step`, one from chunk `start` on if
/// there is one; returns its first chunk.
pub(crate) fn claim_run(
    free: &AtomicU64,
    start: usize,
    count: usize,
    step: usize,
) -> Option<usize> {
    let mut word = free.load(Ordering::Relaxed);
    loop {
        let preferred = find_run(word & (u64::MAX << start), count, step);
        let first = preferred.or_else(|| find_run(word, count, step))?;
        let rest = word & !run_mask(first, count);
        // Acquire: the chunks' last owner wrote its last before it gave them back.
        match free.compare_exchange_weak(word, rest, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(first),
            Err(now) => word = now,
        }
    }
}

/// Takes the run of `count` chunks at `first` if all of them are free; returns whether it did.
pub(crate) fn claim_run_at(free: &AtomicU64, first: usize, count: usize) -> bool {
    let mask = run_mask(first, count);
    let mut word = free.load(Ordering::Relaxed);
    while word & mask == mask {
        // Acquire: as in `claim_run`.
        match free.compare_exchange_weak(word, word & !mask, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => word = now,
        }
    }
    false
}

/// Gives back a run of chunks the caller owns; returns whether none of them was free before.
pub(crate) fn give_run(free: &AtomicU64, first: usize, count: usize) -> bool {
    let mask = run_mask(first, count);
    // Release: pairs with the Acquire in `claim_run`.
    free.fetch_or(mask, Ordering::Release) & mask == 0
}

/// Drops the contents of the run of `count` chunks at `first` by `drop_contents`, if all of them are
/// free; when it returns that it did so, nothing of them is reached any more.
///
/// Returns how much of them was reached before and is not now, in the unit of `reached`, and whether
/// nobody gave any of them meanwhile.
pub(crate) fn purge_run(
    free: &AtomicU64,
    reached: &[AtomicU8],
    first: usize,
    count: usize,
    drop_contents: impl FnOnce() -> bool,
) -> (usize, bool) {
    // Out of the free word until the end, so nobody takes them.
    if !claim_run_at(free, first, count) {
        return (0, true);
    }
    let mut forgotten = 0;
    // What is reached stays so if the contents do: the next owner must not take them for zeros.
    if drop_contents() {
        for reached in &reached[first..first + count] {
            // Relaxed: an owner's; the claim and the give order it.
            forgotten += usize::from(reached.load(Ordering::Relaxed));
            reached.store(0, Ordering::Relaxed);
        }
    }
    (forgotten, give_run(free, first, count))
}
