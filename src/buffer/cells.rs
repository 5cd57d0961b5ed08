//! The words of a buffer: arrays of numbers and bits, and the granules that free runs are described in.
//!
//! *Invariants held here*: `[buffer-inside]`.
//!
//! *Concurrency*: plain memory; whoever holds the part's lock uses it.
//!
//! *Neighbours*: stands on nothing; the other files of this room reach the buffer through it.

use core::ptr::NonNull;

/// Base-two logarithm of a granule's bytes.
pub(super) const GRANULE_LOG2: u32 = 4;

/// Bytes of a granule: what a free run of one needs, and the alignment every block has.
pub(super) const GRANULE_BYTES: usize = 1 << GRANULE_LOG2;

/// Bytes behind which the last word of a granule starts.
const LAST_WORD: usize = GRANULE_BYTES - size_of::<u32>();

/// An array of numbers in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<T> {
    first: NonNull<T>,
    count: u32,
}

impl<T: Copy> Cells<T> {
    /// Returns the array of `count` numbers at `first`, all set to `value`.
    ///
    /// # Safety
    /// 1. There is memory for so many, aligned for them, and it is this array's alone as long as it
    ///    is used.
    pub(super) unsafe fn filled(first: NonNull<T>, count: usize, value: T) -> Cells<T> {
        for index in 0..count {
            // SAFETY: (1) the number lies in the array's memory.
            let place = unsafe { first.add(index) };
            // SAFETY: as above.
            unsafe { place.write(value) };
        }
        Cells { first, count: count as u32 }
    }

    /// Returns how many there are.
    pub(super) fn count(self) -> usize {
        self.count as usize
    }

    /// Returns number `index`.
    #[inline]
    pub(super) fn get(self, index: usize) -> T {
        debug_assert!(index < self.count(), "[buffer-inside]");
        // SAFETY: [buffer-inside] the array has this number.
        let place = unsafe { self.first.add(index) };
        // SAFETY: as above; initialised by `filled`.
        unsafe { place.read() }
    }

    /// Sets number `index`.
    #[inline]
    pub(super) fn set(self, index: usize, value: T) {
        debug_assert!(index < self.count(), "[buffer-inside]");
        // SAFETY: [buffer-inside] the array has this number.
        let place = unsafe { self.first.add(index) };
        // SAFETY: as above.
        unsafe { place.write(value) };
    }
}

/// Bits in a buffer, one for each granule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits(pub(super) Cells<usize>);

impl Bits {
    /// Words for `bits` bits.
    pub(super) const fn words(bits: usize) -> usize {
        bits.div_ceil(usize::BITS as usize)
    }

    /// Returns bit `index`.
    #[inline]
    pub(super) fn get(self, index: u32) -> bool {
        self.0.get((index / usize::BITS) as usize) >> (index % usize::BITS) & 1 != 0
    }

    /// Sets bit `index`.
    #[inline]
    pub(super) fn set(self, index: u32) {
        let word = (index / usize::BITS) as usize;
        self.0.set(word, self.0.get(word) | 1 << (index % usize::BITS));
    }

    /// Clears bit `index`.
    #[inline]
    pub(super) fn clear(self, index: u32) {
        let word = (index / usize::BITS) as usize;
        self.0.set(word, self.0.get(word) & !(1 << (index % usize::BITS)));
    }

    /// Returns whether bits `from` to `end`, of which there may be none, are all clear.
    #[inline]
    pub(super) fn is_clear(self, from: u32, end: u32) -> bool {
        let (first, last) = (from / usize::BITS, end / usize::BITS);
        if first != last {
            return self.next(from, end) == end;
        }
        let mask = (usize::MAX << (from % usize::BITS)) & !(usize::MAX << (end % usize::BITS));
        self.0.get((first as usize).min(self.0.count() - 1)) & mask == 0
    }

    /// Returns the first set bit from `index` on; `end` when there is none before. Looks at no word
    /// behind the one of `end`.
    pub(super) fn next(self, index: u32, end: u32) -> u32 {
        let mut mask = usize::MAX << (index % usize::BITS);
        for word in index / usize::BITS..end.div_ceil(usize::BITS) {
            let rest = self.0.get(word as usize) & mask;
            if rest != 0 {
                return (word * usize::BITS + rest.trailing_zeros()).min(end);
            }
            mask = usize::MAX;
        }
        end
    }
}

/// What stands in the first granule of a free run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// The next run of the list; `NONE` at its end.
    pub(super) next: u32,
    /// The run before it; `NONE` for the first.
    pub(super) previous: u32,
    /// Granules of the run.
    pub(super) granules: u32,
}

/// The granules of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granules {
    first: NonNull<u8>,
    count: u32,
}

/// No granule.
pub(super) const NONE: u32 = u32::MAX;

impl Granules {
    /// Returns the `count` granules that start at `first`.
    ///
    /// # Safety
    /// 1. They are memory, aligned to [`GRANULE_BYTES`], and used through this value and by owners of
    ///    live blocks alone.
    pub(super) unsafe fn new(first: NonNull<u8>, count: u32) -> Granules {
        Granules { first, count }
    }

    /// Returns how many there are.
    #[inline]
    pub(super) fn count(self) -> u32 {
        self.count
    }

    /// Returns the address of granule `index`.
    #[inline]
    pub(super) fn at(self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.count, "[buffer-inside]");
        // SAFETY: [buffer-inside] the buffer has this granule.
        unsafe { self.first.add((index as usize) << GRANULE_LOG2) }
    }

    /// Reads what stands in the first granule of the free run at `index`.
    #[inline]
    pub(super) fn run(self, index: u32) -> Run {
        // SAFETY: [buffer-inside] the granule is free memory; any bytes are numbers.
        unsafe { self.at(index).cast::<Run>().read() }
    }

    /// Writes what stands in the first granule of the free run at `index`.
    #[inline]
    pub(super) fn set_run(self, index: u32, run: Run) {
        // SAFETY: [buffer-inside] the granule is free memory, and a run's description fits it.
        unsafe { self.at(index).cast::<Run>().write(run) };
    }

    /// Reads the length that stands in the last granule of a free run, granule `index`.
    #[inline]
    pub(super) fn length_at_end(self, index: u32) -> u32 {
        // SAFETY: [buffer-inside] the word lies in the granule.
        let place = unsafe { self.at(index).add(LAST_WORD) };
        // SAFETY: as above; free memory, and any bytes are a number.
        unsafe { place.cast::<u32>().read() }
    }

    /// Writes the length of a free run into its last granule, `index`.
    #[inline]
    pub(super) fn set_length_at_end(self, index: u32, granules: u32) {
        // SAFETY: [buffer-inside] the word lies in the granule.
        let place = unsafe { self.at(index).add(LAST_WORD) };
        // SAFETY: as above; free memory.
        unsafe { place.cast::<u32>().write(granules) };
    }
}

const _: () = assert!(
    size_of::<Run>() <= LAST_WORD && align_of::<Run>() <= GRANULE_BYTES,
    "a run of one granule has its description and its length: lengthen the granule"
);
