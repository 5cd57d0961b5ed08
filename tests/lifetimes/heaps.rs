//! Many heaps: all that can be alive at once, and a great number one after the other.

use std::sync::Mutex;
use std::time::Instant;

use polyheap::allocator_api2::alloc::Allocator;
use polyheap::{Heap, HeapError};

use crate::support::{
    Held, alone, current_resident_bytes, mapping_count, run_to_the_end, scaled, size_from_env,
};
use crate::{LIMIT, NOISE_BYTES, bytes};

/// The most heaps that can be alive; slot 0 is never given out.
const HEAPS_MAX: usize = 65_536;

/// Makes `count` heaps from four threads, each with a block.
fn make_heaps(count: usize) -> Vec<(Heap, Held)> {
    let all = Mutex::new(Vec::with_capacity(count));
    let make = |share: usize| {
        let mut own = Vec::with_capacity(share);
        for id in 0..share {
            let heap = Heap::new();
            let held = Held::new(&&heap, bytes(64), id as u64).unwrap();
            own.push((heap, held));
        }
        all.lock().unwrap().extend(own);
    };
    let shares = [count / 4, count / 4, count / 4, count - count / 4 * 3];
    run_to_the_end(shares.map(|share| {
        let make = &make;
        move || make(share)
    }));
    all.into_inner().unwrap()
}

#[test]
fn as_many_heaps_as_there_are_slots_live_at_once() {
    alone("heaps::as_many_heaps_as_there_are_slots_live_at_once", LIMIT, || {
        let before = current_resident_bytes();
        let mut heaps = make_heaps(HEAPS_MAX);
        let each = (current_resident_bytes() - before) / HEAPS_MAX;
        eprintln!("{each} resident bytes a heap");
        assert!(each <= 16 * 1024, "a heap with one small block takes {each} bytes");
        assert!(mapping_count() < 6_000, "{} mappings", mapping_count());
        let one_more = Heap::new();
        assert_eq!(one_more.bind(), Err(HeapError::TooManyHeaps));
        assert!(one_more.allocate(bytes(8)).is_err());
        assert!(one_more.try_share().is_err());
        heaps.iter().for_each(|(_, held)| held.check());
        // A slot given back serves the next heap.
        let (heap, held) = heaps.swap_remove(12_345);
        held.free(&&heap);
        drop(heap);
        let next = Heap::new();
        Held::new(&&next, bytes(64), 1).unwrap().free(&&next);
        assert_eq!(next.stats().live_blocks, 0);
        heaps.into_iter().for_each(|(heap, held)| held.free(&&heap));
        drop(next);
        assert_eq!(polyheap::heaps().count(), 0);
        let left = current_resident_bytes() - before;
        assert!(left <= 40 << 20, "{left} bytes are left of all heaps");
    });
}

fn make_and_drop(count: usize) {
    let cycle = |count: usize| {
        for id in 0..count {
            let heap = Heap::new();
            Held::new(&&heap, bytes(64), id as u64).unwrap();
            if id % 8 == 0 {
                Held::new(&&heap, bytes(50_000), 2).unwrap();
            }
        }
    };
    cycle(count / 10);
    let (resident, mappings, started) = (current_resident_bytes(), mapping_count(), Instant::now());
    cycle(count);
    let (resident_after, mappings_after) = (current_resident_bytes(), mapping_count());
    eprintln!("{resident} -> {resident_after} bytes, {:?} in all", started.elapsed());
    assert!(resident_after <= resident + NOISE_BYTES);
    assert!(mappings_after <= mappings + 4, "{mappings} -> {mappings_after} mappings");
}

#[test]
fn heaps_made_and_dropped_leave_memory_flat() {
    let name = "heaps::heaps_made_and_dropped_leave_memory_flat";
    alone(name, LIMIT, || make_and_drop(scaled(1_000_000)));
}

#[test]
#[ignore = "some seconds in an optimised build; POLYHEAP_HEAPS sets how many"]
fn a_million_heaps_made_and_dropped_leave_memory_flat() {
    let name = "heaps::a_million_heaps_made_and_dropped_leave_memory_flat";
    alone(name, LIMIT, || make_and_drop(size_from_env("POLYHEAP_HEAPS", 1_000_000)));
}

#[test]
fn a_thousand_heaps_dropped_leave_the_memory_of_the_start() {
    alone("heaps::a_thousand_heaps_dropped_leave_the_memory_of_the_start", LIMIT, || {
        drop(make_heaps(1_000));
        let before = current_resident_bytes();
        let heaps = make_heaps(1_000);
        let each = (current_resident_bytes() - before) / 1_000;
        eprintln!("{each} resident bytes a heap");
        drop(heaps);
        let after = current_resident_bytes();
        assert!(after <= before + (1 << 20), "{before} -> {after}");
    });
}

#[test]
fn threads_make_use_and_drop_heaps_at_the_same_time() {
    let make_use_drop = || {
        for round in 0..scaled(20_000) {
            let (first, second) = (Heap::new(), Heap::builder().thread_cache(false).build());
            let held: Vec<Held> =
                (0..20).map(|id| Held::new(&&first, bytes(round % 500 + 1), id).unwrap()).collect();
            let other = Held::new(&&second, bytes(200), 3).unwrap();
            held.iter().for_each(Held::check);
            held.into_iter().skip(5).for_each(|held| held.free(&&first));
            assert_ne!(first.id(), second.id());
            assert!(!first.owns(other.block) && second.owns(other.block));
            drop(first);
            other.free(&&second);
        }
    };
    run_to_the_end([make_use_drop; 4]);
}

#[test]
fn a_static_heap_and_an_unused_one_cost_nothing_until_used() {
    static UNUSED: Heap = Heap::builder().name("unused").build();
    let stats = UNUSED.stats();
    assert_eq!((stats.held_bytes, stats.regions, stats.threads), (0, 0, 0));
    assert!(polyheap::heaps().all(|summary| summary.name() != "unused"));
    assert_eq!(UNUSED.trim(), 0);
    let empty = UNUSED.allocate(bytes(0)).unwrap();
    assert_eq!((empty.len(), UNUSED.stats().regions), (0, 0));
}
