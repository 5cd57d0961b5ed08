//! The whole contract of `allocator_api2` 0.2's `Allocator`, for every allocator and option.
//!
//! Each suite is a function over an allocator and the heap behind it; `for_each_allocator!` makes
//! tests of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{Allocator, Layout};

use support::{Held, Random, SIZES, assert_disjoint, for_each_allocator, scaled};

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

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a valid layout")
}

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

fn any_length_between_the_one_asked_for_and_the_one_returned_frees<A: Allocator>(
    alloc: &A,
    heap: &Heap,
) {
    // Containers free with the length they were told of, or with anything they made of it.
    for align in [1, 8, 32, 64, 4096, 65_536, 2 << 20] {
        for size in SIZES.into_iter().filter(|&size| size < 6_000_000) {
            let asked = layout(size, align);
            let usable = Held::new(alloc, asked, 0).map(|held| {
                let usable = held.usable;
                held.free(alloc);
                usable
            });
            let usable = usable.unwrap();
            let lengths = [size, size + 1, size + (usable - size) / 2, usable - 1, usable];
            for length in lengths.into_iter().filter(|length| (size..=usable).contains(length)) {
                let held = Held::new(alloc, asked, length as u64).unwrap();
                assert_eq!(held.usable, usable, "{asked:?} has different lengths");
                held.free_as(alloc, length);
            }
        }
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

fn every_alignment_up_to_the_largest_is_served<A: Allocator>(alloc: &A, _: &Heap) {
    for log2 in 0..=Heap::ALIGN_BYTES_MAX.ilog2() {
        let align = 1usize << log2;
        let sizes = [1, align.saturating_sub(1), align, align + 1, 3 * align];
        for size in sizes.into_iter().filter(|&size| size != 0 && size <= 2 << 30) {
            let block = alloc.allocate(layout(size, align)).unwrap();
            let mut held = Held::unwritten(block, layout(size, align), 0);
            // Both ends only: the blocks go up to 2 GiB.
            held.bytes_mut(0..1)[0] = 1;
            held.bytes_mut(size - 1..size)[0] = 2;
            held.free(alloc);
        }
    }
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

fn a_refused_resize_leaves_the_block_as_it_was<A: Allocator>(alloc: &A, _: &Heap) {
    for size in [1, 100, 40_000, 3_000_000] {
        let mut held = Held::new(alloc, layout(size, 1), 9).unwrap();
        assert!(held.grow(alloc, layout(1 << 62, 1)).is_err());
        held.check();
        assert!(held.grow_zeroed(alloc, layout(1 << 62, 1)).is_err());
        held.check();
        assert!(held.shrink(alloc, layout(1, Heap::ALIGN_BYTES_MAX * 2)).is_err());
        held.free(alloc);
    }
}

fn zero_size_requests_are_aligned_and_take_nothing<A: Allocator>(alloc: &A, heap: &Heap) {
    for log2 in 0..=21 {
        let empty = layout(0, 1 << log2);
        let first = Held::new(alloc, empty, 1).unwrap();
        let second = Held::zeroed(alloc, empty, 2).unwrap();
        assert_eq!((first.usable, second.usable), (0, 0));
        first.free(alloc);
        second.free(alloc);
    }
    // An empty block must not have gone into any class's cache.
    let mut live = Vec::new();
    for log2 in 0..=16 {
        live.extend((0..64).map(|id| Held::new(alloc, layout(1 << log2, 1 << log2), id).unwrap()));
        live.extend((0..64).map(|id| Held::new(alloc, layout(1, 1), id).unwrap()));
    }
    assert_disjoint(live.iter().map(Held::region));
    assert_eq!(heap.stats().live_blocks, live.len());
    live.into_iter().for_each(|held| held.free(alloc));
}

fn zero_size_blocks_grow_and_others_shrink_to_zero<A: Allocator>(alloc: &A, heap: &Heap) {
    for size in [1, 64, 5_000, 100_000, 3_000_000] {
        let mut held = Held::new(alloc, layout(0, 8), 3).unwrap();
        held.grow(alloc, layout(size, 64)).unwrap();
        held.shrink(alloc, layout(0, 4096)).unwrap();
        assert_eq!((held.usable, heap.stats().live_blocks), (0, 0));
        held.grow_zeroed(alloc, layout(size, 1)).unwrap();
        held.shrink(alloc, layout(0, 1)).unwrap();
        held.grow(alloc, layout(0, 1)).unwrap();
        held.free(alloc);
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

fn zeroed_blocks_are_zero_on_dirty_memory_of_every_tier<A: Allocator>(alloc: &A, heap: &Heap) {
    for trims in [false, true] {
        for size in SIZES {
            let count = if size < 100_000 { 40 } else { 2 };
            let mut dirty: Vec<Held> = (0..count)
                .map(|id| Held::new(alloc, layout(size, 1), id | 0x80).unwrap())
                .collect();
            dirty.drain(..).for_each(|held| held.free(alloc));
            if trims {
                heap.trim();
            }
            let clean = (0..count).map(|id| Held::zeroed(alloc, layout(size, 1), id).unwrap());
            dirty.extend(clean);
            dirty.into_iter().for_each(|held| held.free(alloc));
        }
    }
}

fn resizing_may_change_the_alignment_either_way<A: Allocator>(alloc: &A, _: &Heap) {
    let mut held = Held::new(alloc, layout(64, 8), 7).unwrap();
    held.grow(alloc, layout(64, 8)).unwrap();
    held.grow(alloc, layout(128, 4096)).unwrap();
    held.shrink(alloc, layout(100, 65_536)).unwrap();
    held.shrink(alloc, layout(100, 1)).unwrap();
    held.shrink(alloc, layout(64, 1)).unwrap();
    held.grow_zeroed(alloc, layout(200, 1)).unwrap();
    held.grow_zeroed(alloc, layout(200, 2 << 20)).unwrap();
    held.grow(alloc, layout(40_000, 64)).unwrap();
    held.grow(alloc, layout(150_000, 1 << 17)).unwrap();
    held.shrink(alloc, layout(150_000, 1)).unwrap();
    held.grow(alloc, layout(3_000_000, 16)).unwrap();
    held.grow_zeroed(alloc, layout(9_000_000, 1 << 23)).unwrap();
    held.shrink(alloc, layout(10, 32)).unwrap();
    held.free(alloc);
}

fn resizing_to_the_same_layout_keeps_the_block<A: Allocator>(alloc: &A, _: &Heap) {
    for size in SIZES {
        let mut held = Held::new(alloc, layout(size, 1), size as u64).unwrap();
        let before = held.address();
        held.grow(alloc, layout(size, 1)).unwrap();
        held.shrink(alloc, layout(size, 1)).unwrap();
        held.grow_zeroed(alloc, layout(size, 1)).unwrap();
        // Up to the usable length there is room already.
        let usable = held.usable;
        held.grow(alloc, layout(usable, 1)).unwrap();
        assert_eq!(held.address(), before, "{size} moved without need");
        held.free(alloc);
    }
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

fn slack_is_never_taken_for_contents<A: Allocator>(alloc: &A, _: &Heap) {
    let align = 1024;
    let block = alloc.allocate_zeroed(layout(6144, align)).unwrap();
    let mut held = Held::unwritten(block, layout(6144, align), 1);
    held.bytes_mut(0..3072).fill(0x7b);
    // SAFETY: the block is live and fits its layout; the new one is smaller.
    let block = unsafe { alloc.shrink(held.block, held.layout, layout(3072, align)) }.unwrap();
    let mut held = Held::unwritten(block, layout(3072, align), 1);
    assert!(held.bytes(0..3072).iter().all(|&byte| byte == 0x7b));
    let usable = held.usable;
    held.bytes_mut(0..usable).fill(0xaa);
    // SAFETY: the block is live and fits its layout; the new one is larger.
    let block = unsafe { alloc.grow_zeroed(held.block, held.layout, layout(6144, align)) }.unwrap();
    let held = Held::unwritten(block, layout(6144, align), 1);
    assert!(held.bytes(0..3072).iter().all(|&byte| byte == 0xaa));
    held.assert_zero(3072..held.usable);
    held.free(alloc);
}

fn random_resizes_agree_with_a_shadow_vector<A: Allocator>(alloc: &A, _: &Heap) {
    // The shadow holds what the caller may rely on; all of the slack is dirtied at every step.
    let mut random = Random::for_test("random_resizes_agree_with_a_shadow_vector");
    let mut held = Held::unwritten(alloc.allocate(layout(1, 1)).unwrap(), layout(1, 1), 0);
    let mut shadow = vec![0u8; 1];
    held.bytes_mut(0..1)[0] = 0;
    for _ in 0..scaled(40_000) {
        let to = layout(random.size(200_000), 1 << random.below(13));
        let from = held.layout;
        let grows_zeroed = to.size() >= from.size() && random.one_in(2);
        let block = match to.size() >= from.size() {
            // SAFETY: the block is live and fits `from`; the new size is not smaller.
            true if grows_zeroed => unsafe { alloc.grow_zeroed(held.block, from, to) },
            // SAFETY: the block is live and fits `from`; the new size is not smaller.
            true => unsafe { alloc.grow(held.block, from, to) },
            // SAFETY: the block is live and fits `from`; the new size is smaller.
            false => unsafe { alloc.shrink(held.block, from, to) },
        };
        held = Held::unwritten(block.unwrap(), to, 0);
        shadow.truncate(to.size());
        assert_eq!(held.bytes(0..shadow.len()), shadow, "{from:?} -> {to:?}");
        if grows_zeroed {
            held.assert_zero(from.size()..held.usable);
        }
        let fill = random.next() as u8;
        let from_byte = random.below(to.size());
        if !grows_zeroed {
            held.bytes_mut(shadow.len()..to.size()).fill(fill);
            shadow.resize(to.size(), fill);
        }
        shadow.resize(to.size(), 0);
        held.bytes_mut(from_byte..to.size()).fill(fill);
        shadow[from_byte..].fill(fill);
        let usable = held.usable;
        held.bytes_mut(to.size()..usable).fill(0xee);
    }
    held.free(alloc);
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

fn random_operations_never_overlap<A: Allocator>(alloc: &A, heap: &Heap) {
    let mut random = Random::for_test("random_operations_never_overlap");
    let mut live: Vec<Held> = Vec::new();
    for step in 0..scaled(120_000) {
        let wanted = layout(random.size(6_000_000), random.align());
        match random.below(10) {
            0..=3 => live.push(Held::new(alloc, wanted, step as u64).unwrap()),
            4 => live.push(Held::zeroed(alloc, wanted, step as u64).unwrap()),
            5..=7 if !live.is_empty() => {
                let held = live.swap_remove(random.below(live.len()));
                let length =
                    held.layout.size() + random.below(held.usable - held.layout.size() + 1);
                held.free_as(alloc, length);
            }
            8 if !live.is_empty() => {
                let at = random.below(live.len());
                let held = &mut live[at];
                match wanted.size() >= held.layout.size() {
                    true if random.one_in(2) => held.grow_zeroed(alloc, wanted).unwrap(),
                    true => held.grow(alloc, wanted).unwrap(),
                    false => held.shrink(alloc, wanted).unwrap(),
                }
            }
            _ => {}
        }
        if live.len() > 300 {
            let half = live.split_off(150);
            half.into_iter().for_each(|held| held.free(alloc));
        }
        if step % 1_000 == 0 {
            assert_disjoint(live.iter().map(Held::region));
            assert_eq!(heap.stats().live_blocks, live.len());
        }
    }
    live.into_iter().for_each(|held| held.free(alloc));
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
