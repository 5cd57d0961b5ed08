//! Every tunable of the core, in one place.
//!
//! Three paragraphs: what may be set, what follows from it, and what must hold between the
//! numbers. An assertion's message says what to change when it fails.
//!
//! *Concurrency*: constants only.
//!
//! *Neighbours*: stands on nothing; every other room reads it.

// ---------------------------------------------------------------------------------------------
// Settable

/// Base-two logarithm of a chunk's bytes: 64 KiB, the largest OS page in use, so that a chunk can
/// be purged on every system.
pub(crate) const CHUNK_LOG2: u32 = 16;

/// Chunks of a region: one bit each in a 64-bit word.
pub(crate) const REGION_CHUNKS: usize = 64;

/// Bytes of the smallest block, and the alignment every block has.
pub(crate) const BLOCK_BYTES_MIN: usize = 16;

/// Bytes of the largest slab block. Above it a whole run of chunks costs less than a bitmap.
pub(crate) const SLAB_BLOCK_BYTES_MAX: usize = 32 * 1024;

/// Chunks of the largest span (1.75 MiB): two of them fit a region. A longer one would take the
/// address space of a whole region.
pub(crate) const SPAN_CHUNKS_MAX: usize = 28;

/// Bytes of the largest mapping that has a size class.
pub(crate) const MAPPING_CLASS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes from which on a mapping that grows asks for huge pages. Two of them fit it.
pub(crate) const HUGE_GROWTH_BYTES_LOW: usize = 4 * 1024 * 1024;

/// Bytes of the largest alignment served: 1 GiB. Beyond it every request is refused.
pub(crate) const ALIGN_BYTES_MAX: usize = 1 << 30;

/// Blocks a slab should have at least, so that one visit to it serves many requests.
pub(crate) const SLAB_BLOCKS_LOW: usize = 16;

/// Bytes of one magazine: a header word and [`MAGAZINE_ROUNDS_MAX`] rounds. A power of two, so
/// that the low bits of a cursor tell that the magazine is full.
pub(crate) const MAGAZINE_BYTES: usize = 512;

/// Bytes of blocks one magazine may hold, for classes whose blocks are large.
pub(crate) const MAGAZINE_LOAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of blocks of one class that circulate between the two magazines of a bin: half of the
/// smallest first-level data cache in use.
pub(crate) const CIRCULATING_BYTES_MAX: usize = 16 * 1024;

/// Rounds a magazine has at least, and blocks that may circulate: with fewer, a loop of large
/// blocks spends its time exchanging magazines.
pub(crate) const ROUNDS_LOW: usize = 8;

/// Rounds a first refill brings in; doubled while refills follow each other.
pub(crate) const REFILL_ROUNDS_FIRST: usize = 8;

/// Bytes of full spare magazines a thread keeps in one heap unless the builder says otherwise.
/// Measured: below 1 MiB a burst of 1 024 blocks of 1 KiB visits the depot.
pub(crate) const THREAD_CACHE_BYTES_DEFAULT: usize = 1024 * 1024;

/// Bytes of blocks above the slab classes that a thread keeps in one heap unless the builder says
/// otherwise: one of the largest class, or some of each of the smaller ones.
pub(crate) const THREAD_LARGE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

/// Chunks a thread keeps in one heap for the arenas of region scopes: 1 MiB.
pub(crate) const ARENA_CHUNKS_KEPT: usize = 16;

/// Bytes of mappings a heap keeps for all its threads unless the builder says otherwise.
pub(crate) const HEAP_LARGE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

/// Mappings of one class a heap keeps for all its threads.
pub(crate) const HEAP_MAPPINGS_KEPT: usize = 3;

/// Bytes of mappings of dropped heaps that the process keeps for the next ones.
pub(crate) const PROCESS_MAPPING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Mappings of one class that the process keeps.
pub(crate) const PROCESS_MAPPINGS_KEPT: usize = 8;

/// Empty magazines a thread keeps for itself.
pub(crate) const EMPTY_MAGAZINES_KEPT: usize = 32;

/// Places of the depot of one class: it fills a metadata block. Few under loom, whose executions
/// grow with every place looked at.
pub(crate) const DEPOT_PLACES: usize = if cfg!(loom) { 4 } else { MAGAZINE_BYTES / 8 };

