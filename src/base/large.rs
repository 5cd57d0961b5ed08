//! Sizes above the slab classes: runs of chunks up to 1.75 MiB, mappings beyond.
//!
//! Up to 512 KiB there is a class for every 64 KiB, from there to 64 MiB there are four per
//! doubling. Past that lengths are rounded to eight per doubling and are nobody's class: such
//! mappings are kept by no tier. The surplus of a long block is address space that nobody touches,
//! and a buffer that grows by small steps moves seldom.
//!
//! *Invariants held here*: `[class-pure]`.
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: stands on `config`; `cache::large`, spans and mappings ask it.

use crate::config::{
    CHUNK_BYTES, CHUNK_LOG2, COLOUR_BYTES, LINE_BYTES, MAPPING_CLASS_BYTES_MAX,
    SLAB_BLOCK_BYTES_MAX, SPAN_CHUNKS_MAX,
};

/// Classes above the slab ones: spans, then mappings that have a class.
pub(crate) const LARGE_CLASSES: usize = run_for(MAPPING_CLASS_BYTES_MAX).1 + 1;

/// Classes of spans.
pub(crate) const SPAN_CLASSES: usize = run_for(SPAN_CHUNKS_MAX * CHUNK_BYTES).1 + 1;

/// Classes of mappings.
pub(crate) const MAPPING_CLASSES: usize = LARGE_CLASSES - SPAN_CLASSES;

/// What a layout above the slab classes asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Large {
    /// Bytes of the run or mapping.
    pub(crate) bytes: usize,
    /// Alignment, in bytes.
    pub(crate) align: usize,
    /// The class; `LARGE_CLASSES` past the last one.
    pub(crate) class: usize,
    /// Whether the block may start some cache lines into its run.
    pub(crate) has_colours: bool,
}

impl Large {
    /// Returns what a layout asks for, `None` when a slab class or nothing serves it.
    ///
    /// A size so large that rounding it would wrap asks for `usize::MAX` bytes, which every source
    /// refuses.
    // Inlined always: benchmark `large`, this is most of a pair.
    #[inline(always)]
    pub(crate) const fn of(size: usize, align: usize) -> Option<Large> {
        let rounded = size.wrapping_add(align - 1) & !(align - 1);
        if rounded <= SLAB_BLOCK_BYTES_MAX && rounded >= size {
            return None;
        }
        let (bytes, class) = match rounded >= size {
            true => length_and_class(rounded),
            false => (usize::MAX, LARGE_CLASSES),
        };
        let has_colours = bytes - size >= COLOUR_BYTES && align <= LINE_BYTES;
        Some(Large { bytes, align, class, has_colours })
    }

    /// [`Large::of`] of the layouts most large blocks have: a class, and an alignment up to a cache
    /// line. `None` for all others.
    // Inlined always: benchmark `large`, with tables as there is no quick way to count zeros.
    #[inline(always)]
    pub(crate) const fn of_plain(size: usize, align: usize) -> Option<Large> {
        let is_plain = size.wrapping_sub(SLAB_BLOCK_BYTES_MAX + 1)
            < MAPPING_CLASS_BYTES_MAX - SLAB_BLOCK_BYTES_MAX
            && align <= LINE_BYTES;
        if !is_plain {
            return None;
        }
        // Past the aligned length the class might be another one: lengths are multiples of a line.
        let class = CLASS_OF_CHUNKS[((size - 1) >> CHUNK_LOG2) % CLASSED_CHUNKS] as usize;
        let bytes = BYTES_OF_CLASS[class % BYTES_ENTRIES] as usize;
        Some(Large { bytes, align, class, has_colours: bytes - size >= COLOUR_BYTES })
    }

    /// Returns what asks for a block of `class` that starts where it will.
    pub(crate) const fn of_class(class: usize) -> Large {
        let bytes = large_class_bytes(class);
        Large { bytes, align: 1, class, has_colours: false }
    }

    /// Returns whether a span serves it.
    #[inline(always)]
    pub(crate) const fn is_span(self) -> bool {
        self.class < SPAN_CLASSES
    }

    /// Returns the chunks of the run.
    #[inline(always)]
    pub(crate) const fn chunks(self) -> usize {
        self.bytes / CHUNK_BYTES
    }

    /// Returns the class of a mapping among those of mappings; `None` past the last one.
    pub(crate) const fn mapping_class(self) -> Option<usize> {
        if self.class < LARGE_CLASSES { self.class.checked_sub(SPAN_CLASSES) } else { None }
    }

