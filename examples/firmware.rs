//! Shows: a heap of 64 KiB in a static, as firmware has it: a log, frames to send, no system call.
//! When you would want it: there is no system, or a part must never take more than its share.

#![expect(clippy::print_stdout, reason = "an example shows its result")]
#![expect(clippy::expect_used, reason = "an example ends where there is no memory")]

use polyheap::StaticHeap;
use polyheap::allocator_api2::{boxed::Box, vec::Vec};

static MEMORY: StaticHeap<65_536> = StaticHeap::new();

/// A reading of one sensor, in hundredths of a degree.
#[derive(Clone, Copy)]
struct Reading {
    sensor: u8,
    value: i16,
}

fn main() {
    let heap = MEMORY.heap().expect("64 KiB are enough for a heap");
    let mut log = Vec::new_in(heap);
    let mut sent = 0;
    let mut dropped = 0;
    for tick in 0..20_000_u32 {
        let value = (tick.wrapping_mul(2_654_435_761) >> 20) as i16;
        // A full log is no reason to stop: it begins anew.
        if log.try_reserve(1).is_err() {
            dropped += log.len();
            log.clear();
        }
        log.push(Reading { sensor: (tick % 7) as u8, value });
        if tick % 100 == 99 {
            sent += send(heap, &log[log.len().saturating_sub(100)..]).unwrap_or(0);
        }
    }
    let warmest = log.iter().max_by_key(|reading| reading.value).expect("something was logged");
    println!("{} readings, {dropped} dropped, {sent} bytes sent", log.len());
    println!("sensor {} was warmest with {} hundredths", warmest.sensor, warmest.value);
    println!("{}", heap.stats());
    assert!(sent > 0 && heap.stats().live_blocks == 1);
}

/// Packs readings into a frame of its own; `None` when there is no memory for it just now.
fn send(heap: &polyheap::BufferHeap<'static>, readings: &[Reading]) -> Option<usize> {
    let mut frame = Vec::new_in(heap);
    frame.try_reserve(readings.len() * 3).ok()?;
    readings.iter().for_each(|reading| {
        frame.push(reading.sensor);
        frame.extend(reading.value.to_le_bytes());
    });
    let sum = Box::try_new_in(frame.iter().map(|&byte| u32::from(byte)).sum::<u32>(), heap).ok()?;
    Some(frame.len() + size_of_val(&*sum))
}
