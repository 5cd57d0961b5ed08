//! `collect` with a place to put the result.
//!
//! std's `collect` finds its allocator by `Default`, which a heap cannot offer: there is no default
//! heap. So [`CollectIn::collect_in`] takes the allocator as an argument, and a container says how
//! it is filled by implementing [`FromIteratorIn`]. The allocator is an associated type of the
//! container, not a second parameter: that is what lets a caller write `collect_in::<Vec<_,
//! _>>(&heap)` and leave both holes to inference.
//!
//! *Invariants held here*: none.
//!
//! *Concurrency*: plain values; nothing is shared.
//!
//! *Neighbours*: allocator-api2's `Vec` and `Box`, and `string` beside this file.

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use super::string::HeapString;

/// An iterator that can be collected into a given allocator. Implemented for all iterators.
///
/// # Examples
///
/// ```
/// use allocator_api2::vec::Vec;
/// use polyheap::{CollectIn, Heap};
///
/// let heap = Heap::new();
/// let squares = (1..=4).map(|n| n * n).collect_in::<Vec<_, _>>(&heap);
/// assert_eq!(squares, [1, 4, 9, 16]);
/// ```
pub trait CollectIn: Iterator {
    /// Collects the items into a container whose memory comes from `alloc`.
    ///
    /// # Cost
    ///
    /// Allocates as the container's `extend` does: a lower size bound is reserved at once, the rest
    /// doubles.
    fn collect_in<C>(self, alloc: C::Alloc) -> C
    where
        C: FromIteratorIn<Self::Item>,
        Self: Sized,
    {
        C::from_iter_in(self, alloc)
    }
}

impl<I: Iterator + ?Sized> CollectIn for I {}

/// A container that can be filled from items of type `T` in a given allocator.
///
/// Here for `Vec<T, A>`, `Box<[T], A>`, `HeapString<A>` (of `char`, `&char` and `&str`), and for
/// `Option` and `Result` of any of them, which stop at the first `None` or `Err` as in std.
///
/// # Examples
///
/// ```
/// use polyheap::{CollectIn, Heap, HeapString};
///
/// let heap = Heap::new();
/// let shout = "quiet".chars().flat_map(char::to_uppercase).collect_in::<HeapString<_>>(&heap);
/// assert_eq!(shout, "QUIET");
/// ```
pub trait FromIteratorIn<T>: Sized {
    /// The allocator of the container.
    type Alloc: Allocator;

    /// Returns a container in `alloc` with all of `items`, in order.
    fn from_iter_in<I: IntoIterator<Item = T>>(items: I, alloc: Self::Alloc) -> Self;
}

impl<T, A: Allocator> FromIteratorIn<T> for Vec<T, A> {
    type Alloc = A;

    fn from_iter_in<I: IntoIterator<Item = T>>(items: I, alloc: A) -> Self {
        let mut all = Vec::new_in(alloc);
        all.extend(items);
        all
    }
}

impl<T, A: Allocator> FromIteratorIn<T> for Box<[T], A> {
    type Alloc = A;

    fn from_iter_in<I: IntoIterator<Item = T>>(items: I, alloc: A) -> Self {
        Vec::from_iter_in(items, alloc).into_boxed_slice()
    }
}

impl<A: Allocator> FromIteratorIn<char> for HeapString<A> {
    type Alloc = A;

    fn from_iter_in<I: IntoIterator<Item = char>>(items: I, alloc: A) -> Self {
        let mut text = HeapString::new_in(alloc);
        text.extend(items);
        text
    }
}

impl<'t, A: Allocator> FromIteratorIn<&'t char> for HeapString<A> {
    type Alloc = A;

    fn from_iter_in<I: IntoIterator<Item = &'t char>>(items: I, alloc: A) -> Self {
        Self::from_iter_in(items.into_iter().copied(), alloc)
    }
}

impl<'t, A: Allocator> FromIteratorIn<&'t str> for HeapString<A> {
    type Alloc = A;

    fn from_iter_in<I: IntoIterator<Item = &'t str>>(items: I, alloc: A) -> Self {
        let mut text = HeapString::new_in(alloc);
        text.extend(items);
        text
    }
}

impl<T, C: FromIteratorIn<T>> FromIteratorIn<Option<T>> for Option<C> {
    type Alloc = C::Alloc;

    fn from_iter_in<I: IntoIterator<Item = Option<T>>>(items: I, alloc: C::Alloc) -> Self {
        let with_reason = items.into_iter().map(|item| item.ok_or(()));
        Result::<C, ()>::from_iter_in(with_reason, alloc).ok()
    }
}

impl<T, E, C: FromIteratorIn<T>> FromIteratorIn<Result<T, E>> for Result<C, E> {
    type Alloc = C::Alloc;

    fn from_iter_in<I: IntoIterator<Item = Result<T, E>>>(items: I, alloc: C::Alloc) -> Self {
        let mut failure = None;
        let good =
            items.into_iter().map_while(|item| item.map_err(|error| failure = Some(error)).ok());
        let all = C::from_iter_in(good, alloc);
        failure.map_or(Ok(all), Err)
    }
}