    /// Returns the bytes the caller may use, wherever in its run the block starts.
    #[inline(always)]
    pub(crate) const fn usable_bytes(self) -> usize {
        if self.has_colours { self.bytes - COLOUR_BYTES } else { self.bytes }
    }

    /// Returns where in a run at `base` the block starts: elsewhere in neighbouring runs, whatever
    /// their length. Past the last class at the start: what grows there has slack at one time and
    /// none at another, and moves without a copy only from there.
    #[inline(always)]
    pub(crate) const fn colour(self, base: usize) -> Colour {
        let number = (base / CHUNK_BYTES) as u64;
        // Fibonacci hashing: the golden ratio's bits spread neighbours and strides alike.
        let line = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - 6);
        let line = if self.class < LARGE_CLASSES { line as usize } else { 0 };
        if self.has_colours { Colour::of_line(line) } else { Colour::NONE }
    }

    /// Returns the colour of a block that starts `offset_bytes` into its run, whoever chose that.
    pub(crate) const fn colour_at(self, offset_bytes: usize) -> Colour {
        if self.has_colours { Colour::of_line(offset_bytes / LINE_BYTES) } else { Colour::NONE }
    }

    /// Returns bytes and class, for tests.
    #[cfg(test)]
    pub(crate) fn run(self) -> (usize, usize) {
        (self.bytes, self.class)
    }
}

/// Where in its run a block above the slab classes starts, and whether it could start elsewhere.
/// Seven bits, kept with the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Colour(pub(crate) usize);

impl Colour {
    /// Cache lines among which a start is chosen.
    const LINES: usize = COLOUR_BYTES / LINE_BYTES;

    /// The block starts where its run does and may have all of it.
    pub(crate) const NONE: Colour = Colour(0);

    /// The block starts `line` cache lines into its run, modulo the lines there are.
    #[inline(always)]
    const fn of_line(line: usize) -> Colour {
        Colour(Colour::LINES | (line % Colour::LINES))
    }

    /// Returns the bytes by which the block starts into its run.
    #[inline(always)]
    pub(crate) const fn offset_bytes(self) -> usize {
        self.0 % Colour::LINES * LINE_BYTES
    }

    /// Returns the bytes the block may have of a run of `run_bytes`.
    #[inline]
    pub(crate) const fn usable_bytes(self, run_bytes: usize) -> usize {
        if self.0 < Colour::LINES { run_bytes } else { run_bytes - COLOUR_BYTES }
    }
}

/// Returns the length of the run for `bytes` bytes, and its class.
#[inline(always)]
const fn length_and_class(bytes: usize) -> (usize, usize) {
    if bytes > MAPPING_CLASS_BYTES_MAX {
        let step_log2 = (bytes - 1).ilog2() - 3;
        return (round_up(bytes, step_log2), LARGE_CLASSES);
    }
    run_for(bytes)
}

/// [`length_and_class`] of lengths that have a class.
#[inline(always)]
const fn run_for(bytes: usize) -> (usize, usize) {
    let last = (bytes - 1) >> CHUNK_LOG2;
    // Up to eight chunks the step is one chunk.
    let step_log2 = (last | 7).ilog2() - 2;
    let steps = (last >> step_log2) + 1;
    (steps << (step_log2 + CHUNK_LOG2), 4 * step_log2 as usize + steps - 1)
}

/// Rounds `bytes` up to a multiple of `1 << step_log2`; to `usize::MAX` past the largest.
const fn round_up(bytes: usize, step_log2: u32) -> usize {
    match (((bytes - 1) >> step_log2) + 1).checked_mul(1 << step_log2) {
        Some(rounded) => rounded,
        None => usize::MAX,
    }
}

/// Returns the class of a mapping of `bytes` bytes among those of mappings; `None` when it has
/// none.
pub(crate) const fn mapping_class(bytes: usize) -> Option<usize> {
    let (length, class) = length_and_class(bytes);
    if length == bytes && class < LARGE_CLASSES { class.checked_sub(SPAN_CLASSES) } else { None }
}

/// Returns the bytes of blocks of large class `class`.
pub(crate) const fn large_class_bytes(class: usize) -> usize {
    let step_log2 = (class / 4).saturating_sub(1);
    (class + 1 - 4 * step_log2) << (step_log2 as u32 + CHUNK_LOG2)
}

