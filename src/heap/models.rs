//! Models of pins against the drop of a heap, on the words of the heap table.
//!
//! *Invariants held here*: `[pin-excludes-drop]` and `[heap-id-unique]` are what they are about.
//!
//! The scene of three threads is explored up to a number of preemptions: without a bound it takes
//! minutes.
//!
//! *Concurrency*: loom runs the real `table`; [`Contents`] stands for the heap's memory.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::table::{close, pin, renew, unpin};
use crate::sync::{AtomicU64, Contents, Ordering, beside, explore, explore_within};

/// Value of the memory of a heap that lives.
const LIVING: u64 = 1;
/// Value of the memory of a heap that is no more, or not yet.
const DEAD: u64 = 0;

/// A slot with its word and its place in the table of cores, and the memory of two heaps that
/// have the slot one after the other.
struct Scene {
    word: AtomicU64,
    /// The heap listed for the slot, 0 for none.
    core: AtomicU64,
    heaps: [Contents; 2],
}

impl Scene {
    fn new() -> Arc<Scene> {
        Arc::new(Scene {
            word: AtomicU64::new(0),
            core: AtomicU64::new(1),
            heaps: [Contents::new(LIVING), Contents::new(DEAD)],
        })
    }

    /// What a thread that leaves does; returns the number of the heap it was in, 0 for none.
    fn visit(&self) -> u64 {
        if !pin(&self.word) {
            return 0;
        }
        // Acquire: as `with_pinned` reads the core.
        let core = self.core.load(Ordering::Acquire);
        if core != 0 {
            let heap = &self.heaps[core as usize - 1];
            assert_eq!(heap.read(), LIVING, "a visit to a dead heap");
        }
        unpin(&self.word);
        core
    }

    /// What the last handle of heap `number` does.
    fn end(&self, number: u64) {
        close(&self.word, loom::thread::yield_now);
        assert!(!pin(&self.word), "a pin on a heap that is closed");
        self.core.store(0, Ordering::Release);
        assert_eq!(self.heaps[number as usize - 1].write(DEAD), LIVING);
        renew(&self.word);
    }

    /// What the maker of heap `number` does, which has the slot.
    fn make(&self, number: u64) {
        self.heaps[number as usize - 1].write(LIVING);
        self.core.store(number, Ordering::Release);
    }
}

/// A thread leaves while the heap ends and the slot gets its next heap.
#[test]
fn pin_versus_end_and_next_heap() {
    explore("pin_versus_end", &["first heap", "no heap", "second heap"], || {
        let scene = Scene::new();
        let [visited, _] = beside(
            &scene,
            [
                |scene| scene.visit(),
                |scene| {
                    scene.end(1);
                    scene.make(2);
                    0
                },
            ],
        );
        ["no heap", "first heap", "second heap"][visited as usize]
    });
}

/// Two threads leave while the heap ends.
#[test]
fn pins_of_two_versus_end() {
    explore_within(Some(4), "pins_of_two_versus_end", &["both", "neither", "one"], || {
        let scene = Scene::new();
        let [first, second, _] = beside(
            &scene,
            [
                |scene| scene.visit(),
                |scene| scene.visit(),
                |scene| {
                    scene.end(1);
                    0
                },
            ],
        );
        ["neither", "one", "both"][(first + second) as usize]
    });
}

/// A thread leaves two heaps of one slot while both end, one after the other.
#[test]
fn pins_versus_two_ends() {
    let outcomes = ["both heaps", "first heap", "neither", "second heap"];
    explore("pins_versus_two_ends", &outcomes, || {
        let scene = Scene::new();
        let [visited, _] = beside(
            &scene,
            [
                |scene| scene.visit() | scene.visit(),
                |scene| {
                    scene.end(1);
                    scene.make(2);
                    scene.end(2);
                    0
                },
            ],
        );
        ["neither", "first heap", "second heap", "both heaps"][visited as usize]
    });
}
