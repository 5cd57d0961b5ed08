//! Size classes: a pure function from (size, alignment) to the class that serves it.
//!
//! From 16 B to 64 MiB there are four classes per doubling (below 128 B one every 16 B), so a
//! block is at most a quarter larger than its request. Where a class lives is its *tier*:
//!
//! ```text
//! slab     16 B ..= 32 KiB   blocks of one class in a run of chunks
//! span     ..= 1.75 MiB       a run of chunks handed out whole         `large`
//! mapping  above             a system mapping handed out whole        `large`
//! ```
//!
//! An alignment above 16 rounds the size up to a multiple of itself first. With four classes per
//! doubling the class found then has only blocks of that alignment: either its spacing is a
//! multiple of the alignment, or the rounded size is the class size. The same function runs at
//! allocate and free; every length between the one asked for and the block's own maps to the
//! same class, which is what containers that free by the returned length rely on.
//!
//! *Invariants held here*: `[class-pure]`.
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: stands on `config`; slab, cache and heap ask it.

use crate::config::{
    BLOCK_BYTES_MIN, CHUNK_BYTES, CIRCULATING_BYTES_MAX, COLOUR_BYTES, LINE_BYTES, MAGAZINE_BYTES,
    MAGAZINE_LOAD_BYTES_MAX, MAGAZINE_ROUNDS_MAX, REGION_BYTES, ROUNDS_LOW, SLAB_BLOCK_BYTES_MAX,
    SLAB_BLOCKS_LOW,
};

/// Number of slab classes.
pub(crate) const SLAB_CLASSES: usize = 40;

/// Class of the heap's own metadata blocks (magazines), in slabs of their own. Its index doubles
/// as the class of size zero, whose bin is for ever empty and full.
pub(crate) const META_CLASS: usize = SLAB_CLASSES;

/// Classes that have partial sets: the slab classes and the metadata class.
pub(crate) const PARTIAL_CLASSES: usize = SLAB_CLASSES + 1;

const LINEAR_CLASSES: usize = 8;

const TABLE_ENTRIES: usize = SLAB_BLOCK_BYTES_MAX / BLOCK_BYTES_MIN + 1;

/// Where the blocks of a class live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tier {
    /// No memory at all: requests of size zero.
    Zero,
    /// A slab block of this class.
    Slab(usize),
    /// A span or a mapping, see [`Large`](super::Large).
    Large,
}

/// Returns whether [`fast_class`] may be asked about this layout.
#[inline]
pub(crate) const fn is_fast_layout(size: usize, align: usize) -> bool {
    align <= BLOCK_BYTES_MIN && size <= SLAB_BLOCK_BYTES_MAX
}

/// Returns the bin of a size up to [`SLAB_BLOCK_BYTES_MAX`] with an alignment up to 16: its slab
/// class, or [`META_CLASS`] for size zero.
#[inline]
pub(crate) const fn fast_class(size: usize) -> usize {
    fast_bin_word(size) as usize / 2
}

/// Returns twice [`fast_class`]: the number of the bin's first word, which the machine scales by
/// eight for free. A byte, so that tables of 256 entries need no bounds check.
#[inline]
pub(crate) const fn fast_bin_word(size: usize) -> u8 {
    BIN_WORD_OF_SIXTEENTHS[size.div_ceil(BLOCK_BYTES_MIN)]
}

/// Returns which bits of a block's address must equal its thread's home region's, for the bin
/// that starts at `bin_word`: all that tell regions apart for classes whose blocks share cache
/// lines, none for others.
#[inline]
pub(crate) const fn home_mask(bin_word: u8) -> usize {
    HOME_MASKS[bin_word as usize]
}

/// Returns the bytes of the block that serves a size [`fast_class`] may be asked about; 0 for 0.
#[inline]
pub(crate) const fn fast_block_bytes(size: usize) -> usize {
    if size == 0 { 0 } else { slab_block_bytes(fast_class(size)) }
}

/// Returns the tier and class that serve a layout, whatever its size and alignment.
pub(crate) const fn class_of(size: usize, align: usize) -> Tier {
    match super::align_up(size, align) {
        Some(0) => Tier::Zero,
        Some(bytes) if bytes <= SLAB_BLOCK_BYTES_MAX => Tier::Slab(fast_class(bytes)),
        _ => Tier::Large,
    }
}

/// Returns the bytes of a block of slab class `class`, or of a metadata block.
#[inline]
pub(crate) const fn slab_block_bytes(class: usize) -> usize {
    BLOCK_BYTES[class % TABLE_CLASSES] as usize
}

