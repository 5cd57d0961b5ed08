//! Limits: what a heap may hold, who is denied when it would hold more, and that nothing is lost
//! over that.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{Decay, Heap, HeapBuilder, HeapError, HugePages};

use support::{Held, Random, alone, current_resident_bytes, run_to_the_end};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const CHUNK_BYTES: usize = 64 * KIB;
const LIMIT: Duration = Duration::from_secs(120);

/// Sizes of twenty slab classes.
const TWENTY: [usize; 20] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 512, 640, 1_024, 1_536, 2_048,
    4_096,
];

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn held(heap: &Heap, size: usize, id: usize) -> Option<Held> {
    Held::new(&heap, bytes(size), id as u64).ok()
}

/// Allocates blocks of `size` bytes until one is denied.
fn fill(heap: &Heap, size: usize) -> Vec<Held> {
    let blocks: Vec<Held> = (0..1 << 20).map_while(|id| held(heap, size, id)).collect();
    assert!(blocks.len() < 1 << 20, "no limit holds");
    blocks
}

fn free_all(heap: &Heap, blocks: Vec<Held>) {
    blocks.into_iter().for_each(|block| block.free(&heap));
}

/// One heap for each way to make one that has a path of its own through charges.
fn builders() -> [(&'static str, HeapBuilder); 10] {
    let builder = Heap::builder;
    [
        ("default", builder()),
        ("direct", builder().thread_cache(false)),
        ("no spares", builder().thread_cache_bytes(0)),
        ("no large", builder().thread_large_bytes(0).heap_large_bytes(0)),
        ("no large of threads", builder().thread_large_bytes(0)),
        ("isolated", builder().isolated(true)),
        ("eager", builder().decay(Decay::Eager)),
        ("never", builder().decay(Decay::Never)),
        ("huge pages", builder().huge_pages(HugePages::Always)),
        ("small pages", builder().huge_pages(HugePages::Never).decay(Decay::Eager)),
    ]
}

/// Fills a heap until it denies a block of `sizes`, samples what it holds meanwhile.
fn fill_from_four_threads(heap: &Heap, max_bytes: usize, sizes: &[usize]) {
    const THREADS: usize = 4;
    let is_over = AtomicBool::new(false);
    let (least, lists) = thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Acquire) {
                most = most.max(heap.stats().held_bytes);
            }
            assert!(most <= max_bytes, "{most} bytes held at once");
        });
        let lists = run_to_the_end((0..THREADS).map(|number| {
            move || {
                let mut blocks = Vec::new();
                loop {
                    let id = blocks.len();
                    let size = sizes[(number + id) % sizes.len()];
                    match held(heap, size, number << 32 | id) {
                        Some(block) => blocks.push(block),
                        None => return (heap.stats().held_bytes, blocks),
                    }
                }
            }
        }));
        is_over.store(true, Ordering::Release);
        sampler.join().unwrap();
        let least = lists.iter().map(|(held_bytes, _)| *held_bytes).min().unwrap();
        (least, lists)
    });
    let slack = THREADS * 2 * CHUNK_BYTES;
    assert!(least <= max_bytes && least + slack >= max_bytes, "denied at {least}: {sizes:?}");
    let denied = heap.stats();
    assert!(denied.denied_by_limit >= THREADS as u64 && denied.denied_by_system == 0, "{denied}");
    for (_, blocks) in lists {
        free_all(heap, blocks);
    }
}

#[test]
fn a_heap_filled_by_four_threads_is_never_above_its_limit_and_full_when_it_denies() {
    let name = "a_heap_filled_by_four_threads_is_never_above_its_limit_and_full_when_it_denies";
    alone(name, LIMIT, || {
        for (what, builder) in builders() {
            eprintln!("{what}");
            let mut heap = builder.max_bytes(8 * MIB).build();
            let cases: [&[usize]; 5] = [
                &[64],
                &[4_096],
                &[16, 48, 100, 640, 1_024, 3_000, 10_000],
                &[32_768],
                &[40_000, 65_536],
            ];
            for sizes in cases {
                fill_from_four_threads(&heap, 8 * MIB, sizes);
                assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0), "{what}");
                heap.trim();
                assert_eq!(heap.verify(), Ok(()), "{what} after a trim");
            }
        }
    });
}

