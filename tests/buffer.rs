//! Heaps in a caller's buffer: any place and length, full to the last block, checked to the bit.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::alloc::GlobalAlloc;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::fs;
use std::path::Path;
use std::time::Duration;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::allocator_api2::{boxed::Box, vec::Vec};
use polyheap::{BufferHeap, Heap, HeapError, StaticHeap};

use support::{Child, Held, Random, assert_disjoint, run_to_the_end, scaled, scenario};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const LIMIT: Duration = Duration::from_secs(60);
const CANARY: u8 = 0xa7;

type Byte = MaybeUninit<u8>;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Memory with a buffer in the middle, and bytes on both sides that nobody may touch.
struct Fenced {
    memory: std::vec::Vec<Byte>,
    buffer: Range<usize>,
}

impl Fenced {
    fn new(offset: usize, bytes: usize) -> Fenced {
        let start = 64 + offset;
        Fenced { memory: vec![Byte::new(CANARY); start + bytes + 64], buffer: start..start + bytes }
    }

    fn buffer(&mut self) -> &mut [Byte] {
        &mut self.memory[self.buffer.clone()]
    }

    fn assert_untouched_outside(&self) {
        let (before, rest) = self.memory.split_at(self.buffer.start);
        let behind = &rest[self.buffer.len()..];
        for byte in before.iter().chain(behind) {
            // SAFETY: the bytes outside the buffer were initialised.
            assert_eq!(unsafe { byte.assume_init() }, CANARY, "a byte outside the buffer");
        }
    }
}

/// Allocates, frees and resizes at random in `heap` until `steps` are done; returns what is live.
fn work(
    heap: &BufferHeap<'_>,
    random: &mut Random,
    steps: usize,
    most: usize,
) -> std::vec::Vec<Held> {
    let mut live: std::vec::Vec<Held> = std::vec::Vec::new();
    for step in 0..steps {
        let pick = random.below(live.len().max(1));
        match random.below(8) {
            0..=3 => {
                let wanted = layout(random.size(most), 1 << random.below(8));
                live.extend(Held::new(heap, wanted, step as u64));
            }
            4..=5 if !live.is_empty() => live.swap_remove(pick).free(heap),
            6 if !live.is_empty() => {
                let from = live[pick].layout;
                let to = layout(from.size() + random.size(most), 1 << random.below(8));
                // What does not fit leaves the block as it was.
                let _ = live[pick].grow(heap, to);
            }
            7 if !live.is_empty() => {
                let from = live[pick].layout;
                let to = layout(1 + random.below(from.size()), from.align());
                live[pick].shrink(heap, to).unwrap();
            }
            _ => {}
        }
    }
    live
}

#[test]
fn random_operations_keep_contents_structure_and_everything_outside() {
    let mut random = Random::for_test("random_operations_keep_contents");
    for bytes in [2 * KIB, 4 * KIB, 5_000, 64 * KIB, 300_001, 4 * MIB] {
        for offset in (0..64).step_by(if bytes > 64 * KIB { 13 } else { 1 }) {
            let mut fenced = Fenced::new(offset, bytes);
            let mut heap = BufferHeap::new(fenced.buffer()).unwrap();
            let largest = heap.largest_free_bytes();
            let most = (bytes / 8).min(100_000);
            for _ in 0..4 {
                let live = work(&heap, &mut random, scaled(600), most);
                assert_disjoint(live.iter().map(Held::region));
                assert!(live.iter().all(|held| heap.owns(held.block)));
                assert_eq!(heap.stats().live_blocks, live.len());
                let sum: usize = live.iter().map(|held| held.usable).sum();
                assert_eq!(heap.stats().live_bytes, sum);
                assert_eq!(heap.verify(), Ok(()));
                let mut walked: std::vec::Vec<_> =
                    live.iter().map(|h| (h.block, h.usable)).collect();
                walked.sort_unstable();
                let mut seen = std::vec::Vec::new();
                heap.visit_blocks(|block, bytes| seen.push((block, bytes)));
                assert_eq!(seen, walked);
                live.into_iter().for_each(|held| held.free(&heap));
                assert_eq!(heap.verify(), Ok(()));
                assert_eq!(heap.largest_free_bytes(), largest, "all of it is one run again");
            }
            assert_eq!(heap.stats().live_bytes, 0);
            let _ = heap;
            fenced.assert_untouched_outside();
        }
    }
}

