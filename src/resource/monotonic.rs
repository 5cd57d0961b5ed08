//! A bump allocator: a cursor moves up through a buffer, then through chunks of an upstream.
//!
//! ```text
//! buffer │ blocks ██████████████│tail│          the caller's, used first
//! chunk  │ header │ blocks ███████████████ │     each twice as large as the one before, up to a cap
//! chunk  │ header │ blocks ████ cursor ······ end │
//! large  │ header │ one block │                  what would waste much of a chunk, apart
//! ```
//!
//! Nothing is given back before the whole is: freeing does nothing, but that the latest block's room
//! is used again, and the latest block grows and shrinks in place. Large blocks lie apart, so that one
//! of them neither wastes a tail nor makes later chunks larger; when the upstream refuses a chunk, a
//! smaller one is tried.
//!
//! The cursor and its end are multiples of 8. So blocks with alignments up to that need no gap, and a
//! block's length is the one asked for rounded up to 8: every length a block may be freed with rounds
//! to the same.
//!
//! *Concurrency*: one thread at a time (`!Sync`).
//!
//! *Neighbours*: stands on `chunk_list` and `provider`. The placing is that of the region adapter,
//! which has scopes and checkpoints as well; the layout of the whole that of C++'s
//! `monotonic_buffer_resource`.

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::chunk_list::{ChunkList, Data, HEADER_BYTES};
use super::faces::ready_made;
use super::provider::{Fill, Provider, copy};
use super::{MemoryResource, Owner};
use crate::base::{address, align_down, is_aligned};

/// The cursor is a multiple of it.
const CURSOR_ALIGN: usize = 8;

/// Bytes of the first chunk, header counted: an OS page of most systems.
const CHUNK_BYTES_FIRST: usize = 4 << 10;

/// Bytes of the largest chunks but those for one block. Doubling on from here would at most halve the
/// number of upstream calls, and waste half of what is held.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A request above this share of the next chunk lies apart, if it is not smaller than the bytes below:
/// the tail it may waste stays below that.
const LARGE_SHARE: usize = 4;

/// Bytes up to which no request lies apart: a vector that grows through these sizes grows in place, in
/// a chunk made as large as it needs.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// Where the cursor stands while there is no memory.
const NOWHERE: NonNull<u8> = match NonZeroUsize::new(CURSOR_ALIGN) {
    Some(place) => NonNull::without_provenance(place),
    None => NonNull::dangling(),
};

/// A bump allocator over a buffer and then an upstream, emptied as a whole.
///
/// Allocating moves a cursor; freeing does nothing, except to the latest block. Everything goes
/// back with [`release`](Monotonic::release) or the drop. `&Monotonic` is the allocator.
///
/// # Concurrency
/// One thread at a time; `Send` if the upstream is.
///
/// # Examples
/// ```
/// use core::mem::MaybeUninit;
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::Monotonic;
///
/// let heap = Heap::new();
/// let mut buffer = [MaybeUninit::uninit(); 512];
/// let mut scratch = Monotonic::with_buffer(&mut buffer, &heap);
/// for count in [50, 5000] {
///     let mut list = Vec::new_in(&scratch);
///     list.extend(0..count);
///     drop(list);
///     scratch.release();
/// }
/// ```
pub struct Monotonic<'b, U: MemoryResource> {
    /// Where the next block goes, in the buffer or the newest chunk. A multiple of `CURSOR_ALIGN`.
    cursor: Cell<NonNull<u8>>,
    /// The cursor's limit, likewise a multiple; not below it.
    end: Cell<NonNull<u8>>,
    chunks: ChunkList,
    large: ChunkList,
    next_chunk_bytes: Cell<usize>,
    /// The buffer from one multiple of `CURSOR_ALIGN` to another, or `NOWHERE` and 0.
    buffer: Data,
    upstream: U,
    borrowed: PhantomData<&'b mut [MaybeUninit<u8>]>,
}

// SAFETY: what the pointers lead to is the buffer, borrowed exclusively, and chunks of the upstream's,
// which comes along. Nothing else leads there but blocks, whose holders borrow this value.
unsafe impl<U: MemoryResource + Send> Send for Monotonic<'_, U> {}

impl<U: MemoryResource> Monotonic<'static, U> {
    /// Returns a resource that takes all its memory from `upstream`, from the first request on.
    pub const fn new(upstream: U) -> Monotonic<'static, U> {
        Monotonic::over(Data { start: NOWHERE, bytes: 0 }, upstream)
    }
}

