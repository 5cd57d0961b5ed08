//! Bytes as people read them.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on nothing; all that prints uses it.

use core::fmt;

/// Names of 1024 to the power of 0, 1, 2, …
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A number of bytes, shown in the largest unit of which there is at least one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = (self.0.max(1).ilog2() / 10).min(UNITS.len() as u32 - 1);
        let shown = self.0 as f64 / (1u64 << (10 * power)) as f64;
        let unit = UNITS[power as usize];
        // Whole numbers without a point: limits and ticks mostly are.
        let text = if shown.fract() == 0.0 {
            format!("{shown} {unit}")
        } else {
            format!("{shown:.1} {unit}")
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (64 << 20, "64 MiB"),
            (5 << 40, "5 TiB"),
        ];
        for (bytes, shown) in cases {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
        assert_eq!(format!("{:>8}", Bytes(2048)), "   2 KiB");
    }
}
