//! What the tests share: patterns in blocks, and a look at what a heap still holds.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ptr::NonNull;
use std::slice;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::Layout;

/// Panics unless everything was given back to the heap, with the layouts it was taken with: the
/// heap's own check of its slabs and chunks would find a block freed as another.
pub(crate) fn assert_empty(heap: &mut Heap) {
    let stats = heap.stats();
    assert_eq!((stats.live_blocks, stats.live_bytes), (0, 0), "{stats}");
    assert_eq!(heap.verify(), Ok(()));
}

/// A block and the pattern in it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
    tag: u8,
}

impl Held {
    /// Fills a block, after checking its alignment.
    pub(crate) fn new(start: NonNull<u8>, layout: Layout, tag: usize) -> Held {
        assert_eq!(start.as_ptr() as usize % layout.align(), 0, "{layout:?} is not aligned");
        let held = Held { start, bytes: layout.size(), tag: tag as u8 | 1 };
        // SAFETY: the block is live, as long, and nobody else's.
        unsafe { start.write_bytes(held.tag, held.bytes) };
        held
    }

    /// Returns the first `bytes` of the block after it moved to `start`.
    pub(crate) fn first_at(&self, start: NonNull<u8>, bytes: usize) -> Held {
        Held { start, bytes, tag: self.tag }
    }

    /// Panics unless the pattern is still there.
    pub(crate) fn check(&self) {
        // SAFETY: the block is live and was filled.
        let bytes = unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) };
        let is_kept = |part: &[u8]| part == &[self.tag; 256][..part.len()];
        assert!(bytes.chunks(256).all(is_kept), "{self:?} was overwritten");
    }
}

/// Panics when two of the blocks overlap or one lost its pattern.
pub(crate) fn assert_sound<'a>(blocks: impl IntoIterator<Item = &'a Held>) {
    let mut spans = Vec::new();
    for held in blocks {
        held.check();
        spans.push((held.start.as_ptr() as usize, held.bytes));
    }
    // Blocks of no bytes may lie anywhere.
    spans.retain(|&(_, bytes)| bytes != 0);
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?} overlap");
    }
}

/// A seeded generator (xorshift).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
