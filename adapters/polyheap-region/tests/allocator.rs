//! Regions as allocators: containers, growing and shrinking at the cursor and elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::slice;

use hashbrown::{DefaultHashBuilder, HashMap};
use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec as RegionVec;
use polyheap::{Heap, HeapString};
use polyheap_region::{self as region, Region, SecretRegion};

use support::{Held, Random, assert_empty, assert_sound};

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn containers_live_in_a_region() {
    let mut heap = Heap::new();
    region::scope(&heap, |r| {
        let r = &*r;
        let mut map = HashMap::with_hasher_in(DefaultHashBuilder::default(), r);
        for number in 0..5000 {
            map.insert(number, HeapString::from_str_in(&number.to_string(), r));
        }
        let mut list: RegionVec<Box<u32, _>, _> = RegionVec::new_in(r);
        list.extend((0..5000).map(|number| Box::new_in(number, r)));
        list.retain(|number| **number % 2 == 0);
        list.shrink_to_fit();
        assert!(map.iter().all(|(number, text)| number.to_string() == **text));
        assert!(list.iter().enumerate().all(|(place, number)| **number as usize == 2 * place));
    });
    assert_empty(&mut heap);
}

#[test]
fn the_last_block_grows_and_shrinks_in_place() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let mut list = RegionVec::new_in(&region);
    list.push(0u32);
    let first = list.as_ptr();
    list.extend(1..8000);
    assert_eq!(list.as_ptr(), first, "nothing lay behind it");
    assert_eq!(region.stats().chunks, 1);
    list.truncate(10);
    list.shrink_to_fit();
    assert_eq!((list.as_ptr(), region.stats().used_bytes), (first, 40));
    drop(list);
    assert_eq!(region.stats().used_bytes, 0);
}

#[test]
fn a_large_vector_keeps_no_copies_behind() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let mut list = RegionVec::new_in(&region);
    for number in 0..10_000_000u32 {
        list.push(number);
    }
    assert!(list.iter().enumerate().all(|(place, &number)| place == number as usize));
    let stats = region.stats();
    assert_eq!(stats.large_blocks, 1);
    assert!(stats.held_bytes <= 4 * list.capacity() + (1 << 20), "{stats}");
    list.truncate(100);
    list.shrink_to_fit();
    assert!(region.stats().held_bytes <= 1 << 20, "{}", region.stats());
    assert_eq!(list[99], 99);
}

#[test]
fn a_vector_grows_up_to_the_limit_and_no_further() {
    let heap = Heap::new();
    for limit in [1000, 100_000, 5_000_000] {
        let region = Region::builder().max_bytes(limit).build_in(&heap);
        let mut list: RegionVec<u64, _> = RegionVec::new_in(&region);
        while list.len() * 8 < limit && list.try_reserve_exact(list.len() / 8 + 1).is_ok() {
            list.resize(list.capacity(), 7);
            assert!(region.stats().used_bytes <= limit);
        }
        assert!(list.len() * 8 >= limit / 4, "{} of {limit}", list.len() * 8);
        assert!(list.try_reserve_exact(limit / 8 + 1 - list.len()).is_err());
        assert!(list.iter().all(|&item| item == 7));
        // Large ones are the only block and grow without a copy.
        assert!(limit < 5_000_000 || list.len() * 8 > limit * 3 / 4);
    }
}

#[test]
fn alignment_may_change_either_way() {
    // rust-lang/wg-allocators#97.
    for is_secret in [false, true] {
        let heap = Heap::new();
        let builder = if is_secret { SecretRegion::builder() } else { Region::builder() };
        let region = builder.build_in(&heap);
        let region = &region;
        let mut from = layout(64, 8);
        let mut block = region.allocate(from).unwrap().cast::<u8>();
        // SAFETY: the block is live and as long.
        unsafe { block.write_bytes(7, 64) };
        let steps = [(64, 8), (128, 4096), (100, 65_536), (100, 1), (40_000, 64), (90_000, 4096)];
        for (size, align) in steps.into_iter().chain([(64, 1), (1 << 22, 16), (64, 128)]) {
            let to = layout(size, align);
            let resized = match to.size() >= from.size() {
                // SAFETY: the block is live and fits `from`; the new size is not smaller.
                true => unsafe { region.grow(block, from, to) },
                // SAFETY: the block is live and fits `from`; the new size is smaller.
                false => unsafe { region.shrink(block, from, to) },
            };
            block = resized.unwrap().cast();
            assert_eq!(block.as_ptr() as usize % align, 0);
            // SAFETY: at least 64 bytes are live and written.
            let kept = unsafe { std::slice::from_raw_parts(block.as_ptr(), 64) };
            assert!(kept.iter().all(|&byte| byte == 7), "lost at {to:?}");
            from = to;
        }
    }
}

