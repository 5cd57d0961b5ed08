//! What the clearing costs: handshakes in secret scopes and in plain ones, in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use polyheap::Heap;
use polyheap_region as region;

use super::handshake;

/// Prints the best and the median time of a handshake with clearing and without.
pub(super) fn compare(heap: &Heap, samples: usize, handshakes: u32) {
    let mut times = [Vec::new(), Vec::new()];
    for sample in 0..2 * samples {
        let start = Instant::now();
        for number in 0..handshakes {
            let shared = number.to_le_bytes();
            black_box(match sample % 2 {
                0 => region::secret_scope(heap, |r| handshake(r, &shared)),
                _ => region::scope(heap, |r| handshake(r, &shared)),
            });
        }
        times[sample % 2].push(start.elapsed());
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    print("best", [times[0][0], times[1][0]], handshakes);
    print("median", [times[0][samples / 2], times[1][samples / 2]], handshakes);
}

fn print(name: &str, [cleared, plain]: [Duration; 2], handshakes: u32) {
    let percent = 100.0 * (cleared.as_secs_f64() / plain.as_secs_f64() - 1.0);
    let [cleared, plain] = [cleared, plain].map(|time| time / handshakes);
    eprintln!("{name:<7} cleared {cleared:?}, not cleared {plain:?}: {percent:+.1} %");
}