/// Chunks of the largest length that has a class.
const CLASSED_CHUNKS: usize = MAPPING_CLASS_BYTES_MAX / CHUNK_BYTES;

/// Entries of the table by class: a power of two, so that an index can be masked.
const BYTES_ENTRIES: usize = LARGE_CLASSES.next_power_of_two();

/// The class of lengths of one chunk, two chunks and so on.
const CLASS_OF_CHUNKS: &[u8; CLASSED_CHUNKS] = &{
    let mut table = [0; CLASSED_CHUNKS];
    let mut chunks = 1;
    while chunks <= CLASSED_CHUNKS {
        table[chunks - 1] = run_for(chunks * CHUNK_BYTES).1 as u8;
        chunks += 1;
    }
    table
};

const BYTES_OF_CLASS: &[u32; BYTES_ENTRIES] = &{
    let mut table = [0; BYTES_ENTRIES];
    let mut class = 0;
    while class < LARGE_CLASSES {
        table[class] = large_class_bytes(class) as u32;
        class += 1;
    }
    table
};

const _: () = assert!(
    CLASSED_CHUNKS.is_power_of_two() && MAPPING_CLASS_BYTES_MAX <= u32::MAX as usize,
    "tables by chunks are masked, and hold lengths in 32 bits"
);
const _: () = assert!(
    Colour::LINES.is_power_of_two() && Colour::LINES <= 64,
    "a colour has seven bits: lower COLOUR_BYTES"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other() {
        let mut lengths: Vec<usize> =
            (1..=1024).map(|chunks| length_and_class(chunks * CHUNK_BYTES).0).collect();
        lengths.dedup();
        assert_eq!(lengths.len(), LARGE_CLASSES);
        for (class, &bytes) in lengths.iter().enumerate() {
            assert_eq!(length_and_class(bytes), (bytes, class));
            assert_eq!(length_and_class(bytes - 1), (bytes, class));
            assert_eq!(large_class_bytes(class), bytes);
            assert_eq!(class < SPAN_CLASSES, bytes <= SPAN_CHUNKS_MAX * CHUNK_BYTES);
            assert_eq!(mapping_class(bytes), class.checked_sub(SPAN_CLASSES));
        }
        assert_eq!(mapping_class(MAPPING_CLASS_BYTES_MAX + CHUNK_BYTES), None);
    }

    #[test]
    fn plain_layouts_ask_for_the_same_as_others() {
        for size in (1..80 << 20).step_by(4_099).chain([32_768, 32_769, 64 << 20, (64 << 20) + 1]) {
            for align in [1, 8, 64, 128] {
                if let Some(plain) = Large::of_plain(size, align) {
                    assert_eq!(Large::of(size, align), Some(plain));
                } else {
                    let general = Large::of(size, align);
                    let is_plain = general.is_some_and(|large| large.class < LARGE_CLASSES);
                    assert!(!is_plain || align > LINE_BYTES, "{size} {align}");
                }
            }
        }
    }

    #[test]
    fn blocks_waste_at_most_a_quarter_from_256_kib_on() {
        for size in (256 << 10..300 << 20).step_by(12_345) {
            let Some(large) = Large::of(size, 8) else { panic!("{size} has no run") };
            assert!(large.usable_bytes() >= size, "{size} {large:?}");
            assert!((large.bytes - size) * 4 <= size, "{size} {large:?}");
        }
    }

    #[test]
    fn aligned_layouts_have_aligned_lengths() {
        for align_log2 in 0..=30 {
            let align = 1usize << align_log2;
            for size in (33_000..20_000_000).step_by(333_337) {
                let Some(large) = Large::of(size, align) else { panic!("{size} has no run") };
                assert!(large.bytes >= size, "{large:?}");
                assert!(!large.is_span() || large.bytes.is_multiple_of(align), "{large:?}");
            }
        }
    }

    #[test]
    fn sizes_that_would_wrap_ask_for_what_nobody_grants() {
        let bytes = |size, align| Large::of(size, align).map(|large| large.bytes);
        assert_eq!(bytes(usize::MAX - 4, 64), Some(usize::MAX));
        assert_eq!(bytes(usize::MAX - 64, 16), Some(usize::MAX));
        assert_eq!(bytes(0, 4096), None);
        assert_eq!(bytes(32_768, 16), None);
    }
}