impl<'b, U: MemoryResource> Monotonic<'b, U> {
    const fn over(buffer: Data, upstream: U) -> Monotonic<'b, U> {
        Monotonic {
            cursor: Cell::new(buffer.start),
            end: Cell::new(buffer.start),
            chunks: ChunkList::new(),
            large: ChunkList::new(),
            next_chunk_bytes: Cell::new(CHUNK_BYTES_FIRST),
            buffer,
            upstream,
            borrowed: PhantomData,
        }
    }

    /// Returns a resource that fills `buffer` first and then takes its memory from `upstream`. The
    /// buffer may have any length and begin anywhere.
    pub fn with_buffer(buffer: &'b mut [MaybeUninit<u8>], upstream: U) -> Monotonic<'b, U> {
        let whole = NonNull::from(&mut *buffer).cast::<u8>();
        let gap = address(whole.as_ptr()).wrapping_neg() & (CURSOR_ALIGN - 1);
        let bytes = align_down(buffer.len().saturating_sub(gap), CURSOR_ALIGN);
        let data = match bytes {
            0 => Data { start: NOWHERE, bytes },
            // SAFETY: the buffer is longer than the gap.
            _ => Data { start: unsafe { whole.add(gap) }, bytes },
        };
        let made = Monotonic::over(data, upstream);
        made.start_in(data);
        made
    }

    /// Returns the upstream.
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    /// Returns the bytes taken from the upstream and not given back, headers counted.
    pub fn held_bytes(&self) -> usize {
        self.chunks.held_bytes() + self.large.held_bytes()
    }

    /// Gives everything back to the upstream and begins with the buffer again.
    ///
    /// No container can be in it meanwhile:
    ///
    /// ```compile_fail
    /// use polyheap::{Heap, allocator_api2::boxed::Box, resource::Monotonic};
    /// let mut scratch = Monotonic::new(Heap::new());
    /// let value = Box::new_in(1, &scratch);
    /// scratch.release();
    /// assert_eq!(*value, 1);
    /// ```
    pub fn release(&mut self) {
        // SAFETY: `&mut self`: nobody uses a block any more; all chunks are the upstream's.
        unsafe { self.chunks.release(&self.upstream, 0) };
        // SAFETY: as above.
        unsafe { self.large.release(&self.upstream, 0) };
        self.next_chunk_bytes.set(CHUNK_BYTES_FIRST);
        self.start_in(self.buffer);
    }

    /// Empties the resource and keeps its newest chunk, to begin with that again. Without one it
    /// begins with the buffer.
    #[inline]
    pub fn reset(&mut self) {
        let kept = self.chunks.newest();
        // SAFETY: `&mut self`: nobody uses a block any more; all chunks are the upstream's.
        unsafe { self.chunks.release(&self.upstream, 1) };
        // SAFETY: as above.
        unsafe { self.large.release(&self.upstream, 0) };
        self.start_in(kept.unwrap_or(self.buffer));
    }

    /// Puts the cursor at the beginning of `data`.
    #[inline]
    fn start_in(&self, data: Data) {
        self.cursor.set(data.start);
        let bytes = align_down(data.bytes, CURSOR_ALIGN);
        // SAFETY: not behind the data's end.
        self.end.set(unsafe { data.start.add(bytes) });
    }

    /// Takes a block behind the cursor.
    // Inlined always: benchmark `resources`, this is the fast path itself.
    #[inline(always)]
    fn take_here(&self, layout: Layout) -> Option<NonNull<[u8]>> {
        let cursor = self.cursor.get();
        let gap = match layout.align() {
            ..=CURSOR_ALIGN => 0,
            align => address(cursor.as_ptr()).wrapping_neg() & (align - 1),
        };
        // No overflow: a layout's size rounded up to its alignment fits an `isize`.
        if gap + layout.size() > self.room_bytes() {
            return None;
        }
        // SAFETY: in the room behind the cursor.
        let start = unsafe { cursor.add(gap) };
        let bytes = padded_bytes(layout.size());
        // SAFETY: room and gap are multiples of the cursor's alignment, so the padded size is not
        // above the room either.
        self.cursor.set(unsafe { start.add(bytes) });
        Some(NonNull::slice_from_raw_parts(start, bytes))
    }

    #[inline(always)]
    fn room_bytes(&self) -> usize {
        address(self.end.get().as_ptr()) - address(self.cursor.get().as_ptr())
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&self, size: usize, align: usize) -> Option<NonNull<[u8]>> {
        let layout = Layout::from_size_align(size, align).ok()?;
        let needed = padded_bytes(size).checked_add(align.saturating_sub(CURSOR_ALIGN))?;
        let next = self.next_chunk_bytes.get();
        if needed > LARGE_BYTES_MIN.max(next / LARGE_SHARE) {
            return self.take_large(layout, needed);
        }
        let wished = next.max((needed + HEADER_BYTES).next_power_of_two());
        let data = self.chunks.push(&self.upstream, wished, needed)?;
        self.next_chunk_bytes.set((2 * wished).min(CHUNK_BYTES_MAX));
        self.start_in(data);
        self.take_here(layout)
    }

    fn take_large(&self, layout: Layout, needed: usize) -> Option<NonNull<[u8]>> {
        let wished = needed.checked_add(HEADER_BYTES)?;
        let data = self.large.push(&self.upstream, wished, needed)?;
        let gap = address(data.start.as_ptr()).wrapping_neg() & (layout.align() - 1);
        // SAFETY: the data has room for the gap and the block.
        let start = unsafe { data.start.add(gap) };
        Some(NonNull::slice_from_raw_parts(start, padded_bytes(layout.size())))
    }

    /// Returns whether `block`, of `bytes` bytes, lies right before the cursor. No block of another
    /// chunk does: a header lies between.
    #[inline(always)]
    fn is_latest(&self, block: NonNull<u8>, bytes: usize) -> bool {
        let end = address(block.as_ptr()).wrapping_add(padded_bytes(bytes));
        end == address(self.cursor.get().as_ptr())
    }
}