#[test]
fn a_heap_has_no_more_resident_than_its_limit() {
    alone("a_heap_has_no_more_resident_than_its_limit", LIMIT, || {
        for size in [64, 700, 5_000, 32_768, 65_536, 400_000, 3_000_000] {
            let heap = Heap::builder().max_bytes(8 * MIB).isolated(true).build();
            heap.bind().unwrap();
            let before = current_resident_bytes();
            // Without a list of blocks, which takes memory elsewhere.
            let mut count = 0;
            while heap.allocate_zeroed(bytes(size)).is_ok_and(|block| {
                // SAFETY: the block is live and has so many bytes.
                unsafe { block.cast::<u8>().write_bytes(1, block.len()) };
                true
            }) {
                count += 1;
            }
            let resident = current_resident_bytes().saturating_sub(before);
            assert!(resident <= 8 * MIB + 256 * KIB, "{resident} resident, {count} of {size}");
            assert!(count * size >= 6 * MIB - size, "{count} of {size}");
        }
    });
}

#[test]
fn three_quarters_of_a_small_limit_are_usable_by_twenty_sizes() {
    for (what, builder) in builders() {
        let mut heap = builder.max_bytes(256 * KIB).build();
        let mut blocks = Vec::new();
        let mut is_denied = [false; TWENTY.len()];
        while is_denied.contains(&false) {
            for (number, &size) in TWENTY.iter().enumerate() {
                if is_denied[number] {
                    continue;
                }
                match held(&heap, size, blocks.len()) {
                    Some(block) => blocks.push(block),
                    None => is_denied[number] = true,
                }
            }
        }
        let asked: usize = blocks.iter().map(|block| block.layout.size()).sum();
        assert!(asked >= 192 * KIB, "{what}: {asked} bytes of 256 KiB handed out");
        assert!(heap.stats().held_bytes <= 256 * KIB, "{what}");
        blocks.iter().for_each(Held::check);
        assert_eq!(heap.verify(), Ok(()), "{what}");
        free_all(&heap, blocks);
    }
}

#[test]
fn many_rounds_of_fill_deny_and_free_leave_the_counters_exact() {
    let name = "many_rounds_of_fill_deny_and_free_leave_the_counters_exact";
    let mut random = Random::for_test(name);
    for (what, builder) in builders() {
        let is_plain = what == "default";
        let mut heap = builder.max_bytes(256 * KIB).build();
        heap.bind().unwrap();
        let rounds = if is_plain { 10_000 } else { 300 };
        let mut least = usize::MAX;
        for round in 0..rounds {
            let size = [1_000, 2_048, 6_000, 16_384, 32_768, 60_000][random.below(6)];
            let mut blocks = fill(&heap, size);
            if size < 10_000 {
                least = least.min(blocks.len() * size);
            }
            while !blocks.is_empty() {
                blocks.swap_remove(random.below(blocks.len())).free(&&heap);
            }
            if round % 100 == 0 || round + 1 == rounds {
                let stats = heap.stats();
                let counts = (stats.live_blocks, stats.live_bytes, stats.mappings);
                assert_eq!(counts, (0, 0, 0), "{what}, round {round}: {stats}");
                assert_eq!(stats.denied_by_limit, round + 1, "{what}, round {round}");
                assert_eq!(stats.denied_by_system, 0, "{what}, round {round}");
                assert_eq!(heap.verify(), Ok(()), "{what}, round {round}");
            }
        }
        // Every round found as much room as the first ones did.
        assert!(least >= 160 * KIB, "{what}: some round got {least} bytes only");
        heap.trim();
        let stats = heap.stats();
        assert_eq!((stats.cached_bytes, stats.kept_large_bytes, stats.dirty_bytes), (0, 0, 0));
        assert!(stats.held_bytes <= 32 * KIB, "{what}: {stats}");
    }
}

/// Everything a heap says of itself but for what it denied and keeps.
fn state(heap: &Heap) -> (usize, usize, usize, Vec<usize>) {
    let stats = heap.stats();
    let classes = stats.classes.iter().map(|class| class.live_blocks).collect();
    (stats.live_bytes, stats.live_blocks, stats.mappings, classes)
}

