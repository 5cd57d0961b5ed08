//! A growable list of addresses that any thread may extend: a heap's regions, a heap's mappings.
//!
//! ```text
//! first [8 words inline] -> segment 0 [512] -> segment 1 [1 024] -> ...   (0 = free place)
//! ```
//!
//! Places never move and are never unmapped before the roster ends, so readers need no lock.
//!
//! *Invariants held here*: `[roster-places-stay]`.
//!
//! *Concurrency*: lock-free. A place is reserved by an exchange, then filled (Release) and read with
//! Acquire, which publishes what lies at the address.
//!
//! *Neighbours*: stands on an origin for its segments; the heap core keeps two of them.

use core::ptr;

use super::source::Origin;
use crate::base::{address, at_address};
use crate::os::os_page_bytes;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

const INLINE_PLACES: usize = 8;
const SEGMENT_PLACES: usize = 512;
const SEGMENTS: usize = 16;

/// A place nobody has.
const FREE: usize = 0;
/// A place someone has and will fill; no address of ours is odd.
const RESERVED: usize = 1;

/// A list of addresses.
#[derive(Debug)]
pub(crate) struct Roster {
    first: [AtomicUsize; INLINE_PLACES],
    /// Segment `k` has `SEGMENT_PLACES << k` places; installed by one exchange.
    segments: [AtomicPtr<AtomicUsize>; SEGMENTS],
    /// One past the highest place ever taken. Only grows; raised before the place is filled.
    end: AtomicUsize,
    /// Where segments come from.
    origin: Origin,
    /// No free place lies below this one, as far as known: where a search starts.
    hint: AtomicUsize,
}

impl Roster {
    /// Returns an empty roster.
    pub(crate) const fn new(origin: Origin) -> Roster {
        Roster {
            origin,
            first: [const { AtomicUsize::new(0) }; INLINE_PLACES],
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            end: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
        }
    }

    /// Returns one past the highest place in use.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.end.load(Ordering::Acquire)
    }

    /// Returns the address at `index`, `None` for a free place.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<usize> {
        let value = self.place(index)?.load(Ordering::Acquire);
        if value == FREE || value == RESERVED { None } else { Some(value) }
    }

    /// Puts `value` into a free place and returns its index; `None` when the roster cannot grow.
    ///
    /// `prepare` is told the index before anyone can read the place.
    pub(crate) fn insert(&self, value: usize, prepare: impl FnOnce(usize)) -> Option<usize> {
        let mut index = self.hint.load(Ordering::Relaxed);
        loop {
            let place = self.place_or_grow(index)?;
            let taken =
                place.compare_exchange(FREE, RESERVED, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                prepare(index);
                // Release: publishes what lies at the address.
                place.store(value, Ordering::Release);
                self.end.fetch_max(index + 1, Ordering::AcqRel);
                self.hint.store(index + 1, Ordering::Relaxed);
                return Some(index);
            }
            index += 1;
        }
    }

    /// Puts another value into the place at `index`, which is the caller's.
    pub(crate) fn replace(&self, index: usize, value: usize) {
        if let Some(place) = self.place(index) {
            // Release: publishes what lies at the address.
            place.store(value, Ordering::Release);
        }
    }

    /// Empties the place at `index`.
    pub(crate) fn remove(&self, index: usize) {
        if let Some(place) = self.place(index) {
            place.store(FREE, Ordering::Release);
            self.hint.fetch_min(index, Ordering::Relaxed);
        }
    }

    /// Iterates over the addresses listed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.end()).filter_map(|index| self.get(index))
    }

    /// Gives the segments back.
    ///
    /// # Safety
    /// 1. Nobody uses the roster at the same time or afterwards.
    pub(crate) unsafe fn dismantle(&self) {
        for (number, segment) in self.segments.iter().enumerate() {
            let start = segment.load(Ordering::Acquire);
            if let Some(base) = ptr::NonNull::new(start.cast::<u8>()) {
                segment.store(ptr::null_mut(), Ordering::Relaxed);
                // SAFETY: (1) the segment was mapped with this length; (2) nobody uses it.
                unsafe { self.origin.discard(base, segment_bytes(number), os_page_bytes()) };
            }
        }
    }

    fn place(&self, index: usize) -> Option<&AtomicUsize> {
        if index < INLINE_PLACES {
            return Some(&self.first[index]);
        }
        let (number, offset) = segment_of(index);
        let start = self.segments.get(number)?.load(Ordering::Acquire);
        if start.is_null() {
            return None;
        }
        // SAFETY: [roster-places-stay] the segment has `SEGMENT_PLACES << number` places and
        // `segment_of` returns an offset below that.
        let place = unsafe { start.add(offset) };
        // SAFETY: [roster-places-stay] the place is mapped, aligned and only used as an atomic.
        Some(unsafe { &*place })
    }

    fn place_or_grow(&self, index: usize) -> Option<&AtomicUsize> {
        if let Some(place) = self.place(index) {
            return Some(place);
        }
        let (number, _) = segment_of(index);
        let segment = self.segments.get(number)?;
        let made = self.origin.map(segment_bytes(number), os_page_bytes())?;
        let start = at_address(address(made.as_ptr()));
        let won =
            segment.compare_exchange(ptr::null_mut(), start, Ordering::AcqRel, Ordering::Acquire);
        if won.is_err() {
            // SAFETY: (1) just mapped with this length; (2) never published.
            unsafe { self.origin.discard(made, segment_bytes(number), os_page_bytes()) };
        }
        self.place(index)
    }
}

/// Returns the segment of a place past the inline ones, and the offset in it.
fn segment_of(index: usize) -> (usize, usize) {
    let shifted = index - INLINE_PLACES + SEGMENT_PLACES;
    let number = (shifted / SEGMENT_PLACES).ilog2();
    (number as usize, shifted - (SEGMENT_PLACES << number))
}

fn segment_bytes(number: usize) -> usize {
    ((SEGMENT_PLACES << number) * size_of::<usize>()).next_multiple_of(os_page_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again_and_reused() {
        let roster = Roster::new(Origin::System);
        for value in 1..=3_000 {
            assert_eq!(roster.insert(value * 2, |_| ()), Some(value - 1));
        }
        assert!((1..=3_000).all(|value| roster.get(value - 1) == Some(value * 2)));
        roster.remove(700);
        assert_eq!(roster.get(700), None);
        assert_eq!(roster.insert(8, |index| assert_eq!(index, 700)), Some(700));
        assert_eq!(roster.iter().count(), 3_000);
        // SAFETY: (1) the roster is used by this test alone and no more.
        unsafe { roster.dismantle() };
    }
}
