//! Chunks: how long they are, and which way they come from the heap and go back to it.
//!
//! Chunks of 64 KiB come from the stack that each thread keeps in the heap; all others are ordinary
//! blocks.
//!
//! A chunk is a power of two of bytes up to 64 KiB, or a multiple of 64 KiB, and aligned to its
//! size or to 64 KiB.
//!
//! *Concurrency*: a chunk may be given back by another thread than took it.
//!
//! *Neighbours*: stands on `upstream`; `arena` calls it.

use core::alloc::Layout;
use core::ptr::NonNull;

use polyheap::Heap;

use crate::config::{CHUNK_BYTES_FIRST, CHUNK_BYTES_MIN};
use crate::upstream;

/// A chunk, owned by whoever holds this.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
}

/// Takes a chunk of `wished_bytes`; if the heap refuses it, a smaller one of at least `least_bytes`.
pub(crate) fn take_chunk(heap: &Heap, wished_bytes: usize, least_bytes: usize) -> Option<Chunk> {
    let mut bytes = chunk_bytes(wished_bytes.max(least_bytes))?;
    loop {
        if let Some(chunk) = take_exactly(heap, bytes) {
            return Some(chunk);
        }
        let smaller = chunk_bytes(bytes / 2)?;
        if smaller == bytes || smaller < least_bytes {
            return None;
        }
        bytes = smaller;
    }
}

/// Gives a chunk back to the heap it was taken from.
///
/// # Safety
/// 1. The chunk was taken from `heap`.
/// 2. Nobody uses its memory any more.
pub(crate) unsafe fn give_chunk(heap: &Heap, chunk: Chunk) {
    if chunk.bytes == Heap::ARENA_CHUNK_BYTES {
        // SAFETY: (1) and (2), and a chunk of this size is always taken as an arena chunk.
        unsafe { upstream::give_arena_chunk(heap, chunk.start) };
    } else if let Some(layout) = chunk_layout(chunk.bytes) {
        // SAFETY: (1) says that it is the heap's, and the same bytes make the same layout.
        unsafe { upstream::deallocate(heap, chunk.start, layout) };
    }
}

#[inline]
fn take_exactly(heap: &Heap, bytes: usize) -> Option<Chunk> {
    if bytes == Heap::ARENA_CHUNK_BYTES {
        return Some(Chunk { start: upstream::take_arena_chunk(heap)?, bytes });
    }
    let block = upstream::allocate(heap, chunk_layout(bytes)?)?;
    Some(Chunk { start: block.cast(), bytes })
}

/// Returns the bytes of the smallest chunk with room for `bytes`.
fn chunk_bytes(bytes: usize) -> Option<usize> {
    match bytes {
        0..=CHUNK_BYTES_FIRST => Some(bytes.max(CHUNK_BYTES_MIN).next_power_of_two()),
        _ => bytes.checked_next_multiple_of(CHUNK_BYTES_FIRST),
    }
}

fn chunk_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, bytes.min(CHUNK_BYTES_FIRST)).ok()
}
