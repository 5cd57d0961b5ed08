//! The allocation methods that `Region` and `Scope` have alike.
//!
//! A region's values borrow the region; a scope's live as long as the scope, whether or not the
//! reference to it is still borrowed. That is the only difference, so one macro writes both.
//!
//! *Concurrency*: none shared.
//!
//! *Neighbours*: forwards to `values`; `region` and `scope` expand it.

/// Writes the methods into an `impl` block: `[<lifetime>]` of the receiver's borrow if it has a
/// name, and the values' lifetime.
macro_rules! allocation_methods {
    ([$($borrow:lifetime)?] $life:lifetime) => {
        /// Moves `value` into the region. It is not dropped; see [`alloc_box`](Self::alloc_box).
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline(always)]
        pub fn alloc<$($borrow,)? T>(&$($borrow)? self, value: T) -> &$life mut T {
            or_panic(self.arena().try_alloc_with(|| value))
        }

        /// Moves `value` into the region, as [`alloc`](Self::alloc) does.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached; the value is dropped.
        #[inline(always)]
        pub fn try_alloc<$($borrow,)? T>(
            &$($borrow)? self,
            value: T,
        ) -> Result<&$life mut T, AllocError> {
            self.arena().try_alloc_with(|| value)
        }

        /// Makes a value in the region.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline(always)]
        pub fn alloc_with<$($borrow,)? T>(
            &$($borrow)? self,
            make: impl FnOnce() -> T,
        ) -> &$life mut T {
            or_panic(self.arena().try_alloc_with(make))
        }

        /// Makes a value in the region.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached; `make` is not called.
        #[inline(always)]
        pub fn try_alloc_with<$($borrow,)? T>(
            &$($borrow)? self,
            make: impl FnOnce() -> T,
        ) -> Result<&$life mut T, AllocError> {
            self.arena().try_alloc_with(make)
        }

        /// Makes a value in the region with a closure that may fail.
        ///
        /// # Errors
        /// The closure's. Its value's room is given back unless the closure allocated behind it.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline(always)]
        pub fn alloc_try_with<$($borrow,)? T, E>(
            &$($borrow)? self,
            make: impl FnOnce() -> Result<T, E>,
        ) -> Result<&$life mut T, E> {
            init_or_panic(self.arena().try_alloc_try_with(make))
        }

        /// Makes a value in the region with a closure that may fail.
        ///
        /// # Errors
        /// The closure's, or that there is no memory or the limit is reached.
        #[inline(always)]
        pub fn try_alloc_try_with<$($borrow,)? T, E>(
            &$($borrow)? self,
            make: impl FnOnce() -> Result<T, E>,
        ) -> Result<&$life mut T, AllocOrInitError<E>> {
            self.arena().try_alloc_try_with(make)
        }

        /// Moves `value` into the region, to be dropped with the box.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn alloc_box<$($borrow,)? T>(&$($borrow)? self, value: T) -> RegionBox<$life, T> {
            or_panic(self.arena().try_alloc_box(value))
        }

        /// Moves `value` into the region, to be dropped with the box.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached; the value is dropped.
        #[inline]
        pub fn try_alloc_box<$($borrow,)? T>(
            &$($borrow)? self,
            value: T,
        ) -> Result<RegionBox<$life, T>, AllocError> {
            self.arena().try_alloc_box(value)
        }

        /// Copies a slice into the region.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn alloc_slice_copy<$($borrow,)? T: Copy>(
            &$($borrow)? self,
            items: &[T],
        ) -> &$life mut [T] {
            or_panic(self.arena().try_alloc_slice_copy(items))
        }

        /// Copies a slice into the region.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn try_alloc_slice_copy<$($borrow,)? T: Copy>(
            &$($borrow)? self,
            items: &[T],
        ) -> Result<&$life mut [T], AllocError> {
            self.arena().try_alloc_slice_copy(items)
        }

        /// Clones a slice into the region.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached. If a clone panics, those made are
        /// dropped.
        #[inline]
        pub fn alloc_slice_clone<$($borrow,)? T: Clone>(
            &$($borrow)? self,
            items: &[T],
        ) -> &$life mut [T] {
            or_panic(self.arena().try_alloc_slice_clone(items))
        }

        /// Clones a slice into the region.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn try_alloc_slice_clone<$($borrow,)? T: Clone>(
            &$($borrow)? self,
            items: &[T],
        ) -> Result<&$life mut [T], AllocError> {
            self.arena().try_alloc_slice_clone(items)
        }

        /// Makes a slice of `len` items in the region, each from its place.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached. If the closure panics, the items made
        /// are dropped.
        #[inline]
        pub fn alloc_slice_fill_with<$($borrow,)? T>(
            &$($borrow)? self,
            len: usize,
            make: impl FnMut(usize) -> T,
        ) -> &$life mut [T] {
            or_panic(self.arena().try_alloc_slice_fill_with(len, make))
        }

        /// Makes a slice of `len` items in the region, each from its place.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn try_alloc_slice_fill_with<$($borrow,)? T>(
            &$($borrow)? self,
            len: usize,
            make: impl FnMut(usize) -> T,
        ) -> Result<&$life mut [T], AllocError> {
            self.arena().try_alloc_slice_fill_with(len, make)
        }

        /// Makes a slice of `len` items in the region with a closure that may fail.
        ///
        /// # Errors
        /// The closure's first. The items made are dropped and their room is given back unless the
        /// closure allocated behind it.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn alloc_slice_try_fill_with<$($borrow,)? T, E>(
            &$($borrow)? self,
            len: usize,
            make: impl FnMut(usize) -> Result<T, E>,
        ) -> Result<&$life mut [T], E> {
            init_or_panic(self.arena().try_alloc_slice_try_fill_with(len, make))
        }

        /// Makes a slice of `len` items in the region with a closure that may fail.
        ///
        /// # Errors
        /// The closure's first, or that there is no memory or the limit is reached.
        #[inline]
        pub fn try_alloc_slice_try_fill_with<$($borrow,)? T, E>(
            &$($borrow)? self,
            len: usize,
            make: impl FnMut(usize) -> Result<T, E>,
        ) -> Result<&$life mut [T], AllocOrInitError<E>> {
            self.arena().try_alloc_slice_try_fill_with(len, make)
        }

        /// Collects an iterator into the region.
        ///
        /// Its size hint is only a hint. The slice grows in place as long as the iterator itself
        /// does not allocate in the region.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached. If the iterator panics, the items
        /// collected are dropped.
        #[inline]
        pub fn alloc_slice_from_iter<$($borrow,)? T>(
            &$($borrow)? self,
            items: impl IntoIterator<Item = T>,
        ) -> &$life mut [T] {
            or_panic(self.arena().try_alloc_slice_from_iter(items))
        }

        /// Collects an iterator into the region.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached; the items collected are dropped.
        #[inline]
        pub fn try_alloc_slice_from_iter<$($borrow,)? T>(
            &$($borrow)? self,
            items: impl IntoIterator<Item = T>,
        ) -> Result<&$life mut [T], AllocError> {
            self.arena().try_alloc_slice_from_iter(items)
        }

        /// Copies text into the region.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn alloc_str<$($borrow)?>(&$($borrow)? self, text: &str) -> &$life mut str {
            or_panic(self.arena().try_alloc_str(text))
        }

        /// Copies text into the region.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached.
        #[inline]
        pub fn try_alloc_str<$($borrow)?>(
            &$($borrow)? self,
            text: &str,
        ) -> Result<&$life mut str, AllocError> {
            self.arena().try_alloc_str(text)
        }

        /// Formats into the region: `r.alloc_fmt(format_args!("{name}: {count}"))`.
        ///
        /// # Panics
        /// When there is no memory, the limit is reached, or a `Display` fails.
        pub fn alloc_fmt<$($borrow)?>(
            &$($borrow)? self,
            text: fmt::Arguments<'_>,
        ) -> &$life mut str {
            or_panic(self.arena().try_alloc_fmt(text))
        }

        /// Formats into the region.
        ///
        /// # Errors
        /// When there is no memory, the limit is reached, or a `Display` fails.
        pub fn try_alloc_fmt<$($borrow)?>(
            &$($borrow)? self,
            text: fmt::Arguments<'_>,
        ) -> Result<&$life mut str, AllocError> {
            self.arena().try_alloc_fmt(text)
        }

        /// Takes memory of `layout`, uninitialised, for as long as a value would live.
        ///
        /// # Panics
        /// When there is no memory or the limit is reached.
        #[inline(always)]
        pub fn alloc_layout(&self, layout: Layout) -> NonNull<u8> {
            or_panic(self.arena().try_alloc_layout(layout))
        }

        /// Takes memory of `layout`, uninitialised, for as long as a value would live.
        ///
        /// # Errors
        /// When there is no memory or the limit is reached.
        #[inline(always)]
        pub fn try_alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
            self.arena().try_alloc_layout(layout)
        }

        /// Returns what the region holds, all of its scopes counted.
        ///
        /// # Cost
        /// O(chunks + large blocks).
        pub fn stats(&self) -> RegionStats {
            RegionStats::of(self.arena())
        }

        /// Returns the heap the memory comes from.
        pub fn heap<$($borrow)?>(&$($borrow)? self) -> &$life Heap {
            self.arena().heap
        }
    };
}

pub(crate) use allocation_methods;
