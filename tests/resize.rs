//! Resizing: where it happens in place, what it copies, what is zero afterwards; and where large
//! blocks start.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::ptr::NonNull;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{Heap, HugePages};

use support::{
    Held, Random, alone, assert_disjoint, current_resident_bytes, minor_faults, run_to_the_end,
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const CHUNK_BYTES: usize = 64 * KIB;
const OS_PAGE_BYTES: usize = 4 * KIB;
const LIMIT: Duration = Duration::from_secs(100);

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn aligned(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn held(heap: &Heap, size: usize) -> Held {
    Held::new(&heap, bytes(size), size as u64).unwrap()
}

fn heaps() -> [Heap; 3] {
    [
        Heap::new(),
        Heap::builder().thread_cache(false).build(),
        Heap::builder().thread_large_bytes(0).heap_large_bytes(0).build(),
    ]
}

/// Returns the most bytes the process ever had resident; 0 where the system does not tell.
fn peak_resident_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|text| text.split_whitespace().next()?.parse::<usize>().ok());
    let is_sanitized = current_resident_bytes() == 0;
    if is_sanitized { 0 } else { number.unwrap_or(0) * KIB }
}

/// Walks over sizes of one tier, in both directions, within what the allocator returned.
#[test]
fn a_block_grows_and_shrinks_in_place_within_its_class() {
    for mut heap in heaps() {
        for size in [1, 33, 600, 5_000, 30_000, 40_000, 300_000, 1_100_000, 3_000_000, 50_000_000] {
            let mut block = held(&heap, size);
            let (address, usable) = (block.address(), block.usable);
            block.grow(&&heap, bytes(usable)).unwrap();
            assert_eq!((block.address(), block.usable >= usable), (address, true), "{size}");
            block.shrink(&&heap, bytes(size)).unwrap();
            assert_eq!((block.address(), block.usable), (address, usable), "{size}");
            block.grow(&&heap, bytes(size)).unwrap();
            assert_eq!(block.address(), address, "the same layout");
            block.free(&&heap);
        }
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

#[test]
fn a_span_grows_into_free_neighbours_and_no_further() {
    for mut heap in heaps() {
        let mut blocks: Vec<Held> = (0..6).map(|_| held(&heap, CHUNK_BYTES)).collect();
        blocks.sort_by_key(Held::address);
        let gap = |pair: &[Held]| pair[1].address() - pair[0].address();
        let at = blocks.windows(2).position(|pair| gap(pair) == CHUNK_BYTES).unwrap();
        // Its neighbour lives: it must go elsewhere.
        let next = blocks.remove(at + 1);
        let mut block = blocks.remove(at);
        let address = block.address();
        block.grow(&&heap, bytes(2 * CHUNK_BYTES)).unwrap();
        assert_ne!(block.address(), address);
        next.check();
        assert_disjoint(blocks.iter().chain([&next, &block]).map(Held::region));
        block.free(&&heap);
        // The last of all has nobody behind it for a while.
        let mut last = blocks.pop().unwrap();
        if next.address() > last.address() {
            last = next;
        } else {
            next.free(&&heap);
        }
        heap.trim();
        let address = last.address();
        let room = 4 * MIB - address % (4 * MIB);
        for chunks in 2..8 {
            if chunks * CHUNK_BYTES <= room {
                last.grow(&&heap, bytes(chunks * CHUNK_BYTES)).unwrap();
                assert_eq!(last.address(), address, "{chunks} chunks");
                assert_eq!(heap.verify(), Ok(()));
            }
        }
        // Past the region's end there is no neighbour.
        last.grow(&&heap, bytes(2 * MIB)).unwrap();
        last.free(&&heap);
        blocks.into_iter().for_each(|block| block.free(&&heap));
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

/// Many spans that grow and shrink at once, by several threads: nobody gets what another has.
#[test]
fn spans_that_grow_at_once_get_apart() {
    let mut heap = Heap::new();
    let mut random = Random::for_test("spans_that_grow_at_once_get_apart");
    let work = |mut random: Random| {
        let mut live: Vec<Held> = (0..12).map(|_| held(&heap, 40_000)).collect();
        for _ in 0..3_000 {
            let at = random.below(live.len());
            let to = bytes(33_000 + random.below(600_000));
            match to.size() >= live[at].layout.size() {
                true if random.one_in(3) => live[at].grow_zeroed(&&heap, to),
                true => live[at].grow(&&heap, to),
                false => live[at].shrink(&&heap, to),
            }
            .unwrap();
            if random.one_in(20) {
                live.swap_remove(at).free(&&heap);
                live.push(held(&heap, 33_000 + random.below(200_000)));
            }
        }
        live
    };
    let seeds: [Random; 3] = core::array::from_fn(|_| random.fork());
    let live = run_to_the_end(seeds.map(|random| {
        let work = &work;
        move || work(random)
    }));
    assert_disjoint(live.iter().flatten().map(Held::region));
    assert_eq!(heap.verify(), Ok(()));
    live.into_iter().flatten().for_each(|block| block.free(&&heap));
    assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
}

#[test]
fn a_span_and_a_mapping_shrink_in_place_and_give_the_rest_back() {
    for mut heap in heaps() {
        for (from, to) in [
            (600_000, 70_000),
            (1_800_000, 40_000),
            (20 * MIB, 3 * MIB),
            (20 * MIB, 15 * MIB),
            (100 * MIB, 2 * MIB + 1),
            (300 * MIB, 90 * MIB),
        ] {
            let mut block = Held::new(&&heap, aligned(from, 4_096), 1).unwrap();
            let (address, before) = (block.address(), heap.stats());
            block.shrink(&&heap, aligned(to, 4_096)).unwrap();
            assert_eq!(block.address(), address, "{from} to {to}");
            let after = heap.stats();
            let is_less = after.live_bytes + (from - to) / 2 <= before.live_bytes;
            assert!(is_less, "{from} to {to}: {before} to {after}");
            assert_eq!(after.live_bytes, block.usable, "{from} to {to}");
            if to > 2 * MIB {
                assert!(after.held_bytes + (from - to) / 2 <= before.held_bytes, "{after}");
            }
            assert_eq!(heap.verify(), Ok(()), "{from} to {to}");
            // And grows again.
            block.grow(&&heap, aligned(from, 4_096)).unwrap();
            assert_eq!(heap.verify(), Ok(()), "{to} to {from}");
            block.free(&&heap);
        }
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

#[test]
fn resizes_across_tiers_keep_the_contents_and_lose_nothing() {
    let sizes = [
        1,
        100,
        4_096,
        32_768,
        32_769,
        65_536,
        200_000,
        2 * MIB,
        2 * MIB + 1,
        5_000_001,
        40 * MIB,
        70 * MIB,
    ];
    for mut heap in heaps() {
        for from in sizes {
            for to in sizes {
                let mut block = held(&heap, from);
                match to >= from {
                    true => block.grow(&&heap, bytes(to)).unwrap(),
                    false => block.shrink(&&heap, bytes(to)).unwrap(),
                }
                let stats = heap.stats();
                let live = (stats.live_blocks, stats.live_bytes);
                assert_eq!(live, (1, block.usable), "{from} to {to}: {stats}");
                block.free(&&heap);
            }
        }
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

#[test]
fn resizes_may_change_the_alignment_either_way() {
    let aligns = [1, 64, 128, 4_096, CHUNK_BYTES, 4 * MIB, 16 * MIB];
    let sizes = [(64, 128), (700, 40_000), (40_000, 90_000), (300_000, 1_000_000)];
    let large = [(2_000_000, 3_000_000), (3_000_000, 20_000_000)];
    for mut heap in heaps() {
        for (small, big) in sizes.into_iter().chain(large) {
            for from in aligns {
                for to in aligns {
                    let mut block = Held::new(&&heap, aligned(small, from), 3).unwrap();
                    block.grow(&&heap, aligned(big, to)).unwrap();
                    block.shrink(&&heap, aligned(small, from)).unwrap();
                    block.grow_zeroed(&&heap, aligned(big, to)).unwrap();
                    block.shrink(&&heap, aligned(small / 2, to)).unwrap();
                    block.grow_zeroed(&&heap, aligned(small / 2, from)).unwrap();
                    block.free(&&heap);
                }
            }
        }
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

/// `Held` dirties the whole slack at every step and checks zeros up to the returned length.
#[test]
fn zeroed_growth_is_zero_to_the_end_of_the_block_whatever_the_slack_held() {
    let mut random = Random::for_test("zeroed_growth_is_zero");
    for mut heap in heaps() {
        // Shrunk, slack dirtied, grown again: neither was contents.
        for (large, small) in
            [(6_144, 3_072), (32_768, 20_000), (130_000, 70_000), (600_000, 40_000), (9 * MIB, MIB)]
        {
            let mut block = Held::zeroed(&&heap, aligned(large, 1_024), 7).unwrap();
            block.shrink(&&heap, aligned(small, 1_024)).unwrap();
            block.grow_zeroed(&&heap, aligned(large, 1_024)).unwrap();
            block.free(&&heap);
        }
        let mut block = held(&heap, 10);
        for step in 0..2_500 {
            let most = [100, 5_000, 40_000, 300_000, 3_000_000, 12_000_000][random.below(6)];
            let to = aligned(1 + random.below(most), 1 << random.below(14));
            match to.size() >= block.layout.size() {
                true => block.grow_zeroed(&&heap, to),
                false => block.shrink(&&heap, to),
            }
            .unwrap();
            if step % 500 == 0 {
                assert_eq!(heap.verify(), Ok(()));
            }
        }
        block.free(&&heap);
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

/// Writes one byte in each OS page from `from` on, a function of where it is.
fn touch(block: NonNull<u8>, from: usize, to: usize) {
    for at in (from.next_multiple_of(OS_PAGE_BYTES)..to).step_by(OS_PAGE_BYTES) {
        // SAFETY: the caller's block has `to` bytes.
        let place = unsafe { block.add(at) };
        // SAFETY: as above, and nobody else has the block.
        unsafe { place.write((at / OS_PAGE_BYTES * 7) as u8) };
    }
}

fn check_touched(block: NonNull<u8>, to: usize) {
    for at in (0..to).step_by(OS_PAGE_BYTES) {
        // SAFETY: the caller's block has `to` bytes.
        let place = unsafe { block.add(at) };
        // SAFETY: as above, written by `touch`.
        assert_eq!(unsafe { place.read() }, (at / OS_PAGE_BYTES * 7) as u8, "at {at}");
    }
}

#[test]
fn a_mapping_grows_by_its_pages_and_copies_nothing() {
    alone("a_mapping_grows_by_its_pages_and_copies_nothing", LIMIT, || {
        const FINAL: usize = 512 * MIB;
        let mut heap = Heap::new();
        heap.bind().unwrap();
        let before = current_resident_bytes();
        let mut size = 3 * MIB;
        let mut block: NonNull<u8> = heap.allocate(bytes(size)).unwrap().cast();
        touch(block, 0, size);
        // Others in the way of growth in place.
        let others: Vec<Held> = (0..8).map(|_| held(&heap, 3 * MIB)).collect();
        while size < FINAL {
            let (to, faults) = ((size * 2).min(FINAL), minor_faults());
            // SAFETY: the block is live and fits its layout.
            block = unsafe { heap.grow(block, bytes(size), bytes(to)) }.unwrap().cast();
            let new_faults = minor_faults() - faults;
            assert!(new_faults <= 64, "{new_faults} page faults in growth from {size}");
            touch(block, size, to);
            size = to;
        }
        check_touched(block, size);
        let peak = peak_resident_bytes().saturating_sub(before);
        assert!(peak * 10 <= FINAL * 16, "{peak} bytes resident at once");
        assert_eq!(heap.stats().live_blocks, 9);
        others.iter().for_each(Held::check);
        assert_eq!(heap.verify(), Ok(()));
        // SAFETY: the block is live and fits its layout.
        unsafe { heap.deallocate(block, bytes(size)) };
        others.into_iter().for_each(|block| block.free(&&heap));
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    });
}

/// Grows a block through `sizes` and returns the bytes of contents that changed their place by
/// being copied: those of moves that are no move of pages.
fn copied_bytes(heap: &Heap, sizes: impl Iterator<Item = usize>) -> (usize, usize) {
    let mut sizes = sizes.peekable();
    let first = *sizes.peek().unwrap();
    let mut block = held(heap, first);
    let (mut copied, mut moves) = (0, 0);
    for size in sizes {
        let (address, old) = (block.address(), block.layout.size());
        block.grow(&heap, bytes(size)).unwrap();
        if block.address() != address {
            moves += 1;
            copied += old;
        }
    }
    block.free(&heap);
    (copied, moves)
}

#[test]
fn doubling_copies_no_more_than_twice_the_final_size() {
    for mut heap in heaps() {
        let (copied, moves) = copied_bytes(&heap, (4..=26).map(|log2| 1 << log2));
        assert!(moves <= 22 && copied <= 128 * MIB, "{moves} moves, {copied} bytes");
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

#[test]
fn growth_by_small_steps_moves_seldom() {
    alone("growth_by_small_steps_moves_seldom", LIMIT, || {
        for mut heap in heaps() {
            let _other = held(&heap, 3 * MIB);
            let last = 32 * MIB;
            let steps = (1..=last / OS_PAGE_BYTES).map(|step| step * OS_PAGE_BYTES);
            let (copied, moves) = copied_bytes(&heap, steps);
            eprintln!("+4 KiB to 32 MiB: {moves} moves, {copied} bytes");
            assert!(copied <= 40 * last && moves <= 100, "{moves} moves, {copied} bytes");
            let last = 8 * 400_000;
            let (copied, moves) = copied_bytes(&heap, (1..=last / 8).step_by(8).map(|i| 8 * i));
            eprintln!("+64 B to 3 MB: {moves} moves, {copied} bytes");
            assert!(copied <= 40 * last && moves <= 200, "{moves} moves, {copied} bytes");
            assert_eq!(heap.verify(), Ok(()));
        }
    });
}

/// A block that grows has room where it goes, and leaves no pages behind: its way to 3 MB takes little more
/// than it has in the end, also where the regions in use have pockets only.
#[test]
fn growth_by_small_steps_takes_little_more_than_it_ends_with() {
    alone("growth_by_small_steps_takes_little_more_than_it_ends_with", LIMIT, || {
        for mut heap in heaps() {
            let pockets: Vec<Held> = (0..90).map(|_| held(&heap, 2 * 65_536 - 5_000)).collect();
            let mut kept = Vec::new();
            for (number, pocket) in pockets.into_iter().enumerate() {
                if number % 2 == 0 { kept.push(pocket) } else { pocket.free(&&heap) }
            }
            heap.trim();
            let (before, last) = (current_resident_bytes(), 3_200_000);
            let mut block = Held::new(&&heap, bytes(8), 1).unwrap();
            let (mut moves, mut most) = (0, 0);
            for size in (8..=last).step_by(800) {
                let start = block.block;
                block.grow(&&heap, bytes(size)).unwrap();
                block.fill();
                if block.block != start && (32_768..1_800_000).contains(&size) {
                    moves += 1;
                }
                most = most.max(current_resident_bytes().saturating_sub(before));
            }
            eprintln!("{moves} moves as a span, {most} bytes resident at most");
            assert!(moves <= 2, "{moves} moves as a span");
            assert!(most <= last * 3 / 4, "{most} bytes resident beyond what was free before");
            block.free(&&heap);
            kept.into_iter().for_each(|block| block.free(&&heap));
            assert_eq!(heap.verify(), Ok(()));
        }
    });
}

/// Returns the kernel's flags of the mapping that `place` lies in.
fn mapping_flags(place: NonNull<u8>) -> String {
    let place = place.as_ptr() as usize;
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut is_there = false;
    for line in text.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(a, b)| (number(a), number(b))) {
            is_there = (start..end).contains(&place);
        } else if is_there && line.starts_with("VmFlags:") {
            return line.to_string();
        }
    }
    String::new()
}

/// A page fault for every 4 KiB of what was added takes longer than copying would have.
#[test]
fn a_mapping_that_grows_asks_for_huge_pages_unless_told_otherwise() {
    if fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_err() {
        return;
    }
    let grown = |heap: &Heap| {
        let mut block = held(heap, 3 * MIB);
        for size in [5 * MIB, 11 * MIB, 29 * MIB] {
            block.grow(&heap, bytes(size)).unwrap();
        }
        let flags = mapping_flags(block.block);
        block.free(&heap);
        flags
    };
    let flags = grown(&Heap::new());
    assert!(flags.contains(" hg"), "{flags}");
    let flags = grown(&Heap::builder().huge_pages(HugePages::Never).build());
    assert!(!flags.contains(" hg"), "{flags}");
    let heap = Heap::new();
    let fixed = held(&heap, 29 * MIB);
    assert!(
        !mapping_flags(fixed.block).contains(" hg"),
        "what does not grow is left to the system"
    );
    fixed.free(&&heap);
}

#[test]
fn fresh_zeroed_memory_is_not_touched() {
    alone("fresh_zeroed_memory_is_not_touched", LIMIT, || {
        for mut heap in heaps() {
            heap.bind().unwrap();
            for size in [1 << 30, 300 * MIB, 60 * MIB] {
                let (resident, faults) = (current_resident_bytes(), minor_faults());
                let block = heap.allocate_zeroed(bytes(size)).unwrap();
                let new_resident = current_resident_bytes().saturating_sub(resident);
                assert!(new_resident <= MIB, "{size}: {new_resident} bytes resident");
                assert!(
                    minor_faults() - faults <= 64,
                    "{size}: {} faults",
                    minor_faults() - faults
                );
                let block = Held::unwritten(block, bytes(size), 1);
                block.assert_zero(0..size);
                block.free(&&heap);
                heap.trim();
                polyheap::trim_all();
            }
            // Spans of a fresh region.
            let resident = current_resident_bytes();
            let block = heap.allocate_zeroed(bytes(2 * MIB)).unwrap();
            let new_resident = current_resident_bytes().saturating_sub(resident);
            assert!(new_resident <= MIB, "{new_resident} bytes resident");
            Held::unwritten(block, bytes(2 * MIB), 1).free(&&heap);
            assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
        }
    });
}

#[test]
fn zeroed_growth_of_a_mapping_touches_nothing_fresh() {
    alone("zeroed_growth_of_a_mapping_touches_nothing_fresh", LIMIT, || {
        let mut heap = Heap::new();
        for (from, to) in [(300 * MIB, 1 << 30), (3_000_000, 200_000_000), (9_000_001, 9_999_999)] {
            let block = heap.allocate_zeroed(bytes(from)).unwrap();
            let resident = current_resident_bytes();
            // SAFETY: the block is live and fits its layout; it is replaced by what comes back.
            let grown = unsafe { heap.grow_zeroed(block.cast(), bytes(from), bytes(to)) }.unwrap();
            let new_resident = current_resident_bytes().saturating_sub(resident);
            // The slack of the old block may be cleared.
            assert!(new_resident <= 2 * MIB + from / 4, "{from}: {new_resident} bytes resident");
            let block = Held::unwritten(grown, bytes(to), 1);
            block.assert_zero(0..block.usable);
            block.free(&&heap);
        }
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    });
}

#[test]
fn recycled_zeroed_memory_is_zero() {
    let dirty = |heap: &Heap, layout: Layout, count: usize| {
        let blocks: Vec<Held> =
            (0..count).map(|id| Held::new(&heap, layout, id as u64).unwrap()).collect();
        blocks.into_iter().for_each(|block| block.free(&heap));
    };
    for mut heap in heaps() {
        for size in [10, 1_000, 32_768, 40_000, 65_536, 600_000, 2_500_000, 9_000_000, 80_000_000] {
            for align in [8, 4_096, 128 * KIB] {
                let layout = aligned(size, align);
                for round in 0..3 {
                    // From the thread's tier, the heap's, another thread's leavings, purged.
                    dirty(&heap, layout, 1 + round * 2);
                    Held::zeroed(&&heap, layout, 1).unwrap().free(&&heap);
                    run_to_the_end([|| dirty(&heap, layout, 2)]);
                    Held::zeroed(&&heap, layout, 2).unwrap().free(&&heap);
                    if round == 1 {
                        heap.trim();
                    }
                    let one = Held::zeroed(&&heap, layout, 3).unwrap();
                    let mut two = Held::new(&&heap, bytes(16), 4).unwrap();
                    two.grow_zeroed(&&heap, aligned(size.max(16), align)).unwrap();
                    two.free(&&heap);
                    one.free(&&heap);
                }
            }
        }
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
    // From a heap that was dropped, and from one that was emptied.
    for size in [600_000, 2_500_000, 9_000_000] {
        dirty(&Heap::new(), bytes(size), 3);
        let mut heap = Heap::new();
        let block = Held::zeroed(&&heap, bytes(size), 1).unwrap();
        block.check();
        heap.reset();
        Held::zeroed(&&heap, bytes(size), 1).unwrap().free(&&heap);
    }
}

#[test]
fn a_refused_resize_leaves_the_block_as_it_was() {
    for mut heap in heaps() {
        for size in [10, 10_000, 100_000, 3_000_000] {
            let mut block = held(&heap, size);
            let address = block.address();
            for to in [1 << 50, isize::MAX as usize - 4_096, isize::MAX as usize - 7] {
                assert!(block.grow(&&heap, bytes(to)).is_err(), "{size} to {to}");
                assert!(block.grow_zeroed(&&heap, bytes(to)).is_err(), "{size} to {to}");
                assert_eq!(block.address(), address);
                block.check();
            }
            assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 1));
            block.free(&&heap);
        }
    }
}

/// Equal buffers with slack start at different cache lines of a page.
#[test]
fn equal_blocks_with_slack_start_at_different_cache_lines() {
    for mut heap in heaps() {
        for size in [100_000, 300_000, 1_500_000, 3_000_000, 9_000_000] {
            for align in [1, 16, 64] {
                let layout = aligned(size, align);
                let blocks: Vec<Held> =
                    (0..16).map(|id| Held::new(&&heap, layout, id).unwrap()).collect();
                let line = |block: &Held| block.address() % OS_PAGE_BYTES / 64;
                let lines: BTreeSet<usize> = blocks.iter().map(line).collect();
                assert!(lines.len() >= 6, "{size}: {} lines of 16", lines.len());
                assert_disjoint(blocks.iter().map(Held::region));
                for block in &blocks {
                    assert_eq!(heap.usable_size(block.block), Some(block.usable));
                }
                // They keep their start when they come back from the thread's tier, and resize.
                for mut block in blocks {
                    block.shrink(&&heap, aligned(size - 5_000, align)).unwrap();
                    block.grow(&&heap, aligned(size, align)).unwrap();
                    block.free(&&heap);
                }
                assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
            }
        }
        // Without slack, or for larger alignments, a block starts where its pages do.
        for (size, align) in [(CHUNK_BYTES, 8), (4 * MIB, 8), (100_000, 4_096), (1 << 20, 16)] {
            let block = Held::new(&&heap, aligned(size, align), 1).unwrap();
            assert!(block.address().is_multiple_of(OS_PAGE_BYTES), "{block:?}");
            block.free(&&heap);
        }
    }
}
