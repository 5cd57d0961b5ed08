//! A growable UTF-8 string in memory of the caller's choosing.
//!
//! std's `String` takes no allocator on a stable compiler. A [`HeapString`] is the same thing over
//! allocator-api2's `Vec<u8, A>`: a pointer, a length and a capacity, and the allocator beside
//! them. It borrows its vocabulary from std, so that code moves over by changing the constructor,
//! and everything `&str` can do comes through `Deref`.
//!
//! *Invariants held here*: `[string-is-utf8]`. Every change goes through whole `char`s or whole
//! `&str`s; only `as_str` and its mutable twin show the bytes unchecked. Positions are checked by
//! slicing the `str` itself, which panics in std's words at a wrong one.
//!
//! *Concurrency*: a plain value. `Send` and `Sync` where `A` is.
//!
//! *Neighbours*: allocator-api2 below; `string_compare` makes it stand in for its text in maps and
//! comparisons; `from_utf8_error` is what refused bytes come back in; `collect` fills strings from
//! iterators.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::str;

use allocator_api2::alloc::Allocator;
use allocator_api2::collections::TryReserveError;
use allocator_api2::vec::Vec;

use super::from_utf8_error::FromUtf8Error;

/// A growable UTF-8 string whose bytes lie in the allocator `A`.
///
/// Dereferences to [`str`](prim@str), so every method of `&str` works. Equality, order and hash are
/// those of the text, whatever the allocator: a map keyed by `HeapString` is searched by `&str`.
///
/// # Panics
///
/// Methods without `try_` treat a refusal of the allocator as std's `String` does: they call the
/// process-wide allocation error handler, which does not return. Use
/// [`try_push_str`](Self::try_push_str) and [`try_reserve`](Self::try_reserve) under a budget.
///
/// # Examples
///
/// ```
/// use polyheap::{Heap, HeapString};
///
/// let parser = Heap::new();
/// let mut name = HeapString::from_str_in("poly", &parser);
/// name.push_str("heap");
/// assert_eq!(name, "polyheap");
/// assert!(name.ends_with("heap"));
/// ```
pub struct HeapString<A: Allocator> {
    /// The text, always whole UTF-8 `[string-is-utf8]`.
    bytes: Vec<u8, A>,
}

impl<A: Allocator> HeapString<A> {
    /// Returns an empty string. Takes no memory until something is pushed.
    pub const fn new_in(alloc: A) -> Self {
        Self { bytes: Vec::new_in(alloc) }
    }

    /// Returns an empty string with room for at least `capacity_bytes` bytes.
    ///
    /// # Cost
    ///
    /// One allocation, none if `capacity_bytes` is 0.
    #[must_use]
    pub fn with_capacity_in(capacity_bytes: usize, alloc: A) -> Self {
        Self { bytes: Vec::with_capacity_in(capacity_bytes, alloc) }
    }

    /// Returns a copy of `text`.
    ///
    /// # Cost
    ///
    /// One allocation and one copy; O(length).
    #[must_use]
    pub fn from_str_in(text: &str, alloc: A) -> Self {
        let mut copy = Self::with_capacity_in(text.len(), alloc);
        copy.push_str(text);
        copy
    }

    /// Returns the bytes as a string without copying them.
    ///
    /// # Errors
    ///
    /// [`FromUtf8Error`] if the bytes are not UTF-8; it gives them back.
    ///
    /// # Examples
    ///
    /// ```
    /// use polyheap::{Heap, HeapString};
    ///
    /// let heap = Heap::new();
    /// assert_eq!(HeapString::from_utf8(heap.vec_from([b'o', b'k'])).unwrap(), "ok");
    ///
    /// let refused = HeapString::from_utf8(heap.vec_from([b'o', 0xFF])).unwrap_err();
    /// assert_eq!(refused.utf8_error().valid_up_to(), 1);
    /// assert_eq!(refused.into_bytes(), [b'o', 0xFF]);
    /// ```
    pub fn from_utf8(bytes: Vec<u8, A>) -> Result<Self, FromUtf8Error<A>> {
        match str::from_utf8(&bytes) {
            Ok(_) => Ok(Self { bytes }),
            Err(error) => Err(FromUtf8Error::of(bytes, error)),
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // SAFETY: the bytes are UTF-8 [string-is-utf8].
        unsafe { str::from_utf8_unchecked(&self.bytes) }
    }

    /// Returns the text for changes that keep its length, such as [`str::make_ascii_lowercase`].
    #[must_use]
    pub fn as_mut_str(&mut self) -> &mut str {
        // SAFETY: the bytes are UTF-8 [string-is-utf8], and a `&mut str` keeps them so.
        unsafe { str::from_utf8_unchecked_mut(&mut self.bytes) }
    }

    /// Returns the bytes of the text, which keep their block.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8, A> {
        self.bytes
    }

