//! Containers that std and allocator-api2 lack on a stable compiler.
//!
//! allocator-api2 brings `Vec` and `Box`, hashbrown brings maps and sets. What is missing is a
//! string that takes an allocator and a `collect` that takes one. Both live here, generic over any
//! [`Allocator`], so they serve a `&Heap`, an owning handle, and every other allocator alike.
//!
//! | file | holds |
//! |---|---|
//! | `string`, `string_compare` | [`HeapString`], a growable UTF-8 string |
//! | `from_utf8_error` | [`FromUtf8Error`], which gives refused bytes back |
//! | `collect` | [`CollectIn`] for iterators, [`FromIteratorIn`] for containers |
//!
//! *Invariants held here*: `[string-is-utf8]`.
//!
//! *Concurrency*: plain owned values; they are `Send` and `Sync` where their allocator is.
//!
//! *Neighbours*: stand on allocator-api2 alone and know nothing of a heap's inside; `Heap::string`
//! makes one.
//!
//! [`Allocator`]: allocator_api2::alloc::Allocator

mod collect;
mod from_utf8_error;
mod string;
mod string_compare;

pub use collect::{CollectIn, FromIteratorIn};
pub use from_utf8_error::FromUtf8Error;
pub use string::HeapString;

#[cfg(test)]
mod tests;
