//! A subject as an `allocator_api2` allocator, for the workloads made of ordinary collections.

use crate::subject::Subject;
use allocator_api2::alloc::{AllocError, Allocator};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Subject as an allocator for collections.
#[derive(Debug)]
pub(crate) struct Via<'a, S>(pub(crate) &'a S);

impl<S> Clone for Via<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Via<'_, S> {}

impl<S: Subject> Via<'_, S> {
    #[inline(always)]
    unsafe fn resize(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new);
        }
        if new.size() == 0 || old.align() != new.align() {
            return self.move_block(start, old, new);
        }
        // SAFETY: the caller gives a live block of the subject's with its layout, and neither size is zero.
        let resized = unsafe { self.0.realloc(start.as_ptr(), old, new.size()) };
        slice(resized, new)
    }

    #[cold]
    fn move_block(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let target = self.allocate(new)?;
        // SAFETY: both blocks are live, distinct, and at least this long.
        unsafe { start.copy_to_nonoverlapping(target.cast(), old.size().min(new.size())) };
        // SAFETY: the block is live and of this layout, and not used again.
        unsafe { self.deallocate(start, old) };
        Ok(target)
    }
}

// SAFETY: a subject is an allocator; zero-sized requests never reach it. Copies share it.
unsafe impl<S: Subject> Allocator for Via<'_, S> {
    #[inline(always)]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let dangling = std::ptr::without_provenance_mut(layout.align());
            return slice(dangling, layout);
        }
        // SAFETY: the size is not zero.
        slice(unsafe { self.0.alloc(layout) }, layout)
    }

    #[inline(always)]
    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise is the callee's.
            unsafe { self.0.dealloc(start.as_ptr(), layout) }
        }
    }

    #[inline(always)]
    unsafe fn grow(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.resize(start, old, new) }
    }

    #[inline(always)]
    unsafe fn shrink(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.resize(start, old, new) }
    }
}

#[inline(always)]
fn slice(start: *mut u8, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    let start = NonNull::new(start).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(start, layout.size()))
}
