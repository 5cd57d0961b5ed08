//! What a thread keeps of blocks above the slab classes.
//!
//! It fills a metadata block that the thread heap gets when the first such block comes back. A
//! magazine of these classes has one round, so there is no cursor: the place of a class is closed,
//! open and empty, or holds a block. It is opened by the first block that comes back, if the
//! thread's bytes allow, so that later ones need no account. A free that finds no open place goes
//! on to the next tier by itself and leaves what is kept here alone.
//!
//! Beside the places there is a stack of chunks for arenas, which come and go in turns.
//!
//! As with magazines, what is kept counts as taken and is checked when it leaves the cache.
//!
//! *Concurrency*: the holder of the thread heap's tenure writes; others read for statistics, so
//! all fields are relaxed atomics.
//!
//! *Neighbours*: stands on `base`; thread heaps have one each, `large` uses it.

use crate::base::{LARGE_CLASSES, large_class_bytes};
use crate::config::ARENA_CHUNKS_KEPT;
use crate::sync::{AtomicUsize, Ordering};

/// A place that keeps nothing.
const CLOSED: usize = 0;
/// A place that has nothing and may keep a block.
const OPEN: usize = 1;
/// Bit of a place whose content was there at the last sweep.
const OLD: usize = 2;

/// One for each class, and one for blocks without a class, which stays closed.
const PLACES: usize = LARGE_CLASSES + 1;

/// Spans and mappings one thread keeps.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LargeCache {
    /// A block's address, `CLOSED` or `OPEN`, by class.
    places: [AtomicUsize; PLACES],
    /// Bytes for which places may yet be opened.
    bytes_left: AtomicUsize,
    /// Chunks kept for arenas, the last one given on top; and how few there were since the last
    /// sweep.
    chunks: [AtomicUsize; ARENA_CHUNKS_KEPT],
    chunk_count: AtomicUsize,
    fewest_chunks: AtomicUsize,
}

const _: () = assert!(
    size_of::<LargeCache>() <= crate::config::MAGAZINE_BYTES,
    "a large cache fills a metadata block"
);

impl LargeCache {
    /// Returns a cache that may keep so many bytes.
    pub(super) const fn new(bytes: usize) -> LargeCache {
        LargeCache {
            places: [const { AtomicUsize::new(CLOSED) }; PLACES],
            bytes_left: AtomicUsize::new(bytes),
            chunks: [const { AtomicUsize::new(0) }; ARENA_CHUNKS_KEPT],
            chunk_count: AtomicUsize::new(0),
            fewest_chunks: AtomicUsize::new(0),
        }
    }

    /// Takes the chunk given last; 0 when there is none.
    #[inline(always)]
    pub(crate) fn take_chunk(&self) -> usize {
        let count = self.chunk_count.load(Ordering::Relaxed);
        if count == 0 {
            return 0;
        }
        self.chunk_count.store(count - 1, Ordering::Relaxed);
        if self.fewest_chunks.load(Ordering::Relaxed) >= count {
            self.fewest_chunks.store(count - 1, Ordering::Relaxed);
        }
        self.chunk(count - 1).load(Ordering::Relaxed)
    }

    /// Keeps a chunk; returns false when there are enough, or when it is the one given last.
    #[inline(always)]
    pub(crate) fn keep_chunk(&self, chunk: usize) -> bool {
        let count = self.chunk_count.load(Ordering::Relaxed);
        if count == ARENA_CHUNKS_KEPT || count != 0 && self.last_chunk(count) == chunk {
            return false;
        }
        self.chunk(count).store(chunk, Ordering::Relaxed);
        self.chunk_count.store(count + 1, Ordering::Relaxed);
        true
    }

    /// Returns whether `chunk` is the one given last.
    pub(super) fn was_given_last(&self, chunk: usize) -> bool {
        let count = self.chunk_count.load(Ordering::Relaxed);
        count != 0 && self.last_chunk(count) == chunk
    }

