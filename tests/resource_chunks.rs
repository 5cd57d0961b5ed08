//! The two resources that take chunks of their upstream and cut them up: monotonic and pool.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::resource::{Budget, Counting, MemoryResource, Monotonic, Null, Owner, Pool, Traced};

use support::{Held, Random, assert_disjoint, scaled};

type Dyn<'a> = &'a dyn MemoryResource;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn resource(resource: &impl MemoryResource) -> Dyn<'_> {
    resource
}

// Monotonic.

#[test]
fn the_buffer_is_filled_first_and_nothing_is_taken_before() {
    let counting = Counting::new(Heap::new());
    let mut buffer = [MaybeUninit::uninit(); 1_000];
    let range = buffer.as_ptr_range();
    let scratch = Monotonic::with_buffer(&mut buffer, &counting);
    let is_inside =
        |held: &Held| (range.start as usize..range.end as usize).contains(&held.address());
    let live: std::vec::Vec<Held> =
        (0..9).map(|id| Held::new(&&scratch, layout(100, 1), id).unwrap()).collect();
    assert!(live.iter().all(is_inside) && counting.counts().allocated_blocks == 0);
    let beyond = Held::new(&&scratch, layout(200, 1), 9).unwrap();
    assert!(!is_inside(&beyond) && counting.counts().allocated_blocks == 1);
    assert!(scratch.has(beyond.block) && live.iter().all(|held| scratch.has(held.block)));
    assert!(!scratch.has(NonNull::from(&counting).cast()));
    live.into_iter().chain([beyond]).for_each(|held| held.free(&&scratch));
}

/// Every place and length of a small buffer, with bytes on both sides that nobody may touch.
#[test]
fn tiny_and_unaligned_buffers_are_used_within_their_bounds() {
    const CANARY: u8 = 0xa7;
    for offset in 0..64 {
        for length in (0..64).chain([100, 255, 256]) {
            let mut memory = [MaybeUninit::new(CANARY); 64 + 256 + 64];
            let buffer = &mut memory[offset..offset + length];
            let bounds = buffer.as_ptr() as usize..buffer.as_ptr() as usize + length;
            let mut scratch = Monotonic::with_buffer(buffer, Null);
            for _ in 0..2 {
                let mut live = std::vec::Vec::new();
                for (size, align) in [(1, 1), (8, 8), (3, 32), (0, 4096), (24, 2), (5, 16)] {
                    live.extend(Held::new(&&scratch, layout(size, align), size as u64));
                }
                live.extend(Held::zeroed(&&scratch, layout(1, 1), 1));
                assert_disjoint(live.iter().filter(|held| held.usable > 0).map(Held::region));
                let within =
                    |held: &Held| bounds.start <= held.address() && held.region().end <= bounds.end;
                assert!(live.iter().all(|held| held.usable == 0 || within(held)));
                assert!(length < 80 || live.len() > 3, "{offset} {length}: {}", live.len());
                live.into_iter().rev().for_each(|held| held.free(&&scratch));
                scratch.release();
            }
            drop(scratch);
            let outside = memory[..offset].iter().chain(&memory[offset + length..]);
            for byte in outside {
                // SAFETY: the bytes outside the buffer were initialised.
                assert_eq!(unsafe { byte.assume_init() }, CANARY, "{offset} {length}");
            }
        }
    }
}

#[test]
fn the_latest_block_grows_shrinks_and_comes_back_in_place() {
    let scratch = Monotonic::new(Heap::new());
    let alloc = &&scratch;
    let first = Held::new(alloc, layout(100, 8), 1).unwrap();
    let mut latest = Held::new(alloc, layout(100, 8), 2).unwrap();
    let place = latest.address();
    latest.grow(alloc, layout(1_000, 8)).unwrap();
    latest.grow_zeroed(alloc, layout(1_500, 8)).unwrap();
    latest.shrink(alloc, layout(64, 8)).unwrap();
    assert_eq!(latest.address(), place);
    let next = Held::new(alloc, layout(8, 8), 3).unwrap();
    assert_eq!(next.address(), place + 64);
    next.free(alloc);
    latest.free(alloc);
    let again = Held::new(alloc, layout(8, 8), 4).unwrap();
    assert_eq!(again.address(), place);
    // One that is not the latest moves, and what lies behind it is not touched.
    let mut first = first;
    first.grow(alloc, layout(200, 8)).unwrap();
    assert_ne!(first.address(), place - 104);
    again.free(alloc);
    first.free(alloc);
}

