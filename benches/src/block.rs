//! A block: what the workloads hold on to.
//!
//! A child process makes one subject and runs one workload with it, so a block is freed with the subject that made it
//! without being told which that was. The size is kept beside the pointer, for subjects that want it back at free; a
//! block that goes through an atomic pointer carries it in its own first word.

use crate::opaque::opaque_pointer;
use crate::subject::Subject;
use std::alloc::Layout;

/// Alignment of every block.
const ALIGN: usize = 8;

/// Live block with its first byte written.
#[derive(Debug)]
pub(crate) struct Block {
    start: *mut u8,
    size: usize,
}

// SAFETY: a block is plain memory that its owner alone touches; every subject lets any thread free it.
unsafe impl Send for Block {}

/// The layout of a block of `size` bytes.
#[inline(always)]
pub(crate) fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and no workload asks for sizes anywhere near isize::MAX.
    unsafe { Layout::from_size_align_unchecked(size, ALIGN) }
}

impl Block {
    /// Allocates `size` bytes, at least one, and writes the first; an allocator that fails is met by a fault.
    #[inline(always)]
    pub(crate) fn new<S: Subject>(subject: &S, size: usize) -> Block {
        // SAFETY: the size is not zero.
        let start = unsafe { subject.alloc(layout(size)) };
        // SAFETY: the block has at least one byte; null faults here, and the parent reports it.
        unsafe { start.write(1) };
        Block { start: opaque_pointer(start), size }
    }

    /// A place without a block; not to be freed or used.
    #[inline(always)]
    pub(crate) const fn nothing() -> Block {
        Block { start: std::ptr::null_mut(), size: 0 }
    }

    /// Frees the block.
    #[inline(always)]
    pub(crate) fn free<S: Subject>(self, subject: &S) {
        // SAFETY: the process's one subject made the block with this layout, and `self` is its only owner.
        unsafe { subject.dealloc(self.start, layout(self.size)) }
    }

    /// Resizes the block and keeps its contents.
    #[inline(always)]
    pub(crate) fn resize<S: Subject>(self, subject: &S, size: usize) -> Block {
        // SAFETY: as in `free`; the new size is not zero.
        let start = unsafe { subject.realloc(self.start, layout(self.size), size) };
        Block { start: opaque_pointer(start), size }
    }

    /// Reads the first byte.
    #[inline(always)]
    pub(crate) fn look(&self) -> u8 {
        // SAFETY: the block is live and its first byte written.
        unsafe { self.start.read() }
    }

    /// Adds one to the byte at `offset`, in memory.
    #[inline(always)]
    pub(crate) fn count(&mut self, offset: usize) {
        debug_assert!(offset < self.size);
        // SAFETY: the callers keep to the block's size.
        let byte = unsafe { self.start.add(offset) };
        // SAFETY: the byte is in the live block, which nobody else touches.
        let value = unsafe { byte.read_volatile() };
        // SAFETY: as above.
        unsafe { byte.write_volatile(value.wrapping_add(1)) };
    }

    /// Writes the word at `offset`, a multiple of 8.
    #[inline(always)]
    pub(crate) fn write_word(&mut self, offset: usize) {
        debug_assert!(offset + size_of::<u64>() <= self.size);
        // SAFETY: the callers keep to the block's size.
        let word = unsafe { self.start.add(offset) }.cast::<u64>();
        // SAFETY: the word is in the live block, which nobody else touches, and aligned as the block is.
        unsafe { word.write_volatile(offset as u64) };
    }

    pub(crate) fn address(&self) -> usize {
        self.start.addr()
    }

    /// Turns the block, of at least a word, into a bare pointer.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> *mut u8 {
        // SAFETY: the block has room for a word and is aligned for it.
        unsafe { self.start.cast::<usize>().write(self.size) };
        self.start
    }

    /// The block again.
    ///
    /// # Safety
    /// `start` is from [`Block::into_raw`], and this is the only use of it.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(start: *mut u8) -> Block {
        // SAFETY: `into_raw` left the size in the first word.
        let size = unsafe { start.cast::<usize>().read() };
        Block { start, size }
    }
}
