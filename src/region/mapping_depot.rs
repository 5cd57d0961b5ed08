//! Depots of mappings: a few places a class that are exchanged whole, capped in bytes.
//!
//! A heap has one for all its threads, the process has one for all heaps. A place holds the
//! address of one mapping or 0. Storing exchanges 0 for the address, loading swaps the address for
//! 0; there is no list, so there is nothing to be overtaken.
//!
//! *Invariants held here*: `[mapping-one-owner]`.
//!
//! *Concurrency*: any thread, lock-free. Release on store pairs with Acquire on load and publishes
//! what the last owner wrote to the mapping's entry. The bytes are raised before a mapping is
//! stored and lowered after it is loaded, so the cap holds at every moment.
//!
//! *Neighbours*: stands on `sync`; the process's cache and the heap's store keep mappings here.

use crate::sync::{AtomicUsize, Ordering};

/// Places for mappings, `PLACES` for each of `CLASSES` classes.
#[derive(Debug)]
pub(crate) struct MappingDepot<const CLASSES: usize, const PLACES: usize> {
    /// Bytes of the mappings stored, and of those about to be.
    bytes: AtomicUsize,
    places: [[AtomicUsize; PLACES]; CLASSES],
}

impl<const CLASSES: usize, const PLACES: usize> MappingDepot<CLASSES, PLACES> {
    /// Returns an empty depot.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        let places = [const { [const { AtomicUsize::new(0) }; PLACES] }; CLASSES];
        MappingDepot { bytes: AtomicUsize::new(0), places }
    }

    /// Returns an empty depot.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        let place = |_| AtomicUsize::new(0);
        let places = core::array::from_fn(|_| core::array::from_fn(place));
        MappingDepot { bytes: AtomicUsize::new(0), places }
    }

    /// Stores the mapping of `bytes` at `base` unless that makes more than `bytes_max`; returns
    /// whether it did.
    pub(crate) fn store(&self, class: usize, base: usize, bytes: usize, bytes_max: usize) -> bool {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= bytes_max
            && self.places[class].iter().any(|place| put(place, base))
        {
            return true;
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        false
    }

    /// Loads some mapping of `class`, whose mappings have `bytes` bytes.
    pub(crate) fn load(&self, class: usize, bytes: usize) -> Option<usize> {
        let base = self.places[class].iter().find_map(take)?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(base)
    }

    /// Returns the bytes stored, a snapshot.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn put(place: &AtomicUsize, base: usize) -> bool {
    place.load(Ordering::Relaxed) == 0
        // Release: publishes the mapping's entry to the thread that loads it.
        && place.compare_exchange(0, base, Ordering::Release, Ordering::Relaxed).is_ok()
}

fn take(place: &AtomicUsize) -> Option<usize> {
    if place.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // Acquire: what the last owner did to the mapping was done before it was stored.
    let base = place.swap(0, Ordering::Acquire);
    (base != 0).then_some(base)
}
