//! Models of the slab protocol: a slab is never lost, never has two takers, is freed once, and a
//! block's next user finds it as the last one left it.
//!
//! *Invariants held here*: `[slab-one-taker]`, `[live-covers-bits]`, `[partial-bit-published]` and
//! `[control-epoch]` are what they are about.
//!
//! Scenes of three threads with more than a step or two each are explored up to a number of
//! preemptions: without a bound they take many minutes.
//!
//! *Concurrency*: loom runs the real `protocol`; [`Contents`] stands for a block's memory.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::control::{Control, State};
use super::protocol::{Left, Settled, SlabWords};
use crate::base::run_mask;
use crate::sync::{AtomicU64, Contents, Ordering, beside, explore, explore_within};

const CLASS: usize = 3;
/// Class of a slab that is cut from the chunk when the first one is gone.
const SUCCESSOR_CLASS: usize = 5;
const BLOCKS_MAX: usize = 3;

/// A slab of up to three blocks.
struct Scene {
    capacity: usize,
    control: AtomicU64,
    bits: [AtomicU64; 1],
    partial: AtomicU64,
    blocks: [Contents; BLOCKS_MAX],
    /// What a taker knows of the slab and hands on to the next.
    notes: Contents,
}

impl Scene {
    /// Returns a slab of `capacity` blocks, the first `live` of them out; published if Partial.
    fn new(state: State, capacity: usize, live: usize) -> Arc<Scene> {
        let control = Control::new(state, CLASS, 1, Control(0)).0 + live as u64;
        Arc::new(Scene {
            capacity,
            control: AtomicU64::new(control),
            bits: [AtomicU64::new(run_mask(live, capacity - live))],
            partial: AtomicU64::new(u64::from(state == State::Partial)),
            blocks: std::array::from_fn(|_| Contents::new(0)),
            notes: Contents::new(0),
        })
    }

    fn words(&self) -> SlabWords<'_> {
        SlabWords { control: &self.control, bits: &self.bits, partial: &self.partial, bit: 1 }
    }

    fn control(&self) -> Control {
        Control(self.control.load(Ordering::Relaxed))
    }

    /// Gives blocks back one by one, after a last write to each, and settles them together.
    fn give(&self, blocks: std::ops::Range<usize>) -> Settled {
        let count = blocks.len();
        for block in blocks {
            self.blocks[block].write(1);
            assert_eq!(self.words().give(0, 1 << block), 0, "a block was free already");
        }
        self.follow_up(self.words().settle(count, self.capacity))
    }

    /// Takes up to `count` blocks and writes to them; returns their bits.
    fn take(&self, count: usize) -> u64 {
        let taken = self.words().take(0, 0, count);
        self.words().count_taken(taken.count_ones() as usize);
        self.write(taken);
        taken
    }

    fn leave(&self) -> Settled {
        self.follow_up(self.words().leave(self.capacity))
    }

    /// Leaves a slab in which no bit was found; takes a block instead if one came back.
    fn leave_empty_handed(&self) {
        if self.words().leave_empty_handed(self.capacity) == Left::HasRoom {
            assert_ne!(self.take(1), 0, "room without a bit");
        }
    }

    /// Claims the slab, takes a block and leaves; returns the block's bit, 0 for none.
    fn come_and_go(&self) -> u64 {
        if !self.words().claim() {
            return 0;
        }
        let taken = self.take(1);
        assert_ne!(taken, 0, "a published slab without a bit");
        self.leave();
        taken
    }

    /// Gives a block back; who empties the slab cuts another one, all of it handed out and Full.
    fn give_and_succeed(&self, block: usize) {
        if self.give(block..block + 1) == Settled::Emptied {
            let full = Control::new(State::Full, SUCCESSOR_CLASS, 1, self.control());
            self.control.store(full.0 + self.capacity as u64, Ordering::Release);
        }
    }

    fn write(&self, blocks: u64) {
        (0..BLOCKS_MAX).filter(|block| blocks >> block & 1 == 1).for_each(|block| {
            self.blocks[block].write(2);
        });
    }

    /// Frees the run when it is emptied: all of its memory is the caller's.
    fn follow_up(&self, settled: Settled) -> Settled {
        if settled == Settled::Emptied {
            let control = self.control();
            assert!(control.is_slab(), "freed twice");
            assert_eq!(control.live(), 0, "freed with blocks out");
            self.write(run_mask(0, self.capacity));
            self.control.store(control.freed().0, Ordering::Release);
        }
        settled
    }

    /// Checks the slab when all threads are done; returns what became of it.
    fn fate(&self) -> &'static str {
        let (control, bits) = (self.control(), self.bits[0].load(Ordering::Relaxed));
        let is_published = self.partial.load(Ordering::Relaxed) == 1;
        assert_eq!(is_published, control.state() == State::Partial, "lost, or published in vain");
        assert_eq!(bits.count_ones() as usize, self.capacity - control.live(), "blocks were lost");
        match control.state() {
            State::Free => "freed",
            State::Active => "active",
            State::Full => {
                assert_eq!(control.live(), self.capacity, "a slab with room was lost");
                "full"
            }
            _ => {
                assert_ne!(control.live(), 0, "an empty slab was not freed");
                "published"
            }
        }
    }
}

