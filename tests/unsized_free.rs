//! Freeing, measuring and resizing by address alone: every class, every alignment, every thread,
//! and every address that is no block.
//!
//! Faults happen in child processes, as in `faults.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::cell::RefCell;
use std::io::{self, Write};
use std::thread;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{
    Decay, FaultKind, Heap, deallocate_anywhere, usable_size_anywhere, verify_layout_anywhere,
};

use support::{Child, Held, Random, SIZES, run_to_the_end, scaled, scenario};

const CHILD: &str = "child_commits_one_fault";
const HEAP_NAME: &str = "culprit";

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Returns a layout for each size and each alignment to 2 MiB.
fn layouts() -> impl Iterator<Item = Layout> {
    (0..=21).flat_map(|log2| SIZES.iter().map(move |&size| layout(size, 1 << log2)))
}

/// Ways to free a block, all of which must end the same.
#[derive(Clone, Copy, Debug)]
enum Way {
    Own,
    IfOwned,
    Anywhere,
}

const WAYS: [Way; 3] = [Way::Own, Way::IfOwned, Way::Anywhere];

fn free(heap: &Heap, way: Way, block: NonNull<u8>) {
    let is_freed = match way {
        Way::Own => {
            // SAFETY: where no live block of this heap starts there, that is what the test is
            // about: it happens in a child process, which the fault ends.
            unsafe { heap.deallocate_unsized(block) };
            true
        }
        // SAFETY: as above.
        Way::IfOwned => unsafe { heap.deallocate_if_owned(block) },
        // SAFETY: as above; the caller keeps the heap.
        Way::Anywhere => unsafe { deallocate_anywhere(block) },
    };
    assert!(is_freed, "{way:?} did not find {block:?}");
}

fn assert_empty(mut heap: Heap) {
    let stats = heap.stats();
    assert_eq!((stats.live_blocks, stats.live_bytes), (0, 0), "{stats}");
    heap.verify().unwrap();
}

/// Returns a heap whose memory no thread of another test sweeps: what is on its way from a cache counts
/// as live.
fn quiet_heap(has_cache: bool) -> Heap {
    Heap::builder().thread_cache(has_cache).decay(Decay::Never).build()
}

#[test]
fn every_layout_is_measured_and_freed_by_its_address() {
    for way in WAYS {
        for has_cache in [true, false] {
            let heap = quiet_heap(has_cache);
            for (id, layout) in layouts().enumerate() {
                let held = Held::new(&heap, layout, id as u64).unwrap();
                assert_eq!(usable_size_anywhere(held.block), Some(held.usable), "{held:?}");
                assert_eq!(heap.usable_size(held.block), Some(held.usable), "{held:?}");
                assert!(verify_layout_anywhere(held.block, layout));
                for inside in [8, held.usable / 2 + 1, held.usable - 1] {
                    let pointer = NonNull::new(held.block.as_ptr().wrapping_add(inside)).unwrap();
                    assert_eq!(usable_size_anywhere(pointer), None, "{held:?} + {inside}");
                }
                held.check();
                free(&heap, way, held.block);
            }
            assert_empty(heap);
        }
    }
}

/// Many live at once, so that the slabs of several chunks fill to their last.
#[test]
fn every_block_of_a_class_is_freed_by_its_address() {
    for way in WAYS {
        let heap = quiet_heap(true);
        for size in SIZES.into_iter().filter(|&size| size <= 40_000) {
            let count = scaled(4_000_000 / size.max(64)).max(70);
            let held: Vec<Held> = (0..count)
                .map(|id| Held::new(&heap, layout(size, 1), id as u64).unwrap())
                .collect();
            for held in held {
                held.check();
                assert_eq!(usable_size_anywhere(held.block), Some(held.usable));
                free(&heap, way, held.block);
            }
        }
        assert_empty(heap);
    }
}

