//! A single-threaded pool: lists of freed blocks by size class, over chunks of an upstream.
//!
//! ```text
//! allocate ─ the class's list of freed blocks
//!   └─ take_fresh ─ the class's run: blocks nobody had yet
//!        └─ start_run ─ the rest of the newest chunk
//!             └─ a chunk of the upstream's, twice as large as the one before, up to a cap
//! ```
//!
//! Sizes up to 32 KiB with alignments up to a cache line have the heap's size classes; the others go
//! to the upstream, in a list of their own. A freed block serves its class again and is given back
//! with the pool, not before.
//!
//! The price of its speed: a freed block holds the link to the next, so what is freed twice, or
//! written to after the free, is not noticed and breaks the pool. A heap keeps nothing in its blocks.
//!
//! *Concurrency*: one thread at a time (`!Sync`).
//!
//! *Neighbours*: stands on `chunk_list`, `large_list` and `base`'s size classes.

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;

use super::chunk_list::ChunkList;
use super::faces::ready_made;
use super::large_list::LargeList;
use super::provider::{Fill, Provider, copy};
use super::{MemoryResource, Owner};
use crate::base::{
    SLAB_CLASSES, Tier, address, class_of, fast_bin_word, is_fast_layout, slab_block_bytes,
};

/// Bytes of the first chunk, header counted.
const CHUNK_BYTES_FIRST: usize = 16 << 10;

/// Bytes of the largest chunks.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Bytes of a run, but that it has one block at least: few, so that a class used once wastes little.
const RUN_BYTES: usize = 4 << 10;

/// Largest alignment that a class's blocks have: a cache line. Runs are aligned to it.
const POOLED_ALIGN_MAX: usize = 64;

/// Places of the table of lists: one for every value of half a byte's worth of bin words, so that no
/// look-up is checked.
const LISTS: usize = 128;

/// A pool of freed blocks for one thread.
///
/// Faster than a heap, because it knows no other thread and checks nothing: freeing a block twice is
/// undefined behaviour and goes unnoticed. Memory goes back to the upstream with
/// [`release`](Pool::release) or the drop. `&Pool` is the allocator.
///
/// # Concurrency
/// One thread at a time; `Send` if the upstream is. Containers in it stay on its thread:
///
/// ```compile_fail
/// use polyheap::{Heap, allocator_api2::boxed::Box, resource::Pool};
/// let pool = Pool::new(Heap::new());
/// let value = Box::new_in(1, &pool);
/// std::thread::scope(|scope| { scope.spawn(|| drop(value)); });
/// ```
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::boxed::Box;
/// use polyheap::resource::Pool;
///
/// let heap = Heap::new();
/// let pool = Pool::new(&heap);
/// for round in 0..1000 {
///     let boxes = [(); 10].map(|()| Box::new_in(round, &pool));
///     assert!(boxes.iter().all(|value| **value == round));
/// }
/// assert_eq!(heap.stats().live_blocks, 1);
/// ```
pub struct Pool<U: MemoryResource> {
    /// The freed blocks of each class.
    freed: [List; LISTS],
    /// What is left of each class's run.
    runs: [Run; SLAB_CLASSES],
    /// What is left of the newest chunk.
    rest: Run,
    next_chunk_bytes: Cell<usize>,
    chunks: ChunkList,
    large: LargeList,
    upstream: U,
}

/// The freed blocks of a class: the latest, null for none; each begins with a link to the next.
struct List(Cell<*mut Freed>);

impl List {
    const fn empty() -> List {
        List(Cell::new(ptr::null_mut()))
    }

    #[inline(always)]
    fn take(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.0.get())?;
        // SAFETY: a freed block, which begins with its link and is nobody's.
        self.0.set(unsafe { first.as_ref() }.next);
        Some(first.cast())
    }

    /// # Safety
    /// 1. The block is the caller's to give up, has at least 16 bytes and their alignment, and stays
    ///    until the list is emptied.
    #[inline(always)]
    unsafe fn give(&self, block: NonNull<u8>) {
        let freed = block.cast::<Freed>();
        // SAFETY: (1).
        unsafe { freed.write(Freed { next: self.0.get() }) };
        self.0.set(freed.as_ptr());
    }
}

/// What a freed block in a list begins with.
struct Freed {
    next: *mut Freed,
}

/// Memory nobody had yet: from `start`, `bytes` bytes.
struct Run {
    start: Cell<NonNull<u8>>,
    bytes: Cell<usize>,
}