/// Returns the chunks of a slab of `class`.
#[inline]
pub(crate) const fn slab_run_chunks(class: usize) -> usize {
    let least = slab_block_bytes(class) * SLAB_BLOCKS_LOW;
    let chunks = least.div_ceil(CHUNK_BYTES);
    if chunks <= 1 { 1 } else { chunks.next_power_of_two() }
}

/// Returns the blocks of a slab of `class`.
#[inline]
pub(crate) const fn slab_blocks(class: usize) -> usize {
    SLAB_BLOCKS[class % TABLE_CLASSES] as usize
}

/// Returns the number of the block that starts `offset_bytes` into a slab of `class`, or `None`
/// when no block starts there.
#[inline]
pub(crate) const fn block_index(class: usize, offset_bytes: usize) -> Option<usize> {
    // Exact for offsets below 2^20 and divisors up to 2^15: the error of the reciprocal times the
    // largest offset stays below one.
    let index =
        ((offset_bytes as u64 * RECIPROCALS[class % TABLE_CLASSES]) >> RECIPROCAL_SHIFT) as usize;
    if index * slab_block_bytes(class) == offset_bytes && index < slab_blocks(class) {
        Some(index)
    } else {
        None
    }
}

/// Returns the rounds of a full magazine of `class`.
#[inline]
pub(crate) const fn magazine_rounds(class: usize) -> usize {
    MAGAZINE_ROUNDS[class % TABLE_CLASSES] as usize
}

/// Returns the bytes of blocks in a full magazine of `class`.
#[inline]
pub(crate) const fn magazine_bytes(class: usize) -> usize {
    magazine_rounds(class) * slab_block_bytes(class)
}

/// Returns the blocks a thread may let circulate in its bin of `class`: few of large ones, so that
/// they stay in the processor's cache.
#[inline]
pub(crate) const fn circulating_rounds(class: usize) -> usize {
    CIRCULATING_ROUNDS[class % TABLE_CLASSES] as usize
}

/// Returns how many blocks of `class` fit `bytes`, at least `ROUNDS_LOW`, at most a magazine full.
const fn rounds_within(bytes: usize, class: usize) -> usize {
    let by_bytes = bytes / slab_block_bytes(class);
    let least = if by_bytes < ROUNDS_LOW { ROUNDS_LOW } else { by_bytes };
    if least > MAGAZINE_ROUNDS_MAX { MAGAZINE_ROUNDS_MAX } else { least }
}

/// Returns which bits of a colour may choose the first bit taken of a bitmap word of `class`: as
/// many as blocks fit [`COLOUR_BYTES`], rounded down to a power of two.
#[inline]
pub(crate) const fn first_bit_mask(class: usize) -> usize {
    FIRST_BIT_MASKS[class % TABLE_CLASSES] as usize
}

/// Returns whether neighbouring blocks of `class` can lie on one cache line.
#[inline]
pub(crate) const fn shares_lines(class: usize) -> bool {
    !slab_block_bytes(class).is_multiple_of(LINE_BYTES)
}

const RECIPROCAL_SHIFT: u32 = 40;

/// Entries of the tables by class: a power of two, so that an index can be masked and no look-up
/// has a path that panics. Constants rather than statics, so that callers in other crates fold
/// them away.
const TABLE_CLASSES: usize = PARTIAL_CLASSES.next_power_of_two();

/// A constant table with an entry for each slab class and the metadata class.
macro_rules! by_class {
    ($table:ident: $entry:ty, $class:ident => $value:expr) => {
        const $table: &[$entry; TABLE_CLASSES] = &{
            let mut table = [0; TABLE_CLASSES];
            let mut $class = 0;
            while $class < PARTIAL_CLASSES {
                table[$class] = $value as $entry;
                $class += 1;
            }
            table
        };
    };
}

by_class!(BLOCK_BYTES: u32, class => bytes_of_class(class));
by_class!(SLAB_BLOCKS: u16, class =>
    slab_run_chunks(class) * CHUNK_BYTES / slab_block_bytes(class));
by_class!(RECIPROCALS: u64, class =>
    (1u64 << RECIPROCAL_SHIFT).div_ceil(slab_block_bytes(class) as u64));
by_class!(MAGAZINE_ROUNDS: u8, class => rounds_within(MAGAZINE_LOAD_BYTES_MAX, class));
by_class!(CIRCULATING_ROUNDS: u8, class => rounds_within(CIRCULATING_BYTES_MAX, class));
by_class!(FIRST_BIT_MASKS: u8, class => colours(class) - 1);

