//! The case `many H` of `heaps`: H live heaps with one block of 64 B each.
//!
//! Time a heap to make it and allocate, time a heap to drop it (CPU time, once a process), resident bytes a heap while
//! they live, and resident bytes of all when they are gone.

use crate::block::layout;
use crate::heap_subject::{HeapJob, HeapSubject, with_heap};
use crate::measure::time_once;
use crate::memory::{resident_bytes, touched_list};
use crate::reading::Reading;
use std::hint::black_box;

const BLOCK_BYTES: usize = 64;

pub(crate) fn run(name: &str, heaps: usize) -> Vec<Reading> {
    with_heap(name, Many(heaps)).expect("the parent checks the names")
}

struct Many(usize);

impl HeapJob for Many {
    type Output = Vec<Reading>;

    fn run<H: HeapSubject>(self) -> Vec<Reading> {
        let count = self.0;
        let mut heaps: Vec<H> = touched_list(count);
        let before = resident_bytes();
        let ((), create_ns) =
            time_once(count, || heaps.extend((0..count).map(|_| one_block::<H>())));
        let live = resident_bytes().saturating_sub(before);
        let ((), drop_ns) = time_once(count, || heaps.clear());
        let after = resident_bytes().saturating_sub(before);
        vec![
            Reading::time("create+alloc", create_ns),
            Reading::time("drop", drop_ns),
            Reading::resident_each("RSS per heap", live, count),
            Reading::resident("RSS after drop", after),
        ]
    }
}

/// A heap with one block, its first byte written.
fn one_block<H: HeapSubject>() -> H {
    let mut heap = H::create();
    let block = black_box(heap.alloc(layout(BLOCK_BYTES)));
    // SAFETY: the block is new and not empty; null faults, and the parent reports it.
    unsafe { block.write(1) };
    heap
}