#[test]
fn buffers_too_small_are_refused_with_what_they_need_and_that_suffices() {
    let mut memory = [Byte::new(0); 4 * KIB];
    let mut least = usize::MAX;
    for offset in 0..64 {
        for bytes in (0..1200).step_by(7) {
            let buffer = &mut memory[offset..offset + bytes];
            match BufferHeap::new(buffer) {
                Ok(heap) => {
                    least = least.min(bytes);
                    assert!(heap.stats().capacity_bytes >= 16 * 16);
                }
                Err(HeapError::BufferTooSmall { given_bytes, needed_bytes }) => {
                    assert_eq!(given_bytes, bytes);
                    assert!(needed_bytes > bytes && needed_bytes < 1200, "{needed_bytes}");
                    assert!(BufferHeap::new(&mut memory[offset..offset + needed_bytes]).is_ok());
                    let one_less = &mut memory[offset..offset + needed_bytes - 1];
                    assert!(BufferHeap::new(one_less).is_err());
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(least < 1_024, "{least}");
    let text = BufferHeap::new(&mut memory[..10]).unwrap_err().to_string();
    assert!(text.contains("10 bytes is too small"), "{text}");
}

#[test]
fn a_buffer_is_full_only_when_no_run_of_bytes_is_left() {
    let mut memory = vec![Byte::uninit(); 64 * KIB];
    let heap = BufferHeap::new(&mut memory).unwrap();
    let capacity = heap.stats().capacity_bytes;
    assert!(capacity > 64 * KIB - 3 * KIB, "{capacity}");
    // Blocks of 16 bytes fill it to the last one.
    let mut small: std::vec::Vec<Held> =
        (0..).map_while(|id| Held::new(&&heap, layout(16, 8), id).ok()).collect();
    assert_eq!(small.len() * 16, capacity);
    assert_eq!(heap.stats().denied, 1);
    // Every second one free: nothing longer fits, and exactly as many of them.
    let kept: std::vec::Vec<Held> = small
        .drain(..)
        .enumerate()
        .filter_map(|(number, held)| {
            if number % 2 == 0 {
                held.free(&&heap);
                return None;
            }
            Some(held)
        })
        .collect();
    assert_eq!(heap.largest_free_bytes(), 16);
    assert!(heap.allocate(layout(17, 1)).is_err());
    kept.into_iter().for_each(|held| held.free(&&heap));
    let whole = Held::new(&&heap, layout(capacity, 16), 1).unwrap();
    assert!(heap.allocate(layout(1, 1)).is_err());
    whole.free(&&heap);
}

#[test]
fn every_alignment_that_fits_is_served_from_both_sides_of_a_run() {
    let mut memory = vec![Byte::uninit(); MIB];
    let mut heap = BufferHeap::new(&mut memory).unwrap();
    for align_log2 in 0..=18 {
        let align = 1 << align_log2;
        for size in [1, 15, 16, 17, 100, 4_097] {
            let held: std::vec::Vec<_> =
                (0..3).map_while(|id| Held::new(&&heap, layout(size, align), id).ok()).collect();
            assert!(!held.is_empty(), "{size} aligned to {align}");
            assert_disjoint(held.iter().map(Held::region));
            assert!(held.iter().all(|held| held.address().is_multiple_of(align)));
            held.into_iter().for_each(|held| held.free(&&heap));
        }
    }
    assert!(heap.allocate(layout(1, 4 * MIB)).is_err());
    assert!(heap.allocate(layout(isize::MAX as usize & !4095, 4096)).is_err());
    assert_eq!(heap.verify(), Ok(()));
}

#[test]
fn sizes_of_zero_take_nothing_and_zeroed_memory_is_zero() {
    let mut memory = vec![Byte::new(0xff); 32 * KIB];
    let heap = BufferHeap::new(&mut memory).unwrap();
    let nothing = heap.allocate(layout(0, 64)).unwrap();
    assert_eq!((nothing.len(), nothing.cast::<u8>().as_ptr() as usize % 64), (0, 0));
    // SAFETY: allocated just so.
    unsafe { heap.deallocate(nothing.cast(), layout(0, 64)) };
    assert_eq!(heap.stats().live_blocks, 0);
    for round in 0..3 {
        let mut held = Held::zeroed(&&heap, layout(1_000, 1), round).unwrap();
        held.fill();
        held.grow_zeroed(&&heap, layout(3_000, 1)).unwrap();
        held.fill();
        held.free(&&heap);
    }
}

#[test]
fn blocks_grow_into_free_neighbours_and_shrink_where_they_lie() {
    let mut memory = vec![Byte::uninit(); 32 * KIB];
    let heap = BufferHeap::new(&mut memory).unwrap();
    let mut held = Held::new(&&heap, layout(100, 8), 1).unwrap();
    let start = held.block;
    for size in [200, 5_000, 20_000, 3_000, 28_000, 16] {
        let to = layout(size, 8);
        if size > held.layout.size() {
            held.grow(&&heap, to).unwrap();
        } else {
            held.shrink(&&heap, to).unwrap();
        }
        assert_eq!(held.block, start, "{size}");
    }
    let neighbour = Held::new(&&heap, layout(16, 8), 2).unwrap();
    held.grow(&&heap, layout(400, 8)).unwrap();
    assert_ne!(held.block, start);
    held.free(&&heap);
    neighbour.free(&&heap);
}

#[test]
fn several_threads_use_one_buffer_with_and_without_caches() {
    std::thread_local!(static CORE: Cell<usize> = const { Cell::new(0) });
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut memory = vec![Byte::uninit(); 4 * MIB];
    for caches in [0, 1, 3] {
        let core = || CORE.with(Cell::get);
        let mut heap = match caches {
            0 => BufferHeap::new(&mut memory),
            _ => BufferHeap::with_core_caches(&mut memory, caches, core),
        }
        .unwrap();
        let largest = heap.largest_free_bytes();
        let live = run_to_the_end((0..4).map(|thread| {
            let heap = &heap;
            move || {
                CORE.set(NEXT.fetch_add(1, Ordering::Relaxed));
                let mut random = Random::for_test(&format!("thread {thread} of a buffer"));
                work(heap, &mut random, scaled(20_000), 4_000)
            }
        }));
        assert_disjoint(live.iter().flatten().map(Held::region));
        assert_eq!(heap.stats().live_blocks, live.iter().flatten().count());
        assert_eq!(heap.verify(), Ok(()));
        // Each freed by another thread than its own.
        run_to_the_end(live.into_iter().map(|mut live| {
            let heap = &heap;
            move || live.drain(..).for_each(|held| held.free(heap))
        }));
        assert_eq!(heap.stats().live_blocks, 0);
        assert_eq!(heap.largest_free_bytes(), largest);
        assert_eq!(heap.verify(), Ok(()));
    }
}

#[test]
fn what_cores_keep_is_found_when_nothing_else_is_left() {
    let mut memory = vec![Byte::uninit(); 16 * KIB];
    let heap = BufferHeap::with_core_caches(&mut memory, 2, || 0).unwrap();
    let blocks: std::vec::Vec<Held> =
        (0..).map_while(|id| Held::new(&&heap, layout(512, 8), id).ok()).collect();
    let count = blocks.len();
    blocks.into_iter().for_each(|held| held.free(&&heap));
    assert!(heap.stats().cached_bytes >= 512 * 16, "{}", heap.stats());
    assert_eq!(heap.stats().live_bytes, 0);
    let whole = heap.stats().capacity_bytes;
    Held::new(&&heap, layout(whole, 8), 0).unwrap().free(&&heap);
    assert!(whole >= count * 512);
}

#[test]
fn further_buffers_are_used_when_the_first_is_full() {
    let (mut first, mut second, mut third) =
        ([Byte::uninit(); 4 * KIB], vec![Byte::uninit(); 64 * KIB], [Byte::uninit(); 300]);
    let mut heap = BufferHeap::new(&mut first).unwrap();
    assert!(heap.allocate(layout(8_000, 8)).is_err());
    heap.extend(&mut second).unwrap();
    assert!(matches!(heap.extend(&mut third), Err(HeapError::BufferTooSmall { .. })));
    let large = Held::new(&&heap, layout(8_000, 8), 1).unwrap();
    let mut random = Random::for_test("further_buffers");
    let live = work(&heap, &mut random, scaled(4_000), 1_000);
    assert_eq!(heap.stats().buffers, 2);
    assert_eq!(heap.stats().live_blocks, live.len() + 1);
    large.free(&&heap);
    live.into_iter().for_each(|held| held.free(&heap));
    assert_eq!(heap.verify(), Ok(()));
    assert!(heap.largest_free_bytes() > 60_000);
}

#[test]
fn a_reset_drops_everything_at_once() {
    let mut memory = vec![Byte::uninit(); 256 * KIB];
    let mut heap = BufferHeap::with_core_caches(&mut memory, 2, || 1).unwrap();
    let largest = heap.largest_free_bytes();
    let mut random = Random::for_test("a_reset_drops_everything");
    for _ in 0..5 {
        drop(work(&heap, &mut random, scaled(3_000), 3_000));
        heap.reset();
        assert_eq!((heap.stats().live_blocks, heap.stats().cached_bytes), (0, 0));
        assert_eq!(heap.largest_free_bytes(), largest);
        assert_eq!(heap.verify(), Ok(()));
    }
}

#[test]
fn containers_live_in_a_buffer() {
    let mut memory = vec![Byte::uninit(); 256 * KIB];
    let heap = Heap::in_buffer(&mut memory).unwrap();
    let mut words = Vec::new_in(&heap);
    (0..1_000).for_each(|number| words.push(Box::new_in(number, &heap)));
    let mut map =
        hashbrown::HashMap::with_hasher_in(hashbrown::DefaultHashBuilder::default(), &heap);
    words.iter().for_each(|word| _ = map.insert(**word, word));
    assert_eq!(map.values().map(|word| ***word).sum::<i32>(), 499_500);
    drop(map);
    assert!(words.try_reserve(1_000_000).is_err());
    drop(words);
    assert_eq!(heap.stats().live_bytes, 0);
}

#[test]
fn a_static_heap_starts_itself_from_any_thread() {
    static HEAP: StaticHeap<65_536> = StaticHeap::new();
    static TINY: StaticHeap<64> = StaticHeap::new();
    let started = run_to_the_end((0..4).map(|_| || HEAP.heap().unwrap() as *const _ as usize));
    assert!(started.iter().all(|&place| place == started[0]));
    assert!(matches!(TINY.heap(), Err(HeapError::BufferTooSmall { given_bytes: 64, .. })));
    // SAFETY: the layout has a size.
    assert!(unsafe { TINY.alloc(layout(1, 1)) }.is_null());
    // SAFETY: as above.
    let block = unsafe { HEAP.alloc(layout(100, 8)) };
    // SAFETY: the block has 100 bytes.
    unsafe { block.write_bytes(7, 100) };
    // SAFETY: the block is live and of this layout.
    let grown = unsafe { HEAP.realloc(block, layout(100, 8), 10_000) };
    // SAFETY: the block has as many bytes.
    let last = unsafe { grown.add(99) };
    // SAFETY: as above; the first hundred bytes were written.
    assert_eq!(unsafe { last.read() }, 7);
    // SAFETY: the block is live and of this layout.
    unsafe { HEAP.dealloc(grown, layout(10_000, 8)) };
    assert_eq!(HEAP.heap().unwrap().stats().live_blocks, 0);
}

/// Every fault in a child, which is this test again.
#[test]
fn misuse_is_reported_and_ends_the_process() {
    let cases = [
        ("twice", "double free"),
        ("twice-large", "double free"),
        ("twice-cached", "double free"),
        ("twice-from-the-caches", "double free"),
        ("foreign", "free of a foreign pointer"),
        ("odd", "free of an interior pointer"),
        ("inside", "free of an interior pointer"),
        ("longer", "free with a wrong layout"),
        ("overwritten", "broken invariant [buffer-links-agree]"),
    ];
    if let Some(case) = scenario() {
        return misuse(&case);
    }
    for (case, message) in cases {
        let child = Child::new("misuse_is_reported_and_ends_the_process", case);
        let ending = child.limit(LIMIT).run().unwrap();
        assert!(ending.signal.is_some(), "{case}: {ending:?}");
        assert!(ending.stderr.contains(message), "{case}: {}", ending.stderr);
    }
}

fn misuse(case: &str) {
    let mut memory = vec![Byte::uninit(); 256 * KIB];
    let heap = match case.contains("cache") {
        true => BufferHeap::with_core_caches(&mut memory, 1, || 0).unwrap(),
        false => BufferHeap::new(&mut memory).unwrap(),
    };
    let block_of = |size| heap.allocate(layout(size, 8)).unwrap().cast::<u8>();
    // SAFETY: none, it is what the test is about.
    let free = |block, size| unsafe { heap.deallocate(block, layout(size, 8)) };
    let [first, _second, third] = [100, 5_000, 100].map(block_of);
    match case {
        "twice" | "twice-cached" => (0..2).for_each(|_| free(first, 100)),
        "twice-large" => (0..2).for_each(|_| free(_second, 5_000)),
        "twice-from-the-caches" => {
            [first, third, first].into_iter().for_each(|block| free(block, 100));
            heap.largest_free_bytes();
        }
        "foreign" => free(NonNull::from(&0u64).cast(), 8),
        // SAFETY: inside the block.
        "odd" => free(unsafe { first.add(3) }, 8),
        // SAFETY: inside the block.
        "inside" => free(unsafe { _second.add(160) }, 8),
        "longer" => free(first, 200),
        _ => {
            free(_second, 5_000);
            // SAFETY: none; the block was freed.
            unsafe { _second.write_bytes(0x11, 12) };
            block_of(5_000);
        }
    }
    eprintln!("{case} went unnoticed");
}

/// A heap in a buffer works without a system: between the marks there is no call but the marks.
#[test]
fn no_request_makes_a_system_call() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if scenario().is_some() {
        let mut memory = vec![Byte::uninit(); 8 * MIB];
        memory.fill(Byte::new(1));
        let heap = BufferHeap::new(&mut memory).unwrap();
        let mut random = Random::for_test("no_request_makes_a_system_call");
        mark("begin");
        for _ in 0..scaled(200_000) {
            let wanted = layout(random.size(500_000), 8);
            if let Ok(block) = heap.allocate(wanted) {
                // SAFETY: the block is live and of this layout.
                unsafe { heap.deallocate(block.cast(), wanted) };
            }
        }
        mark("end");
        DONE.store(true, Ordering::Relaxed);
        return;
    }
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace-buffer");
    let launcher = ["strace", "-f", "-qq", "-o", log.to_str().unwrap()];
    let child = Child::under(&launcher, "no_request_makes_a_system_call", "traced");
    match child.limit(LIMIT).run() {
        Ok(ending) if ending.code == Some(0) => {}
        other => return eprintln!("skipped: strace cannot trace here: {other:?}"),
    }
    let text = fs::read_to_string(&log).unwrap();
    let is_mark = |line: &&str, mark: &str| line.contains("write(-1") && line.contains(mark);
    let lines = text.lines().skip_while(|line| !is_mark(line, "begin"));
    let calls: std::vec::Vec<_> = lines.skip(1).take_while(|line| !is_mark(line, "end")).collect();
    assert!(text.contains("end"), "the loop was traced");
    let own = |line: &&&str| !line.contains("futex") || line.contains("mmap");
    assert_eq!(calls.iter().filter(own).count(), 0, "{calls:?}");
}

/// A system call that does nothing but show in a trace.
fn mark(text: &str) {
    // SAFETY: the call fails without reading the bytes.
    unsafe { libc::write(-1, text.as_ptr().cast(), text.len()) };
}
