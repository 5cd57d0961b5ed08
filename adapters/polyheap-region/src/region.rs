//! The region: an arena that owns its chunks.
//!
//! *Concurrency*: `Send`, not `Sync`.
//!
//! *Neighbours*: stands on `arena`; `scope` opens scopes in it, `secret` wraps it.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::AllocError;

use crate::arena::{Arena, Policy};
use crate::boxed::RegionBox;
use crate::builder::RegionBuilder;
use crate::config;
use crate::error::{AllocOrInitError, StaleCheckpoint, init_or_panic, or_panic};
use crate::methods::allocation_methods;
use crate::rewind::Mark;
use crate::scope::{Scope, open};
use crate::stats::RegionStats;

/// A bump arena on a heap: allocating moves a cursor, and everything goes at once.
///
/// Values borrow the region. They are **not dropped**, only their memory is given back: a `Vec` of
/// the global allocator put here leaks its buffer. [`alloc_box`](Region::alloc_box) returns an
/// owner that drops; containers of the region itself (`Vec::new_in(&region)`) need none.
///
/// # Concurrency
/// A region may be sent to another thread while nothing in it is borrowed; it is not `Sync`.
///
/// # Cost
/// Allocating is a compare and an addition while the chunk lasts. The first chunk is taken by the
/// first allocation. No call takes memory from anywhere but the heap.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap_region::Region;
///
/// let heap = Heap::new();
/// let mut region = Region::new_in(&heap);
/// let name = region.alloc_str("total");
/// let mut numbers = Vec::new_in(&region);
/// numbers.extend([1, 2, 3]);
/// assert_eq!((&*name, numbers.len()), ("total", 3));
/// drop(numbers);
/// region.reset(); // all of it is gone; a chunk is kept
/// assert_eq!(region.stats().used_bytes, 0);
/// ```
pub struct Region<'h> {
    arena: Arena<'h>,
}

/// A position of a [`Region`], to go back to with [`rewind`](Region::rewind).
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint(Mark);

impl<'h> Region<'h> {
    /// Bytes of a region's first chunk; each further one is twice as large as the one before.
    pub const CHUNK_BYTES_FIRST: usize = config::CHUNK_BYTES_FIRST;

    /// Bytes at which chunks stop growing.
    pub const CHUNK_BYTES_MAX: usize = config::CHUNK_BYTES_MAX;

    /// Chunks of the first length that a thread keeps of a heap at most, for its next regions. They
    /// count in the heap's statistics (`kept_large_bytes`) and limits, and are given up when the
    /// thread ends, by [`Heap::trim`], and with the heap.
    pub const CHUNKS_KEPT_MAX: usize = Heap::ARENA_CHUNKS_KEPT;

    /// Returns an empty region on `heap`; it takes no memory yet.
    #[inline]
    pub const fn new_in(heap: &'h Heap) -> Region<'h> {
        Region::with_policy(heap, RegionBuilder::new().policy())
    }

    /// Returns a builder, to set a limit and policies.
    pub const fn builder() -> RegionBuilder {
        RegionBuilder::new()
    }

    /// Returns a region with room for `capacity_bytes` in its first chunk.
    ///
    /// # Panics
    /// When there is no memory.
    pub fn with_capacity_in(capacity_bytes: usize, heap: &'h Heap) -> Region<'h> {
        or_panic(Region::try_with_capacity_in(capacity_bytes, heap))
    }

    /// Returns a region with room for `capacity_bytes` in its first chunk.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn try_with_capacity_in(
        capacity_bytes: usize,
        heap: &'h Heap,
    ) -> Result<Region<'h>, AllocError> {
        Region::builder().capacity_bytes(capacity_bytes).try_build_in(heap)
    }

    #[inline]
    pub(crate) const fn with_policy(heap: &'h Heap, policy: Policy) -> Region<'h> {
        Region { arena: Arena::new(heap, policy) }
    }

    /// Opens a scope in this region: what is allocated in it goes when it ends.
    ///
    /// # Examples
    /// ```
    /// use polyheap::Heap;
    /// use polyheap_region::Region;
    ///
    /// let heap = Heap::new();
    /// let mut region = Region::new_in(&heap);
    /// for line in ["1 2 3", "4 5"] {
    ///     let sum: i32 = region.scope(|r| {
    ///         let words = r.alloc_slice_from_iter(line.split(' '));
    ///         words.iter().filter_map(|word| word.parse::<i32>().ok()).sum()
    ///     });
    ///     assert!(sum == 6 || sum == 9);
    /// }
    /// assert_eq!(region.stats().used_bytes, 0);
    /// ```
    #[inline]
    pub fn scope<'e, R>(&'e mut self, body: impl for<'r> FnOnce(&mut Scope<'r, 'e>) -> R) -> R {
        open(&self.arena, body)
    }

    /// Returns the present position.
    #[inline]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.arena.mark())
    }

    /// Goes back to a position: what was allocated since is gone. A checkpoint may be used again.
    ///
    /// Borrows of values made before the checkpoint do not live through this either; where they
    /// must, open a [`scope`](Region::scope).
    ///
    /// # Panics
    /// When the checkpoint is of another region or lies behind the present position.
    ///
    /// # Examples
    /// ```
    /// use polyheap::Heap;
    /// use polyheap_region::Region;
    ///
    /// let heap = Heap::new();
    /// let mut region = Region::new_in(&heap);
    /// region.alloc(1u64);
    /// let checkpoint = region.checkpoint();
    /// region.alloc([0u64; 1000]);
    /// region.rewind(checkpoint);
    /// assert_eq!(region.stats().used_bytes, 8);
    /// ```
    #[allow(clippy::panic, reason = "documented; `try_rewind` is the way without")]
    pub fn rewind(&mut self, checkpoint: Checkpoint) {
        if let Err(error) = self.try_rewind(checkpoint) {
            panic!("{error}");
        }
    }

    /// Goes back to a position, as [`rewind`](Region::rewind) does.
    ///
    /// # Errors
    /// When the checkpoint is of another region or lies behind the present position; nothing
    /// changes.
    pub fn try_rewind(&mut self, checkpoint: Checkpoint) -> Result<(), StaleCheckpoint> {
        if !self.arena.is_mark(checkpoint.0) {
            return Err(StaleCheckpoint);
        }
        // SAFETY: (1) just looked at. (2) `&mut self`: nothing in the region is borrowed.
        unsafe { self.arena.rewind(checkpoint.0) };
        Ok(())
    }

    /// Empties the region and keeps its newest chunk for what comes next: the largest, unless a
    /// larger first one was asked for.
    pub fn reset(&mut self) {
        self.arena.reset();
    }

    #[inline(always)]
    pub(crate) fn arena<'a>(&'a self) -> &'a Arena<'a> {
        &self.arena
    }
}

/// Allocating. The values borrow the region.
impl Region<'_> {
    allocation_methods!(['a] 'a);
}

impl fmt::Debug for Region<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
