//! Options of a heap and the builder that sets them.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `config`; the handle carries the options until the heap binds.

use super::Heap;
use crate::config::NAME_BYTES_MAX;

/// What a heap is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    name: [u8; NAME_BYTES_MAX],
    name_bytes: u8,
    /// Whether threads keep caches in the heap.
    pub(super) has_thread_cache: bool,
    /// Bytes of full spare magazines a thread keeps; `None` for the default.
    pub(super) thread_cache_bytes: Option<usize>,
}

impl Options {
    pub(super) const DEFAULT: Options = Options {
        name: [0; NAME_BYTES_MAX],
        name_bytes: 0,
        has_thread_cache: true,
        thread_cache_bytes: None,
    };

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes as usize]).unwrap_or("")
    }
}

/// Sets up a [`Heap`] before it is made. All methods are `const`, so heaps can be statics.
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// static INDEX: Heap = Heap::builder().name("index").thread_cache_bytes(256 * 1024).build();
/// assert_eq!(INDEX.name(), "index");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build` is called"]
pub struct HeapBuilder {
    options: Options,
}

impl HeapBuilder {
    pub(super) const fn new() -> HeapBuilder {
        HeapBuilder { options: Options::DEFAULT }
    }

    /// Names the heap, for reports and statistics. Names longer than 32 bytes are cut at the last
    /// whole character that fits.
    pub const fn name(mut self, name: &str) -> HeapBuilder {
        let bytes = name.as_bytes();
        let mut end = if bytes.len() < NAME_BYTES_MAX { bytes.len() } else { NAME_BYTES_MAX };
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let mut at = 0;
        while at < end {
            self.options.name[at] = bytes[at];
            at += 1;
        }
        self.options.name_bytes = end as u8;
        self
    }

    /// Sets whether threads keep caches in the heap; they do by default.
    ///
    /// Without caches every call goes to the shared bitmaps: several times slower, but no block
    /// rests anywhere, every free is checked at once, and the heap is at its smallest.
    pub const fn thread_cache(mut self, is_on: bool) -> HeapBuilder {
        self.options.has_thread_cache = is_on;
        self
    }

    /// Sets the bytes of full spare magazines each thread keeps in the heap beside the loaded
    /// ones; 1 MiB by default. 0 keeps none.
    pub const fn thread_cache_bytes(mut self, bytes: usize) -> HeapBuilder {
        self.options.thread_cache_bytes = Some(bytes);
        self
    }

    /// Makes the heap. It takes memory from the system at its first use, not here.
    pub const fn build(self) -> Heap {
        Heap::with_options(self.options)
    }
}