    /// Takes a chunk that was not needed since the last sweep; 0 when all were.
    pub(super) fn take_idle_chunk(&self) -> usize {
        if self.fewest_chunks.load(Ordering::Relaxed) == 0 { 0 } else { self.take_chunk() }
    }

    /// Begins to count anew how few chunks there are.
    pub(super) fn note_sweep(&self) {
        let count = self.chunk_count.load(Ordering::Relaxed);
        self.fewest_chunks.store(count, Ordering::Relaxed);
    }

    /// Iterates over the chunks kept, a snapshot.
    pub(crate) fn kept_chunks(&self) -> impl Iterator<Item = usize> + '_ {
        let count = self.chunk_count.load(Ordering::Relaxed);
        self.chunks.iter().take(count).map(|chunk| chunk.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn last_chunk(&self, count: usize) -> usize {
        self.chunk(count - 1).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn chunk(&self, index: usize) -> &AtomicUsize {
        // Below the number kept; the remainder spares a path that panics.
        &self.chunks[index % ARENA_CHUNKS_KEPT]
    }

    /// Takes the kept block of `class`; 0 when there is none.
    #[inline(always)]
    pub(super) fn take(&self, class: usize) -> usize {
        let place = self.place(class);
        let block = place.load(Ordering::Relaxed) & !OLD;
        if block <= OPEN {
            return 0;
        }
        place.store(OPEN, Ordering::Relaxed);
        block
    }

    /// Keeps a block of `class` in its open place; returns false when there is none.
    #[inline(always)]
    pub(super) fn keep(&self, class: usize, block: usize) -> bool {
        let place = self.place(class);
        if place.load(Ordering::Relaxed) != OPEN {
            return false;
        }
        place.store(block, Ordering::Relaxed);
        true
    }

    /// Returns the kept block of `class`; 0 when there is none.
    pub(crate) fn kept(&self, class: usize) -> usize {
        let block = self.place(class).load(Ordering::Relaxed) & !OLD;
        if block <= OPEN { 0 } else { block }
    }

    /// Opens the place of `class` if it is closed and the bytes allow; one that is open and old is
    /// young again.
    pub(super) fn open(&self, class: usize) {
        let left = self.bytes_left.load(Ordering::Relaxed);
        let place = self.place(class);
        if place.load(Ordering::Relaxed) == OPEN | OLD {
            place.store(OPEN, Ordering::Relaxed);
        }
        let bytes = large_class_bytes(class);
        if class < LARGE_CLASSES && place.load(Ordering::Relaxed) == CLOSED && left >= bytes {
            self.bytes_left.store(left - bytes, Ordering::Relaxed);
            place.store(OPEN, Ordering::Relaxed);
        }
    }

    /// Closes the place of `class`; returns what was kept there, 0 for nothing.
    pub(super) fn close(&self, class: usize) -> usize {
        let block = self.kept(class);
        let place = self.place(class);
        if place.load(Ordering::Relaxed) != CLOSED {
            let left = self.bytes_left.load(Ordering::Relaxed) + large_class_bytes(class);
            self.bytes_left.store(left, Ordering::Relaxed);
            place.store(CLOSED, Ordering::Relaxed);
        }
        block
    }

    /// Marks the place of `class`, unless it is closed, as old; returns whether it was so already:
    /// nothing was kept there since the last sweep.
    pub(super) fn age(&self, class: usize) -> bool {
        let place = self.place(class);
        let content = place.load(Ordering::Relaxed);
        if content != CLOSED {
            place.store(content | OLD, Ordering::Relaxed);
        }
        content & OLD != 0
    }

    /// Returns whether anything is kept, or may be without anyone noting it; a snapshot.
    pub(crate) fn is_in_use(&self) -> bool {
        let is_open = |place: &AtomicUsize| place.load(Ordering::Relaxed) != CLOSED;
        self.chunk_count.load(Ordering::Relaxed) != 0 || self.places.iter().any(is_open)
    }

    #[inline(always)]
    fn place(&self, class: usize) -> &AtomicUsize {
        // SAFETY: [class-pure] a class is at most LARGE_CLASSES, which has a place.
        unsafe { self.places.get_unchecked(class) }
    }
}
