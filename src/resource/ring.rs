//! A ring of the last events, without lock and without allocation.
//!
//! Each event takes a number, and with it a place: number modulo length. A place's stamp says whose it
//! is: `2n + 1` while event `n` is being written, `2n + 2` when it has been. Who finds its place
//! being written by another, or already taken by a later one, gives its event up and counts it as
//! lost; a reader that finds the stamp changed after it has read skips the place.
//!
//! The words of a place are written with Release and read with Acquire: a reader that sees a word of a
//! later event also sees that event's stamp.
//!
//! *Concurrency*: any thread, wait-free but for the exchange of a stamp, which is tried once. Modelled
//! in `models`.
//!
//! *Neighbours*: stands on `sync`; `traced` writes it.

use core::array;
use core::fmt;

use crate::sync::{AtomicUsize, Ordering};

/// What a resource was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A block was allocated.
    Allocate,
    /// A block was allocated whose bytes are all zero.
    AllocateZeroed,
    /// A block was freed.
    Deallocate,
    /// A block was resized, up or down.
    Resize,
    /// A block was grown, the bytes gained being zero.
    ResizeZeroed,
}

/// A request that a [`Traced`](super::Traced) resource saw, or a free.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The event's number, from 0 on, across all threads.
    pub number: usize,
    /// What was asked for.
    pub kind: EventKind,
    /// Address of the block freed or resized; 0 when one was allocated.
    pub old_address: usize,
    /// Its bytes, as the caller said.
    pub old_bytes: usize,
    /// Address of the block handed out; 0 when one was freed, or the request was refused.
    pub address: usize,
    /// Bytes asked for; 0 when a block was freed.
    pub bytes: usize,
    /// Alignment asked for, or that of the block freed, in bytes.
    pub align_bytes: usize,
}

impl Event {
    /// Returns whether the upstream refused the request.
    pub fn is_denied(&self) -> bool {
        self.kind != EventKind::Deallocate && self.address == 0
    }
}

const KINDS: [EventKind; 5] = [
    EventKind::Allocate,
    EventKind::AllocateZeroed,
    EventKind::Deallocate,
    EventKind::Resize,
    EventKind::ResizeZeroed,
];

/// Words of an event beside its number.
const WORDS: usize = 6;

/// The last events.
pub(super) struct Ring<const EVENTS: usize> {
    /// Numbers given so far. Relaxed: only each number's being given once counts.
    next: AtomicUsize,
    /// Events given up. Relaxed: a counter.
    lost: AtomicUsize,
    places: [Place; EVENTS],
}

struct Place {
    /// Whose the words are, see the file's text. Written by the one whose exchange took the place.
    stamp: AtomicUsize,
    words: [AtomicUsize; WORDS],
}

#[cfg(not(loom))]
impl Place {
    const fn empty() -> Place {
        Place { stamp: AtomicUsize::new(0), words: [const { AtomicUsize::new(0) }; WORDS] }
    }
}

impl<const EVENTS: usize> Ring<EVENTS> {
    /// Returns a ring without events.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Ring<EVENTS> {
        const { assert!(EVENTS != 0, "a ring has places") };
        Ring {
            next: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            places: [const { Place::empty() }; EVENTS],
        }
    }

    /// Returns a ring without events.
    #[cfg(loom)]
    pub(super) fn new() -> Ring<EVENTS> {
        let places = array::from_fn(|_| Place {
            stamp: AtomicUsize::new(0),
            words: array::from_fn(|_| AtomicUsize::new(0)),
        });
        Ring { next: AtomicUsize::new(0), lost: AtomicUsize::new(0), places }
    }

    /// Writes an event, whose number is given here.
    pub(super) fn write(&self, event: Event) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let place = &self.places[number % EVENTS];
        let writing = number.wrapping_mul(2).wrapping_add(1);
        let stamp = place.stamp.load(Ordering::Relaxed);
        // By the difference: the numbers begin again some day where a word is short.
        let is_free = stamp.is_multiple_of(2) && writing.wrapping_sub(stamp) <= usize::MAX / 2;
        let took = is_free
            && place
                .stamp
                // Acquire: the words of the event before are written before ours.
                .compare_exchange(stamp, writing, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !took {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (word, value) in place.words.iter().zip(words_of(&event)) {
            // Release: who reads the word sees the stamp.
            word.store(value, Ordering::Release);
        }
        // Release: publishes the words.
        place.stamp.store(writing.wrapping_add(1), Ordering::Release);
    }

    /// Iterates over the events that are there, oldest first.
    pub(super) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let end = self.next.load(Ordering::Relaxed);
        (end.saturating_sub(EVENTS)..end).filter_map(|number| self.read(number))
    }

    fn read(&self, number: usize) -> Option<Event> {
        let place = &self.places[number % EVENTS];
        let written = number.wrapping_mul(2).wrapping_add(2);
        if place.stamp.load(Ordering::Acquire) != written {
            return None;
        }
        // Acquire: pairs with the Release in `write`; a later event's word brings its stamp along.
        let words = array::from_fn(|at| place.words[at].load(Ordering::Acquire));
        let is_same = place.stamp.load(Ordering::Relaxed) == written;
        if is_same { event_of(number, words) } else { None }
    }

    /// Returns how many events there were.
    pub(super) fn seen(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns how many of them were given up.
    pub(super) fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

impl<const EVENTS: usize> fmt::Debug for Ring<EVENTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.events()).finish()
    }
}

fn words_of(event: &Event) -> [usize; WORDS] {
    let kind = KINDS.iter().position(|&kind| kind == event.kind).unwrap_or_default();
    [kind, event.old_address, event.old_bytes, event.address, event.bytes, event.align_bytes]
}

fn event_of(number: usize, words: [usize; WORDS]) -> Option<Event> {
    let [kind, old_address, old_bytes, address, bytes, align_bytes] = words;
    let kind = *KINDS.get(kind)?;
    Some(Event { number, kind, old_address, old_bytes, address, bytes, align_bytes })
}
