//! Models of the slab protocol: a slab is never lost, never has two takers, is freed once, and a
//! block's next user finds it as the last one left it.
//!
//! *Invariants held here*: `[slab-one-taker]`, `[live-covers-bits]`, `[partial-bit-published]` and
//! `[control-epoch]` are what they are about.
//!
//! *Concurrency*: loom runs the real `protocol`; [`Contents`] stands for a block's memory.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::control::{Control, State};
use super::protocol::{Left, Settled, SlabWords};
use crate::base::run_mask;
use crate::sync::{AtomicU64, Contents, Ordering, beside, explore};

const CLASS: usize = 3;
const BLOCKS_MAX: usize = 3;

/// A slab of up to three blocks.
struct Scene {
    capacity: usize,
    control: AtomicU64,
    bits: [AtomicU64; 1],
    partial: AtomicU64,
    blocks: [Contents; BLOCKS_MAX],
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
        self.follow_up(self.words().settle(count))
    }

    /// Takes up to `count` blocks and writes to them; returns their bits.
    fn take(&self, count: usize) -> u64 {
        let taken = self.words().take(0, count);
        self.words().count_taken(taken.count_ones() as usize);
        self.write(taken);
        taken
    }

    fn leave(&self) -> Settled {
        self.follow_up(self.words().leave(self.capacity))
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
                |scene| {
                    if scene.words().leave_empty_handed(2) == Left::HasRoom {
                        assert_ne!(scene.take(1), 0, "room without a bit");
                    }
                },
            ],
        );
        scene.fate()
    });
}
