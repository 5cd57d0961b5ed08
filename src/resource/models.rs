//! Models of the ring of events: what is read of an event belongs to it, whoever writes meanwhile.
//!
//! *Concurrency*: loom runs the real `ring`, of one place, so that every event wants the same.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::ring::{Event, EventKind, Ring};
use crate::sync::{beside, explore_within};

/// Switches away from a thread that could go on: with these a run takes seconds.
const PREEMPTIONS: usize = 4;

/// An event all of whose words are `word`.
fn event(word: usize) -> Event {
    Event {
        number: 0,
        kind: EventKind::Allocate,
        old_address: word,
        old_bytes: word,
        address: word,
        bytes: word,
        align_bytes: word,
    }
}

/// Returns the word of the event that is in the ring, 0 for none.
fn read(ring: &Ring<1>) -> usize {
    let Some(seen) = ring.events().next() else { return 0 };
    let words = [seen.old_address, seen.old_bytes, seen.bytes, seen.align_bytes];
    assert!(words.iter().all(|&word| word == seen.address), "a torn event: {seen:?}");
    seen.address
}

/// A reader looks while one event takes the place of another.
#[test]
fn read_versus_overwrite() {
    let outcomes = ["nothing", "the first", "the second"];
    explore_within(Some(PREEMPTIONS), "read_versus_overwrite", &outcomes, || {
        let ring = Arc::new(Ring::new());
        ring.write(event(1));
        let [_, seen] = beside(&ring, [|ring| write(ring, 2), read]);
        assert_eq!((ring.seen(), ring.lost(), read(&ring)), (2, 0, 2));
        ["nothing", "the first", "the second"][seen]
    });
}

/// Two events want the place at once, and a reader looks.
#[test]
fn writes_versus_read() {
    let outcomes = [
        "nothing, and both written",
        "nothing, and one lost",
        "one, and both written",
        "one, and one lost",
    ];
    explore_within(Some(PREEMPTIONS - 1), "writes_versus_read", &outcomes, || {
        let ring = Arc::new(Ring::new());
        let [_, _, seen] = beside(&ring, [|ring| write(ring, 1), |ring| write(ring, 2), read]);
        assert_eq!(ring.seen(), 2);
        let last = read(&ring);
        assert!(ring.lost() == 1 || last != 0, "two events were written and none is there");
        match (seen, ring.lost()) {
            (0, 0) => "nothing, and both written",
            (0, _) => "nothing, and one lost",
            (_, 0) => "one, and both written",
            _ => "one, and one lost",
        }
    });
}

fn write(ring: &Ring<1>, word: usize) -> usize {
    ring.write(event(word));
    0
}
