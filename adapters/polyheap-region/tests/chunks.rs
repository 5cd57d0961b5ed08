//! Chunks: every edge of every chunk, limits, large blocks, checkpoints, resets, what is given back.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::iter;
use std::thread;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::Layout;
use polyheap_region::{self as region, Region, Scope};

use support::{Held, Random, assert_empty, assert_sound};

const HEADER_BYTES_MAX: usize = 64;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn take(region: &Region<'_>, size: usize, align: usize, tag: usize) -> Held {
    Held::new(region.alloc_layout(layout(size, align)), layout(size, align), tag)
}

/// Returns the bytes between the cursor and the end of the newest chunk.
fn free_bytes(region: &Region<'_>) -> usize {
    let stats = region.stats();
    stats.held_bytes - stats.used_bytes - stats.wasted_bytes
}

/// Fills a region until `room` bytes are left in chunk number `chunk`.
fn fill(region: &Region<'_>, chunk: usize, room: usize, blocks: &mut Vec<Held>) {
    while region.stats().chunks < chunk {
        blocks.push(take(region, 8192, 8, region.stats().chunks));
    }
    let mut rest = (free_bytes(region) - room) & !7;
    while rest > 0 {
        let piece = rest.min(8192);
        blocks.push(take(region, piece, 1, piece));
        rest -= piece;
    }
    let stats = region.stats();
    assert_eq!((stats.chunks, free_bytes(region)), (chunk, room), "{stats}");
}

#[test]
fn every_size_around_the_edge_of_every_partly_filled_chunk_with_every_alignment() {
    let mut heap = Heap::new();
    let mut region = Region::new_in(&heap);
    // Chunks of 64 KiB to 1 MiB, and one more of 1 MiB.
    for chunk in 1..=6 {
        for room in (0..=64).step_by(8).chain([256, 1024, 4096, 4096 + 64]) {
            let mut filled = Vec::new();
            fill(&region, chunk, room, &mut filled);
            let checkpoint = region.checkpoint();
            for align in (0..=12).map(|log2| 1usize << log2) {
                for size in (room.saturating_sub(17)..=room + 9).filter(|&size| size != 0) {
                    let before = region.stats().used_bytes;
                    let first = take(&region, size, align, size);
                    // As it ends in the chunk exactly if it fits with its gap.
                    let is_here = region.stats().chunks == chunk;
                    let gap = first.start.as_ptr() as usize & (align - 1);
                    assert!(gap == 0 && (!is_here || region.stats().used_bytes <= before + room));
                    assert!(is_here || size + align.max(8) - 8 > room, "{size} {align} {room}");
                    let others = [take(&region, 1, 1, 2), take(&region, size, align, 3)];
                    assert_sound(filled.last().into_iter().chain([&first]).chain(&others));
                    region.rewind(checkpoint);
                }
            }
            assert_sound(&filled);
            region = Region::new_in(&heap);
        }
    }
    drop(region);
    assert_empty(&mut heap);
}

#[test]
fn every_size_around_a_fresh_chunk_s_length_with_every_alignment() {
    let mut heap = Heap::new();
    // Chunks of 64 KiB, 128 KiB and 256 KiB, and the quarters at which blocks become large.
    for edge in [16 << 10, 64 << 10, 32 << 10, 128 << 10, 256 << 10] {
        for align in (0..=12).map(|log2| 1usize << log2) {
            for size in edge - HEADER_BYTES_MAX - 9..=edge + 9 {
                for reserved in [false, true] {
                    let mut region = Region::new_in(&heap);
                    if reserved {
                        region = Region::with_capacity_in(size, &heap);
                    }
                    let block = take(&region, size, align, size);
                    let blocks = [block, take(&region, 9, 1, 1), take(&region, 9, align, 2)];
                    assert_sound(&blocks);
                    region.reset();
                    assert_sound(&[take(&region, size, align, 3), take(&region, 1, align, 4)]);
                }
            }
        }
    }
    assert_empty(&mut heap);
}

#[test]
fn padding_is_worked_out_for_the_chunk_the_block_is_in() {
    // boostorg/container#65: leave r bytes, then ask for what needs a new chunk.
    let mut heap = Heap::new();
    for align in (3..=12).map(|log2| 1usize << log2) {
        for room in (0..=align).step_by(8) {
            let region = Region::new_in(&heap);
            let mut blocks = Vec::new();
            fill(&region, 1, room, &mut blocks);
            assert_eq!(region.stats().chunks, 1);
            blocks.push(take(&region, align + 100, align, 7));
            assert_eq!(region.stats().chunks, 2);
            assert_sound(&blocks);
        }
    }
    assert_empty(&mut heap);
}

