//! A lock that spins: the baton, waited for.
//!
//! Held for a few hundred instructions at most, but for a request in a buffer that is nearly full. A
//! single-core program that allocates in an interrupt handler must not be interrupted while it
//! allocates itself: the handler would wait for ever.
//!
//! *Concurrency*: any thread; not fair, not recursive.
//!
//! *Neighbours*: stands on `sync` and `os`; parts and core caches have one.

use core::cell::UnsafeCell;

use crate::os::spin_wait;
use crate::sync::Baton;

/// Something that one at a time may use.
#[derive(Debug)]
pub(super) struct Lock<T> {
    baton: Baton,
    content: UnsafeCell<T>,
}

// SAFETY: the content is used by whoever has the baton, whose Acquire and Release hand it on.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Returns a lock around `content`.
    pub(super) const fn new(content: T) -> Lock<T> {
        Lock { baton: Baton::new(), content: UnsafeCell::new(content) }
    }

    /// Calls `act` with the content, alone. `act` may not come back to this lock.
    #[inline]
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        if !self.baton.take() {
            self.wait();
        }
        // SAFETY: the baton is this call's, and `act` does not come back here.
        let result = act(unsafe { &mut *self.content.get() });
        self.baton.put_down();
        result
    }

    #[cold]
    fn wait(&self) {
        let mut round = 0;
        while !self.baton.take() {
            spin_wait(&mut round);
        }
    }
}
