//! Shows: one heap a request, dropped whole; and one heap emptied between requests by `reset`.
//! When you would want it: servers whose requests build much and keep nothing.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::time::Instant;

use polyheap::{CollectIn, Heap, HeapString};

const REQUESTS: u32 = 10_000;

/// Builds sixteen strings, as parsing a request would, and returns how many.
fn handle(request: u32, heap: &Heap) -> usize {
    let mut fields = heap.vec();
    for number in 0..16_u8 {
        let digits = request.to_le_bytes().into_iter().map(|byte| char::from(byte % 10 + b'0'));
        let mut field: HeapString<&Heap> = digits.collect_in(heap);
        field.push(char::from(b'a' + number));
        fields.push(field);
    }
    let count = fields.len();
    std::mem::forget(fields); // Nobody frees the strings: their heap goes, or is reset.
    count
}

fn main() {
    let start = Instant::now();
    let made: usize = (0..REQUESTS).map(|request| handle(request, &Heap::new())).sum();
    println!("a heap a request: {made} strings, {:?} a request", start.elapsed() / REQUESTS);

    let start = Instant::now();
    let mut heap = Heap::new();
    for request in 0..REQUESTS {
        handle(request, &heap);
        heap.reset();
    }
    println!("one heap, reset:  {:?} a request", start.elapsed() / REQUESTS);
    println!("left in it: {} blocks", heap.stats().live_blocks);
}
