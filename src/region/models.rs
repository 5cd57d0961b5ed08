//! Models of the claims on a region's free word: no chunk ever has two owners, and an owner finds
//! its chunks as the last one left them.
//!
//! *Invariants held here*: `[chunk-one-owner]` is what they are about.
//!
//! *Concurrency*: loom runs the real `chunks`; [`Contents`] stands for a chunk's memory.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::chunks::{claim_run, claim_run_at, give_run};
use crate::base::run_mask;
use crate::sync::{AtomicU64, Contents, Ordering, beside, explore};

const CHUNKS: usize = 4;

/// A region of four chunks.
struct Scene {
    free: AtomicU64,
    chunks: [Contents; CHUNKS],
}

impl Scene {
    fn new(free: u64) -> Arc<Scene> {
        let chunks = std::array::from_fn(|_| Contents::new(0));
        Arc::new(Scene { free: AtomicU64::new(free), chunks })
    }

    /// Claims a run anywhere and writes to it; returns its mask, 0 for none.
    fn claim(&self, count: usize, step: usize) -> u64 {
        let claimed = claim_run(&self.free, 0, count, step);
        claimed.map_or(0, |first| self.write(first, count))
    }

    /// Claims a run at a place and writes to it; returns its mask, 0 for none.
    fn claim_at(&self, first: usize, count: usize) -> u64 {
        if claim_run_at(&self.free, first, count) { self.write(first, count) } else { 0 }
    }

    /// Writes to a run the caller owns for the last time and gives it back.
    fn give(&self, first: usize, count: usize) -> u64 {
        self.write(first, count);
        assert!(give_run(&self.free, first, count), "given twice");
        0
    }

    fn write(&self, first: usize, count: usize) -> u64 {
        self.chunks[first..first + count].iter().for_each(|chunk| _ = chunk.write(1));
        run_mask(first, count)
    }

    /// Checks that the claimed chunks and the free ones are those of `all`, each once.
    fn account(&self, claimed: impl IntoIterator<Item = u64>, all: u64) {
        let mut seen = self.free.load(Ordering::Relaxed);
        for mask in claimed {
            assert_eq!(seen & mask, 0, "a chunk with two owners");
            seen |= mask;
        }
        assert_eq!(seen, all, "a chunk was lost");
    }
}

/// Two claimers whose runs overlap, while the chunk that both want comes back.
#[test]
fn chunk_claims_overlap_while_one_is_given() {
    let outcomes = ["high run", "low run", "no run"];
    explore("chunk_claims_overlap", &outcomes, || {
        // Chunk 2 is the giver's; 1 and 3 are free: a run of two needs it.
        let scene = Scene::new(0b1010);
        let [_, low, high] = beside(
            &scene,
            [|scene| scene.give(2, 1), |scene| scene.claim(2, 1), |scene| scene.claim_at(2, 2)],
        );
        scene.account([low, high], 0b1110);
        match (low, high) {
            (0, 0) => "no run",
            (0, _) => "high run",
            _ => "low run",
        }
    });
}

/// Two claimers of any chunk, one chunk free: the free word alone decides.
#[test]
fn chunk_claims_of_the_last_chunk() {
    explore("chunk_claims_of_the_last_chunk", &["first", "second"], || {
        let scene = Scene::new(0b0100);
        let claimed = beside(&scene, [|scene| scene.claim(1, 1), |scene| scene.claim_at(2, 1)]);
        scene.account(claimed, 0b0100);
        if claimed[0] != 0 { "first" } else { "second" }
    });
}

/// A run goes from owner to owner: claimed, given and claimed again.
#[test]
fn chunk_run_passes_through_two_owners() {
    explore("chunk_run_passes_on", &["both", "first", "second"], || {
        let scene = Scene::new(0b0110);
        let claim_and_give: fn(&Scene) -> u64 = |scene| {
            let run = scene.claim(2, 1);
            if run != 0 {
                scene.give(1, 2);
            }
            run
        };
        let [first, second] = beside(&scene, [claim_and_give, |scene| scene.claim_at(1, 2)]);
        scene.account([second], 0b0110);
        match (first != 0, second != 0) {
            (true, true) => "both",
            (true, false) => "first",
            _ => "second",
        }
    });
}
