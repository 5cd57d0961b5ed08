//! Chunks for arenas: what region scopes are made of.
//!
//! A thread keeps a stack of them in each heap, so that opening and closing scopes costs a few loads
//! and stores. For the adapter crates; the names may change.
//!
//! *Concurrency*: as allocate and free.
//!
//! *Neighbours*: stands on `slow` and `cache`; the region adapter calls it.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::slow::thread_heap;
use super::sweep::sweep_beside;
use super::{Heap, thread};
use crate::base::{address, at_address};
use crate::cache::free_chunk;
use crate::config::{ARENA_CHUNKS_KEPT, CHUNK_BYTES};

impl Heap {
    /// Bytes of an arena chunk, and its alignment.
    #[doc(hidden)]
    pub const ARENA_CHUNK_BYTES: usize = CHUNK_BYTES;

    /// Arena chunks that a thread keeps of a heap at most.
    #[doc(hidden)]
    pub const ARENA_CHUNKS_KEPT: usize = ARENA_CHUNKS_KEPT;

    /// Takes a chunk for an arena, the one given back last if the thread keeps any; `None` without
    /// memory.
    #[doc(hidden)]
    #[inline]
    pub fn take_arena_chunk(&self) -> Option<NonNull<u8>> {
        self.take_kept_arena_chunk().or_else(|| self.new_arena_chunk())
    }

    /// Takes the chunk given back last; `None` when the thread keeps none.
    #[doc(hidden)]
    #[inline]
    pub fn take_kept_arena_chunk(&self) -> Option<NonNull<u8>> {
        let kept = thread::current(self.entry()).large().map_or(0, |cache| cache.take_chunk());
        NonNull::new(at_address(kept))
    }

    #[cold]
    fn new_arena_chunk(&self) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES).ok()?;
        NonNull::new(self.allocate_block(layout).block)
    }

    /// Gives a chunk back.
    ///
    /// # Safety
    /// 1. `chunk` came from [`take_arena_chunk`](Heap::take_arena_chunk) of this heap, and nobody uses it any more.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn give_arena_chunk(&self, chunk: NonNull<u8>) {
        let chunk = address(chunk.as_ptr());
        let cache = thread::current(self.entry()).large();
        if !cache.is_some_and(|cache| cache.keep_chunk(chunk)) {
            self.give_up_arena_chunk(chunk);
        }
    }

    #[cold]
    fn give_up_arena_chunk(&self, chunk: usize) {
        if let Some(core) = self.core() {
            free_chunk(&core.store, thread_heap(core), chunk);
            sweep_beside(core);
        }
    }
}