/// The taker found no bit and leaves while a block comes back.
#[test]
fn slab_give_versus_leave_empty_handed() {
    explore("slab_give_versus_leave_empty_handed", &["active", "published"], || {
        let scene = Scene::new(State::Active, 2, 2);
        beside(
            &scene,
            [
                |scene| {
                    scene.give(0..1);
                },
                |scene| scene.leave_empty_handed(),
            ],
        );
        scene.fate()
    });
}

/// The taker found no bit and leaves while all blocks come back, each from another thread.
#[test]
fn slab_gives_of_all_versus_leave_empty_handed() {
    explore("slab_gives_of_all_versus_leave_empty_handed", &["active", "freed"], || {
        let scene = Scene::new(State::Active, 2, 2);
        beside(
            &scene,
            [
                |scene| {
                    scene.give(0..1);
                },
                |scene| {
                    scene.give(1..2);
                },
                |scene| scene.leave_empty_handed(),
            ],
        );
        scene.fate()
    });
}

/// The last two blocks of a Full slab come back beside each other: it is freed once.
#[test]
fn slab_two_givers_empty_a_full_slab() {
    explore("slab_two_givers_empty_a_full_slab", &["freed"], || {
        let scene = Scene::new(State::Full, 2, 2);
        let settled = beside(&scene, [|scene| scene.give(0..1), |scene| scene.give(1..2)]);
        assert!(settled.contains(&Settled::Emptied), "nobody was told to free it");
        scene.fate()
    });
}

/// Two of three blocks of a Full slab come back beside each other: it is published once.
#[test]
fn slab_two_givers_open_a_full_slab() {
    explore("slab_two_givers_open_a_full_slab", &["published"], || {
        let scene = Scene::new(State::Full, 3, 3);
        let settled = beside(&scene, [|scene| scene.give(0..1), |scene| scene.give(1..2)]);
        let is_published = |settled: &&Settled| **settled == Settled::Published;
        assert_eq!(settled.iter().filter(is_published).count(), 1, "nobody marks the summary");
        scene.fate()
    });
}

/// A taker claims, takes and leaves while the last block comes back, and gives its own back later:
/// the giver must not judge by what it saw before the taker came.
#[test]
fn slab_taker_comes_and_goes_beside_the_last_give() {
    explore("slab_taker_comes_and_goes", &["freed", "published"], || {
        let scene = Scene::new(State::Partial, 2, 1);
        let [_, taken] = beside(
            &scene,
            [
                |scene| {
                    scene.give(0..1);
                    0
                },
                |scene| scene.come_and_go(),
            ],
        );
        scene.write(taken);
        scene.fate()
    });
}

/// Two givers empty a Full slab, one of them publishes, and a taker comes and goes between.
#[test]
fn slab_publisher_versus_last_give_versus_taker() {
    explore_within(
        Some(5),
        "slab_publisher_versus_last_give_versus_taker",
        &["freed", "published"],
        || {
            let scene = Scene::new(State::Full, 2, 2);
            let [_, _, taken] = beside(
                &scene,
                [
                    |scene| {
                        scene.give(0..1);
                        0
                    },
                    |scene| {
                        scene.give(1..2);
                        0
                    },
                    |scene| scene.come_and_go(),
                ],
            );
            scene.write(taken);
            scene.fate()
        },
    );
}

/// As before, with the taker that made the slab as publisher.
#[test]
fn slab_leave_versus_last_give_versus_taker() {
    explore_within(
        Some(5),
        "slab_leave_versus_last_give_versus_taker",
        &["freed", "published"],
        || {
            let scene = Scene::new(State::Active, 2, 1);
            let [_, _, taken] = beside(
                &scene,
                [
                    |scene| {
                        scene.leave();
                        0
                    },
                    |scene| {
                        scene.give(0..1);
                        0
                    },
                    |scene| scene.come_and_go(),
                ],
            );
            scene.write(taken);
            scene.fate()
        },
    );
}

