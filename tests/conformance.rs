//! The whole contract of `allocator_api2` 0.2's `Allocator`, for every allocator and option.
//!
//! Each suite is a function over an allocator and the heap behind it; `for_each_allocator!` makes
//! tests of them. Those that hold for other resources as well are in `support::contract`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::Allocator;

use support::contract::{
    self, any_length_between_the_one_asked_for_and_the_one_returned_frees, layout,
    random_resizes_agree_with_a_shadow_vector, resizing_may_change_the_alignment_either_way,
    resizing_to_the_same_layout_keeps_the_block, slack_is_never_taken_for_contents,
    zeroed_blocks_are_zero_on_dirty_memory_of_every_tier,
};
use support::{Held, SIZES, assert_disjoint, for_each_allocator, scaled};

for_each_allocator!(
    every_size_is_served_and_comes_back,
    any_length_between_the_one_asked_for_and_the_one_returned_frees,
    every_alignment_up_to_the_largest_is_served,
    alignments_beyond_the_largest_are_refused,
    sizes_near_the_end_of_the_address_space_are_refused,
    a_refused_resize_leaves_the_block_as_it_was,
    zero_size_requests_are_aligned_and_take_nothing,
    zero_size_blocks_grow_and_others_shrink_to_zero,
    zeroed_blocks_are_zero_on_dirty_memory_of_every_tier,
    resizing_may_change_the_alignment_either_way,
    resizing_to_the_same_layout_keeps_the_block,
    a_block_too_badly_aligned_for_the_new_layout_moves,
    slack_is_never_taken_for_contents,
    random_resizes_agree_with_a_shadow_vector,
    doubling_keeps_the_contents_whatever_lies_beside,
    random_operations_never_overlap,
    blocks_of_a_power_of_two_are_aligned_to_it_up_to_a_page,
    small_blocks_are_distinct_and_reused,
);

fn every_size_is_served_and_comes_back<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut live = Vec::new();
    for round in 0..3 {
        for (number, size) in SIZES.into_iter().enumerate() {
            let held = Held::new(alloc, layout(size, 1), (round * 100 + number) as u64).unwrap();
            assert!(heap.owns(held.block));
            assert_eq!(heap.usable_size(held.block), Some(held.usable));
            assert_eq!(polyheap::heap_of(held.block), heap.id().ok());
            live.push(held);
        }
    }
    assert_disjoint(live.iter().map(Held::region));
    let stats = heap.stats();
    assert_eq!(stats.live_blocks, live.len());
    assert_eq!(stats.live_bytes, live.iter().map(|held| held.usable).sum::<usize>());
    live.into_iter().for_each(|held| held.free(alloc));
}

fn every_alignment_up_to_the_largest_is_served<A: Allocator>(alloc: &A, _: &Heap) {
    contract::every_alignment_is_served(alloc, Heap::ALIGN_BYTES_MAX);
}

fn a_refused_resize_leaves_the_block_as_it_was<A: Allocator>(alloc: &A, heap: &Heap) {
    contract::a_refused_growth_leaves_the_block_as_it_was(alloc, heap);
    for size in [1, 100, 40_000, 3_000_000] {
        let mut held = Held::new(alloc, layout(size, 1), 9).unwrap();
        assert!(held.shrink(alloc, layout(1, Heap::ALIGN_BYTES_MAX * 2)).is_err());
        held.free(alloc);
    }
}

fn zero_size_requests_are_aligned_and_take_nothing<A: Allocator>(alloc: &A, heap: &Heap) {
    contract::zero_size_requests(alloc, |live| assert_eq!(heap.stats().live_blocks, live));
}

fn zero_size_blocks_grow_and_others_shrink_to_zero<A: Allocator>(alloc: &A, heap: &Heap) {
    contract::zero_size_resizes(alloc, |live| assert_eq!(heap.stats().live_blocks, live));
}

fn random_operations_never_overlap<A: Allocator>(alloc: &A, heap: &Heap) {
    let look = |live| assert_eq!(heap.stats().live_blocks, live);
    contract::random_operations(alloc, scaled(120_000), 6_000_000, look);
}

