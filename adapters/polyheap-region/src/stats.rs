//! Statistics of a region, worked out when asked for.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `arena`.

use core::fmt;

use crate::arena::Arena;

/// What a region holds, as of one moment.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap_region::Region;
///
/// let heap = Heap::new();
/// let region = Region::new_in(&heap);
/// region.alloc_slice_copy(&[0u64; 100]);
/// let stats = region.stats();
/// assert_eq!((stats.used_bytes, stats.chunks), (800, 1));
/// println!("{stats}");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RegionStats {
    /// Bytes handed out, with those spent on alignment.
    pub used_bytes: usize,
    /// Bytes taken from the heap for chunks and large blocks, headers counted.
    pub held_bytes: usize,
    /// Bytes held that are neither used nor can be: headers and the tails of full chunks.
    pub wasted_bytes: usize,
    /// Chunks.
    pub chunks: usize,
    /// Large requests that have a block of their own.
    pub large_blocks: usize,
}

impl RegionStats {
    pub(crate) fn of(arena: &Arena<'_>) -> RegionStats {
        let (large_blocks, large_bytes) = arena.large_count_and_held_bytes();
        let chunk_bytes: usize = arena.headers().map(|header| header.chunk_bytes()).sum();
        let used_bytes = arena.used_bytes();
        let free_bytes =
            arena.top().map_or(0, |top| top.data_bytes() - top.used_bytes(arena.cursor.get()));
        let held_bytes = chunk_bytes + large_bytes;
        RegionStats {
            used_bytes,
            held_bytes,
            wasted_bytes: held_bytes - used_bytes - free_bytes,
            chunks: arena.headers().count(),
            large_blocks,
        }
    }
}

impl fmt::Display for RegionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "used {} B of {} B in {} chunks and {} large blocks, wasted {} B",
            self.used_bytes, self.held_bytes, self.chunks, self.large_blocks, self.wasted_bytes
        )
    }
}
