//! Warm loops: no system call, no page fault, no mapping, and never the global allocator.
//!
//! System calls are counted by running a loop under `strace`, between two marks; where that does
//! not work the test says so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::alloc::GlobalAlloc;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::alloc::System;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{Allocator, Layout};

use support::{
    Child, Held, Random, alone, current_address_space_bytes, mapping_count, minor_faults,
    run_to_the_end, scaled, scenario,
};

const LIMIT: Duration = Duration::from_secs(120);

/// std's allocator, and how often the calling thread used it.
struct Counting;

thread_local! {
    // Constant and without a destructor, so that counting allocates nothing.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static GLOBAL: Counting = Counting;

// SAFETY: everything is passed on to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's contract is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is this one's.
        unsafe { System.dealloc(block, layout) };
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn pair(heap: &Heap, size: usize) {
    let block = heap.allocate(layout(size)).unwrap();
    // SAFETY: just allocated with this layout, and freed once.
    unsafe { heap.deallocate(block.cast(), layout(size)) };
}

/// Allocates and frees at once, in every slab size.
fn hot(heap: &Heap, steps: usize) {
    for step in 0..steps {
        pair(heap, [16, 24, 64, 256, 1_000, 4_096, 16_384, 32_768][step % 8]);
    }
}

/// A fixed number of blocks, each replaced by one of another size.
struct Churn {
    live: [Option<(ptr::NonNull<u8>, usize)>; 256],
    random: Random,
}

impl Churn {
    fn new(random: Random) -> Churn {
        Churn { live: [None; 256], random }
    }

    fn run(&mut self, heap: &Heap, steps: usize) {
        for _ in 0..steps {
            let size = 16 << self.random.below(7);
            let block = heap.allocate(layout(size)).unwrap().cast();
            let place = self.random.below(self.live.len());
            self.free(heap, place);
            self.live[place] = Some((block, size));
        }
    }

    fn free(&mut self, heap: &Heap, place: usize) {
        if let Some((old, size)) = self.live[place].take() {
            // SAFETY: allocated with this layout, and taken out of the list.
            unsafe { heap.deallocate(old, layout(size)) };
        }
    }

    fn end(mut self, heap: &Heap) {
        (0..self.live.len()).for_each(|place| self.free(heap, place));
    }
}

/// A ring through which one thread hands blocks to another, without a lock and without memory.
struct Ring {
    places: [AtomicPtr<u8>; 64],
    taken: AtomicUsize,
}

impl Ring {
    const fn new() -> Ring {
        Ring { places: [const { AtomicPtr::new(ptr::null_mut()) }; 64], taken: AtomicUsize::new(0) }
    }

    fn put(&self, number: usize, block: *mut u8) {
        let place = &self.places[number % 64];
        while !place.load(Ordering::Acquire).is_null() {
            thread::yield_now();
        }
        place.store(block, Ordering::Release);
    }

    fn take(&self, number: usize) -> *mut u8 {
        let place = &self.places[number % 64];
        loop {
            let block = place.load(Ordering::Acquire);
            if !block.is_null() {
                place.store(ptr::null_mut(), Ordering::Release);
                self.taken.fetch_add(1, Ordering::Relaxed);
                return block;
            }
            thread::yield_now();
        }
    }
}

/// One thread allocates, the other frees. `mark` is told when the warm steps are over, and when all
/// are, before a thread ends.
fn cross(heap: &Heap, size: usize, warm: usize, steps: usize, mark: impl Fn(&str) + Sync) {
    let ring = Ring::new();
    let make = || {
        for number in 0..warm + steps {
            if number == warm {
                mark("begin");
            }
            ring.put(number, heap.allocate(layout(size)).unwrap().as_ptr().cast());
        }
        mark("end");
    };
    let free = || {
        for number in 0..warm + steps {
            let block = ptr::NonNull::new(ring.take(number)).unwrap();
            // SAFETY: the other thread allocated it with this layout and let go of it.
            unsafe { heap.deallocate(block, layout(size)) };
        }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(make), scope.spawn(free)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(ring.taken.load(Ordering::Relaxed), warm + steps);
}

/// Runs `act` and panics when it made page faults or mappings.
fn assert_still(what: &str, act: impl FnOnce()) {
    let before = (mapping_count(), current_address_space_bytes());
    let faults = minor_faults();
    act();
    let new_faults = minor_faults() - faults;
    assert!(new_faults <= 16, "{what}: {new_faults} page faults");
    assert_eq!((mapping_count(), current_address_space_bytes()), before, "{what}");
}

#[test]
fn warm_loops_of_one_thread_touch_no_new_memory() {
    alone("warm_loops_of_one_thread_touch_no_new_memory", LIMIT, || {
        let heap = Heap::new();
        hot(&heap, 50_000);
        assert_still("hot", || hot(&heap, scaled(4_000_000)));
        let mut churn = Churn::new(Random::for_test("churn"));
        churn.run(&heap, 200_000);
        assert_still("churn", || churn.run(&heap, scaled(4_000_000)));
        churn.end(&heap);
        assert_eq!(heap.stats().live_blocks, 0);
    });
}

#[test]
fn warm_bursts_of_one_thread_touch_no_new_memory() {
    alone("warm_bursts_of_one_thread_touch_no_new_memory", LIMIT, || {
        let heap = Heap::new();
        let mut blocks = Vec::with_capacity(1_000);
        let mut burst = |size: usize, count: usize| {
            blocks.extend((0..count).map(|_| heap.allocate(layout(size)).unwrap()));
            for block in blocks.drain(..) {
                // SAFETY: allocated with this layout, and drained from the list.
                unsafe { heap.deallocate(block.cast(), layout(size)) };
            }
        };
        for size in [16, 64, 256, 1_024, 8_192] {
            (0..4).for_each(|_| burst(size, 1_000));
            assert_still("burst", || (0..scaled(400)).for_each(|_| burst(size, 1_000)));
        }
        // Spans too, as far as their chunks are warm.
        (0..4).for_each(|_| burst(200_000, 20));
        assert_still("spans", || (0..scaled(4_000)).for_each(|_| burst(200_000, 20)));
    });
}

#[test]
fn blocks_that_change_threads_use_the_same_memory_again() {
    alone("blocks_that_change_threads_use_the_same_memory_again", LIMIT, || {
        for (size, has_cache) in [(48, true), (64, true), (1_024, true), (64, false)] {
            let heap = Heap::builder().thread_cache(has_cache).build();
            let few = scaled(400_000);
            cross(&heap, size, 0, few, |_| ());
            let before = heap.stats().held_bytes;
            cross(&heap, size, 0, few * 4, |_| ());
            let after = heap.stats().held_bytes;
            assert!(after <= before + (1 << 20), "{size} B: {before} -> {after}");
            assert_eq!(heap.stats().live_blocks, 0);
        }
    });
}

#[test]
fn nothing_a_heap_does_uses_the_global_allocator() {
    let sizes = [1, 48, 640, 5_000, 32_768, 100_000, 3_000_000];
    let live = |heap: &Heap| {
        sizes.map(|size| {
            Held::zeroed(&heap, layout(size), 1).unwrap().free(&heap);
            let mut held = Held::new(&heap, layout(size), 2).unwrap();
            held.grow(&heap, layout(size * 2)).unwrap();
            held
        })
    };
    let everything = || {
        let calls = CALLS.get();
        let mut heap = Heap::builder().name("no other").build();
        let held = live(&heap);
        let stats = heap.stats();
        assert!(stats.live_blocks == sizes.len() && polyheap::heaps().next().is_some());
        held.into_iter().for_each(|held| held.free(&&heap));
        heap.trim();
        live(&heap).iter().for_each(Held::check);
        assert_eq!(heap.verify(), Ok(()));
        heap.visit_blocks(|_| ());
        heap.reset();
        live(&heap).iter().for_each(Held::check);
        let child = Heap::new();
        live(&child).iter().for_each(Held::check);
        child.leak_into(&heap);
        let shared = heap.share();
        drop(shared.clone());
        let report = shared.try_unshare().unwrap().close();
        assert_eq!(report.blocks, sizes.len() * 2);
        assert_eq!(CALLS.get(), calls, "some step used the global allocator");
    };
    everything();
    // On a fresh thread as well: binding allocates nowhere else either.
    run_to_the_end([everything]);
}

/// Writes `text` where a trace shows it and nobody else sees it.
fn mark(text: &str) {
    // SAFETY: the buffer is valid for its length; the descriptor does not exist.
    unsafe { libc::write(-1, text.as_ptr().cast(), text.len()) };
}

#[test]
fn traced_loop() {
    let heap = Heap::new();
    let steps = 1_000_000;
    match scenario().as_deref() {
        Some("hot") => {
            hot(&heap, 50_000);
            mark("begin");
            hot(&heap, steps);
            mark("end");
        }
        Some("churn") => {
            let mut churn = Churn::new(Random::for_test("churn"));
            churn.run(&heap, 100_000);
            mark("begin");
            churn.run(&heap, steps);
            mark("end");
            churn.end(&heap);
        }
        Some("cross") => {
            cross(&heap, 64, 100_000, steps, mark);
        }
        _ => {}
    }
}

/// Returns the calls between the marks of a traced loop; `None` when tracing does not work here.
fn trace(name: &str) -> Option<Vec<String>> {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{name}"));
    let log_name = log.to_str()?;
    let calls = "trace=mmap,munmap,mremap,madvise,mprotect,brk,futex,write";
    let launcher = ["strace", "-f", "-qq", "-e", calls, "-o", log_name];
    let ending = match Child::under(&launcher, "traced_loop", name).limit(LIMIT).run() {
        Ok(ending) if ending.code == Some(0) => ending,
        Ok(ending) => {
            eprintln!("skipped: strace cannot trace here: {}", ending.stderr);
            return None;
        }
        Err(error) => {
            eprintln!("skipped: strace cannot be started: {error}");
            return None;
        }
    };
    let text = fs::read_to_string(&log).unwrap();
    let is_mark = |line: &&str, mark: &str| line.contains("write(-1") && line.contains(mark);
    let between: Vec<String> = text
        .lines()
        .skip_while(|line| !is_mark(line, "begin"))
        .skip(1)
        .take_while(|line| !is_mark(line, "end"))
        .map(String::from)
        .collect();
    assert!(text.lines().any(|line| is_mark(&line, "end")), "{name}: {ending:#?}");
    Some(between)
}

#[test]
fn warm_loops_make_no_system_calls() {
    // In a million operations of each; a wait of std's, for the thread, may be seen to end.
    for name in ["hot", "churn", "cross"] {
        let Some(mut calls) = trace(name) else { return };
        calls.retain(|call| !call.contains("futex"));
        assert!(calls.is_empty(), "{name}: {calls:#?}");
    }
}