#[test]
fn chunks_double_up_to_a_cap_and_large_blocks_lie_apart() {
    let traced = Traced::<_, 64>::new(Heap::new());
    let scratch = Monotonic::new(&traced as Dyn<'_>);
    let mut live = std::vec::Vec::new();
    for id in 0..6_000 {
        live.push(Held::new(&&scratch, layout(1_000, 8), id).unwrap());
    }
    let sizes: std::vec::Vec<usize> = traced.events().map(|event| event.bytes).collect();
    let kib = |kib: usize| kib << 10;
    assert_eq!(sizes[..8], [4, 8, 16, 32, 64, 128, 256, 512].map(kib));
    assert!(sizes[8..].iter().all(|&bytes| bytes == kib(1024)) && sizes.len() >= 13);
    // A large request takes its own, and the next small one goes where the last small one went.
    let large = Held::new(&&scratch, layout(3 << 20, 8), 1).unwrap();
    let after = Held::new(&&scratch, layout(8, 8), 2).unwrap();
    assert_eq!(traced.events().last().unwrap().bytes >> 20, 3);
    assert_eq!(after.address(), live.last().unwrap().region().end);
    assert!(scratch.held_bytes() >= 9 << 20);
    live.into_iter().chain([large, after]).for_each(|held| held.free(&&scratch));
}

/// Hazard: one big request makes all later chunks big.
#[test]
fn a_large_request_does_not_make_later_chunks_larger() {
    let budget = Budget::new(Heap::new(), 1_100_000);
    let scratch = Monotonic::new(&budget as Dyn<'_>);
    for size in [10, 1 << 20, 10] {
        Held::new(&&scratch, layout(size, 1), 1).unwrap();
    }
    assert!(
        scratch.held_bytes() < (1 << 20) + 2 * 4096 + 1_000,
        "{scratch:?}",
        scratch = scratch.held_bytes()
    );
}

#[test]
fn a_smaller_chunk_is_tried_before_failing() {
    let budget = Budget::new(Heap::new(), 20_000);
    let scratch = Monotonic::new(&budget as Dyn<'_>);
    let mut blocks = 0;
    while Allocator::allocate(&&scratch, layout(100, 1)).is_ok() {
        blocks += 1;
    }
    assert!(blocks * 104 > 19_000, "{blocks} blocks of 20 000 B");
}

#[test]
fn release_gives_all_back_and_begins_again() {
    let counting = Counting::new(Heap::new());
    let mut buffer = [MaybeUninit::uninit(); 256];
    let start = buffer.as_ptr() as usize;
    let mut scratch = Monotonic::with_buffer(&mut buffer, &counting);
    for round in 0..3 {
        for size in [10, 300, 70_000, 5, 2_000_000] {
            let held = Held::new(&&scratch, layout(size, 1), round).unwrap();
            assert!(size != 10 || held.address() - start < 8, "the buffer again");
        }
        assert_eq!(counting.counts().live_blocks, 3);
        scratch.release();
        assert_eq!((counting.counts().live_blocks, scratch.held_bytes()), (0, 0));
    }
}

#[test]
fn reset_keeps_the_newest_chunk_and_takes_no_other() {
    let counting = Counting::new(Heap::new());
    let mut scratch = Monotonic::new(&counting);
    let fill = |scratch: &Monotonic<'_, _>| {
        for id in 0..200 {
            Held::new(&scratch, layout(100, 1), id).unwrap();
        }
        Held::new(&scratch, layout(1 << 20, 1), 1).unwrap();
    };
    fill(&scratch);
    scratch.reset();
    assert_eq!(counting.counts().live_blocks, 1);
    let before = counting.counts().allocated_blocks;
    for _ in 0..5 {
        fill(&scratch);
        scratch.reset();
    }
    // The large block each time, and at most one chunk more.
    assert!(counting.counts().allocated_blocks <= before + 6, "{:?}", counting.counts());
    assert_eq!(counting.counts().live_blocks, 1);
    drop(scratch);
    assert_eq!(counting.counts().live_blocks, 0);
}

/// Hazard: padding worked out for the old chunk is applied in the new one.
#[test]
fn alignment_is_worked_out_anew_in_a_new_chunk() {
    for align in [16, 64, 512, 2048] {
        for left in (0..=align).step_by(8) {
            let scratch = Monotonic::new(Heap::new());
            let taken = 4096 - 32 - left;
            let first = Held::new(&&scratch, layout(8, 8), 1).unwrap();
            let mut fill = std::vec::Vec::new();
            for at in 0..(taken - 8) / 8 {
                fill.push(Held::new(&&scratch, layout(8, 8), at as u64).unwrap());
            }
            let held = Held::new(&&scratch, layout(left + 1, align), 2).unwrap();
            fill.iter().for_each(Held::check);
            assert_disjoint(fill.iter().chain([&first, &held]).map(Held::region));
        }
    }
}

// Pool.

#[test]
fn freed_blocks_serve_their_class_again_and_take_no_more() {
    let counting = Counting::new(Heap::new());
    let pool = Pool::new(&counting as Dyn<'_>);
    let round = || {
        let live: std::vec::Vec<Held> = (0..2_000)
            .map(|id| Held::new(&&pool, layout(1 + id as usize % 700, 1), id).unwrap())
            .collect();
        assert_disjoint(live.iter().map(Held::region));
        live.into_iter().for_each(|held| held.free(&&pool));
    };
    round();
    let before = counting.counts();
    (0..5).for_each(|_| round());
    assert_eq!(counting.counts(), before);
}

#[test]
fn blocks_have_the_length_and_alignment_of_their_class() {
    let pool = Pool::new(Heap::new());
    let mut live = std::vec::Vec::new();
    for align in [1, 16, 32, 64, 128, 4096] {
        for size in [1, 16, 17, 33, 48, 65, 1_000, 32_768, 32_769] {
            let held = Held::new(&&pool, layout(size, align), size as u64).unwrap();
            assert!(held.usable - size < 16 + size / 4 + align, "{size} {align}: {}", held.usable);
            assert!(pool.has(held.block));
            live.push(held);
        }
    }
    assert_disjoint(live.iter().map(Held::region));
    live.into_iter().for_each(|held| held.free(&&pool));
}

#[test]
fn a_released_or_dropped_pool_gives_everything_back_leaked_blocks_included() {
    let counting = Counting::new(Heap::new());
    let mut pool = Pool::new(&counting);
    for _ in 0..2 {
        for size in [10, 40_000, 1_000, 3_000_000, 50] {
            Held::new(&&pool, layout(size, 64), 1).unwrap();
        }
        assert_eq!(counting.counts().live_blocks, 3);
        pool.release();
        assert_eq!((counting.counts().live_blocks, counting.counts().live_bytes), (0, 0));
    }
    // What was freed before the release is not handed out after it.
    Held::new(&&pool, layout(10, 1), 1).unwrap().free(&&pool);
    pool.release();
    assert!(pool.has(Held::new(&&pool, layout(10, 1), 1).unwrap().block));
    Held::new(&&pool, layout(100_000, 1), 1).unwrap();
    Held::new(&&pool, layout(1, 1), 1).unwrap();
    drop(pool);
    assert_eq!(counting.counts().live_blocks, 0);
}

/// The list of large blocks is relinked at every resize, first, last and in the middle.
#[test]
fn large_blocks_of_a_pool_are_resized_in_any_order() {
    let mut random = Random::for_test("large_blocks_of_a_pool");
    let counting = Counting::new(Heap::new());
    let pool = Pool::new(&counting as Dyn<'_>);
    let alloc = resource(&pool);
    let mut live: std::vec::Vec<Held> =
        (0..5).map(|id| Held::new(&alloc, layout(50_000, 1), id).unwrap()).collect();
    for _ in 0..scaled(20_000) {
        let at = random.below(live.len());
        let to = layout(33_000 + random.below(60_000), 1 << random.below(8));
        match to.size() >= live[at].layout.size() {
            true if random.one_in(2) => live[at].grow_zeroed(&alloc, to).unwrap(),
            true => live[at].grow(&alloc, to).unwrap(),
            false => live[at].shrink(&alloc, to).unwrap(),
        }
        if random.one_in(4) {
            live.swap_remove(random.below(live.len())).free(&alloc);
            live.push(Held::zeroed(&alloc, layout(40_000, 256), at as u64).unwrap());
        }
        assert!(live.iter().all(|held| pool.has(held.block)));
        live.iter().for_each(Held::check);
    }
    live.into_iter().for_each(|held| held.free(&alloc));
    assert_eq!((counting.counts().live_blocks, counting.counts().live_bytes), (0, 0));
}

#[test]
fn a_pool_over_little_memory_uses_it() {
    let budget = Budget::new(Heap::new(), 10_000);
    let pool = Pool::new(&budget as Dyn<'_>);
    let mut blocks = 0;
    while Allocator::allocate(&&pool, layout(100, 1)).is_ok() {
        blocks += 1;
    }
    assert!(blocks * 112 > 8_000, "{blocks} blocks of 10 000 B");
}
