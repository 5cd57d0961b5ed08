//! Waiting as an idle program does: asleep, with a few small allocations now and then.
//!
//! Some allocators give idle memory back from a thread of their own, others when they are called; a program that never
//! calls would be unfair to the second kind.

use crate::block::Block;
use crate::rng::Rng;
use crate::subject::Subject;
use std::thread::sleep;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(100);
const BLOCKS: usize = 32;
const SIZES: (usize, usize) = (16, 1024);

/// Waits until `end`; after each nap a few blocks are allocated, then freed.
pub(super) fn wait_until<S: Subject>(subject: &S, end: Instant) {
    let mut rng = Rng::new(0);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(NAP));
        let block = |_| Block::new(subject, rng.between(SIZES.0, SIZES.1));
        let blocks: [Block; BLOCKS] = std::array::from_fn(block);
        blocks.into_iter().for_each(|block| block.free(subject));
    }
}
