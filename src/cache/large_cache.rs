//! What a thread keeps of blocks above the slab classes.
//!
//! It fills a metadata block that the thread heap gets when the first such block comes back. A
//! magazine of these classes has one round or two, so there is no cursor: a place is empty or not.
//! The blocks themselves are not touched; a free past the cap goes on to the next tier by itself
//! and leaves what is kept here alone.
//!
//! *Concurrency*: the holder of the thread heap's tenure writes; others read for statistics, so
//! all fields are relaxed atomics.
//!
//! *Neighbours*: stands on `base`; thread heaps have one each, `large` uses it.

use crate::base::{LARGE_CLASSES, SPAN_CLASSES};
use crate::config::SPANS_KEPT;
use crate::sync::{AtomicUsize, Ordering};

const PLACES: usize = SPAN_CLASSES * SPANS_KEPT + LARGE_CLASSES - SPAN_CLASSES;

/// Spans and mappings one thread keeps.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LargeCache {
    /// Bytes that may still be kept.
    bytes_left: AtomicUsize,
    /// Sweeps since something was kept or taken.
    idle_sweeps: AtomicUsize,
    /// Addresses of runs and mappings, 0 for none.
    places: [AtomicUsize; PLACES],
}

const _: () = assert!(
    size_of::<LargeCache>() <= crate::config::MAGAZINE_BYTES,
    "a large cache fills a metadata block: lower SPANS_KEPT"
);

impl LargeCache {
    /// Returns a cache that may keep so many bytes.
    pub(super) const fn new(bytes: usize) -> LargeCache {
        LargeCache {
            bytes_left: AtomicUsize::new(bytes),
            idle_sweeps: AtomicUsize::new(0),
            places: [const { AtomicUsize::new(0) }; PLACES],
        }
    }

    /// Takes a kept block of `class`, which has `bytes` bytes; 0 when there is none.
    #[inline]
    pub(super) fn take(&self, class: usize, bytes: usize) -> usize {
        for place in self.places_of(class).iter().rev() {
            let block = place.load(Ordering::Relaxed);
            if block != 0 {
                place.store(0, Ordering::Relaxed);
                let left = self.bytes_left.load(Ordering::Relaxed) + bytes;
                self.bytes_left.store(left, Ordering::Relaxed);
                self.idle_sweeps.store(0, Ordering::Relaxed);
                return block;
            }
        }
        0
    }

    /// Keeps a block of `class`, which has `bytes` bytes; returns whether it did.
    #[inline]
    pub(super) fn keep(&self, class: usize, bytes: usize, block: usize) -> bool {
        let left = self.bytes_left.load(Ordering::Relaxed);
        if left < bytes {
            return false;
        }
        let mut places = self.places_of(class).iter();
        let Some(place) = places.find(|place| place.load(Ordering::Relaxed) == 0) else {
            return false;
        };
        place.store(block, Ordering::Relaxed);
        self.bytes_left.store(left - bytes, Ordering::Relaxed);
        true
    }

    /// Returns whether there is place for a block of `class`, which has `bytes` bytes.
    #[inline]
    pub(super) fn has_place(&self, class: usize, bytes: usize) -> bool {
        self.bytes_left.load(Ordering::Relaxed) >= bytes
            && self.places_of(class).iter().any(|place| place.load(Ordering::Relaxed) == 0)
    }

    /// Counts a sweep; returns how many there were since something was taken.
    pub(super) fn count_sweep(&self) -> usize {
        let sweeps = self.idle_sweeps.load(Ordering::Relaxed) + 1;
        self.idle_sweeps.store(sweeps, Ordering::Relaxed);
        sweeps
    }

    #[inline]
    fn places_of(&self, class: usize) -> &[AtomicUsize] {
        let spans = SPAN_CLASSES * SPANS_KEPT;
        match class.checked_sub(SPAN_CLASSES) {
            None => &self.places[class * SPANS_KEPT..][..SPANS_KEPT],
            Some(mapping) => &self.places[spans + mapping..][..1],
        }
    }
}
