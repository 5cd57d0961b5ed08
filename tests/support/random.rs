//! Seeded random numbers: the same test, the same seed, the same run.

use std::env;

/// A generator (splitmix64); cheap, and good enough to choose operations with.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns a generator for the test called `name`. Its seed is printed, and can be set with
    /// `POLYHEAP_SEED` to repeat a run.
    pub(crate) fn for_test(name: &str) -> Random {
        let seed = env::var("POLYHEAP_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(0x5eed_2026);
        eprintln!("{name}: POLYHEAP_SEED={seed}");
        let salt = name.bytes().fold(0u64, |sum, byte| sum.rotate_left(5) ^ u64::from(byte));
        Random(seed ^ salt)
    }

    /// Returns an independent generator, for another thread.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// Returns 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns whether an event of probability `one_in` came about.
    pub(crate) fn one_in(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Returns a size: most of them small, some in every tier up to `most` bytes.
    pub(crate) fn size(&mut self, most: usize) -> usize {
        let magnitude = match self.below(100) {
            0..=59 => 1 << 9,
            60..=84 => 1 << 13,
            85..=95 => 1 << 17,
            96..=98 => 1 << 21,
            _ => 1 << 23,
        };
        1 + self.below(most.min(magnitude))
    }

    /// Returns an alignment: mostly small ones, up to a page, now and then up to 1 MiB.
    pub(crate) fn align(&mut self) -> usize {
        match self.below(100) {
            0..=69 => 1 << self.below(5),
            70..=96 => 1 << self.below(13),
            _ => 1 << self.below(21),
        }
    }
}