#[test]
fn blocks_freed_by_address_are_used_again() {
    let heap = quiet_heap(true);
    let mut random = Random::for_test("blocks_freed_by_address_are_used_again");
    let mut held: Vec<NonNull<u8>> = Vec::new();
    let mut held_bytes_early = 0;
    let rounds = scaled(400_000);
    for round in 0..rounds {
        let size = random.below(60_000).max(1);
        held.push(heap.allocate(layout(size, 1)).unwrap().cast());
        if held.len() > 200 {
            let block = held.swap_remove(random.below(held.len()));
            free(&heap, WAYS[round % 3], block);
        }
        if round == rounds / 4 {
            held_bytes_early = heap.stats().held_bytes;
        }
    }
    let held_bytes = heap.stats().held_bytes;
    assert!(held_bytes < 2 * held_bytes_early, "{held_bytes_early} B, then {held_bytes} B");
    held.into_iter().for_each(|block| free(&heap, Way::Own, block));
    assert_empty(heap);
}

/// A pointer to hand to another thread.
#[derive(Clone, Copy)]
struct Sent(NonNull<u8>);

// SAFETY: only the address travels; one thread frees what it points to.
unsafe impl Send for Sent {}

#[test]
fn threads_that_never_saw_the_heap_free_by_address() {
    for way in WAYS {
        for has_cache in [true, false] {
            let heap = quiet_heap(has_cache);
            let all = layouts().chain((0..scaled(20_000)).map(|_| layout(48, 1)));
            let mut parts: [Vec<Sent>; 4] = Default::default();
            for (number, layout) in all.enumerate() {
                parts[number % 4].push(Sent(heap.allocate(layout).unwrap().cast()));
            }
            let heap_ref = &heap;
            run_to_the_end(
                parts.into_iter().map(|part| {
                    move || part.into_iter().for_each(|sent| free(heap_ref, way, sent.0))
                }),
            );
            assert_empty(heap);
        }
    }
}

#[test]
fn a_thread_on_its_way_out_frees_by_address() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    struct Last(Option<Sent>);
    impl Drop for Last {
        fn drop(&mut self) {
            if let Some(sent) = self.0.take() {
                // SAFETY: the block is this thread's to free, and its heap is alive.
                let is_freed = unsafe { deallocate_anywhere(sent.0) };
                FREED.fetch_add(is_freed.into(), Ordering::Relaxed);
            }
        }
    }
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(Last(None)) };
    }
    let heap = quiet_heap(true);
    for &size in &SIZES {
        let sent = Sent(heap.allocate(layout(size, 1)).unwrap().cast());
        run_to_the_end([move || {
            let sent = { sent };
            LAST.with(|last| last.borrow_mut().0 = Some(sent));
        }]);
    }
    assert_eq!(FREED.load(Ordering::Relaxed), SIZES.len());
    assert_empty(heap);
}

#[test]
fn each_heap_gets_its_own_blocks_back() {
    let heaps: [Heap; 3] = [quiet_heap(true), quiet_heap(false), quiet_heap(true)];
    let mut blocks = Vec::new();
    for layout in layouts() {
        let allocate = |heap: &Heap| heap.allocate(layout).unwrap().cast::<u8>();
        blocks.extend(heaps.iter().map(allocate));
    }
    for (number, block) in blocks.into_iter().enumerate() {
        let (owner, other) = (&heaps[number % 3], &heaps[(number + 1) % 3]);
        // SAFETY: an address in another heap is left alone.
        assert!(unsafe { !other.deallocate_if_owned(block) });
        assert_eq!(other.usable_size(block), None);
        free(owner, WAYS[number % 2 + 1], block);
    }
    heaps.into_iter().for_each(assert_empty);
}