/// Two threads claim one slab: one of them has it, as the one who published it left it.
#[test]
fn slab_two_claims() {
    explore("slab_two_claims", &["active", "published"], || {
        let scene = Scene::new(State::Active, 2, 1);
        let claim: fn(&Scene) -> bool = |scene| {
            let is_taker = scene.words().claim();
            if is_taker {
                assert_eq!(scene.control().state(), State::Active, "claimed, not Partial");
                scene.notes.write(1);
            }
            is_taker
        };
        let leave: fn(&Scene) -> bool = |scene| {
            scene.notes.write(0);
            scene.leave();
            false
        };
        let claims = beside(&scene, [leave, claim, claim]);
        assert!(claims.iter().filter(|&&is_taker| is_taker).count() <= 1, "two takers");
        scene.fate()
    });
}

/// What a taker wrote reaches the next one through a state in which nobody has the slab: it is left
/// Full, opened by a giver and claimed.
#[test]
fn slab_passes_through_full_to_the_next_taker() {
    explore("slab_passes_through_full", &["active", "published"], || {
        let scene = Scene::new(State::Active, 2, 2);
        beside(
            &scene,
            [
                |scene| {
                    scene.notes.write(0);
                    scene.leave_empty_handed();
                },
                |scene| {
                    scene.give(0..1);
                },
                |scene| {
                    if scene.words().claim() {
                        scene.notes.write(1);
                    }
                },
            ],
        );
        scene.fate()
    });
}

/// A taker takes from the word that givers give to: it gets given blocks only, each once, and
/// finds them as their last users left them.
#[test]
fn slab_takes_versus_gives_in_one_word() {
    explore("slab_takes_versus_gives", &["active", "full", "published"], || {
        let scene = Scene::new(State::Active, 3, 2);
        beside(
            &scene,
            [
                |scene| {
                    scene.give(0..1);
                },
                |scene| {
                    let (first, second) = (scene.take(1), scene.take(2));
                    assert_ne!(first, 0, "a free block was not found");
                    assert_eq!(first & second, 0, "a block was taken twice");
                    assert_eq!((first | second) & 0b010, 0, "a block in use was taken");
                    scene.leave_empty_handed();
                },
            ],
        );
        scene.fate()
    });
}

/// A taker leaves a slab with room while the last block comes back.
#[test]
fn slab_leave_versus_last_give() {
    explore("slab_leave_versus_last_give", &["freed"], || {
        let scene = Scene::new(State::Active, 2, 1);
        let settled = beside(&scene, [|scene| scene.leave(), |scene| scene.give(0..1)]);
        let is_emptied = |settled: &&Settled| **settled == Settled::Emptied;
        assert_eq!(settled.iter().filter(is_emptied).count(), 1, "freed by nobody or by two");
        scene.fate()
    });
}

/// A taker leaves a slab that is full or nearly so while a block comes back.
#[test]
fn slab_leave_versus_a_give() {
    for (live, name) in [(3, "slab_leave_full_versus_a_give"), (2, "slab_leave_versus_a_give")] {
        explore(name, &["published"], move || {
            let scene = Scene::new(State::Active, 3, live);
            let settled = beside(&scene, [|scene| scene.leave(), |scene| scene.give(0..1)]);
            let is_published = |settled: &&Settled| **settled == Settled::Published;
            assert_eq!(settled.iter().filter(is_published).count(), 1, "nobody marks the summary");
            scene.fate()
        });
    }
}

/// A giver that has settled stops before its exchange; meanwhile the slab is freed and another one
/// begins in its chunk. The giver must let that one be.
#[test]
fn slab_settle_is_overtaken_by_a_successor() {
    explore("slab_settle_is_overtaken", &["successor stays"], || {
        let scene = Scene::new(State::Full, 2, 2);
        beside(&scene, [|scene| scene.give_and_succeed(0), |scene| scene.give_and_succeed(1)]);
        let (control, partial) = (scene.control(), scene.partial.load(Ordering::Relaxed));
        assert_eq!((control.state(), control.live(), partial), (State::Full, 2, 0), "{control:?}");
        assert_eq!(control.class(), SUCCESSOR_CLASS);
        "successor stays"
    });
}
