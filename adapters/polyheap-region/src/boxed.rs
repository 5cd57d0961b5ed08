//! An owner of a value in a region, which drops it.
//!
//! *Concurrency*: as the value's: the box is a unique reference.
//!
//! *Neighbours*: stands on nothing; `values` makes them.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A value in a region that is dropped with this box. Its memory stays the region's.
///
/// Plain values, those of [`alloc`](crate::Region::alloc), are never dropped.
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// let heap = Heap::new();
/// polyheap_region::scope(&heap, |r| {
///     let list = r.alloc_box(vec![1, 2, 3]); // the vector's own memory lies elsewhere
///     assert_eq!(list.len(), 3);
/// }); // and is freed here
/// ```
pub struct RegionBox<'a, T: ?Sized>(&'a mut ManuallyDrop<T>);

impl<'a, T> RegionBox<'a, T> {
    /// Returns the value. Its place in the region is not used again before the scope ends.
    #[inline]
    pub fn into_inner(boxed: Self) -> T {
        let value = RegionBox::into_raw(boxed);
        // SAFETY: the box owned the value and is gone.
        unsafe { value.read() }
    }

    /// Returns the box of a value that is in the region for good.
    #[inline]
    pub(crate) fn from_mut(value: &'a mut T) -> Self {
        // SAFETY: whoever has the unique reference may give the value away: it came from an
        // `alloc`, whose values are dropped by nobody.
        unsafe { RegionBox::from_raw(NonNull::from(value)) }
    }
}

impl<'a, T: ?Sized> RegionBox<'a, T> {
    /// Returns the value as a plain one, which is not dropped.
    #[inline]
    pub fn leak(boxed: Self) -> &'a mut T {
        let mut value = RegionBox::into_raw(boxed);
        // SAFETY: the box had the unique reference for `'a`.
        unsafe { value.as_mut() }
    }

    /// Returns the value's address; nothing is dropped.
    ///
    /// # Examples
    /// ```
    /// use core::ptr::NonNull;
    /// use polyheap::Heap;
    /// use polyheap_region::{Region, RegionBox};
    ///
    /// let heap = Heap::new();
    /// let region = Region::new_in(&heap);
    /// // A box of a trait object.
    /// let value: NonNull<i32> = RegionBox::into_raw(region.alloc_box(7));
    /// let value: NonNull<dyn std::fmt::Debug> = value;
    /// // SAFETY: from `into_raw`, once; the region is borrowed below.
    /// let value: RegionBox<'_, dyn std::fmt::Debug> = unsafe { RegionBox::from_raw(value) };
    /// assert_eq!(format!("{value:?}"), "7");
    /// # drop(value);
    /// # drop(region);
    /// ```
    #[inline]
    pub fn into_raw(boxed: Self) -> NonNull<T> {
        let mut boxed = ManuallyDrop::new(boxed);
        NonNull::from(&mut **boxed.0)
    }

    /// Returns a box that owns the value at `value`.
    ///
    /// # Safety
    /// 1. `value` came from [`into_raw`](RegionBox::into_raw), possibly unsized since, or leads to
    ///    a value that lives in a region for `'a`.
    /// 2. Nobody else uses or drops it.
    #[inline]
    pub unsafe fn from_raw(value: NonNull<T>) -> Self {
        let value = value.as_ptr() as *mut ManuallyDrop<T>;
        // SAFETY: (1) live for `'a`, (2) unique; the wrapper has the value's layout.
        RegionBox(unsafe { &mut *value })
    }
}

impl<T: ?Sized> Drop for RegionBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the box owns the value and is not used again.
        unsafe { ManuallyDrop::drop(self.0) };
    }
}

impl<T: ?Sized> Deref for RegionBox<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: ?Sized> DerefMut for RegionBox<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RegionBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RegionBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + PartialEq> PartialEq for RegionBox<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