impl Run {
    const fn empty() -> Run {
        Run { start: Cell::new(NonNull::dangling()), bytes: Cell::new(0) }
    }

    fn set(&self, start: NonNull<u8>, bytes: usize) {
        self.start.set(start);
        self.bytes.set(bytes);
    }

    /// Takes the first `bytes` bytes, if there are as many.
    #[inline]
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let left = self.bytes.get().checked_sub(bytes)?;
        let start = self.start.get();
        // SAFETY: the run has that many bytes.
        self.set(unsafe { start.add(bytes) }, left);
        Some(start)
    }
}

// SAFETY: what the pointers lead to is memory of the upstream's, which comes along. Nothing else leads
// there but blocks, whose holders borrow this value.
unsafe impl<U: MemoryResource + Send> Send for Pool<U> {}

impl<U: MemoryResource> Pool<U> {
    /// Returns a pool that takes its memory from `upstream`, from the first request on.
    pub const fn new(upstream: U) -> Pool<U> {
        Pool {
            freed: [const { List::empty() }; LISTS],
            runs: [const { Run::empty() }; SLAB_CLASSES],
            rest: Run::empty(),
            next_chunk_bytes: Cell::new(CHUNK_BYTES_FIRST),
            chunks: ChunkList::new(),
            large: LargeList::new(),
            upstream,
        }
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Gives everything back to the upstream, blocks that were leaked included.
    ///
    /// No container can be in it meanwhile:
    ///
    /// ```compile_fail
    /// use polyheap::{Heap, allocator_api2::boxed::Box, resource::Pool};
    /// let mut pool = Pool::new(Heap::new());
    /// let value = Box::new_in(1, &pool);
    /// pool.release();
    /// assert_eq!(*value, 1);
    /// ```
    pub fn release(&mut self) {
        for freed in &mut self.freed {
            *freed = List::empty();
        }
        for run in self.runs.iter().chain([&self.rest]) {
            run.set(NonNull::dangling(), 0);
        }
        self.next_chunk_bytes.set(CHUNK_BYTES_FIRST);
        // SAFETY: `&mut self`: nobody uses a block any more; all chunks are the upstream's.
        unsafe { self.chunks.release(&self.upstream, 0) };
        // SAFETY: as above, of the large blocks.
        unsafe { self.large.release(&self.upstream) };
    }

    /// Takes a block that nobody had yet.
    #[inline(never)]
    fn take_fresh(&self, class: usize) -> Option<NonNull<u8>> {
        let bytes = slab_block_bytes(class);
        let run = self.runs.get(class)?;
        if let Some(block) = run.take(bytes) {
            return Some(block);
        }
        self.start_run(run, bytes)?;
        run.take(bytes)
    }

    #[cold]
    fn start_run(&self, run: &Run, block_bytes: usize) -> Option<()> {
        let run_bytes = (RUN_BYTES / block_bytes).max(1) * block_bytes;
        if !self.has_rest_for(block_bytes) {
            let wished = self.next_chunk_bytes.get();
            let data = self.chunks.push(&self.upstream, wished, block_bytes + POOLED_ALIGN_MAX)?;
            self.next_chunk_bytes.set((2 * wished).min(CHUNK_BYTES_MAX));
            self.rest.set(data.start, data.bytes);
        }
        self.rest.take(self.rest_gap())?;
        let whole = self.rest.bytes.get() / block_bytes * block_bytes;
        let bytes = run_bytes.min(whole);
        run.set(self.rest.take(bytes)?, bytes);
        Some(())
    }

    /// Takes a block that is aligned beyond 16, or above the classes, or to be cleared.
    #[inline(never)]
    fn take_odd(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        let Some(class) = pooled_class(layout) else {
            return self.large.take(&self.upstream, layout, fill).ok_or(AllocError);
        };
        let taken = self.freed[class % LISTS].take().or_else(|| self.take_fresh(class));
        let block = taken.ok_or(AllocError)?;
        let bytes = slab_block_bytes(class);
        if fill == Fill::Zeroed {
            // SAFETY: just taken, with these bytes.
            unsafe { block.write_bytes(0, bytes) };
        }
        Ok(NonNull::slice_from_raw_parts(block, bytes))
    }

    /// Gives back a block that is aligned beyond 16 or above the classes.
    ///
    /// # Safety
    /// As [`MemoryResource::deallocate`]; the size is not 0.
    #[inline(never)]
    unsafe fn give_odd(&self, block: NonNull<u8>, layout: Layout) {
        match pooled_class(layout) {
            // SAFETY: (1) as this function's; a class's blocks have 16 bytes at least, and memory stays
            // until the lists are emptied with it.
            Some(class) => unsafe { self.freed[class % LISTS].give(block) },
            // SAFETY: a live block that was passed on, as its layout says.
            None => unsafe { self.large.give(&self.upstream, block, layout) },
        }
    }

    fn has_rest_for(&self, block_bytes: usize) -> bool {
        self.rest.bytes.get() >= self.rest_gap() + block_bytes
    }

    /// Returns the bytes to the next multiple of the largest alignment.
    fn rest_gap(&self) -> usize {
        address(self.rest.start.get().as_ptr()).wrapping_neg() & (POOLED_ALIGN_MAX - 1)
    }
}

/// Returns the class that serves a layout, if the pool does.
#[inline]
fn pooled_class(layout: Layout) -> Option<usize> {
    match class_of(layout.size(), layout.align()) {
        Tier::Slab(class) if layout.align() <= POOLED_ALIGN_MAX => Some(class),
        _ => None,
    }
}

// SAFETY: a class's blocks lie behind each other in its runs, a multiple of the alignments it serves
// apart and from a start that is one; a block is in a list of freed ones or the caller's. Lengths from
// the one asked for to the one returned have the same class, [class-pure], or end before the same
// descriptor. Memory stays until `&mut` or the drop; moving the value moves none.
unsafe impl<U: MemoryResource> Provider for Pool<U> {
    // Inlined always: benchmark `resources`, this is the fast path itself.
    #[inline(always)]
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        if fill == Fill::Any && is_fast_layout(layout.size(), layout.align()) {
            let class = fast_bin_word(layout.size()) as usize / 2;
            let block = match self.freed[class % LISTS].take() {
                Some(block) => block,
                None => self.take_fresh(class).ok_or(AllocError)?,
            };
            return Ok(NonNull::slice_from_raw_parts(block, slab_block_bytes(class)));
        }
        self.take_odd(layout, fill)
    }