/// Bytes of blocks the depot of one class may hold; two magazines of any class.
pub(crate) const DEPOT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of blocks of each class a leaving thread leaves in its bins for its successor: a page.
pub(crate) const WARM_BYTES_KEPT: usize = 4096;

/// Leased regions a thread heap knows at a glance. A power of two.
pub(crate) const OWN_REGIONS: usize = 8;

/// Regions up to which a heap's caches are not emptied for what they pin.
pub(crate) const GATHER_REGIONS_LOW: usize = 4;

/// Chunks whose contents are dropped by one call: 256 KiB, a few dozen microseconds.
pub(crate) const PURGE_CHUNKS_MAX: usize = 4;

/// Exchanges of a busy thread between two looks at the clock.
pub(crate) const PASSES_PER_LOOK: u32 = 32;

/// Share of the time since the last sweep that a sweep may take: one eighth.
pub(crate) const SWEEP_SHARE: u64 = 8;

/// Nanoseconds below which a sweep is not begun: the share must be worth a system call.
pub(crate) const SWEEP_NS_MIN: u64 = 20_000;

/// Nanoseconds a sweep takes at most, however long nobody came by.
pub(crate) const SWEEP_NS_MAX: u64 = 50_000_000;

/// Sweeps without use after which a heap's caches are emptied.
pub(crate) const IDLE_SWEEPS: usize = 2;

/// Heaps alive at once.
pub(crate) const HEAP_SLOTS: usize = 65_536;

/// Bytes of address space reserved at a time for regions: sixteen regions a system call.
pub(crate) const RESERVE_REGIONS: usize = 16;

/// Regions of dropped heaps kept with their contents, ready for the next heap.
pub(crate) const WARM_REGIONS_MAX: usize = 32;

/// Bytes resident in warm regions over the whole process.
pub(crate) const WARM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Regions of dropped heaps, or never used, that keep only their address space: 1 GiB of it.
pub(crate) const COLD_REGIONS_MAX: usize = 256;

/// Bytes of the longest heap name kept; longer names are cut.
pub(crate) const NAME_BYTES_MAX: usize = 32;

/// Bytes over which the first blocks of slabs are spread: the smallest OS page, and the bytes a way
/// of a first-level data cache has.
pub(crate) const COLOUR_BYTES: usize = 4096;

/// Bytes of one cache line, for keeping threads' blocks apart.
pub(crate) const LINE_BYTES: usize = 64;

// ---------------------------------------------------------------------------------------------
// Derived

/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = 1 << CHUNK_LOG2;

/// Base-two logarithm of a region's bytes.
pub(crate) const REGION_LOG2: u32 = CHUNK_LOG2 + REGION_CHUNKS.trailing_zeros();

/// Bytes of a region, and its alignment.
pub(crate) const REGION_BYTES: usize = 1 << REGION_LOG2;

/// Rounds of a full magazine.
pub(crate) const MAGAZINE_ROUNDS_MAX: usize = MAGAZINE_BYTES / size_of::<usize>() - 1;

/// 64-bit words of the bitmap of one chunk cut into the smallest blocks.
pub(crate) const BITMAP_WORDS_MAX: usize = CHUNK_BYTES / BLOCK_BYTES_MIN / 64;

// ---------------------------------------------------------------------------------------------
// Asserted

const _: () = assert!(REGION_CHUNKS == 64, "a region's chunks are the bits of one u64");
const _: () = assert!(
    MAGAZINE_BYTES.is_power_of_two(),
    "the full test masks the cursor: keep MAGAZINE_BYTES a power of two"
);
const _: () = assert!(
    SPAN_CHUNKS_MAX * 2 < REGION_CHUNKS,
    "two spans of SPAN_CHUNKS_MAX fit a region: lower it"
);
const _: () = assert!(
    HEAP_SLOTS <= 1 << 16,
    "region map entries keep the slot in sixteen bits: widen them first"
);
const _: () = assert!(
    SLAB_BLOCK_BYTES_MAX * SLAB_BLOCKS_LOW <= 8 * CHUNK_BYTES,
    "the run length of a slab is kept in four bits of its control word"
);