#[test]
fn a_denied_request_leaves_everything_as_it_was() {
    for (what, builder) in builders() {
        let mut heap = builder.max_bytes(6 * MIB).build();
        let sizes = [16, 700, 32_768, 65_536, 300_000, 3_000_000];
        let mut blocks: Vec<Held> =
            sizes.iter().map(|&size| held(&heap, size, size).unwrap()).collect();
        let before = state(&heap);
        let mut denied = 0;
        let mut deny = |outcome: bool, asked: &str| {
            denied += 1;
            assert!(outcome, "{what}: {asked}");
            assert_eq!(heap.stats().denied_by_limit, denied, "{what}: {asked}");
            assert_eq!(state(&heap), before, "{what}: {asked}");
            assert!(heap.stats().held_bytes <= 6 * MIB, "{what}: {asked}");
        };
        for size in [3 * MIB, 7 * MIB, 100 * MIB, 3 << 30] {
            deny(heap.allocate(bytes(size)).is_err(), "a mapping");
            deny(heap.allocate_zeroed(bytes(size)).is_err(), "a zeroed one");
            let aligned = Layout::from_size_align(size, 4 * MIB).unwrap();
            deny(heap.allocate(aligned).is_err(), "an aligned one");
        }
        for block in &mut blocks {
            deny(block.grow(&&heap, bytes(10 * MIB)).is_err(), "growth");
            deny(block.grow_zeroed(&&heap, bytes(200 * MIB)).is_err(), "zeroed growth");
        }
        blocks.iter().for_each(Held::check);
        assert_eq!(heap.stats().denied_by_system, 0, "{what}");
        assert_eq!(heap.verify(), Ok(()), "{what}");
        free_all(&heap, blocks);
        // Works again.
        held(&heap, 5 * MIB, 1).unwrap().free(&&heap);
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0), "{what}");
    }
}

#[test]
fn what_the_system_refuses_is_counted_apart_from_what_the_limit_does() {
    for limit in [None, NonZeroUsize::new(1 << 60)] {
        let heap = Heap::new();
        heap.set_limit(limit).unwrap();
        assert!(heap.allocate(bytes(1 << 50)).is_err());
        let stats = heap.stats();
        assert_eq!((stats.denied_by_limit, stats.denied_by_system), (0, 1));
        heap.set_limit(NonZeroUsize::new(MIB)).unwrap();
        assert!(heap.allocate(bytes(1 << 50)).is_err());
        let stats = heap.stats();
        assert_eq!((stats.denied_by_limit, stats.denied_by_system), (1, 1));
    }
}

#[test]
fn spans_and_mappings_and_huge_blocks_are_limited_too() {
    for (what, builder) in builders() {
        for size in [65_536, 300_000, 2 * MIB, 2 * MIB + 1, 10 * MIB, 80 * MIB, 300 * MIB] {
            let max_bytes = (size * 5).max(8 * MIB);
            let mut heap = builder.clone().max_bytes(max_bytes).build();
            for round in 0..3 {
                let mut blocks = Vec::new();
                // Untouched: it counts all the same, as the system may be asked for it any time.
                while let Ok(block) = heap.allocate(bytes(size)) {
                    blocks.push(Held::unwritten(block, bytes(size), 0));
                }
                let held_bytes = heap.stats().held_bytes;
                assert!(held_bytes <= max_bytes, "{what}, {size}: {held_bytes}");
                let used = blocks.iter().map(|block| block.usable).sum::<usize>();
                let is_used = used + size * 2 + 8 * CHUNK_BYTES >= max_bytes;
                assert!(is_used, "{what}, {size}, round {round}: {used} of {max_bytes}");
                assert_eq!(heap.verify(), Ok(()), "{what}, {size}");
                free_all(&heap, blocks);
                assert_eq!(heap.verify(), Ok(()), "{what}, {size}");
            }
            assert_eq!(heap.stats().denied_by_limit, 3, "{what}, {size}");
        }
    }
}