#[test]
fn addresses_outside_every_heap_are_left_alone() {
    static IMMUTABLE: [u8; 64] = [7; 64];
    let heap = Heap::new();
    let unbound = Heap::new();
    let used = Held::new(&heap, layout(5_000_000, 1), 1).unwrap();
    let mut local = [3u64; 8];
    let boxed = vec![9u8; 3_000_000];
    let places = [
        (&raw mut local).addr(),
        (&raw const IMMUTABLE).addr(),
        boxed.as_ptr().addr(),
        addresses_outside_every_heap_are_left_alone as fn() as *const () as usize,
        1,
        4096,
        usize::MAX,
        usize::MAX / 2,
        1 << 47,
        (1 << 48) - 1,
        0x1230_0000_0000,
        // Behind the end of a mapping, in its last unit of the map.
        used.address() / (1 << 22) * (1 << 22) + (8 << 20) - 64,
    ];
    for place in places {
        let pointer = NonNull::new(core::ptr::without_provenance_mut(place)).unwrap();
        assert_eq!(usable_size_anywhere(pointer), None, "{place:#x}");
        assert!(!verify_layout_anywhere(pointer, layout(8, 8)), "{place:#x}");
        // SAFETY: no block of a heap starts there.
        let is_freed = unsafe { deallocate_anywhere(pointer) };
        assert!(!is_freed, "{place:#x}");
        for heap in [&heap, &unbound] {
            // SAFETY: as above.
            assert!(unsafe { !heap.deallocate_if_owned(pointer) }, "{place:#x}");
        }
    }
    assert_eq!((local, IMMUTABLE, boxed[17]), ([3; 8], [7; 64], 9));
    used.check();
    free(&heap, Way::Own, used.block);
    assert_empty(heap);
}

#[test]
fn resizing_by_address_keeps_contents_and_stays_in_place_like_a_resize_by_layout() {
    let (heap, twin) = (quiet_heap(true), Heap::new());
    for from in SIZES {
        for to in SIZES {
            let held = Held::new(&heap, layout(from, 1), from as u64).unwrap();
            // SAFETY: the block is this test's.
            let resized = unsafe { heap.resize_unsized(held.block, layout(to, 1)) }.unwrap();
            let is_in_place = resized.cast() == held.block;
            let mut moved = held;
            moved.block = resized.cast();
            moved.check_first(from.min(to));
            assert!(resized.len() >= to);
            assert_eq!(usable_size_anywhere(moved.block), Some(resized.len()));
            // Whether spans and mappings can grow where they lie is up to what lies behind them.
            if from.max(to) <= 32_768 || from == to {
                assert_eq!(is_in_place, stays_in_place(&twin, from, to), "{from} to {to}");
            }
            free(&heap, Way::Own, moved.block);
        }
    }
    assert_empty(heap);
}

/// Returns whether a resize with layouts stays in place.
fn stays_in_place(heap: &Heap, from: usize, to: usize) -> bool {
    let (from, to) = (layout(from, 1), layout(to, 1));
    let block: NonNull<u8> = heap.allocate(from).unwrap().cast();
    let resized = if to.size() >= from.size() {
        // SAFETY: the block is live and fits `from`, and `to` is not smaller.
        unsafe { heap.grow(block, from, to) }
    } else {
        // SAFETY: the block is live and fits `from`, and `to` is smaller.
        unsafe { heap.shrink(block, from, to) }
    };
    let resized = resized.unwrap().cast();
    // SAFETY: the block is live and fits `to`.
    unsafe { heap.deallocate(resized, to) };
    resized == block
}

#[test]
fn a_resize_to_a_larger_alignment_is_aligned() {
    let heap = quiet_heap(true);
    for (size, log2) in SIZES.into_iter().flat_map(|size| (0..=21).map(move |log2| (size, log2))) {
        let held = Held::new(&heap, layout(size, 1), 5).unwrap();
        let to = layout(size + 1, 1 << log2);
        // SAFETY: the block is this test's.
        let resized = unsafe { heap.resize_unsized(held.block, to) }.unwrap();
        assert!(resized.addr().get().is_multiple_of(to.align()), "{to:?}");
        free(&heap, Way::Anywhere, resized.cast());
    }
    assert_empty(heap);
}

