//! A list that grows at the cursor: what slices, iterators and text are collected in.
//!
//! While it is the last block it grows in place; when the caller's code has allocated behind it, it
//! moves. Dropped unfinished, by a failing or panicking closure, it drops its items and gives its
//! memory back.
//!
//! *Concurrency*: as its arena's.
//!
//! *Neighbours*: stands on `resize`; `values` uses it.

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::slice;

use polyheap::allocator_api2::alloc::AllocError;

use crate::arena::Arena;
use crate::config::LIST_ITEMS_FIRST;

/// Items collected so far.
#[derive(Debug)]
pub(crate) struct List<'a, T> {
    arena: &'a Arena<'a>,
    start: NonNull<T>,
    /// Items there are, all of them initialised.
    len: usize,
    /// Items there is room for.
    capacity: usize,
}

impl<'a, T> List<'a, T> {
    /// Returns an empty list without memory.
    #[inline]
    pub(crate) fn new(arena: &'a Arena<'a>) -> List<'a, T> {
        let capacity = if size_of::<T>() == 0 { usize::MAX } else { 0 };
        List { arena, start: NonNull::dangling(), len: 0, capacity }
    }

    /// Returns an empty list with room for `capacity` items.
    #[inline]
    pub(crate) fn with_capacity(
        arena: &'a Arena<'a>,
        capacity: usize,
    ) -> Result<List<'a, T>, AllocError> {
        let mut list = List::new(arena);
        if size_of::<T>() != 0 {
            list.start = arena.take(Layout::array::<T>(capacity).or(Err(AllocError))?)?.cast();
            list.capacity = capacity;
        }
        Ok(list)
    }

    /// Adds an item.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), AllocError> {
        if self.len == self.capacity {
            self.grow(1)?;
        }
        // SAFETY: (1) there is room now.
        unsafe { self.push_within(item) };
        Ok(())
    }

    /// Adds an item for which there is room.
    ///
    /// # Safety
    /// 1. The list has fewer items than it has room for.
    #[inline(always)]
    pub(crate) unsafe fn push_within(&mut self, item: T) {
        // SAFETY: (1).
        let place = unsafe { self.start.add(self.len) };
        // SAFETY: (1), not initialised yet.
        unsafe { place.write(item) };
        self.len += 1;
    }

    /// Makes room for at least `more` items.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> Result<(), AllocError> {
        let least = self.len.checked_add(more).ok_or(AllocError)?;
        let capacity = least.max(self.capacity.saturating_mul(2)).max(LIST_ITEMS_FIRST);
        let to = Layout::array::<T>(capacity).or(Err(AllocError))?;
        let block = self.start.cast();
        // SAFETY: `start` is a block of `capacity` items, or there is none and it counts as one of
        // no bytes, which is nowhere last; the new size is larger.
        let grown = unsafe { self.arena.grow(block, self.layout(), to) }?;
        self.start = grown.cast();
        self.capacity = capacity;
        Ok(())
    }

    /// Returns the items, and gives back the room behind them if it is the last block.
    #[inline]
    pub(crate) fn finish(self) -> &'a mut [T] {
        let mut this = ManuallyDrop::new(self);
        if this.len < this.capacity {
            this.trim();
        }
        // SAFETY: `len` items are initialised, and the block is the list's, which is given up.
        unsafe { slice::from_raw_parts_mut(this.start.as_ptr(), this.len) }
    }

    fn trim(&mut self) {
        let from = self.layout();
        if let Ok(to) = Layout::array::<T>(self.len)
            && from.size() != 0
        {
            // SAFETY: `start` is a block of `from`; the new size is not larger.
            if let Ok(kept) = unsafe { self.arena.shrink(self.start.cast(), from, to) } {
                self.start = kept.cast();
            }
        }
    }

    fn layout(&self) -> Layout {
        let bytes = if size_of::<T>() == 0 { 0 } else { self.capacity * size_of::<T>() };
        // SAFETY: the block was taken with a layout of this size, or the size is zero.
        unsafe { Layout::from_size_align_unchecked(bytes, align_of::<T>()) }
    }
}

impl<T> Drop for List<'_, T> {
    fn drop(&mut self) {
        let items = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        let (arena, block, layout) = (self.arena, self.start.cast(), self.layout());
        let _freed_last = Unwound(|| {
            // SAFETY: `start` is a block of this layout, or there is none of no bytes; its items
            // are dropped.
            unsafe { arena.free(block, layout) };
        });
        // SAFETY: `len` items are initialised and not used again.
        unsafe { ptr::drop_in_place(items) };
    }
}

/// Calls a closure when it is dropped.
struct Unwound<F: FnMut()>(F);

impl<F: FnMut()> Drop for Unwound<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl fmt::Write for List<'_, u8> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.capacity - self.len < text.len() {
            self.grow(text.len()).or(Err(fmt::Error))?;
        }
        // SAFETY: there is room for more than `len` bytes.
        let place = unsafe { self.start.add(self.len) };
        let bytes = NonNull::from(text.as_bytes()).cast::<u8>();
        // SAFETY: as many bytes as there is room for; the text is elsewhere, as nobody else has
        // the room.
        unsafe { place.copy_from_nonoverlapping(bytes, text.len()) };
        self.len += text.len();
        Ok(())
    }
}
