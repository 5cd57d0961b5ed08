//! The chunks that threads keep: how many, who counts them, and when they are given up.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::iter;
use std::sync::{Barrier, mpsc};
use std::thread;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{Decay, Heap};
use polyheap_region::{self as region, Region};

use support::assert_empty;

const CHUNK_BYTES: usize = Region::CHUNK_BYTES_FIRST;

/// Returns how many chunks the heap's threads keep; nothing but scopes may have used the heap.
fn kept(heap: &Heap) -> usize {
    let stats = heap.stats();
    assert!(stats.kept_large_bytes.is_multiple_of(CHUNK_BYTES), "{stats}");
    stats.kept_large_bytes / CHUNK_BYTES
}

/// Opens scopes inside each other and calls `bottom` in the innermost.
fn descend(heap: &Heap, depth: usize, bottom: &mut dyn FnMut()) {
    region::scope(heap, |r| {
        let own = r.alloc_slice_fill_with(100, |place| place + depth);
        if depth == 1 {
            bottom()
        } else {
            descend(heap, depth - 1, bottom)
        }
        assert!(own.iter().enumerate().all(|(place, &item)| item == place + depth));
    });
}

fn nest_three(heap: &Heap, rounds: usize) {
    for _ in 0..rounds {
        descend(heap, 3, &mut || ());
    }
}

#[test]
fn at_most_sixteen_are_kept_and_forty_scopes_take_twenty_four_more() {
    assert_eq!(Region::CHUNKS_KEPT_MAX, 16);
    let mut heap = Heap::builder().decay(Decay::Never).build();
    for round in 0..50 {
        let kept_before = kept(&heap);
        let mut taken = 0;
        descend(&heap, 40, &mut || {
            let stats = heap.stats();
            assert_eq!((stats.live_blocks, stats.kept_large_bytes), (40, 0), "{stats}");
            taken = stats.live_blocks - kept_before;
        });
        assert!(round == 0 || taken == 24, "{taken} chunks taken");
        assert_eq!(kept(&heap), 16);
    }
    // None was lost: all that was ever out was out at once.
    assert!(heap.stats().peak_live_bytes <= 40 * CHUNK_BYTES, "{}", heap.stats());
    assert_empty(&mut heap);
}

#[test]
fn chunks_are_kept_up_to_every_depth_and_no_further() {
    for depth in 1..=20 {
        let heap = Heap::builder().decay(Decay::Never).build();
        descend(&heap, depth, &mut || ());
        assert_eq!(kept(&heap), depth.min(Region::CHUNKS_KEPT_MAX));
    }
}

#[test]
fn three_nested_scopes_take_three_chunks_however_often() {
    let mut heap = Heap::builder().decay(Decay::Never).build();
    nest_three(&heap, 20_000);
    let stats = heap.stats();
    assert_eq!((kept(&heap), stats.peak_live_bytes), (3, 3 * CHUNK_BYTES), "{stats}");
    assert_empty(&mut heap);
}

#[test]
fn trim_and_decay_give_up_what_is_kept() {
    let mut heap = Heap::builder().decay(Decay::Never).build();
    descend(&heap, 40, &mut || ());
    let before = heap.stats();
    assert_eq!(kept(&heap), 16);
    assert!(heap.trim() >= 16 * CHUNK_BYTES);
    let after = heap.stats();
    assert_eq!(kept(&heap), 0);
    assert!(after.held_bytes + 16 * CHUNK_BYTES <= before.held_bytes, "{before}\n{after}");
    assert_empty(&mut heap);
    // A heap that keeps nothing that idles keeps no chunks either.
    let heap = Heap::builder().decay(Decay::Eager).build();
    nest_three(&heap, 10);
    assert_eq!(kept(&heap), 0);
}

#[test]
fn eight_threads_and_main_keep_three_each_and_give_them_up_when_they_end() {
    let mut heap = Heap::builder().decay(Decay::Never).build();
    let all_are_done = Barrier::new(9);
    let looked = Barrier::new(9);
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                nest_three(&heap, 1000);
                all_are_done.wait();
                looked.wait();
            });
        }
        nest_three(&heap, 1000);
        all_are_done.wait();
        let (stats, kept) = (heap.stats(), kept(&heap));
        looked.wait();
        assert_eq!((kept, stats.threads, stats.live_blocks), (27, 9, 0), "{stats}");
    });
    // Those of the threads are the heap's again, main has its own.
    wait_for_threads(&heap);
    assert_eq!(kept(&heap), 3);
    heap.trim();
    assert_eq!(kept(&heap), 0);
    assert_empty(&mut heap);
}

/// Waits until the threads have left the heap: a scope ends before its threads' last words.
fn wait_for_threads(heap: &Heap) {
    while heap.stats().threads > 1 {
        thread::yield_now();
    }
}

#[test]
fn kept_chunks_count_in_the_limit_and_serve_their_thread_when_it_is_reached() {
    let limit = 12 << 20;
    let heap = Heap::builder().max_bytes(limit).decay(Decay::Never).build();
    descend(&heap, 16, &mut || ());
    assert_eq!(kept(&heap), 16);
    let (full, is_full) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    thread::scope(|threads| {
        let heap = &heap;
        threads.spawn(move || {
            // Another thread cannot have what this one keeps.
            let layout = Layout::from_size_align(CHUNK_BYTES, 8).unwrap();
            let blocks = iter::from_fn(|| heap.allocate(layout).ok()).collect::<Vec<_>>();
            let stats = heap.stats();
            assert!(stats.denied_by_limit > 0 && stats.held_bytes <= limit, "{stats}");
            assert!(stats.live_bytes + stats.kept_large_bytes <= limit, "{stats}");
            assert_eq!(kept(heap), 16);
            full.send(()).unwrap();
            let _main_has_gone_on = may_go_on.recv();
            assert!(Region::try_with_capacity_in(60_000, heap).is_err());
            for block in blocks {
                // SAFETY: allocated above with this layout.
                unsafe { heap.deallocate(block.cast(), layout) };
            }
            assert!(Region::try_with_capacity_in(60_000, heap).is_ok());
        });
        is_full.recv().unwrap();
        let denied = heap.stats().denied_by_limit;
        descend(heap, 16, &mut || assert_eq!(heap.stats().kept_large_bytes, 0));
        assert_eq!((heap.stats().denied_by_limit, kept(heap)), (denied, 16));
        go_on.send(()).unwrap();
    });
}