fn alignments_beyond_the_largest_are_refused<A: Allocator>(alloc: &A, heap: &Heap) {
    for log2 in Heap::ALIGN_BYTES_MAX.ilog2() + 1..usize::BITS - 1 {
        let align = 1usize << log2;
        assert!(alloc.allocate(layout(1, align)).is_err(), "2^{log2}");
        assert!(alloc.allocate_zeroed(layout(1, align)).is_err(), "2^{log2}");
        // A zero-size request needs no memory, so no alignment is too large for it.
        let empty = alloc.allocate(layout(0, align)).unwrap();
        assert!((empty.as_ptr().cast::<u8>() as usize).is_multiple_of(align));
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

fn sizes_near_the_end_of_the_address_space_are_refused<A: Allocator>(alloc: &A, heap: &Heap) {
    // As far as a `Layout` goes: no size rounded up to its alignment exceeds `isize::MAX`.
    heap.bind().unwrap();
    let before = heap.stats().held_bytes;
    for align in [1, 16, 64, 4096, 65_536, 1 << 20] {
        let most = isize::MAX as usize - (align - 1);
        for size in (most - 4096..=most).step_by(7).chain([most - 1, most, most / 2]) {
            assert!(alloc.allocate(layout(size, align)).is_err(), "{size} {align}");
            assert!(alloc.allocate_zeroed(layout(size, align)).is_err(), "{size} {align}");
        }
    }
    let mut held = Held::new(alloc, layout(16, 1), 1).unwrap();
    assert!(held.grow(alloc, layout(isize::MAX as usize, 1)).is_err());
    held.free(alloc);
    let after = heap.stats();
    assert_eq!(after.live_blocks, 0);
    assert!(after.held_bytes <= before + 256 * 1024, "{after}");
}

fn a_block_too_badly_aligned_for_the_new_layout_moves<A: Allocator>(alloc: &A, _: &Heap) {
    // The size class stays the same, but only some of its blocks have the alignment asked for.
    for (size, align) in [(128 << 10, 128 << 10), (1 << 20, 1 << 20), (4 << 20, 16 << 20)] {
        // A smaller block between each two, so that not all start at multiples of their size.
        let mut between = Vec::new();
        let mut live = Vec::new();
        for id in 0..6 {
            between.push(Held::new(alloc, layout(40 << 10, 1), 100 + id).unwrap());
            live.push(Held::new(alloc, layout(size, 1), id).unwrap());
        }
        let badly_aligned = live.iter().filter(|held| !held.address().is_multiple_of(align));
        assert!(badly_aligned.count() > 0, "{size}: nothing to be tested");
        for (number, held) in live.iter_mut().enumerate() {
            // Which way round makes no difference.
            match number % 3 {
                0 => held.grow(alloc, layout(size, align)).unwrap(),
                1 => held.grow_zeroed(alloc, layout(size, align)).unwrap(),
                _ => held.shrink(alloc, layout(size, align)).unwrap(),
            }
        }
        live.into_iter().chain(between).for_each(|held| held.free(alloc));
    }
}

fn doubling_keeps_the_contents_whatever_lies_beside<A: Allocator>(alloc: &A, heap: &Heap) {
    for keeps_neighbour in [false, true] {
        let mut grown = Held::new(alloc, layout(100, 1), 1).unwrap();
        let neighbour = Held::new(alloc, layout(100, 1), 2).unwrap();
        let mut kept = Vec::new();
        if keeps_neighbour {
            kept.push(neighbour);
        } else {
            neighbour.free(alloc);
        }
        // And one that another thread allocated.
        kept.push(std::thread::scope(|scope| {
            scope.spawn(|| Held::new(&heap, layout(100, 1), 3).unwrap()).join().unwrap()
        }));
        while grown.layout.size() < 16 << 20 {
            let doubled = layout(grown.layout.size() * 2, 1);
            grown.grow(alloc, doubled).unwrap();
            kept.iter().for_each(Held::check);
        }
        grown.free(alloc);
        kept.into_iter().for_each(|held| held.free(alloc));
    }
}

fn blocks_of_a_power_of_two_are_aligned_to_it_up_to_a_page<A: Allocator>(alloc: &A, _: &Heap) {
    for log2 in 4..=26 {
        let size = 1usize << log2;
        let blocks: Vec<Held> =
            (0..8).map(|id| Held::new(alloc, layout(size, 1), id).unwrap()).collect();
        for held in &blocks {
            assert!(held.address().is_multiple_of(size.min(4096)), "{held:?}");
            assert_eq!(held.usable, size, "a power of two has a class of its own");
        }
        blocks.into_iter().for_each(|held| held.free(alloc));
    }
}

fn small_blocks_are_distinct_and_reused<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut held_bytes = 0;
    for round in 0..8 {
        for size in [1, 24, 100, 1_000] {
            let live: Vec<Held> =
                (0..1_000).map(|id| Held::new(alloc, layout(size, 1), id).unwrap()).collect();
            assert_disjoint(live.iter().map(Held::region));
            // First in, first out in even rounds, last in, first out in odd ones.
            if round % 2 == 0 {
                live.into_iter().for_each(|held| held.free(alloc));
            } else {
                live.into_iter().rev().for_each(|held| held.free(alloc));
            }
        }
        let now = heap.stats().held_bytes;
        assert!(round < 2 || now <= held_bytes + 64 * 1024, "round {round}: {held_bytes} -> {now}");
        held_bytes = held_bytes.max(now);
    }
}