/// Live blocks of a region and the layouts to free them with.
struct Model<'r, 'h> {
    region: &'r Region<'h>,
    live: Vec<(Held, Layout)>,
}

impl Model<'_, '_> {
    fn allocate(&mut self, to: Layout, tag: usize) {
        let start = self.region.allocate(to).unwrap();
        // The whole length returned is the caller's, and may be freed with.
        let whole = layout(start.len(), to.align());
        self.live.push((Held::new(start.cast(), whole, tag), whole));
    }

    fn free(&mut self, place: usize) {
        let (held, from) = self.live.swap_remove(place);
        held.check();
        // SAFETY: the block is live and fits its layout.
        unsafe { self.region.deallocate(held.start, from) };
    }

    fn resize(&mut self, place: usize, to: Layout, is_zeroed: bool, tag: usize) {
        let (held, from) = self.live.swap_remove(place);
        held.check();
        let grows = to.size() >= from.size();
        let resized = match grows {
            // SAFETY: the block is live and fits its layout, and the new size is not smaller.
            true if is_zeroed => unsafe { self.region.grow_zeroed(held.start, from, to) },
            // SAFETY: as above.
            true => unsafe { self.region.grow(held.start, from, to) },
            // SAFETY: the block is live and fits its layout, and the new size is smaller.
            false => unsafe { self.region.shrink(held.start, from, to) },
        };
        let block = resized.unwrap();
        let kept_bytes = to.size().min(from.size());
        held.first_at(block.cast(), kept_bytes).check();
        if grows && is_zeroed {
            // SAFETY: not behind the block's end.
            let gained = unsafe { block.cast::<u8>().add(from.size()) };
            // SAFETY: live and zeroed to the block's end.
            let gained =
                unsafe { slice::from_raw_parts(gained.as_ptr(), block.len() - from.size()) };
            assert!(gained.iter().all(|&byte| byte == 0), "{from:?} -> {to:?}");
        }
        self.live.push((Held::new(block.cast(), to, tag), to));
    }

    fn step(&mut self, random: &mut Random, tag: usize) {
        let size = match random.below(20) {
            0 => random.below(300_000),
            1..4 => random.below(20_000),
            _ => random.below(200),
        };
        let to = layout(size, 1 << random.below(10));
        // Half of the time the last block, which may well be at the cursor.
        let last = self.live.len().saturating_sub(1);
        let place = if random.below(2) == 0 { last } else { random.below(last + 1) };
        match random.below(4) {
            _ if self.live.is_empty() => self.allocate(to, tag),
            0 => self.free(place),
            1 | 2 => self.resize(place, to, random.below(2) == 0, tag),
            _ => self.allocate(to, tag),
        }
    }
}

#[test]
fn random_allocating_freeing_and_resizing_overlaps_nothing() {
    for (is_secret, seed) in [(false, 1), (true, 2), (false, 3), (true, 4)] {
        let mut heap = Heap::new();
        let builder = if is_secret { SecretRegion::builder() } else { Region::builder() };
        let region = builder.build_in(&heap);
        let mut random = Random(0x5851_f42d_4c95_7f2d + seed);
        let mut model = Model { region: &region, live: Vec::new() };
        for tag in 0..8000 {
            model.step(&mut random, tag);
            if tag % 100 == 0 {
                assert_sound(model.live.iter().map(|(held, _)| held));
            }
        }
        drop(region);
        assert_empty(&mut heap);
    }
}