    // Inlined always: benchmark `resources`, this is the fast path itself.
    #[inline(always)]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        if is_fast_layout(layout.size(), layout.align()) {
            let class = fast_bin_word(layout.size()) as usize / 2;
            // SAFETY: (1) as this function's; a class's blocks have 16 bytes at least, and memory stays
            // until the lists are emptied with it.
            unsafe { self.freed[class % LISTS].give(block) };
        } else {
            // SAFETY: the contract is this function's.
            unsafe { self.give_odd(block, layout) };
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let (old, new) = (pooled_class(from), pooled_class(to));
        if old.is_none() && new.is_none() {
            // SAFETY: a live block that was passed on, as its layout says.
            let resized = unsafe { self.large.resize(&self.upstream, block, from, to, fill) };
            return resized.ok_or(AllocError);
        }
        // All blocks of a class have every alignment that leads to it.
        if let (Some(class), true) = (new, old == new) {
            let bytes = slab_block_bytes(class);
            if fill == Fill::Zeroed {
                // SAFETY: in the block.
                let gained = unsafe { block.add(from.size()) };
                // SAFETY: to the block's end.
                unsafe { gained.write_bytes(0, bytes - from.size()) };
            }
            return Ok(NonNull::slice_from_raw_parts(block, bytes));
        }
        let moved = self.take(to, fill)?;
        // SAFETY: both are live and at least as long as the smaller size, and apart.
        unsafe { copy(block, moved.cast(), from, to) };
        // SAFETY: the contract is this function's.
        unsafe { self.give(block, from) };
        Ok(moved)
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        Some(self.has(block))
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

// SAFETY: its blocks lie in its chunks or are in the list of those passed on, and no others do.
unsafe impl<U: MemoryResource> Owner for Pool<U> {
    fn has(&self, block: NonNull<u8>) -> bool {
        self.chunks.has(block) || self.large.has(block)
    }
}

impl<U: MemoryResource> Drop for Pool<U> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<U: MemoryResource + fmt::Debug> fmt::Debug for Pool<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("chunk_bytes", &self.chunks.held_bytes())
            .field("upstream", &self.upstream)
            .finish()
    }
}

ready_made!([U: MemoryResource] Pool<U>);
