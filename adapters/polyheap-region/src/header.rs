//! The header in front of a chunk's data: what is needed to clear it and to give it back.
//!
//! ```text
//! │ header │ lead │ data ····· filled │ ······ │
//! ├── start                                    └── start + bytes
//! ```
//!
//! The lead is empty but for regions that are wiped in forked processes: there the header keeps an
//! OS page of its own, so that the child still reads it.
//!
//! *Concurrency*: as its arena's.
//!
//! *Neighbours*: stands on `chunk`; `arena` links headers into a stack.

use core::cell::Cell;
use core::ptr::NonNull;

use crate::chunk::Chunk;
use crate::config::{CURSOR_ALIGN, LINE_BYTES};

/// The header of a chunk.
#[derive(Debug)]
pub(crate) struct Header {
    /// The chunk taken before this one.
    pub(crate) below: Cell<Option<NonNull<Header>>>,
    /// Bytes used in the chunks below.
    pub(crate) used_below_bytes: Cell<usize>,
    /// Where the cursor stood when a newer chunk was taken; the arena's cursor for the newest.
    pub(crate) filled: Cell<NonNull<u8>>,
    /// Where the data begins.
    data: NonNull<u8>,
    /// Bytes of the chunk, this header counted.
    bytes: usize,
}

/// Bytes from a chunk's start to its data when there is no lead: the data starts with a cache line.
pub(crate) const HEADER_BYTES: usize = size_of::<Header>().next_multiple_of(LINE_BYTES);

const _: () = assert!(HEADER_BYTES.is_multiple_of(CURSOR_ALIGN), "data starts at a cursor's place");

impl Header {
    /// Writes the header of a chunk whose data begins `lead_bytes` behind its start.
    ///
    /// # Safety
    /// 1. Nobody else uses the chunk's memory.
    /// 2. `lead_bytes` is a multiple of the cursor's alignment, at least [`HEADER_BYTES`], and not
    ///    above the chunk's bytes.
    pub(crate) unsafe fn write(chunk: Chunk, lead_bytes: usize) -> NonNull<Header> {
        // SAFETY: (2) inside the chunk.
        let data = unsafe { chunk.start.add(lead_bytes) };
        let header = chunk.start.cast::<Header>();
        let fields = Header {
            below: Cell::new(None),
            used_below_bytes: Cell::new(0),
            filled: Cell::new(data),
            data,
            bytes: chunk.bytes,
        };
        // SAFETY: (1) and (2): the chunk's memory, long enough; chunks are aligned to 4 KiB at least.
        unsafe { header.write(fields) };
        header
    }

    /// Returns where the data begins.
    pub(crate) fn data(&self) -> NonNull<u8> {
        self.data
    }

    /// Returns the bytes of the chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes from the data's beginning to the chunk's end.
    pub(crate) fn data_bytes(&self) -> usize {
        let start = (&raw const *self).addr();
        self.bytes - (self.data.addr().get() - start)
    }

    /// Returns whether `cursor` is in this chunk's data or at its end.
    pub(crate) fn has(&self, cursor: NonNull<u8>) -> bool {
        let first = self.data.addr().get();
        (first..=first + self.data_bytes()).contains(&cursor.addr().get())
    }

    /// Returns the bytes from the data's beginning to `cursor`, which stands in this chunk.
    #[inline]
    pub(crate) fn used_bytes(&self, cursor: NonNull<u8>) -> usize {
        cursor.addr().get() - self.data.addr().get()
    }
}
