//! Where in a buffer things lie: the part's head, its caches, lists and bits, and the granules.
//!
//! *Invariants held here*: `[buffer-inside]`.
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: stands on `base`; `part` lays a buffer out by it.

use core::alloc::Layout;

use super::bins::bins_for;
use super::cells::{Bits, GRANULE_BYTES, NONE};
use super::core_cache::CoreCache;
use crate::base::align_up;
use crate::error::HeapError;

/// Granules a buffer has at least.
const GRANULES_LOW: usize = 16;

/// The longest blocks that wait in recent lists, in granules: a kilobyte, less in short buffers.
const RECENT_GRANULES: [(usize, usize); 3] = [(64 * 1024, 64), (16 * 1024, 32), (0, 8)];

/// Offsets in bytes from a buffer's start, and numbers of things.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) part: usize,
    pub(super) caches: usize,
    pub(super) cache_count: usize,
    pub(super) bins: usize,
    pub(super) bin_count: usize,
    pub(super) recent: usize,
    pub(super) recent_count: usize,
    pub(super) ends: usize,
    pub(super) live: usize,
    pub(super) granules: usize,
    pub(super) granule_count: u32,
}

impl Geometry {
    /// Lays out a buffer of `bytes` bytes at `address` with so many caches, and a part's head like
    /// `head`.
    ///
    /// # Errors
    /// [`HeapError::BufferTooSmall`] with the bytes a buffer at this address needs.
    pub(super) fn of(
        head: Layout,
        address: usize,
        bytes: usize,
        caches: usize,
    ) -> Result<Geometry, HeapError> {
        let most = granules_max(bytes);
        let least = Geometry::with_granules(head, address, bytes, caches, GRANULES_LOW, most);
        let least = match least {
            Some((geometry, end)) if end <= bytes => geometry,
            _ => {
                let needed_bytes = Geometry::bytes_needed(head, address, bytes, caches);
                return Err(HeapError::BufferTooSmall { given_bytes: bytes, needed_bytes });
            }
        };
        // What every granule costs: itself, and two bits.
        let bits_bytes = 8 * GRANULE_BYTES + 2;
        let left = bytes - least.granules;
        let mut count = (GRANULES_LOW + left / bits_bytes * 8).min(most);
        loop {
            match Geometry::with_granules(head, address, bytes, caches, count, most) {
                Some((geometry, end)) if end <= bytes => return Ok(geometry),
                _ if count > GRANULES_LOW => count -= 1,
                _ => return Ok(least),
            }
        }
    }

    /// Returns the bytes that a buffer at `address` needs, more than `bytes`. A longer one has more
    /// lists: what it needs is asked again until it is no more than there is.
    fn bytes_needed(head: Layout, address: usize, bytes: usize, caches: usize) -> usize {
        let mut bytes = bytes;
        loop {
            let most = granules_max(bytes);
            match Geometry::with_granules(head, address, bytes, caches, GRANULES_LOW, most) {
                Some((_, end)) if end > bytes => bytes = end,
                Some(_) => return bytes,
                None => return usize::MAX,
            }
        }
    }

    /// Lays out `count` granules, of which there could be `most`; returns the end as well.
    fn with_granules(
        head: Layout,
        address: usize,
        bytes: usize,
        cache_count: usize,
        count: usize,
        most: usize,
    ) -> Option<(Geometry, usize)> {
        let (bin_count, words) = (bins_for(most as u32), Bits::words(count));
        let recent_of = RECENT_GRANULES.iter().find(|(low, _)| bytes >= *low);
        let recent_count = recent_of.map_or(0, |&(_, granules)| granules);
        let mut end = 0usize;
        let mut place = |count: usize, size: usize, align: usize| {
            let start = align_up(address.checked_add(end)?, align)? - address;
            end = start.checked_add(count.checked_mul(size)?)?;
            Some(start)
        };
        let geometry = Geometry {
            part: place(1, head.size(), head.align())?,
            caches: place(cache_count, size_of::<CoreCache>(), align_of::<CoreCache>())?,
            cache_count,
            bins: place(bin_count, size_of::<u32>(), align_of::<u32>())?,
            bin_count,
            recent: place(recent_count, size_of::<u32>(), align_of::<u32>())?,
            recent_count,
            ends: place(words, size_of::<usize>(), align_of::<usize>())?,
            live: place(words, size_of::<usize>(), align_of::<usize>())?,
            granules: place(count, GRANULE_BYTES, GRANULE_BYTES)?,
            granule_count: count as u32,
        };
        Some((geometry, end))
    }
}

/// Returns the most granules that a buffer of `bytes` bytes can have.
fn granules_max(bytes: usize) -> usize {
    (bytes / GRANULE_BYTES).clamp(GRANULES_LOW, NONE as usize - 1)
}
