//! A baton: a right that one thread has at a time, and that nobody waits for.
//!
//! Whoever takes it may use what goes with it, for example a cursor, and puts it down when done; the
//! next to take it finds all that as it was left.
//!
//! *Concurrency*: any thread, lock-free. The Release of putting it down pairs with the Acquire of
//! taking it and publishes what goes with it.
//!
//! *Neighbours*: stands on nothing; `cache::decay` has one for sweeps, `buffer` makes a lock of it.

use super::{AtomicBool, Ordering};

/// A right that at most one thread has.
#[derive(Debug)]
pub(crate) struct Baton {
    /// Whether somebody has it. Set by the one who takes it, cleared by the one who has it.
    is_taken: AtomicBool,
}

impl Baton {
    /// Returns a baton that nobody has.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Baton {
        Baton { is_taken: AtomicBool::new(false) }
    }

    /// Returns a baton that nobody has.
    #[cfg(loom)]
    pub(crate) fn new() -> Baton {
        Baton { is_taken: AtomicBool::new(false) }
    }

    /// Takes the baton if nobody has it; returns whether it did.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // Acquire: what the last holder did was done before it put the baton down.
        // No swap, so that who comes in vain writes nothing.
        self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Puts down the baton, which the caller has.
    #[inline]
    pub(crate) fn put_down(&self) {
        // Release: pairs with the Acquire in `take`.
        self.is_taken.store(false, Ordering::Release);
    }
}