#[test]
fn odd_alignments_come_back_with_the_layout_they_were_taken_with() {
    // fitzgen/bumpalo#19.
    let mut heap = Heap::new();
    for _ in 0..3 {
        let mut region = Region::new_in(&heap);
        for _ in 0..3 {
            let odd = [(1024, 32), (1 << 20, 4096), (3, 64 << 10), (0, 4096), (1, 1 << 22)];
            let blocks: Vec<Held> =
                odd.iter().map(|&(size, align)| take(&region, size, align, size)).collect();
            blocks.iter().for_each(Held::check);
            region.reset();
            assert_eq!(region.stats().large_blocks, 0);
        }
        drop(region);
        assert_empty(&mut heap);
    }
}

#[test]
fn failing_initialisers_and_big_requests_make_no_bigger_chunks() {
    // fitzgen/bumpalo#314.
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    for _ in 0..3 {
        region.alloc_layout(layout(139_040, 128));
    }
    let before = region.stats().held_bytes;
    for _ in 0..1000 {
        #[repr(align(128))]
        struct Aligned;
        assert!(region.alloc_try_with(|| Err::<(Aligned, [u8; 128]), ()>(())).is_err());
    }
    assert!(region.stats().held_bytes <= before + Region::CHUNK_BYTES_FIRST);

    let region = Region::new_in(&heap);
    for bytes in [10, 1 << 20, 10] {
        region.alloc_layout(layout(bytes, 1));
    }
    let stats = region.stats();
    assert!(stats.held_bytes <= (1 << 20) + 2 * Region::CHUNK_BYTES_FIRST, "{stats}");
    assert_eq!(stats.chunks, 1, "the rest of the first chunk is used again");
}

#[test]
fn chunks_double_up_to_the_cap() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let mut sizes = vec![0];
    while region.stats().held_bytes < 8 << 20 {
        region.alloc([0u64; 16]);
        if region.stats().chunks >= sizes.len() {
            sizes.push(region.stats().held_bytes - sizes.iter().sum::<usize>());
        }
    }
    let doubling = iter::successors(Some(64 << 10), |&bytes| Some((2 * bytes).min(1 << 20)));
    assert!(sizes[1..].iter().copied().eq(doubling.take(sizes.len() - 1)), "{sizes:?}");
    let stats = region.stats();
    assert!(stats.wasted_bytes < stats.held_bytes / 50, "{stats}");
}

#[test]
fn limits_hold_to_the_byte_and_leave_nothing_half_done() {
    let mut heap = Heap::new();
    for limit in [0, 8, 64, 1000, 65_536, 100_000, 1 << 20] {
        for size in [1, 8, 24, 1000, 20_000] {
            let mut region = Region::builder().max_bytes(limit).build_in(&heap);
            let mut taken = 0;
            while region.try_alloc_layout(layout(size, 8)).is_ok() {
                taken += size.next_multiple_of(8);
            }
            assert!(taken <= limit && taken + size.next_multiple_of(8) > limit);
            let stats = region.stats();
            assert_eq!(stats.used_bytes, taken);
            for _ in 0..100 {
                assert!(region.try_alloc_layout(layout(limit - taken + 1, 1)).is_err());
                assert!(region.try_alloc_layout(layout(limit + 1, 4096)).is_err());
            }
            assert_eq!(region.stats(), stats);
            // Smaller requests still fit, and everything does again after a reset.
            while region.try_alloc(1u8).is_ok() {}
            assert_eq!(region.stats().used_bytes, limit & !7);
            region.reset();
            assert!(limit < 8 || region.try_alloc(1u64).is_ok());
        }
    }
    assert_empty(&mut heap);
}

#[test]
fn a_request_no_memory_can_serve_changes_nothing() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    region.alloc(1u8);
    let before = region.stats();
    for align in (0..=30).map(|log2| 1usize << log2) {
        let most = isize::MAX as usize - (align - 1);
        for size in [most, most - 1, most - align, most / 2] {
            assert!(region.try_alloc_layout(layout(size, align)).is_err());
        }
    }
    assert!(region.try_alloc_slice_fill_with(usize::MAX, |_| 0u64).is_err());
    assert!(Region::try_with_capacity_in(usize::MAX, &heap).is_err());
    assert_eq!(region.stats(), before);
    assert_eq!(heap.stats().live_blocks, 1);
}

