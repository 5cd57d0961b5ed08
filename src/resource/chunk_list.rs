//! Chunks of an upstream's memory, in a list, each with a header of its own.
//!
//! ```text
//! │ header: below, bytes │ data ............................. │
//! ^ aligned to 16                                               ^ the length the upstream returned
//! ```
//!
//! The header keeps the bytes asked for, so that each chunk goes back with the layout it was asked for
//! with. A list knows nothing of its upstream; whoever has it passes the same one each time.
//!
//! *Concurrency*: one thread at a time (`!Sync`).
//!
//! *Neighbours*: stands on `memory_resource`; `monotonic` and `pool` take their memory by it.

use core::alloc::Layout;
use core::cell::Cell;
use core::iter;
use core::ptr::NonNull;

use super::MemoryResource;
use crate::base::address;

/// Alignment of a chunk and its data: what every upstream has on its fastest path.
const CHUNK_ALIGN: usize = 16;

/// Bytes of a chunk's header.
pub(super) const HEADER_BYTES: usize = size_of::<Header>();

const _: () = assert!(HEADER_BYTES.is_multiple_of(CHUNK_ALIGN), "data follows the header");

/// What a chunk begins with.
#[derive(Debug)]
#[repr(C, align(16))]
struct Header {
    below: Option<NonNull<Header>>,
    /// Bytes asked for.
    bytes: usize,
    /// Bytes there are, as the upstream said.
    usable_bytes: usize,
}

/// A chunk's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
}

/// A list of chunks, newest first.
#[derive(Debug)]
pub(super) struct ChunkList {
    /// The newest chunk's header; those from it down are live and this list's alone.
    top: Cell<Option<NonNull<Header>>>,
}

impl ChunkList {
    pub(super) const fn new() -> ChunkList {
        ChunkList { top: Cell::new(None) }
    }

    /// Takes a chunk of `wished_bytes`, header counted; of less, down to what data of `least_bytes`
    /// needs, when the upstream refuses that.
    #[cold]
    pub(super) fn push<U: MemoryResource>(
        &self,
        upstream: &U,
        wished_bytes: usize,
        least_bytes: usize,
    ) -> Option<Data> {
        let least = least_bytes.checked_add(HEADER_BYTES)?;
        let mut bytes = wished_bytes.max(least);
        loop {
            if let Some(data) = self.push_exact(upstream, bytes) {
                return Some(data);
            }
            if bytes == least {
                return None;
            }
            bytes = (bytes / 2).max(least);
        }
    }

    fn push_exact<U: MemoryResource>(&self, upstream: &U, bytes: usize) -> Option<Data> {
        let layout = Layout::from_size_align(bytes, CHUNK_ALIGN).ok()?;
        let chunk = upstream.allocate(layout).ok()?;
        let header = chunk.cast::<Header>();
        let fields = Header { below: self.top.get(), bytes, usable_bytes: chunk.len() };
        // SAFETY: just allocated, aligned and long enough for a header.
        unsafe { header.write(fields) };
        self.top.set(Some(header));
        // SAFETY: the chunk is at least as long as its header.
        let start = unsafe { chunk.cast::<u8>().add(HEADER_BYTES) };
        Some(Data { start, bytes: chunk.len() - HEADER_BYTES })
    }

    /// Gives all chunks back but the newest `kept`.
    ///
    /// # Safety
    /// 1. All were taken from `upstream`, and nobody uses those given back any more.
    pub(super) unsafe fn release<U: MemoryResource>(&self, upstream: &U, kept: usize) {
        let spared = match kept {
            0 => None,
            _ => self.headers().nth(kept - 1),
        };
        let mut next = match spared {
            None if kept == 0 => self.top.take(),
            None => None,
            // SAFETY: in the list, so live and this list's alone.
            Some(mut spared) => unsafe { spared.as_mut() }.below.take(),
        };
        while let Some(header) = next {
            // SAFETY: out of the list, and still there.
            let (below, layout) = unsafe { header.as_ref() }.parts();
            next = below;
            if let Some(layout) = layout {
                // SAFETY: (1), with the layout it was asked for with.
                unsafe { upstream.deallocate(header.cast(), layout) };
            }
        }
    }

    /// Returns the newest chunk's data.
    pub(super) fn newest(&self) -> Option<Data> {
        let header = self.top.get()?;
        // SAFETY: in the list, so live.
        let bytes = unsafe { header.as_ref() }.usable_bytes - HEADER_BYTES;
        // SAFETY: a chunk is at least as long as its header.
        Some(Data { start: unsafe { header.cast::<u8>().add(HEADER_BYTES) }, bytes })
    }

    /// Returns whether `block` lies in one of the chunks.
    pub(super) fn has(&self, block: NonNull<u8>) -> bool {
        let place = address(block.as_ptr());
        self.headers().any(|header| {
            // SAFETY: in the list, so live.
            let bytes = unsafe { header.as_ref() }.usable_bytes;
            place.wrapping_sub(address(header.as_ptr())) < bytes
        })
    }

    /// Returns the bytes of all chunks, headers counted.
    pub(super) fn held_bytes(&self) -> usize {
        // SAFETY: in the list, so live.
        self.headers().map(|header| unsafe { header.as_ref() }.usable_bytes).sum()
    }

    fn headers(&self) -> impl Iterator<Item = NonNull<Header>> {
        // SAFETY: in the list, so live.
        iter::successors(self.top.get(), |header| unsafe { header.as_ref() }.below)
    }
}

impl Header {
    fn parts(&self) -> (Option<NonNull<Header>>, Option<Layout>) {
        // Valid: the chunk was allocated with it.
        (self.below, Layout::from_size_align(self.bytes, CHUNK_ALIGN).ok())
    }
}
