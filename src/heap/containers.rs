//! Conveniences on the handle: containers made in the heap.
//!
//! *Concurrency*: as the containers'.
//!
//! *Neighbours*: stands on the faces and `collections`.

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;

use super::{Heap, HeapString};

impl Heap {
    /// Returns an empty vector in the heap; it allocates nothing yet.
    ///
    /// # Examples
    /// ```
    /// let heap = polyheap::Heap::new();
    /// let mut list = heap.vec();
    /// list.push(1);
    /// assert_eq!(list, [1]);
    /// ```
    pub fn vec<T>(&self) -> Vec<T, &Heap> {
        Vec::new_in(self)
    }

    /// Returns a vector of `items` in the heap.
    ///
    /// # Panics
    /// When there is no memory, as the vector's own methods do.
    ///
    /// # Examples
    /// ```
    /// let heap = polyheap::Heap::new();
    /// assert_eq!(heap.vec_from([1, 2, 3]).len(), 3);
    /// ```
    pub fn vec_from<T, const N: usize>(&self, items: [T; N]) -> Vec<T, &Heap> {
        let mut list = Vec::with_capacity_in(N, self);
        list.extend(items);
        list
    }

    /// Returns `value` in a box of the heap.
    ///
    /// # Panics
    /// When there is no memory, as the box's own constructors do.
    ///
    /// # Examples
    /// ```
    /// let heap = polyheap::Heap::new();
    /// assert_eq!(*heap.boxed("text"), "text");
    /// ```
    pub fn boxed<T>(&self, value: T) -> Box<T, &Heap> {
        Box::new_in(value, self)
    }

    /// Returns an empty string in the heap; it allocates nothing yet.
    ///
    /// # Examples
    /// ```
    /// let heap = polyheap::Heap::new();
    /// let mut name = heap.string();
    /// name.push_str("net");
    /// assert_eq!(&*name, "net");
    /// ```
    pub fn string(&self) -> HeapString<&Heap> {
        HeapString::new_in(self)
    }
}