    /// Returns the allocator.
    #[must_use]
    pub fn allocator(&self) -> &A {
        self.bytes.allocator()
    }

    /// Returns how many bytes fit without another allocation; at least the length.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the length in bytes (not in characters).
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Makes room for at least `additional_bytes` more bytes.
    pub fn reserve(&mut self, additional_bytes: usize) {
        self.bytes.reserve(additional_bytes);
    }

    /// Makes room for at least `additional_bytes` more bytes, or says why not.
    ///
    /// # Errors
    ///
    /// [`TryReserveError`] if the allocator refuses or the size overflows; the string is unchanged.
    pub fn try_reserve(&mut self, additional_bytes: usize) -> Result<(), TryReserveError> {
        self.bytes.try_reserve(additional_bytes)
    }

    /// Gives unused capacity back to the allocator as far as its block sizes allow.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Appends one character.
    pub fn push(&mut self, character: char) {
        self.push_str(character.encode_utf8(&mut [0; char::MAX.len_utf8()]));
    }

    /// Appends `text`.
    ///
    /// # Cost
    ///
    /// Amortised O(length of `text`).
    pub fn push_str(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Appends `text`, or nothing if there is no memory for all of it.
    ///
    /// # Errors
    ///
    /// [`TryReserveError`] if the allocator refuses or the size overflows; the string is unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// let heap = polyheap::Heap::new();
    /// let mut line = heap.string();
    /// line.try_push_str("within budget")?;
    /// # Ok::<(), allocator_api2::collections::TryReserveError>(())
    /// ```
    pub fn try_push_str(&mut self, text: &str) -> Result<(), TryReserveError> {
        self.try_reserve(text.len())?;
        self.push_str(text);
        Ok(())
    }

    /// Removes and returns the last character; `None` if the text is empty.
    pub fn pop(&mut self) -> Option<char> {
        let last = self.as_str().chars().next_back()?;
        self.bytes.truncate(self.len() - last.len_utf8());
        Some(last)
    }

    /// Inserts one character before the byte at `index_bytes`.
    ///
    /// # Panics
    ///
    /// If `index_bytes` is beyond the end or inside a character.
    ///
    /// # Cost
    ///
    /// O(bytes after the place).
    pub fn insert(&mut self, index_bytes: usize, character: char) {
        self.insert_str(index_bytes, character.encode_utf8(&mut [0; char::MAX.len_utf8()]));
    }

    /// Inserts `text` before the byte at `index_bytes`.
    ///
    /// # Panics
    ///
    /// If `index_bytes` is beyond the end or inside a character.
    ///
    /// # Cost
    ///
    /// O(bytes after the place, plus length of `text`).
    pub fn insert_str(&mut self, index_bytes: usize, text: &str) {
        self.panic_unless_boundary(index_bytes);
        // Appending and turning the tail keeps whole characters at every step and needs no raw
        // copy.
        self.push_str(text);
        self.bytes[index_bytes..].rotate_right(text.len());
    }

    /// Removes and returns the character at `index_bytes`.
    ///
    /// # Panics
    ///
    /// If `index_bytes` is at or beyond the end or inside a character.
    ///
    /// # Cost
    ///
    /// O(bytes after the place).
    pub fn remove(&mut self, index_bytes: usize) -> char {
        self.panic_unless_boundary(index_bytes);
        let lead = self.bytes[index_bytes];
        // The byte exists, so there is a character; the alternative only satisfies the type.
        let removed = self.as_str()[index_bytes..].chars().next().unwrap_or(char::from(lead));
        self.bytes.drain(index_bytes..index_bytes + removed.len_utf8());
        removed
    }

    /// Shortens the text to `len_bytes` bytes and keeps the capacity. Does nothing if it is not
    /// longer.
    ///
    /// # Panics
    ///
    /// If `len_bytes` is inside a character.
    pub fn truncate(&mut self, len_bytes: usize) {
        if len_bytes < self.len() {
            self.panic_unless_boundary(len_bytes);
            self.bytes.truncate(len_bytes);
        }
    }

    /// Empties the text and keeps the capacity.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Keeps the characters for which `keep` returns true, in order. If `keep` panics, the
    /// character it saw and those after it stay.
    ///
    /// # Cost
    ///
    /// O(length), in place.
    ///
    /// # Examples
    ///
    /// ```
    /// let heap = polyheap::Heap::new();
    /// let mut word = heap.string();
    /// word.push_str("c'est ça!");
    /// word.retain(char::is_alphabetic);
    /// assert_eq!(word, "cestça");
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(char) -> bool) {
        let mut sieve = Sieve { bytes: &mut self.bytes, read: 0, kept: 0 };
        while let Some(character) = sieve.peek() {
            if keep(character) {
                sieve.keep(character.len_utf8());
            } else {
                sieve.skip(character.len_utf8());
            }
        }
    }