/// Returns the bytes a block of `bytes` takes.
#[inline(always)]
const fn padded_bytes(bytes: usize) -> usize {
    // Fits: a layout's size is at most `isize::MAX`.
    (bytes + (CURSOR_ALIGN - 1)) & !(CURSOR_ALIGN - 1)
}

// SAFETY: blocks lie behind each other in the buffer or a chunk, or alone in one, and stay until it is
// given back by `&mut` or the drop; moving the value moves none. Every length from the one asked for
// to the one returned pads to the same.
unsafe impl<U: MemoryResource> Provider for Monotonic<'_, U> {
    #[inline(always)]
    fn take(&self, layout: Layout, fill: Fill) -> Result<NonNull<[u8]>, AllocError> {
        let block = match self.take_here(layout) {
            Some(block) => block,
            None => self.take_slow(layout.size(), layout.align()).ok_or(AllocError)?,
        };
        if fill == Fill::Zeroed {
            // SAFETY: just taken, with these bytes.
            unsafe { block.cast::<u8>().write_bytes(0, block.len()) };
        }
        Ok(block)
    }

    #[inline(always)]
    unsafe fn give(&self, block: NonNull<u8>, layout: Layout) {
        if self.is_latest(block, layout.size()) {
            self.cursor.set(block);
        }
    }

    #[inline]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        fill: Fill,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let (held, wanted) = (padded_bytes(from.size()), padded_bytes(to.size()));
        let is_latest = self.is_latest(block, from.size());
        let fits = wanted <= held || (is_latest && wanted - held <= self.room_bytes());
        if !fits || !is_aligned(address(block.as_ptr()), to.align()) {
            let moved = self.take(to, fill)?;
            // SAFETY: both are live and at least as long as the smaller size, and apart.
            unsafe { copy(block, moved.cast(), from, to) };
            // SAFETY: the contract is this function's.
            unsafe { self.give(block, from) };
            return Ok(moved);
        }
        if is_latest {
            // SAFETY: in the block or the room behind it.
            self.cursor.set(unsafe { block.add(wanted) });
        }
        if fill == Fill::Zeroed && wanted > from.size() {
            // SAFETY: in the block.
            let gained = unsafe { block.add(from.size()) };
            // SAFETY: to the block's end.
            unsafe { gained.write_bytes(0, wanted - from.size()) };
        }
        Ok(NonNull::slice_from_raw_parts(block, wanted))
    }

    fn is_own(&self, block: NonNull<u8>) -> Option<bool> {
        Some(self.has(block))
    }

    fn stands_on(&self) -> Option<&dyn MemoryResource> {
        Some(&self.upstream)
    }
}

// SAFETY: its blocks lie in its buffer and its chunks, and no others do.
unsafe impl<U: MemoryResource> Owner for Monotonic<'_, U> {
    fn has(&self, block: NonNull<u8>) -> bool {
        let start = address(self.buffer.start.as_ptr());
        address(block.as_ptr()).wrapping_sub(start) < self.buffer.bytes
            || self.chunks.has(block)
            || self.large.has(block)
    }
}

impl<U: MemoryResource> Drop for Monotonic<'_, U> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<U: MemoryResource + fmt::Debug> fmt::Debug for Monotonic<'_, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monotonic")
            .field("buffer_bytes", &self.buffer.bytes)
            .field("held_bytes", &self.held_bytes())
            .field("upstream", &self.upstream)
            .finish()
    }
}

ready_made!(['b, U: MemoryResource] Monotonic<'b, U>);