/// What threads and the heap keep for the next requests must not stand in the way of one.
#[test]
fn kept_memory_gives_way_to_a_request_of_another_size() {
    for (what, builder) in builders() {
        let mut heap = builder.max_bytes(8 * MIB).build();
        let sizes = [640, 4_096, 32_768, 65_536, 196_608, MIB, 3 * MIB, 5 * MIB, 7 * MIB];
        for round in 0..20 {
            let size = sizes[round * 4 % sizes.len()];
            let blocks = fill(&heap, size);
            let got = blocks.len() * size;
            assert!(got >= 6 * MIB || got + size > 8 * MIB - MIB, "{what}: {got} in {size}");
            free_all(&heap, blocks);
            assert_eq!(heap.verify(), Ok(()), "{what}");
        }
        // Of a thread that ended, as well.
        run_to_the_end([|| free_all(&heap, fill(&heap, 65_536))]);
        run_to_the_end([|| free_all(&heap, fill(&heap, 3 * MIB))]);
        held(&heap, 7 * MIB, 1).unwrap().free(&&heap);
        assert_eq!(heap.verify(), Ok(()), "{what}");
    }
}

/// A block that could grow where it lies is not denied because of what nobody uses.
#[test]
fn kept_memory_gives_way_to_growth() {
    for (small, large) in [(3 * MIB, 5 * MIB), (300_000, 1_500_000)] {
        let max_bytes = if small > 2 * MIB { 6 * MIB } else { 2 * MIB };
        let mut heap = Heap::builder().max_bytes(max_bytes).build();
        let mut block = held(&heap, small, 1).unwrap();
        let idle: Vec<Held> = fill(&heap, 65_536);
        free_all(&heap, idle);
        let grown = block.grow(&&heap, bytes(large));
        assert!(grown.is_ok(), "{small} to {large}: {}", heap.stats());
        block.free(&&heap);
        assert_eq!(heap.verify(), Ok(()));
    }
}

#[test]
fn a_soft_limit_makes_the_heap_give_back_before_it_takes_more() {
    for (what, builder) in builders() {
        let mut heap = builder.clone().soft_max_bytes(4 * MIB).build();
        let free_heap = builder.build();
        for heap in [&heap, &free_heap] {
            for size in [600, 5_000, 65_536, 20_000, 500_000, 3_000_000] {
                let blocks: Vec<Held> =
                    (0..6 * MIB / size).map(|id| held(heap, size, id).unwrap()).collect();
                free_all(heap, blocks);
            }
            // One more request: what idles is above the soft limit.
            held(heap, 70_000, 1).unwrap().free(&heap);
        }
        let stats = heap.stats();
        assert!(stats.held_bytes <= 5 * MIB, "{what}: {stats}");
        assert_eq!((stats.denied_by_limit, stats.denied_by_system), (0, 0), "{what}");
        assert_eq!(heap.verify(), Ok(()), "{what}");
        // It denies nothing, however much is live.
        let blocks: Vec<Held> = (0..40).map(|id| held(&heap, 600_000, id).unwrap()).collect();
        assert_eq!(heap.stats().denied_by_limit, 0, "{what}");
        free_all(&heap, blocks);
        heap.set_soft_limit(None).unwrap();
        let blocks: Vec<Held> = (0..100).map(|id| held(&heap, 65_000, id).unwrap()).collect();
        free_all(&heap, blocks);
        held(&heap, 130_000, 1).unwrap().free(&&heap);
        let is_eager = what == "eager" || what == "small pages";
        assert!(heap.stats().held_bytes > 4 * MIB || is_eager, "{what}: {}", heap.stats());
        assert_eq!(heap.verify(), Ok(()), "{what}");
    }
}

#[test]
fn a_limit_below_what_is_held_takes_nothing_away_and_denies_what_is_new() {
    for (what, builder) in builders() {
        let mut heap = builder.build();
        let sizes = [48, 2_000, 32_768, 150_000, 3_000_000];
        let blocks: Vec<Held> = sizes
            .iter()
            .flat_map(|&size| (0..8).map(move |id| (size, id)))
            .map(|(size, id)| held(&heap, size, id).unwrap())
            .collect();
        let before = heap.stats().held_bytes;
        heap.set_limit(NonZeroUsize::new(MIB)).unwrap();
        for size in [150_000, 3_000_000, 2 * MIB + 1] {
            assert!(held(&heap, size, 1).is_none(), "{what}: {size}");
        }
        let stats = heap.stats();
        assert_eq!((stats.denied_by_limit, stats.live_blocks), (3, 40), "{what}: {stats}");
        assert!(stats.held_bytes <= before, "{what}: {stats}");
        blocks.iter().for_each(Held::check);
        free_all(&heap, blocks);
        let small = fill(&heap, 1_000);
        assert!(small.len() * 1_000 >= 768 * KIB, "{what}: {}", heap.stats());
        assert!(heap.stats().held_bytes <= MIB, "{what}: {}", heap.stats());
        // None at all.
        heap.set_limit(None).unwrap();
        held(&heap, 20 * MIB, 1).unwrap().free(&&heap);
        free_all(&heap, small);
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0), "{what}");
    }
}