#[test]
fn a_resize_that_finds_no_memory_leaves_the_block() {
    let heap = Heap::builder().max_bytes(4 << 20).build();
    let held = Held::new(&heap, layout(1000, 1), 3).unwrap();
    // SAFETY: the block is this test's.
    assert!(unsafe { heap.resize_unsized(held.block, layout(64 << 20, 1)) }.is_err());
    held.check();
    free(&heap, Way::Own, held.block);
    assert_empty(heap);
}

/// The question is safe for any address, so it must be harmless while heaps go.
#[test]
fn blocks_are_measured_while_their_heaps_are_dropped() {
    static PLACE: AtomicUsize = AtomicUsize::new(1);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !IS_OVER.load(Ordering::Relaxed) {
                    let place = PLACE.load(Ordering::Relaxed);
                    let pointer = NonNull::new(core::ptr::without_provenance_mut(place)).unwrap();
                    let size = usable_size_anywhere(pointer);
                    assert!(size.is_none_or(|size| size >= 40), "{size:?}");
                }
            });
        }
        for round in 0..scaled(40_000) {
            let heap = Heap::new();
            let sizes = [40, 300, 9_000, 100_000, 3_000_000];
            let block = heap.allocate(layout(sizes[round % 5], 1)).unwrap();
            PLACE.store(block.addr().get(), Ordering::Relaxed);
            if round % 64 == 0 {
                polyheap::trim_all();
            }
        }
        IS_OVER.store(true, Ordering::Relaxed);
    });
}

/// A size of each tier, and of each way slabs are cut.
const TIERS: [(&str, usize); 7] = [
    ("line-sharing", 48),
    ("small", 128),
    ("page", 4096),
    ("largest-slab", 32_768),
    ("span", 200_000),
    ("mapping", 3_000_000),
    ("huge", 70_000_000),
];

/// What a child is told to do: `what/tier/way/cache`.
fn cases(what: &str, ways: &[Way]) -> Vec<String> {
    let mut names = Vec::new();
    for (tier, _) in TIERS {
        for way in ways {
            names.push(format!("{what}/{tier}/{way:?}/cached"));
            names.push(format!("{what}/{tier}/{way:?}/direct"));
        }
    }
    names
}

#[test]
fn child_commits_one_fault() {
    let Some(name) = scenario() else { return };
    let [what, tier, way, cache] = name.split('/').collect::<Vec<_>>()[..] else {
        panic!("{name} is no case")
    };
    let size = TIERS.iter().find(|(name, _)| *name == tier).unwrap().1;
    let way = WAYS.into_iter().find(|known| format!("{known:?}") == way).unwrap();
    let heap = Heap::builder().name(HEAP_NAME).thread_cache(cache == "cached").build();
    let allocate = || heap.allocate(layout(size, 1)).unwrap().cast::<u8>();
    // Frees before, so that the thread has a place for what comes now.
    let early: Vec<NonNull<u8>> = (0..4).map(|_| allocate()).collect();
    early.into_iter().for_each(|block| self::free(&heap, way, block));
    let blocks: Vec<NonNull<u8>> = (0..3).map(|_| allocate()).collect();
    let free = |block: NonNull<u8>| free(&heap, way, block);
    match what {
        "interior" => free(announced(blocks[1].addr().get() + 16)),
        "middle" => free(announced(blocks[1].addr().get() + size / 2 / 16 * 16)),
        "header" => free(announced(blocks[1].addr().get() >> 22 << 22 | 64)),
        "resize" => {
            let inside = announced(blocks[1].addr().get() + 16);
            // SAFETY: broken by intent, see `free`.
            let _ = unsafe { heap.resize_unsized(inside, layout(10, 1)) };
        }
        "layout" => {
            verify_layout_anywhere(announced(blocks[1].addr().get()), layout(size / 2, 1));
        }
        "again" => {
            let block = announced(blocks[1].addr().get());
            free(block);
            free(block);
        }
        "later" => {
            let block = announced(blocks[1].addr().get());
            [block, blocks[0], block].into_iter().for_each(free);
            heap.trim();
        }
        "stack" => free(announced((&raw const blocks).addr())),
        "other-heap" => {
            let other = Heap::new();
            free(announced(other.allocate(layout(size, 1)).unwrap().addr().get()));
        }
        "unused-heap" => {
            // SAFETY: broken by intent, see `free`.
            unsafe { Heap::builder().name(HEAP_NAME).build().deallocate_unsized(blocks[0]) };
        }
        "dropped-heap" => {
            let other = Heap::new();
            let block = other.allocate(layout(size, 1)).unwrap();
            drop(other);
            free(announced(block.addr().get()));
        }
        other => panic!("no fault is called {other}"),
    }
}