/// Returns the bytes of a block of `class`, of which [`BLOCK_BYTES`] is made.
const fn bytes_of_class(class: usize) -> usize {
    if class == META_CLASS {
        return MAGAZINE_BYTES;
    }
    if class < LINEAR_CLASSES {
        return (class + 1) * BLOCK_BYTES_MIN;
    }
    let doubling = (class - LINEAR_CLASSES) / 4;
    let quarter = (class - LINEAR_CLASSES) % 4;
    ((LINEAR_CLASSES * BLOCK_BYTES_MIN) << doubling) / 4 * (5 + quarter)
}

/// Returns how many first bits there are to choose from: a power of two, at most a word's bits.
const fn colours(class: usize) -> usize {
    let blocks = COLOUR_BYTES / slab_block_bytes(class);
    let bits = if blocks == 0 { 0 } else { blocks.ilog2() };
    1 << if bits < u64::BITS.ilog2() { bits } else { u64::BITS.ilog2() }
}

const BIN_WORD_OF_SIXTEENTHS: &[u8; TABLE_ENTRIES] = &{
    let mut table = [2 * META_CLASS as u8; TABLE_ENTRIES];
    let mut class = 0;
    let mut entry = 1;
    while entry < TABLE_ENTRIES {
        if entry * BLOCK_BYTES_MIN > BLOCK_BYTES[class] as usize {
            class += 1;
        }
        table[entry] = 2 * class as u8;
        entry += 1;
    }
    table
};

/// By bin word; every other entry stays unused, so that one scaled index serves bins and masks,
/// and there is an entry for every byte.
const HOME_MASKS: &[usize; 256] = &{
    let mut table = [0; 256];
    let mut class = 0;
    while class < SLAB_CLASSES {
        if shares_lines(class) {
            table[2 * class] = !(REGION_BYTES - 1);
        }
        class += 1;
    }
    table
};

const _: () = assert!(
    BLOCK_BYTES[SLAB_CLASSES - 1] as usize == SLAB_BLOCK_BYTES_MAX,
    "SLAB_CLASSES must end at SLAB_BLOCK_BYTES_MAX"
);

#[cfg(test)]
mod tests {
    use super::super::Large;
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter() {
        for size in 65..=SLAB_BLOCK_BYTES_MAX {
            let block = slab_block_bytes(fast_class(size));
            assert!(block >= size && (block - size) * 4 <= size, "{size} -> {block}");
        }
    }

    #[test]
    fn powers_of_two_are_exact_classes() {
        for log2 in 4..=15 {
            let size = 1usize << log2;
            assert_eq!(slab_block_bytes(fast_class(size)), size);
        }
    }

    /// Every block of the class found is aligned, as slabs start on chunks.
    #[test]
    fn class_of_an_aligned_layout_has_only_aligned_blocks() {
        for align_log2 in 0..=21 {
            let align = 1usize << align_log2;
            for size in (1..4096).chain((4096..5_000_000).step_by(4093)) {
                match class_of(size, align) {
                    Tier::Slab(class) => {
                        assert!(slab_block_bytes(class) >= size);
                        assert!(slab_block_bytes(class).is_multiple_of(align), "{size} {align}");
                    }
                    Tier::Large => assert!(Large::of(size, align).is_some(), "{size} {align}"),
                    Tier::Zero => panic!("size {size} has no class"),
                }
            }
        }
    }

    /// Any length from the one asked for to the block's own frees into the same class.
    #[test]
    fn every_length_up_to_the_block_has_the_same_class() {
        for align in [1, 16, 32, 64, 256, 4096, 65_536, 1 << 20] {
            for size in [1, 15, 17, 84, 129, 1_000, 5_000, 33_000, 70_000, 700_000, 1_900_000] {
                let class = class_of(size, align);
                let large = Large::of(size, align);
                let block = match class {
                    Tier::Slab(class) => slab_block_bytes(class),
                    _ => large.map_or(0, Large::usable_bytes),
                };
                for length in (size..=block).step_by((block / 64).max(1)).chain([block]) {
                    assert_eq!(class_of(length, align), class, "{size} {align} {length}");
                    let again = Large::of(length, align);
                    assert_eq!(again.map(Large::run), large.map(Large::run), "{size} {length}");
                }
            }
        }
    }

    #[test]
    fn reciprocals_find_every_block_and_nothing_else() {
        for class in 0..PARTIAL_CLASSES {
            let block = slab_block_bytes(class);
            for offset in 0..slab_run_chunks(class) * CHUNK_BYTES {
                let exact = offset.is_multiple_of(block) && offset / block < slab_blocks(class);
                let expected = exact.then_some(offset / block);
                assert_eq!(block_index(class, offset), expected, "{class} {offset}");
            }
        }
    }
}
