//! The heap's store of full magazines of one class: a few places that are exchanged whole.
//!
//! A place holds one magazine or null. Storing exchanges null for the magazine, loading swaps the
//! magazine for null; there is no list, so there is nothing to be overtaken (`[magazine-one-owner]`).
//!
//! *Invariants held here*: `[magazine-one-owner]`.
//!
//! *Concurrency*: any thread, lock-free. Release on store pairs with Acquire on load and publishes
//! the magazine's rounds.
//!
//! *Neighbours*: stands on `sync`; exchange and refill use it.

use core::ptr;

use crate::config::DEPOT_PLACES;
use crate::sync::{AtomicPtr, Ordering};

/// Places for full magazines of one class.
#[derive(Debug)]
pub(crate) struct Depot<T> {
    places: [AtomicPtr<T>; DEPOT_PLACES],
}

impl<T> Depot<T> {
    /// Returns an empty depot.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Depot<T> {
        Depot { places: [const { AtomicPtr::new(ptr::null_mut()) }; DEPOT_PLACES] }
    }

    /// Returns an empty depot.
    #[cfg(loom)]
    pub(crate) fn new() -> Depot<T> {
        Depot { places: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// Stores a full magazine in one of the first `places` places; returns whether one was free.
    pub(crate) fn store(&self, magazine: *mut T, places: usize) -> bool {
        self.places[..places].iter().any(|place| {
            place.load(Ordering::Relaxed).is_null()
                // Release: publishes the rounds to the thread that loads the magazine.
                && place
                    .compare_exchange(
                        ptr::null_mut(),
                        magazine,
                        Ordering::Release,
                        Ordering::Relaxed,
                    )
                    .is_ok()
        })
    }

    /// Loads some full magazine.
    pub(crate) fn load(&self) -> Option<*mut T> {
        self.places.iter().find_map(|place| {
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            // Acquire: the rounds were written before the magazine was stored.
            let magazine = place.swap(ptr::null_mut(), Ordering::Acquire);
            (!magazine.is_null()).then_some(magazine)
        })
    }

    /// Iterates over the magazines stored, a snapshot.
    #[cfg(not(loom))]
    pub(crate) fn stored(&self) -> impl Iterator<Item = *mut T> + '_ {
        self.places
            .iter()
            .map(|place| place.load(Ordering::Acquire))
            .filter(|place| !place.is_null())
    }

    /// Returns how many magazines are stored, a snapshot.
    #[cfg(not(loom))]
    pub(crate) fn count(&self) -> usize {
        self.places.iter().filter(|place| !place.load(Ordering::Relaxed).is_null()).count()
    }
}