    /// Panics as std's slicing does unless `index_bytes` lies between two characters or at either
    /// end.
    fn panic_unless_boundary(&self, index_bytes: usize) {
        let _ = self.as_str().split_at(index_bytes);
    }
}

/// The work of [`HeapString::retain`]: `[kept characters | stale | characters not yet seen]`.
///
/// Dropping it closes the gap, so that the string is whole again also when the caller's closure
/// panics.
struct Sieve<'a, A: Allocator> {
    bytes: &'a mut Vec<u8, A>,
    /// First byte not yet seen.
    read: usize,
    /// End of the kept characters; never beyond `read`.
    kept: usize,
}

impl<A: Allocator> Sieve<'_, A> {
    /// Returns the next character not yet seen.
    fn peek(&self) -> Option<char> {
        // SAFETY: the bytes from `read` on are untouched and `read` advances by whole characters,
        // so they are still the tail of a UTF-8 text [string-is-utf8].
        let unseen = unsafe { str::from_utf8_unchecked(&self.bytes[self.read..]) };
        unseen.chars().next()
    }

    /// Moves the next character, `width_bytes` long, to the kept ones.
    fn keep(&mut self, width_bytes: usize) {
        self.bytes.copy_within(self.read..self.read + width_bytes, self.kept);
        self.kept += width_bytes;
        self.read += width_bytes;
    }

    /// Leaves the next character, `width_bytes` long, out.
    fn skip(&mut self, width_bytes: usize) {
        self.read += width_bytes;
    }
}

impl<A: Allocator> Drop for Sieve<'_, A> {
    fn drop(&mut self) {
        self.bytes.drain(self.kept..self.read);
    }
}

impl<A: Allocator + Clone> Clone for HeapString<A> {
    /// Returns a copy in the same allocator.
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.clear();
        self.push_str(source);
    }
}

impl<A: Allocator> Deref for HeapString<A> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<A: Allocator> DerefMut for HeapString<A> {
    fn deref_mut(&mut self) -> &mut str {
        self.as_mut_str()
    }
}

impl<A: Allocator> fmt::Display for HeapString<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl<A: Allocator> fmt::Debug for HeapString<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<A: Allocator> fmt::Write for HeapString<A> {
    /// Appends `text`; fails, instead of ending the process, when the allocator refuses.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.try_push_str(text).map_err(|_| fmt::Error)
    }
}

impl<A: Allocator> Extend<char> for HeapString<A> {
    fn extend<I: IntoIterator<Item = char>>(&mut self, characters: I) {
        let characters = characters.into_iter();
        self.reserve(characters.size_hint().0);
        characters.for_each(|character| self.push(character));
    }
}

impl<'t, A: Allocator> Extend<&'t str> for HeapString<A> {
    fn extend<I: IntoIterator<Item = &'t str>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push_str(text));
    }
}