/// Tells the parent which address is going to be misused, and returns it.
fn announced(address: usize) -> NonNull<u8> {
    let mut stdout = io::stdout();
    writeln!(stdout, "\naddress={address:#x}").and_then(|()| stdout.flush()).unwrap();
    NonNull::new(core::ptr::without_provenance_mut(address)).unwrap()
}

/// Runs each case in a child, which must end with one line that says what is `expected`.
fn assert_reported(names: &[String], expected: FaultKind) {
    for name in names {
        let ending = Child::new(CHILD, name).run().unwrap();
        assert_eq!(ending.signal, Some(libc::SIGABRT), "{name}: {ending:#?}");
        let lines: Vec<&str> = ending.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{name} wrote {lines:#?}");
        let address = ending.stdout.lines().find_map(|line| line.strip_prefix("address="));
        for part in ["polyheap: ", expected.as_str(), address.unwrap_or("0x")] {
            assert!(lines[0].contains(part), "{name} does not say {part:?}: {}", lines[0]);
        }
    }
}

#[test]
fn an_address_inside_a_block_is_a_fault() {
    for what in ["interior", "middle"] {
        assert_reported(&cases(what, &WAYS), FaultKind::InteriorPointer);
    }
    assert_reported(&cases("resize", &[Way::Own]), FaultKind::InteriorPointer);
}

#[test]
fn a_layout_of_another_class_is_a_fault_when_verified() {
    assert_reported(&cases("layout", &[Way::Own]), FaultKind::WrongLayout);
}

#[test]
fn an_address_in_the_header_of_a_region_is_a_fault() {
    let names = cases("header", &WAYS);
    let in_regions = |name: &String| !name.contains("mapping") && !name.contains("huge");
    let names: Vec<String> = names.into_iter().filter(in_regions).collect();
    assert_reported(&names, FaultKind::ForeignBlock);
}

#[test]
fn a_block_freed_twice_by_address_is_a_fault() {
    // The system has the largest blocks back at once; then they lie in no heap.
    let is_held = |name: &String| !name.contains("huge") || name.contains("/Own/");
    for what in ["again", "later"] {
        let names = cases(what, &WAYS).into_iter().filter(is_held);
        assert_reported(&names.collect::<Vec<_>>(), FaultKind::DoubleFree);
    }
}

#[test]
fn what_is_no_block_of_the_heap_named_is_a_fault() {
    assert_reported(&cases("stack", &[Way::Own]), FaultKind::ForeignBlock);
    assert_reported(&cases("other-heap", &[Way::Own]), FaultKind::WrongHeap);
    assert_reported(&cases("unused-heap", &[Way::Own]), FaultKind::WrongHeap);
}

#[test]
fn a_mapping_of_a_dropped_heap_is_a_fault_while_it_is_kept() {
    let names: Vec<String> = cases("dropped-heap", &[Way::Anywhere]);
    let is_kept = |name: &String| name.contains("/mapping/");
    assert_reported(&names.into_iter().filter(is_kept).collect::<Vec<_>>(), FaultKind::DoubleFree);
}
