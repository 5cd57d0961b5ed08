//! A chain: many blocks of one size, linked through their own first words, so that holding them takes no memory of the
//! harness's, which would show in the resident set.

use crate::block::layout;
use crate::subject::Subject;
use std::hint::black_box;
use std::ptr;

/// First word of a block in a chain: the next block.
type Link = *mut u8;

/// Blocks of one size, in the order they were allocated.
#[derive(Debug)]
pub(crate) struct Chain<'a, S: Subject> {
    subject: &'a S,
    block_bytes: usize,
    first: Link,
}

impl<'a, S: Subject> Chain<'a, S> {
    /// Allocates `total_bytes` in blocks of `block_bytes`, which is at least a word.
    pub(crate) fn fill(subject: &'a S, total_bytes: usize, block_bytes: usize) -> Chain<'a, S> {
        let mut chain = Chain { subject, block_bytes, first: ptr::null_mut() };
        let mut end = &raw mut chain.first;
        for _ in 0..total_bytes / block_bytes {
            // SAFETY: the size is not zero.
            let block: Link = black_box(unsafe { subject.alloc(layout(block_bytes)) });
            // SAFETY: a new block has room for a word and is aligned for it; null faults, and the parent reports it.
            unsafe { block.cast::<Link>().write(ptr::null_mut()) };
            // SAFETY: `end` is the chain's head or the last block's first word.
            unsafe { end.write(block) };
            end = block.cast();
        }
        chain
    }

    /// Frees the blocks that `is_freed` picks.
    pub(crate) fn free_if(&mut self, mut is_freed: impl FnMut() -> bool) {
        let mut end = &raw mut self.first;
        let mut block = self.first;
        while !block.is_null() {
            // SAFETY: the block is live and its first word is its link.
            let next = unsafe { block.cast::<Link>().read() };
            if is_freed() {
                // SAFETY: the block is live, of this layout, and leaves the chain.
                unsafe { self.subject.dealloc(block, layout(self.block_bytes)) };
            } else {
                // SAFETY: `end` is the chain's head or a live block's first word.
                unsafe { end.write(block) };
                end = block.cast();
            }
            block = next;
        }
        // SAFETY: as above.
        unsafe { end.write(ptr::null_mut()) };
    }

    /// Frees all blocks.
    pub(crate) fn free(mut self) {
        self.free_if(|| true);
    }
}
