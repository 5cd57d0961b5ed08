//! What a region asks of its heap. Every request of the crate goes through here.
//!
//! In unit tests a ledger notes each request with its layout and panics when something is given
//! back that was not taken, or was taken otherwise; see `ledger`.
//!
//! *Concurrency*: as the heap's.
//!
//! *Neighbours*: stands on `polyheap::Heap`; `chunk`, `large`, `arena` and `rewind` call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::Allocator;

#[cfg(test)]
use crate::ledger;

/// Layout of the chunks that each thread keeps in the heap.
#[cfg(test)]
const ARENA_CHUNK: Layout =
    match Layout::from_size_align(Heap::ARENA_CHUNK_BYTES, Heap::ARENA_CHUNK_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk has a layout"),
    };

/// Takes a chunk that the thread keeps, if it keeps any.
#[inline(always)]
pub(crate) fn take_kept_arena_chunk(heap: &Heap) -> Option<NonNull<u8>> {
    let chunk = heap.take_kept_arena_chunk()?;
    #[cfg(test)]
    ledger::note_taken(chunk, ARENA_CHUNK);
    Some(chunk)
}

/// Takes a chunk of the kind that threads keep.
#[inline(always)]
pub(crate) fn take_arena_chunk(heap: &Heap) -> Option<NonNull<u8>> {
    let chunk = heap.take_arena_chunk()?;
    #[cfg(test)]
    ledger::note_taken(chunk, ARENA_CHUNK);
    Some(chunk)
}

/// Gives a chunk back.
///
/// # Safety
/// 1. It came from one of the two functions above with this heap, and nobody uses it any more.
#[inline(always)]
pub(crate) unsafe fn give_arena_chunk(heap: &Heap, chunk: NonNull<u8>) {
    #[cfg(test)]
    ledger::note_given(chunk, ARENA_CHUNK);
    // SAFETY: (1).
    unsafe { heap.give_arena_chunk(chunk) };
}

/// Allocates a block.
#[inline(always)]
pub(crate) fn allocate(heap: &Heap, layout: Layout) -> Option<NonNull<[u8]>> {
    let block = heap.allocate(layout).ok()?;
    #[cfg(test)]
    ledger::note_taken(block.cast(), layout);
    Some(block)
}

/// Frees a block.
///
/// # Safety
/// 1. It was allocated from this heap with this layout, and nobody uses it any more.
#[inline(always)]
pub(crate) unsafe fn deallocate(heap: &Heap, block: NonNull<u8>, layout: Layout) {
    #[cfg(test)]
    ledger::note_given(block, layout);
    // SAFETY: (1).
    unsafe { heap.deallocate(block, layout) };
}

/// Makes a block larger or smaller; `None`, and nothing changed, when there is no memory.
///
/// # Safety
/// 1. It was allocated from this heap with the layout `from`.
#[inline(always)]
pub(crate) unsafe fn resize(
    heap: &Heap,
    block: NonNull<u8>,
    from: Layout,
    to: Layout,
) -> Option<NonNull<[u8]>> {
    let resized = if to.size() >= from.size() {
        // SAFETY: (1), and the new size is not smaller.
        unsafe { heap.grow(block, from, to) }
    } else {
        // SAFETY: (1), and the new size is smaller.
        unsafe { heap.shrink(block, from, to) }
    };
    let resized = resized.ok()?;
    #[cfg(test)]
    ledger::note_given(block, from);
    #[cfg(test)]
    ledger::note_taken(resized.cast(), to);
    Some(resized)
}
