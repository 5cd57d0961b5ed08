//! Values, slices and text in an arena. The `try_` forms only; `methods` adds the others.
//!
//! Room is taken first, then the caller's code runs, then the value is written. What the code does
//! meanwhile, allocating, failing or panicking, finds a consistent arena. When a fallible closure
//! fails and nothing lies behind the room, it is given back.
//!
//! *Concurrency*: as its arena's.
//!
//! *Neighbours*: stands on `arena` and `list`; `methods` forwards to it.

#![expect(clippy::mut_from_ref, reason = "each call returns memory of its own")]

use core::alloc::Layout;
use core::fmt::{self, Write};
use core::ptr::NonNull;
use core::slice;

use polyheap::allocator_api2::alloc::AllocError;

use crate::arena::Arena;
use crate::boxed::RegionBox;
use crate::error::AllocOrInitError;
use crate::list::List;

impl<'a> Arena<'a> {
    // Inlined always, as is what it stands on: benchmark `regions`.
    #[inline(always)]
    pub(crate) fn try_alloc_with<T>(
        &'a self,
        make: impl FnOnce() -> T,
    ) -> Result<&'a mut T, AllocError> {
        let place = self.take_value::<T>()?;
        // SAFETY: taken with the type's layout, and nobody else's.
        unsafe { place.write(make()) };
        // SAFETY: just written.
        Ok(unsafe { &mut *place.as_ptr() })
    }

    #[inline(always)]
    pub(crate) fn try_alloc_try_with<T, E>(
        &'a self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&'a mut T, AllocOrInitError<E>> {
        let place = self.take_value::<T>()?;
        match make() {
            Ok(value) => {
                // SAFETY: taken with the type's layout, and nobody else's.
                unsafe { place.write(value) };
                // SAFETY: just written.
                Ok(unsafe { &mut *place.as_ptr() })
            }
            Err(error) => {
                // SAFETY: taken with this layout, and nothing was written.
                unsafe { self.free(place.cast(), Layout::new::<T>()) };
                Err(AllocOrInitError::Init(error))
            }
        }
    }

    #[inline]
    pub(crate) fn try_alloc_box<T>(&'a self, value: T) -> Result<RegionBox<'a, T>, AllocError> {
        Ok(RegionBox::from_mut(self.try_alloc_with(|| value)?))
    }

    #[inline]
    pub(crate) fn try_alloc_slice_copy<T: Copy>(
        &'a self,
        items: &[T],
    ) -> Result<&'a mut [T], AllocError> {
        let start = self.take(Layout::for_value(items))?.cast::<T>();
        let from = NonNull::from(items).cast::<T>();
        // SAFETY: both are as long as the slice; one is new.
        unsafe { start.copy_from_nonoverlapping(from, items.len()) };
        // SAFETY: just written, and nobody else's.
        Ok(unsafe { slice::from_raw_parts_mut(start.as_ptr(), items.len()) })
    }

    #[inline]
    pub(crate) fn try_alloc_slice_clone<T: Clone>(
        &'a self,
        items: &[T],
    ) -> Result<&'a mut [T], AllocError> {
        self.try_alloc_slice_fill_with(items.len(), |place| items[place].clone())
    }

    #[inline]
    pub(crate) fn try_alloc_slice_fill_with<T>(
        &'a self,
        len: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<&'a mut [T], AllocError> {
        let mut list = List::with_capacity(self, len)?;
        for place in 0..len {
            // SAFETY: the list has room for `len` items.
            unsafe { list.push_within(make(place)) };
        }
        Ok(list.finish())
    }

    #[inline]
    pub(crate) fn try_alloc_slice_try_fill_with<T, E>(
        &'a self,
        len: usize,
        mut make: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<&'a mut [T], AllocOrInitError<E>> {
        let mut list = List::with_capacity(self, len)?;
        for place in 0..len {
            let item = make(place).map_err(AllocOrInitError::Init)?;
            // SAFETY: the list has room for `len` items.
            unsafe { list.push_within(item) };
        }
        Ok(list.finish())
    }

    #[inline]
    pub(crate) fn try_alloc_slice_from_iter<T>(
        &'a self,
        items: impl IntoIterator<Item = T>,
    ) -> Result<&'a mut [T], AllocError> {
        let items = items.into_iter();
        // A hint that cannot be met may be a lie, so it is no reason to fail.
        let hinted = List::with_capacity(self, items.size_hint().0);
        let mut list = hinted.unwrap_or_else(|AllocError| List::new(self));
        for item in items {
            list.push(item)?;
        }
        Ok(list.finish())
    }

    #[inline]
    pub(crate) fn try_alloc_str(&'a self, text: &str) -> Result<&'a mut str, AllocError> {
        let bytes = self.try_alloc_slice_copy(text.as_bytes())?;
        // SAFETY: a copy of valid text.
        Ok(unsafe { str::from_utf8_unchecked_mut(bytes) })
    }

    pub(crate) fn try_alloc_fmt(
        &'a self,
        text: fmt::Arguments<'_>,
    ) -> Result<&'a mut str, AllocError> {
        let mut list = List::new(self);
        list.write_fmt(text).or(Err(AllocError))?;
        // SAFETY: whole pieces of valid text, one behind the other.
        Ok(unsafe { str::from_utf8_unchecked_mut(list.finish()) })
    }

    #[inline(always)]
    pub(crate) fn try_alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.take(layout)
    }
}
