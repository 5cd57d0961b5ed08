//! Claims on the free word of a region: a set bit is a chunk that anyone may take.
//!
//! A single exchange takes a run, so two claimers never own the same chunk (`[chunk-one-owner]`);
//! one `fetch_or` gives it back. A purge is an owner like any other: it claims what it empties.
//!
//! A region whose chunks are all free can be *hollowed out* where addresses are short: they are taken like
//! any run, their memory is unmapped, and the header stays. Whoever needs a region fills one up again.
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

/// The chunks of a region have memory.
const SOLID: u8 = 0;
/// They have none, and are out of the free word.
const HOLLOW: u8 = 1;
/// Somebody is about to map it.
const FILLING: u8 = 2;

/// Returns whether the chunks of a region with this state have no memory.
pub(crate) fn is_hollow(state: &AtomicU8) -> bool {
    // Acquire: whoever unmaps the rest of it finds the memory as the state says.
    state.load(Ordering::Acquire) != SOLID
}

/// Takes the run of `count` chunks at `first`, which are all there are, if all of them are free, and
/// unmaps them; returns whether it did.
pub(crate) fn hollow_out(
    free: &AtomicU64,
    state: &AtomicU8,
    first: usize,
    count: usize,
    unmap: impl FnOnce() -> bool,
) -> bool {
    let is_claimed = claim_run_at(free, first, count);
    let is_unmapped = is_claimed && unmap();
    if is_unmapped {
        // Release: pairs with the Acquire in `fill_up`, publishes that nothing is mapped.
        state.store(HOLLOW, Ordering::Release);
    } else if is_claimed {
        give_run(free, first, count);
    }
    is_unmapped
}

/// Maps the chunks of a hollow region again and gives them back; returns whether it did.
pub(crate) fn fill_up(
    free: &AtomicU64,
    state: &AtomicU8,
    first: usize,
    count: usize,
    map: impl FnOnce() -> bool,
) -> bool {
    // Acquire: pairs with `hollow_out`.
    let is_mine =
        state.compare_exchange(HOLLOW, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let is_mapped = is_mine && map();
    if is_mapped {
        // Before the chunks can be taken, and hollowed out, again.
        state.store(SOLID, Ordering::Relaxed);
        give_run(free, first, count);
    } else if is_mine {
        // Release: as in `hollow_out`.
        state.store(HOLLOW, Ordering::Release);
    }
    is_mapped
}

/// Ends what a thread that is gone had begun: the chunks have no memory if `is_hollow`, and are free if
/// they have and were being filled. Nobody else is there.
pub(crate) fn settle_hollow(
    free: &AtomicU64,
    state: &AtomicU8,
    first: usize,
    count: usize,
    is_hollow: bool,
) {
    let settled = if is_hollow { HOLLOW } else { SOLID };
    if state.swap(settled, Ordering::Relaxed) != SOLID && !is_hollow {
        give_run(free, first, count);
    }
}