#[test]
fn limits_that_change_all_the_time_keep_the_account_exact() {
    let mut random = Random::for_test("limits_that_change_all_the_time");
    let mut heap = Heap::new();
    heap.bind().unwrap();
    let is_over = AtomicBool::new(false);
    let churn = |mut random: Random| {
        let mut live = Vec::new();
        for id in 0..6_000 {
            live.extend(held(&heap, random.size(3_000_000), id));
            if live.len() > 30 || (random.one_in(3) && !live.is_empty()) {
                live.swap_remove(random.below(live.len())).free(&&heap);
            }
        }
        free_all(&heap, live);
    };
    let seeds: [Random; 3] = core::array::from_fn(|_| random.fork());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = [0, 16 * KIB, 300 * KIB, 2 * MIB, 20 * MIB][random.below(5)];
                heap.set_limit(NonZeroUsize::new(bytes)).unwrap();
                let bytes = [0, 100 * KIB, 4 * MIB][random.below(3)];
                heap.set_soft_limit(NonZeroUsize::new(bytes)).unwrap();
                thread::sleep(Duration::from_micros(200));
            }
        });
        run_to_the_end(seeds.map(|random| {
            let churn = &churn;
            move || churn(random)
        }));
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(heap.stats().denied_by_limit > 0);
    assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    heap.set_limit(None).unwrap();
    held(&heap, 30 * MIB, 1).unwrap().free(&&heap);
    assert_eq!(heap.verify(), Ok(()));
}

#[test]
fn a_limit_too_low_for_a_header_is_an_error_and_harms_nobody() {
    for max_bytes in [1, 4_096, 8_191] {
        let heap = Heap::builder().max_bytes(max_bytes).build();
        let refused = heap.bind();
        assert!(matches!(refused, Err(HeapError::LimitExceeded { .. })), "{refused:?}");
        assert!(heap.allocate(bytes(10)).is_err() && heap.allocate(bytes(0)).is_ok());
        assert_eq!(heap.stats().held_bytes, 0);
    }
    let mut heap = Heap::builder().max_bytes(16 * KIB).build();
    let blocks = fill(&heap, 100);
    assert!(!blocks.is_empty(), "{}", heap.stats());
    free_all(&heap, blocks);
    assert_eq!(heap.verify(), Ok(()));
}

#[test]
fn blocks_of_another_heap_count_against_the_limit_of_the_one_they_go_to() {
    let mut parent = Heap::builder().max_bytes(4 * MIB).build();
    parent.bind().unwrap();
    let child = Heap::new();
    let blocks: Vec<Held> = (0..20).map(|id| held(&child, 300_000, id).unwrap()).collect();
    let large = held(&child, 5 * MIB, 7).unwrap();
    child.leak_into(&parent);
    // Above its limit: nothing is taken away, nothing is given.
    assert!(parent.stats().held_bytes >= 11_000_000, "{}", parent.stats());
    assert!(held(&parent, 3 * MIB, 1).is_none());
    assert_eq!(parent.verify(), Ok(()));
    free_all(&parent, blocks);
    large.free(&&parent);
    assert_eq!(parent.verify(), Ok(()));
    // What it holds already it may hand out again; what it gave back it must not take anew.
    parent.trim();
    let again = fill(&parent, 65_536);
    assert!(again.len() * 65_536 >= 3 * MIB, "{}", parent.stats());
    assert!(parent.stats().held_bytes <= 4 * MIB, "{}", parent.stats());
    free_all(&parent, again);
    parent.reset();
    assert_eq!(parent.verify(), Ok(()));
    assert!(fill(&parent, 65_536).len() * 65_536 >= 3 * MIB, "{}", parent.stats());
}
