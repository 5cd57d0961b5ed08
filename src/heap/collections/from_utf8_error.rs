//! The error that gives refused bytes back.
//!
//! *Invariants held here*: none.
//!
//! *Concurrency*: a plain value.
//!
//! *Neighbours*: made by `string`.

use core::error::Error;
use core::fmt;
use core::str::Utf8Error;

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// The answer of [`HeapString::from_utf8`](super::HeapString::from_utf8) to bytes that are not
/// UTF-8. Holds the bytes.
///
/// # Examples
///
/// ```
/// use polyheap::{Heap, HeapString};
///
/// let heap = Heap::new();
/// let refused = HeapString::from_utf8(heap.vec_from([0xC3])).unwrap_err();
/// assert_eq!(refused.as_bytes(), [0xC3]);
/// assert!(refused.to_string().contains("incomplete"));
/// ```
pub struct FromUtf8Error<A: Allocator> {
    bytes: Vec<u8, A>,
    error: Utf8Error,
}

impl<A: Allocator> FromUtf8Error<A> {
    pub(super) fn of(bytes: Vec<u8, A>, error: Utf8Error) -> Self {
        Self { bytes, error }
    }

    /// Returns the refused bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the refused bytes, which keep their block.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8, A> {
        self.bytes
    }

    /// Returns where the bytes stop being UTF-8.
    #[must_use]
    pub fn utf8_error(&self) -> Utf8Error {
        self.error
    }
}

impl<A: Allocator> fmt::Debug for FromUtf8Error<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromUtf8Error")
            .field("bytes", &self.as_bytes())
            .field("error", &self.error)
            .finish()
    }
}

impl<A: Allocator> fmt::Display for FromUtf8Error<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<A: Allocator> Error for FromUtf8Error<A> {}
