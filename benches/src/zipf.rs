//! Requests as real caches see them: few keys are asked for often, many seldom (Zipf's law).

use crate::rng::Rng;

/// Exponent of the law; near one in traces of web caches (Breslau and others, 1999).
const EXPONENT: f64 = 0.9;

/// Draws `count` keys below `keys`; key 0 is the most frequent.
pub(crate) fn requests(rng: &mut Rng, keys: u32, count: usize) -> Vec<u32> {
    let mut sums = Vec::with_capacity(keys as usize);
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += f64::from(rank).powf(-EXPONENT);
        sums.push(sum);
    }
    let draw = |_| {
        let point = rng.unit() * sum;
        sums.partition_point(|&reached| reached < point) as u32
    };
    (0..count).map(draw).collect()
}

/// The size of a key's value: half are of 16-128 B, some up to 4 KiB.
pub(crate) fn value_bytes(key: u32) -> usize {
    let mut rng = Rng::new(u64::from(key));
    rng.next();
    match rng.below(8) {
        0..4 => rng.between(16, 128),
        4..7 => rng.between(128, 1024),
        _ => rng.between(1024, 4096),
    }
}
