//! A [`HeapString`] stands in for its text: equality, order, hash, and views as `str` and bytes.
//!
//! All of them are those of `str`, whatever the allocator, so that a map keyed by strings of one
//! heap can be searched with a `&str` or a string of another. `Borrow<str>` demands exactly that
//! agreement; keep the six together.
//!
//! *Invariants held here*: none of its own; reads through `as_str`.
//!
//! *Concurrency*: plain values; nothing is shared.
//!
//! *Neighbours*: `string` beside this file.

use core::borrow::{Borrow, BorrowMut};
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

use super::string::HeapString;

impl<A: Allocator> Hash for HeapString<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl<A: Allocator> Eq for HeapString<A> {}

impl<A: Allocator, B: Allocator> PartialEq<HeapString<B>> for HeapString<A> {
    fn eq(&self, other: &HeapString<B>) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<A: Allocator> PartialEq<str> for HeapString<A> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl<A: Allocator> PartialEq<&str> for HeapString<A> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl<A: Allocator> PartialEq<HeapString<A>> for str {
    fn eq(&self, other: &HeapString<A>) -> bool {
        self == other.as_str()
    }
}

impl<A: Allocator> PartialEq<HeapString<A>> for &str {
    fn eq(&self, other: &HeapString<A>) -> bool {
        *self == other.as_str()
    }
}

impl<A: Allocator> Ord for HeapString<A> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl<A: Allocator, B: Allocator> PartialOrd<HeapString<B>> for HeapString<A> {
    fn partial_cmp(&self, other: &HeapString<B>) -> Option<Ordering> {
        self.as_str().partial_cmp(other.as_str())
    }
}

impl<A: Allocator> Borrow<str> for HeapString<A> {
    fn borrow(&self) -> &str {
        self
    }
}

impl<A: Allocator> BorrowMut<str> for HeapString<A> {
    fn borrow_mut(&mut self) -> &mut str {
        self
    }
}

impl<A: Allocator> AsRef<str> for HeapString<A> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl<A: Allocator> AsRef<[u8]> for HeapString<A> {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl<A: Allocator> From<HeapString<A>> for Vec<u8, A> {
    fn from(text: HeapString<A>) -> Self {
        text.into_bytes()
    }
}
