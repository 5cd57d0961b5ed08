//! Scans over 64-bit words in which a set bit means "free to take".
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: used by the chunk map of a region and by the slab bitmaps.

/// Returns a word with `count` set bits starting at bit `first`; `first + count` is at most 64.
#[inline]
pub(crate) const fn run_mask(first: usize, count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { ((1u64 << count) - 1) << first }
}

/// Finds the lowest run of `count` set bits in `word` that starts at a multiple of `step`.
///
/// Cost: O(log count) to fold the word, then one scan.
#[inline]
pub(crate) const fn find_run(word: u64, count: usize, step: usize) -> Option<usize> {
    let mut folded = word;
    let mut have = 1;
    // After each fold a bit says that `have` bits from there on are set.
    while have < count {
        let by = if have * 2 <= count { have } else { count - have };
        folded &= folded >> by;
        have += by;
    }
    let candidates = folded & starts(step);
    if candidates == 0 { None } else { Some(candidates.trailing_zeros() as usize) }
}

/// Iterates over the numbers of the set bits of `word`, low ones first.
#[inline]
pub(crate) fn bits_of(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Returns the lowest `count` set bits of `word`, all of them when it has no more.
#[inline]
fn lowest_bits(word: u64, count: usize) -> u64 {
    if word.count_ones() as usize <= count {
        return word;
    }
    let mut rest = word;
    for _ in 0..count {
        rest &= rest - 1;
    }
    word & !rest
}

/// Returns `count` set bits of `word`, the lowest from bit `start` on before the lowest of the rest;
/// all of them when it has no more.
#[inline]
pub(crate) fn first_bits(word: u64, start: usize, count: usize) -> u64 {
    if word.count_ones() as usize <= count {
        return word;
    }
    let high = lowest_bits(word & (u64::MAX << start), count);
    let missing = count - high.count_ones() as usize;
    high | lowest_bits(word & !(u64::MAX << start), missing)
}

/// Returns a word with a bit at every multiple of `step`, a power of two up to 64.
const fn starts(step: usize) -> u64 {
    match step {
        1 => u64::MAX,
        2 => 0x5555_5555_5555_5555,
        4 => 0x1111_1111_1111_1111,
        8 => 0x0101_0101_0101_0101,
        16 => 0x0001_0001_0001_0001,
        32 => 0x0000_0001_0000_0001,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_lowest_run_with_an_aligned_start() {
        assert_eq!(find_run(0b1110_0110, 2, 1), Some(1));
        assert_eq!(find_run(0b1110_0110, 3, 1), Some(5));
        assert_eq!(find_run(0b1110_0110, 2, 2), Some(6));
        assert_eq!(find_run(u64::MAX, 64, 1), Some(0));
        assert_eq!(find_run(u64::MAX << 1, 32, 32), Some(32));
        assert_eq!(find_run(0, 1, 1), None);
    }

    /// A run found is checked against a search bit by bit.
    #[test]
    fn agrees_with_a_search_bit_by_bit() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..2_000 {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(17) | (word >> 3);
            for count in 1..=20 {
                let slow =
                    (0..=64 - count).find(|&at| word & run_mask(at, count) == run_mask(at, count));
                assert_eq!(find_run(word, count, 1), slow, "{word:#x} {count}");
            }
        }
    }

    #[test]
    fn takes_the_lowest_bits_only() {
        assert_eq!(lowest_bits(0b1011_0100, 2), 0b0001_0100);
        assert_eq!(lowest_bits(0b1011, 9), 0b1011);
        assert_eq!(first_bits(0b1011_0101, 3, 3), 0b1011_0000);
        assert_eq!(first_bits(0b1011_0101, 6, 3), 0b1000_0101);
        assert_eq!(run_mask(3, 2), 0b11000);
        assert_eq!(run_mask(0, 64), u64::MAX);
    }
}
