//! Writes a secret into a region, leaves by each way there is, and counts the copies of it in the
//! process's memory. Prints a line for each way: name, copies while it lived, copies afterwards.
//!
//! The secret is never whole anywhere but in the region: it is made byte by byte from a mask, and
//! the search compares under the mask.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};

use polyheap::Heap;
use polyheap::allocator_api2::vec::Vec as RegionVec;
use polyheap_region::{Region, SecretRegion, secret_scope};

const SECRET_BYTES: usize = 48;
const MASK: u8 = 0xa7;

/// One byte of the secret, under the mask. Derived from the process, so not in the binary.
fn masked(place: usize) -> u8 {
    let seed = std::process::id() as usize;
    let mixed = (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(seed | 1);
    (mixed >> 24) as u8
}

fn secret_byte(place: usize) -> u8 {
    black_box(black_box(masked(place)) ^ MASK)
}

/// Counts the copies in all memory that can be read and written.
fn copies() -> usize {
    let memory = File::open("/proc/self/mem").expect("the process's memory");
    let maps = File::open("/proc/self/maps").expect("the process's maps");
    let needle: Vec<u8> = (0..SECRET_BYTES).map(masked).collect();
    let mut window = vec![0u8; 1 << 20];
    let window_at = window.as_ptr() as usize;
    let mut found = 0;
    for line in BufReader::new(maps).lines() {
        let line = line.expect("a line");
        let mut fields = line.split_whitespace();
        let range = fields.next().unwrap_or_default();
        if !fields.next().unwrap_or_default().starts_with("rw") {
            continue;
        }
        let (from, to) = range.split_once('-').expect("a range");
        let mut at = usize::from_str_radix(from, 16).expect("an address");
        let end = usize::from_str_radix(to, 16).expect("an address");
        while at + SECRET_BYTES <= end {
            let length = window.len().min(end - at);
            let Ok(read) = memory.read_at(&mut window[..length], at as u64) else { break };
            found += window[..read]
                .windows(SECRET_BYTES)
                .enumerate()
                // The window itself has copies of what was read before.
                .filter(|(offset, _)| !(window_at..window_at + (1 << 20)).contains(&(at + offset)))
                .filter(|(_, bytes)| bytes.iter().zip(&needle).all(|(byte, want)| byte ^ MASK == *want))
                .count();
            at += (read - (SECRET_BYTES - 1)).max(1);
        }
    }
    window.fill(0);
    found
}

/// What a way out reports: the copies found while the secret lived.
type Way = (&'static str, fn(&Heap) -> usize);

fn scope_end(heap: &Heap) -> usize {
    secret_scope(heap, |r| {
        black_box(r.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
        copies()
    })
}

fn early_return(heap: &Heap) -> usize {
    let leave = |is_early: bool| {
        secret_scope(heap, |r| {
            black_box(r.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
            let found = copies();
            if black_box(is_early) {
                return Err(found);
            }
            r.alloc(1);
            Ok(0)
        })
    };
    leave(true).unwrap_or_else(|found: usize| found)
}

fn panicking(heap: &Heap) -> usize {
    let mut found = 0;
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        secret_scope(heap, |r| {
            black_box(r.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
            found = copies();
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    found
}

fn region_drop(heap: &Heap) -> usize {
    let region = SecretRegion::new_in(heap);
    black_box(region.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
    copies()
}

fn many_chunks(heap: &Heap) -> usize {
    let region = SecretRegion::new_in(heap);
    for _ in 0..3000 {
        black_box(region.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
        black_box(region.alloc([1u8; 100]));
    }
    assert!(region.stats().chunks > 2);
    copies()
}

fn large_block(heap: &Heap) -> usize {
    let region = SecretRegion::new_in(heap);
    let bytes = region.alloc_slice_fill_with(100_000, |place| match place.checked_sub(90_000) {
        Some(place @ 0..SECRET_BYTES) => secret_byte(place),
        _ => 0,
    });
    black_box(bytes);
    assert_eq!(region.stats().large_blocks, 1);
    copies()
}

/// Ways whose region lives on while the copies are counted.
fn kept(heap: &Heap, leave: impl FnOnce(&mut SecretRegion<'_>) -> usize) -> usize {
    let mut region = SecretRegion::new_in(heap);
    region.alloc([7u8; 100]);
    let found = leave(&mut region);
    // Whatever was cleared must stay so while the region is leaked, uncleared.
    std::mem::forget(region);
    found
}

fn inner_scope(heap: &Heap) -> usize {
    kept(heap, |region| {
        region.scope(|r| {
            black_box(r.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
            copies()
        })
    })
}

fn rewind(heap: &Heap) -> usize {
    kept(heap, |region| {
        let checkpoint = region.checkpoint();
        black_box(region.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
        let found = copies();
        region.rewind(checkpoint);
        found
    })
}

fn reset(heap: &Heap) -> usize {
    kept(heap, |region| {
        for _ in 0..3000 {
            black_box(region.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
        }
        let found = copies();
        region.reset();
        found
    })
}

fn freed_container(heap: &Heap) -> usize {
    kept(heap, |region| {
        let mut list = RegionVec::new_in(&**region);
        list.extend((0..SECRET_BYTES).map(secret_byte));
        black_box(&list);
        copies()
    })
}

fn shrunk_container(heap: &Heap) -> usize {
    kept(heap, |region| {
        let mut list = RegionVec::new_in(&**region);
        list.extend((0..SECRET_BYTES).map(secret_byte));
        black_box(&list);
        let found = copies();
        list.clear();
        list.shrink_to(8);
        found
    })
}

fn failing_initialiser(heap: &Heap) -> usize {
    kept(heap, |region| {
        let failed = region.alloc_slice_try_fill_with(SECRET_BYTES + 1, |place| match place {
            SECRET_BYTES => Err(copies()),
            _ => Ok(secret_byte(place)),
        });
        failed.map_or_else(|found| found, |_| 0)
    })
}

fn moved_large_block(heap: &Heap) -> usize {
    let region = SecretRegion::new_in(heap);
    let mut list = RegionVec::with_capacity_in(100_000, &*region);
    list.extend((0..SECRET_BYTES).map(secret_byte));
    // Resized by copying: the block left behind goes back to the heap at once.
    list.reserve_exact(3_000_000);
    black_box(&list);
    copies()
}

fn protected(heap: &Heap) -> usize {
    let builder = Region::builder().secret().locked().undumped().wiped_on_fork();
    builder.scope(heap, |r| {
        black_box(r.alloc_slice_fill_with(SECRET_BYTES, secret_byte));
        copies()
    })
}

const WAYS: &[Way] = &[
    ("scope_end", scope_end),
    ("early_return", early_return),
    ("panicking", panicking),
    ("region_drop", region_drop),
    ("many_chunks", many_chunks),
    ("large_block", large_block),
    ("inner_scope", inner_scope),
    ("rewind", rewind),
    ("reset", reset),
    ("freed_container", freed_container),
    ("shrunk_container", shrunk_container),
    ("failing_initialiser", failing_initialiser),
    ("moved_large_block", moved_large_block),
    ("protected", protected),
];

fn main() {
    // One way a process, so that what one leaves is not found by the next.
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let mut output = std::io::stdout();
    if wanted.is_empty() {
        for (name, _) in WAYS {
            writeln!(output, "{name}").expect("output");
        }
        return;
    }
    panic::set_hook(Box::new(|_| {}));
    let heap = Heap::new();
    let (_, leave) = WAYS.iter().find(|(name, _)| *name == wanted).expect("a way");
    let living = leave(&heap);
    writeln!(output, "{living} {}", copies()).expect("output");
}
