//! Suites of the allocator contract that ask nothing of what lies behind: for heaps, whatever their
//! options, and for resources.
//!
//! Where a heap has more to show, the suite hands it the number of live blocks to compare with.

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{Allocator, Layout};

use super::{Held, Random, SIZES, assert_disjoint, scaled};

pub(crate) fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a valid layout")
}

pub(crate) fn any_length_between_the_one_asked_for_and_the_one_returned_frees<A: Allocator>(
    alloc: &A,
    _: &Heap,
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
}

/// `align_bytes_max` is the largest alignment asked for.
pub(crate) fn every_alignment_is_served<A: Allocator>(alloc: &A, align_bytes_max: usize) {
    for log2 in 0..=align_bytes_max.ilog2() {
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

pub(crate) fn a_refused_growth_leaves_the_block_as_it_was<A: Allocator>(alloc: &A, _: &Heap) {
    for size in [1, 100, 40_000, 3_000_000] {
        let mut held = Held::new(alloc, layout(size, 1), 9).unwrap();
        assert!(held.grow(alloc, layout(1 << 62, 1)).is_err());
        held.check();
        assert!(held.grow_zeroed(alloc, layout(1 << 62, 1)).is_err());
        held.check();
        held.free(alloc);
    }
}

/// `look` is told how many blocks are live.
pub(crate) fn zero_size_requests<A: Allocator>(alloc: &A, look: impl Fn(usize)) {
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
    look(live.len());
    live.into_iter().for_each(|held| held.free(alloc));
}

/// `look` is told how many blocks are live.
pub(crate) fn zero_size_resizes<A: Allocator>(alloc: &A, look: impl Fn(usize)) {
    for size in [1, 64, 5_000, 100_000, 3_000_000] {
        let mut held = Held::new(alloc, layout(0, 8), 3).unwrap();
        held.grow(alloc, layout(size, 64)).unwrap();
        held.shrink(alloc, layout(0, 4096)).unwrap();
        assert_eq!(held.usable, 0);
        look(0);
        held.grow_zeroed(alloc, layout(size, 1)).unwrap();
        held.shrink(alloc, layout(0, 1)).unwrap();
        held.grow(alloc, layout(0, 1)).unwrap();
        held.free(alloc);
    }
}

pub(crate) fn zeroed_blocks_are_zero_on_dirty_memory_of_every_tier<A: Allocator>(
    alloc: &A,
    heap: &Heap,
) {
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

pub(crate) fn resizing_may_change_the_alignment_either_way<A: Allocator>(alloc: &A, _: &Heap) {
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

pub(crate) fn resizing_to_the_same_layout_keeps_the_block<A: Allocator>(alloc: &A, _: &Heap) {
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

pub(crate) fn slack_is_never_taken_for_contents<A: Allocator>(alloc: &A, _: &Heap) {
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

pub(crate) fn random_resizes_agree_with_a_shadow_vector<A: Allocator>(alloc: &A, _: &Heap) {
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

/// `look` is told how many blocks are live, now and then.
pub(crate) fn random_operations<A: Allocator>(
    alloc: &A,
    steps: usize,
    most_bytes: usize,
    look: impl Fn(usize),
) {
    let mut random = Random::for_test("random_operations_never_overlap");
    let mut live: Vec<Held> = Vec::new();
    for step in 0..steps {
        let wanted = layout(random.size(most_bytes), random.align());
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
            look(live.len());
        }
    }
    live.into_iter().for_each(|held| held.free(alloc));
}
