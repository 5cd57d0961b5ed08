//! Every tunable of the crate, in one place.
//!
//! *Concurrency*: constants only.
//!
//! *Neighbours*: stands on nothing.

// ---------------------------------------------------------------------------------------------
// Settable

/// Bytes of a region's first chunk. What the heap hands out whole without waste, and what fits the
/// second-level data cache of any machine.
pub(crate) const CHUNK_BYTES_FIRST: usize = 64 * 1024;

/// Bytes at which chunks stop growing. Below the size from which the heap maps blocks one by one,
/// and three of them to each of its regions.
pub(crate) const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of the smallest chunk taken when the heap refuses larger ones.
pub(crate) const CHUNK_BYTES_MIN: usize = 4096;

/// Alignment the cursor always has, in bytes: requests up to it need no arithmetic for alignment.
pub(crate) const CURSOR_ALIGN: usize = 8;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// A request above this share of the next chunk (one in so many) becomes a block of its own, so
/// that at most this share of a chunk is left unused behind it.
pub(crate) const LARGE_SHARE: usize = 4;

/// Large blocks looked at, latest first, when one is freed or resized. More would make a region of
/// many large blocks slow; a block not found is freed with the region.
pub(crate) const LARGE_SEARCH_MAX: usize = 8;

/// Items for which a list of unknown length takes room at first.
pub(crate) const LIST_ITEMS_FIRST: usize = 4;

// ---------------------------------------------------------------------------------------------
// Derived

/// Bytes that a large block has at least, the bytes its alignment may cost counted.
pub(crate) const LARGE_BYTES_MIN: usize = CHUNK_BYTES_FIRST / LARGE_SHARE;

// ---------------------------------------------------------------------------------------------
// Asserted

const _: () = assert!(
    CHUNK_BYTES_MIN.is_power_of_two() && CHUNK_BYTES_FIRST.is_power_of_two(),
    "chunks are halved when refused: keep both powers of two"
);
const _: () = assert!(
    CHUNK_BYTES_MAX.is_multiple_of(CHUNK_BYTES_FIRST),
    "chunks above the first are multiples of it"
);