#[test]
fn rewinding_gives_back_what_was_taken_since() {
    let mut heap = Heap::new();
    let mut random = Random(0x9e37_79b9);
    let mut region = Region::new_in(&heap);
    let mut marks = vec![(region.checkpoint(), 0)];
    for _ in 0..3000 {
        match random.below(10) {
            0 => {
                let at = random.below(marks.len());
                let (mark, used) = marks[at];
                region.rewind(mark);
                assert_eq!(region.stats().used_bytes, used);
                marks.truncate(at + 1);
            }
            1 => marks.push((region.checkpoint(), region.stats().used_bytes)),
            2 => drop(take(&region, 1 + random.below(100_000), 1 << random.below(13), 1)),
            _ => drop(take(&region, 1 + random.below(3000), 1 << random.below(8), 2)),
        }
        // All that the heap has given, but for the large blocks' descriptors.
        let (live, stats) = (heap.stats(), region.stats());
        assert_eq!(live.live_blocks, stats.chunks + 2 * stats.large_blocks);
        assert!(live.live_bytes >= stats.held_bytes);
        assert!(live.live_bytes <= stats.held_bytes + 64 * stats.large_blocks);
    }
    drop(region);
    assert_empty(&mut heap);
}

#[test]
fn stale_and_foreign_checkpoints_are_refused() {
    let heap = Heap::new();
    let (mut region, other) = (Region::new_in(&heap), Region::new_in(&heap));
    region.alloc(1u64);
    other.alloc(1u64);
    let early = region.checkpoint();
    region.alloc([0u64; 10]);
    let late = region.checkpoint();
    region.alloc_layout(layout(60_000, 8));
    region.alloc_layout(layout(10_000, 8));
    let latest = region.checkpoint();
    assert!(region.try_rewind(other.checkpoint()).is_err());
    // One with large blocks only has no chunk that its checkpoint could be in.
    let large = Region::new_in(&heap);
    for tag in 0..9 {
        take(&large, 50_000, 8, tag).check();
    }
    assert!(region.try_rewind(large.checkpoint()).is_err());
    assert!(region.try_rewind(latest).is_ok());
    assert!(region.try_rewind(early).is_ok());
    assert!(region.try_rewind(late).is_err());
    assert!(region.try_rewind(latest).is_err());
    assert!(region.try_rewind(early).is_ok(), "a checkpoint may be used again");
    assert_eq!(region.stats().used_bytes, 8);
}

#[test]
fn after_a_reset_the_cursor_is_in_the_chunk_kept() {
    // boostorg/container#151: fill three chunks, reset, go on.
    let mut heap = Heap::new();
    let mut region = Region::new_in(&heap);
    for _ in 0..20 {
        while region.stats().chunks < 3 {
            region.alloc([1u8; 1000]);
        }
        region.reset();
        let stats = region.stats();
        assert_eq!((stats.chunks, stats.used_bytes), (1, 0));
        let blocks: Vec<Held> = (0..10_000).map(|tag| take(&region, 16, 16, tag)).collect();
        assert_sound(&blocks);
    }
    drop(region);
    assert_empty(&mut heap);
}

#[test]
fn inner_scopes_give_back_their_memory_and_leave_the_outer_ones() {
    fn nest<'e>(r: &mut Scope<'_, 'e>, depth: usize, random: &mut Random) -> usize {
        let text = r.alloc_fmt(format_args!("depth {depth}"));
        let data = r.alloc_slice_fill_with(random.below(9000), |place| place as u8);
        let used = r.stats().used_bytes;
        let below = match depth {
            0 => 0,
            _ => (0..2).map(|_| r.scope(|inner| nest(inner, depth - 1, random))).sum(),
        };
        assert_eq!(r.stats().used_bytes, used);
        assert_eq!(*text, *format!("depth {depth}"));
        assert!(data.iter().enumerate().all(|(place, &byte)| byte == place as u8));
        below + 1
    }
    let mut heap = Heap::new();
    let mut random = Random(0x1234_5678);
    let scopes = region::scope(&heap, |r| nest(r, 9, &mut random));
    assert_eq!(scopes, 1023);
    assert_empty(&mut heap);
}

#[test]
fn threads_have_regions_of_one_heap_and_pass_them_on() {
    let mut heap = Heap::new();
    thread::scope(|threads| {
        for number in 0..8usize {
            let heap = &heap;
            threads.spawn(move || {
                let mut region = Region::new_in(heap);
                for round in 0..200 {
                    region::scope(heap, |r| {
                        let own = r.alloc_slice_fill_with(1000, |place| place ^ number);
                        region.alloc(own.len());
                        assert!(own.iter().enumerate().all(|(at, &item)| item == at ^ number));
                    });
                    if round % 50 == 49 {
                        // Another thread goes on with it, and the last one gives it back.
                        region = thread::scope(|inner| {
                            inner
                                .spawn(move || {
                                    region.alloc(round);
                                    region
                                })
                                .join()
                                .unwrap()
                        });
                    }
                }
            });
        }
    });
    assert_empty(&mut heap);
}
