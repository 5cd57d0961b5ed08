//! What tests make the system do: refuse its n-th call, have other pages.
//!
//! *Concurrency*: statics of the process, so a test that uses them runs in a process of its own.
//!
//! *Neighbours*: called by the system contract in test builds only.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Calls until the one that is refused; 0 for none.
static COUNTDOWN: AtomicUsize = AtomicUsize::new(0);
/// Whether every call after that one is refused too.
static GOES_ON: AtomicUsize = AtomicUsize::new(0);
/// Calls refused.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Lets the system refuse its `n`-th call from now on, counted from 1, and if `goes_on` all later
/// ones; 0 lets it grant everything again.
pub(crate) fn refuse_call(n: usize, goes_on: bool) {
    GOES_ON.store(usize::from(goes_on), Ordering::SeqCst);
    REFUSED.store(0, Ordering::SeqCst);
    COUNTDOWN.store(n, Ordering::SeqCst);
}

/// Returns the calls refused since [`refuse_call`].
pub(crate) fn refused_calls() -> usize {
    REFUSED.load(Ordering::SeqCst)
}

/// Lets the system appear to have pages of `bytes`.
pub(crate) fn simulate_page_bytes(bytes: usize) {
    PAGE_BYTES.store(bytes, Ordering::SeqCst);
}

pub(super) fn simulated_page_bytes() -> Option<usize> {
    let bytes = PAGE_BYTES.load(Ordering::Relaxed);
    (bytes != 0).then_some(bytes)
}

pub(super) fn is_refused() -> bool {
    if COUNTDOWN.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let goes_on = GOES_ON.load(Ordering::SeqCst) != 0;
    let next = |left: usize| match left {
        0 => None,
        1 if goes_on => Some(1),
        left => Some(left - 1),
    };
    let before = COUNTDOWN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    let is_refused = before == Ok(1);
    REFUSED.fetch_add(usize::from(is_refused), Ordering::SeqCst);
    is_refused
}
