//! What becomes of heaps when the system refuses calls, or has other pages.
//!
//! One script uses everything a heap can do. It runs with each of its system calls refused alone,
//! and with all calls refused from each one on. Whatever happens, an allocation works or is an
//! error, contents stay, every structure holds, and once the system grants calls again the heaps
//! work and everything can be given back.
//!
//! *Concurrency*: refusals are statics of the process, so each test runs in a process of its own.
//!
//! *Neighbours*: stands on the public face of the heap, and on `os::refusals`.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use allocator_api2::alloc::Allocator;

use super::resize::block_bytes;
use super::{Heap, trim_all};
use crate::base::address;
use crate::config::{COLD_REGIONS_MAX, REGION_BYTES};
use crate::os::{refuse_call, refused_calls, simulate_page_bytes};
use crate::policy::{Decay, HugePages};

/// Set in processes that were started for one test.
const ALONE: &str = "POLYHEAP_ALONE";

/// How long one of them may take.
const LIMIT: Duration = Duration::from_secs(100);

/// The last system call of the script that is refused.
const CALLS_MAX: usize = 300;

/// A size in every tier and on both sides of each border.
const SIZES: [usize; 8] = [1, 48, 5_000, 32_768, 32_769, 200_000, 600_000, 2_097_153];

/// Sizes of mappings that are kept, and that are not; with few places to look at.
const LARGE_SIZES: [usize; 2] = [20_000_000, 70_000_000];

/// A live block with a pattern at both of its ends and in the middle.
#[derive(Debug)]
struct Kept {
    block: NonNull<u8>,
    layout: Layout,
    tag: u8,
}

// SAFETY: the block is plain memory that only the holder touches, and any thread may free it.
unsafe impl Send for Kept {}

impl Kept {
    /// Allocates a block; `None` when there is no memory.
    fn new(heap: &Heap, layout: Layout, tag: u8) -> Option<Kept> {
        let block = heap.allocate(layout).ok()?;
        Kept { block: block.cast(), layout, tag }.filled()
    }

    fn zeroed(heap: &Heap, layout: Layout, tag: u8) -> Option<Kept> {
        let kept = Kept { block: heap.allocate_zeroed(layout).ok()?.cast(), layout, tag };
        kept.assert_all(0, kept.usable_bytes(), 0);
        kept.filled()
    }

    fn filled(self) -> Option<Kept> {
        assert!(address(self.block.as_ptr()).is_multiple_of(self.layout.align()), "{self:?}");
        for at in self.places(0, self.usable_bytes()) {
            // SAFETY: the place is inside the block, see `places`.
            let place = unsafe { self.block.add(at) };
            // SAFETY: the block is live, and this value's.
            unsafe { place.write(self.tag) };
        }
        Some(self)
    }

    fn check(&self) {
        self.assert_all(0, self.layout.size(), self.tag);
    }

    /// Panics unless some bytes between two offsets are `byte`.
    fn assert_all(&self, from: usize, to: usize, byte: u8) {
        for at in self.places(from, to) {
            // SAFETY: the place is inside the block.
            let place = unsafe { self.block.add(at) };
            // SAFETY: the block is live and was written there, or allocated as zeros.
            assert_eq!(unsafe { place.read() }, byte, "{self:?} at {at}");
        }
    }

    /// Returns offsets that are written and looked at: the same ones whatever the length, so that
    /// those of a block that was resized were written before.
    fn places(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let dense = (0..64).chain((64..16 * 1024).step_by(509));
        let sparse = (16 * 1024..usize::MAX).step_by(1_048_573);
        dense.chain(sparse).skip_while(move |&at| at < from).take_while(move |&at| at < to)
    }

    fn usable_bytes(&self) -> usize {
        block_bytes(self.layout)
    }

    /// Resizes the block, which stays as it is when there is no memory.
    fn resize(&mut self, heap: &Heap, to: Layout, is_zeroed: bool) {
        self.check();
        let kept_bytes = self.layout.size().min(to.size());
        let (block, from) = (self.block, self.layout);
        let resized = if to.size() < from.size() {
            // SAFETY: the block is live and fits its layout, and `to` is smaller.
            unsafe { heap.shrink(block, from, to) }
        } else if is_zeroed {
            // SAFETY: the block is live and fits its layout, and `to` is not smaller.
            unsafe { heap.grow_zeroed(block, from, to) }
        } else {
            // SAFETY: as above.
            unsafe { heap.grow(block, from, to) }
        };
        let Ok(resized) = resized else { return self.check() };
        let is_growth = to.size() >= self.layout.size();
        *self = Kept { block: resized.cast(), layout: to, tag: self.tag };
        self.assert_all(0, kept_bytes, self.tag);
        if is_zeroed && is_growth {
            self.assert_all(kept_bytes, self.usable_bytes(), 0);
        }
        let filled = Kept { ..*self }.filled();
        assert!(filled.is_some());
    }

    fn free(self, heap: &Heap) {
        self.check();
        // SAFETY: the block is live, this value's, and fits its layout.
        unsafe { heap.deallocate(self.block, self.layout) };
    }
}

fn layout(size: usize, align: usize) -> Layout {
    match Layout::from_size_align(size, align) {
        Ok(layout) => layout,
        Err(_) => panic!("no layout has {size} bytes aligned to {align}"),
    }
}

/// The heaps of the script, each with what is live in it.
struct Script {
    heaps: Vec<(Heap, Vec<Kept>)>,
    tag: u8,
}

impl Script {
    fn new() -> Script {
        // The isolated ones take everything from the system, whatever ran before, and give it back.
        let builder = Heap::builder;
        let heaps = [
            builder().isolated(true).build(),
            builder().isolated(true).thread_cache(false).build(),
            builder().isolated(true).thread_cache_bytes(0).build(),
            builder().decay(Decay::Eager).huge_pages(HugePages::Always).build(),
            builder().max_bytes(24 << 20).soft_max_bytes(4 << 20).build(),
        ];
        Script { heaps: heaps.into_iter().map(|heap| (heap, Vec::new())).collect(), tag: 0 }
    }

    fn tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1) | 1;
        self.tag
    }

    /// Uses everything there is.
    fn run(&mut self) {
        let steps: [fn(&mut Script, usize); 6] = [
            Script::allocate,
            Script::resize,
            Script::limit,
            Script::use_threads,
            Script::free_some,
            Script::look,
        ];
        for step in steps {
            (0..self.heaps.len()).for_each(|index| step(self, index));
        }
        self.end_some();
        trim_all();
        for index in 0..self.heaps.len() {
            self.look(index);
        }
    }

    fn allocate(&mut self, index: usize) {
        for (number, &size) in SIZES.iter().enumerate() {
            let (one, two, three) = (self.tag(), self.tag(), self.tag());
            let align = [8, 64, 4_096, 1 << 17][number % 4];
            let (heap, live) = &mut self.heaps[index];
            live.extend(Kept::new(heap, layout(size, 8), one));
            if size < 500_000 || index == 0 {
                live.extend(Kept::zeroed(heap, layout(size, 1), two));
            }
            live.extend(Kept::new(heap, layout(size, align), three));
        }
        // Huge pages would make them all resident.
        for size in LARGE_SIZES.into_iter().filter(|_| index != 3) {
            let tag = self.tag();
            let (heap, live) = &mut self.heaps[index];
            if let Some(mut kept) = Kept::new(heap, layout(size, 8), tag) {
                kept.resize(heap, layout(size * 3 / 2, 8), false);
                kept.resize(heap, layout(size / 2, 8), false);
                live.push(kept);
            }
        }
        let (heap, _) = &self.heaps[index];
        assert!(heap.allocate(layout(1 << 50, 1)).is_err());
    }

    fn resize(&mut self, index: usize) {
        let (heap, live) = &mut self.heaps[index];
        for (number, kept) in live.iter_mut().enumerate() {
            let size = kept.layout.size();
            if size > 3_000_000 || number % 3 != 0 {
                continue;
            }
            kept.resize(heap, layout(size + size / 2 + 1, 8), number % 2 == 0);
            kept.resize(heap, layout(kept.layout.size() / 3 + 1, 64), false);
            kept.resize(heap, layout(size + 100_000, 16), true);
            kept.resize(heap, layout(size, kept.layout.align()), false);
        }
    }

    /// Sets limits for a while and takes what they allow.
    fn limit(&mut self, index: usize) {
        let tag = self.tag();
        let (heap, live) = &mut self.heaps[index];
        let bytes = core::num::NonZeroUsize::new(heap.stats().held_bytes + 300_000);
        if heap.set_limit(bytes).is_err() || heap.set_soft_limit(bytes).is_err() {
            return;
        }
        for size in [100, 40_000, 3_000_000] {
            live.extend((0..4).map_while(|_| Kept::new(heap, layout(size, 8), tag)));
        }
        heap.trim();
        assert!(heap.set_limit(None).is_ok() && heap.set_soft_limit(None).is_ok());
    }

    /// Threads allocate, and free what others allocated.
    fn use_threads(&mut self, index: usize) {
        let tags = [self.tag(), self.tag()];
        let (heap, live) = &mut self.heaps[index];
        let heap = &*heap;
        let half = live.len() / 2;
        let given = [live.split_off(half), Vec::new()];
        let work = move |given: Vec<Kept>, tag: u8| {
            let mut live = Vec::new();
            for size in SIZES {
                live.extend(Kept::new(heap, layout(size, 8), tag));
            }
            given.into_iter().for_each(|kept| kept.free(heap));
            live.truncate_by_freeing(heap, 10);
            live
        };
        thread::scope(|scope| {
            let threads: Vec<_> = given
                .into_iter()
                .zip(tags)
                .map(|(given, tag)| scope.spawn(move || work(given, tag)))
                .collect();
            threads.into_iter().for_each(|thread| live.extend(joined(thread.join())));
        });
    }

    fn free_some(&mut self, index: usize) {
        let (heap, live) = &mut self.heaps[index];
        let mut number = 0;
        while number < live.len() {
            live.swap_remove(number).free(heap);
            number += 1;
        }
        heap.trim();
    }

    /// Checks everything that can be seen of a heap.
    fn look(&mut self, index: usize) {
        let (heap, live) = &mut self.heaps[index];
        live.iter().for_each(Kept::check);
        assert_eq!(heap.verify(), Ok(()), "heap {index}");
        let stats = heap.stats();
        assert_eq!(stats.live_blocks, live.len(), "heap {index}: {stats}");
        let mut visited = 0;
        heap.visit_blocks(|_| visited += 1);
        assert_eq!(visited, live.len(), "heap {index}");
    }

    /// Resets one heap, drops one, leaks one into another, makes and drops some.
    fn end_some(&mut self) {
        let (heap, live) = &mut self.heaps[0];
        heap.reset();
        live.clear();
        self.allocate(0);
        for _ in 0..3 {
            let (heap, tag) = (Heap::new(), self.tag());
            let live: Vec<Kept> =
                SIZES.iter().filter_map(|&size| Kept::new(&heap, layout(size, 8), tag)).collect();
            live.iter().for_each(Kept::check);
            drop(heap);
        }
        let (child, mut moved) = self.heaps.remove(1);
        let (parent, live) = &mut self.heaps[1];
        let is_bound = parent.bind().is_ok();
        child.leak_into(parent);
        match is_bound {
            true => live.append(&mut moved),
            // They stay valid for ever, and are nobody's.
            false => moved.iter().for_each(Kept::check),
        }
        self.look(1);
        drop(self.heaps.remove(2));
    }

    /// Frees and ends everything; every heap must be as good as new before.
    fn end(mut self) {
        for index in 0..self.heaps.len() {
            self.look(index);
            let (heap, live) = &mut self.heaps[index];
            live.drain(..).for_each(|kept| kept.free(heap));
            for size in SIZES {
                let Some(kept) = Kept::zeroed(heap, layout(size, 8), 1) else {
                    panic!("heap {index} has no {size} bytes: {}", heap.stats())
                };
                kept.free(heap);
            }
            heap.trim();
            let stats = heap.stats();
            let left = (stats.live_bytes, stats.cached_bytes, stats.dirty_bytes);
            assert_eq!(left, (0, 0, 0), "heap {index}: {stats}");
            assert_eq!(heap.verify(), Ok(()), "heap {index}");
        }
        for (heap, _) in self.heaps {
            let report = heap.close();
            assert!(report.is_clean(), "{report}");
        }
        // What the system did not take is offered again one at a time.
        (0..64).for_each(|_| {
            trim_all();
        });
    }
}

trait TruncateByFreeing {
    fn truncate_by_freeing(&mut self, heap: &Heap, left: usize);
}

impl TruncateByFreeing for Vec<Kept> {
    fn truncate_by_freeing(&mut self, heap: &Heap, left: usize) {
        self.drain(left.min(self.len())..).for_each(|kept| kept.free(heap));
    }
}

fn joined<T>(outcome: thread::Result<T>) -> T {
    match outcome {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Returns mappings and bytes of address space of the process.
fn mapped() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    (maps.lines().count(), pages * 4_096)
}

/// Runs `body` in a process of its own.
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let name = format!("heap::tests::{test}");
    let program = std::env::current_exe();
    let mut command = match program {
        Ok(program) => Command::new(program),
        Err(error) => panic!("a test has a path: {error}"),
    };
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    // Its arenas come and go with threads.
    command.env("MALLOC_ARENA_MAX", "1");
    let started = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("this program can be started: {error}"),
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < LIMIT => thread::sleep(Duration::from_millis(5)),
            outcome => {
                let _ = child.kill();
                panic!("{test} did not end: {outcome:?}");
            }
        }
    };
    assert!(status.success(), "{test}: {status}");
}

/// Runs the script with the calls from the `n`-th on refused; returns how many were.
fn run_refused(n: usize, goes_on: bool) -> usize {
    trim_all();
    refuse_call(n, goes_on);
    let mut script = Script::new();
    script.run();
    let refused = refused_calls();
    refuse_call(0, false);
    script.end();
    refused
}

fn refuse_each_call(goes_on: bool) {
    // What stays for good: tables of threads, parts of the map, address space for regions.
    (0..3).for_each(|_| {
        run_refused(0, false);
    });
    let (mappings, bytes) = mapped();
    for n in 1..=CALLS_MAX {
        let refused = run_refused(n, goes_on);
        assert!(refused == 1 || goes_on && refused > 1, "the script has fewer than {n} calls");
    }
    // Regions that the system does not take back are kept for the next heaps, up to a number.
    let kept_bytes = COLD_REGIONS_MAX * REGION_BYTES;
    let (mappings_now, bytes_now) = mapped();
    let is_back = mappings_now <= mappings + COLD_REGIONS_MAX && bytes_now <= bytes + kept_bytes;
    let growth = (mappings_now as isize - mappings as isize, bytes_now as isize - bytes as isize);
    assert!(is_back, "{growth:?} more mappings and bytes than before");
}

#[test]
fn each_system_call_may_be_refused() {
    alone("each_system_call_may_be_refused", || refuse_each_call(false));
}

#[test]
fn all_system_calls_may_be_refused_from_each_one_on() {
    alone("all_system_calls_may_be_refused_from_each_one_on", || refuse_each_call(true));
}

#[test]
fn nothing_is_lost_over_calls_refused_now_and_then() {
    alone("nothing_is_lost_over_calls_refused_now_and_then", || {
        let mut script = Script::new();
        for n in 1..=60 {
            refuse_call(n, false);
            script.run();
            refuse_call(0, false);
            script.end();
            script = Script::new();
        }
        script.end();
    });
}

fn run_with_pages(page_bytes: usize) {
    simulate_page_bytes(page_bytes);
    (0..2).for_each(|_| {
        run_refused(0, false);
    });
    let before = mapped();
    (0..3).for_each(|_| {
        run_refused(0, false);
    });
    let after = mapped();
    assert!(after.0 <= before.0 + 20 && after.1 <= before.1 + (64 << 20), "{before:?} {after:?}");
    for n in (1..CALLS_MAX).step_by(23) {
        run_refused(n, false);
        run_refused(n, true);
    }
}

#[test]
fn everything_works_with_pages_of_4_kib() {
    alone("everything_works_with_pages_of_4_kib", || run_with_pages(4 << 10));
}

#[test]
fn everything_works_with_pages_of_16_kib() {
    alone("everything_works_with_pages_of_16_kib", || run_with_pages(16 << 10));
}

#[test]
fn everything_works_with_pages_of_64_kib() {
    alone("everything_works_with_pages_of_64_kib", || run_with_pages(64 << 10));
}

/// What the system refuses to drop stays charged and dirty, and goes at the next trim.
#[test]
fn a_refused_purge_or_unmapping_is_made_up_for() {
    alone("a_refused_purge_or_unmapping_is_made_up_for", || {
        for size in [65_536, 1_500_000, 3_000_000, 20_000_000] {
            let first = mapped();
            let mut heap = Heap::builder().isolated(true).build();
            let live: Vec<Kept> =
                (0..4).filter_map(|_| Kept::new(&heap, layout(size, 8), 9)).collect();
            assert_eq!(live.len(), 4);
            let before = mapped();
            live.into_iter().for_each(|kept| kept.free(&heap));
            refuse_call(1, true);
            heap.trim();
            assert!(refused_calls() > 0);
            assert_eq!(heap.verify(), Ok(()));
            // Zeroed memory is zero although nothing was dropped.
            for _ in 0..3 {
                if let Some(kept) = Kept::zeroed(&heap, layout(size, 8), 7) {
                    kept.free(&heap);
                }
            }
            refuse_call(0, false);
            heap.trim();
            assert_eq!((heap.verify(), heap.stats().dirty_bytes), (Ok(()), 0));
            drop(heap);
            (0..8).for_each(|_| {
                trim_all();
            });
            let after = mapped();
            let is_back = after.1 < before.1 && after.1 <= first.1 + (6 << 20);
            assert!(is_back, "{size}: {first:?} {before:?} {after:?}");
        }
    });
}

/// What is mapped in excess for an alignment's sake goes back, at the latest some calls later.
#[test]
fn refused_cuts_of_mappings_leave_nothing_behind() {
    alone("refused_cuts_of_mappings_leave_nothing_behind", || {
        let heap = Heap::builder().isolated(true).decay(Decay::Eager).build();
        let live = Kept::new(&heap, layout(100, 8), 1);
        let use_mappings = |n: usize| {
            refuse_call(n, false);
            let block = Kept::new(&heap, layout(5_000_000, 8), 2);
            refuse_call(0, false);
            if let Some(mut block) = block {
                refuse_call(n, false);
                block.resize(&heap, layout(9_000_000, 8), false);
                refuse_call(n, false);
                block.resize(&heap, layout(3_000_000, 8), false);
                refuse_call(0, false);
                block.free(&heap);
            }
        };
        (0..8).for_each(use_mappings);
        let before = mapped();
        (0..400).for_each(|round| use_mappings(round % 8));
        let after = mapped();
        let is_back = after.0 <= before.0 + 20 && after.1 <= before.1 + (64 << 20);
        assert!(is_back, "{before:?} became {after:?}");
        live.into_iter().for_each(|kept| kept.free(&heap));
    });
}

/// The part that a refused shrink would have given back is contents still.
#[test]
fn a_shrink_that_fails_drops_nothing() {
    alone("a_shrink_that_fails_drops_nothing", || {
        for (from, to) in [(20_000_000, 3_000_000), (70_000_000, 20_000_000)] {
            let heap = Heap::builder().isolated(true).build();
            let Some(mut kept) = Kept::new(&heap, layout(from, 8), 3) else {
                panic!("there is memory for {from} bytes")
            };
            // No further block is allowed, so it is in place or not at all.
            let held_bytes = core::num::NonZeroUsize::new(heap.stats().held_bytes);
            assert!(heap.set_limit(held_bytes).is_ok());
            refuse_call(1, false);
            kept.resize(&heap, layout(to, 8), false);
            assert_eq!(refused_calls(), 1);
            refuse_call(0, false);
            kept.check();
            kept.free(&heap);
        }
    });
}

/// A resize that fails leaves the block's contents alone, whichever call was refused.
#[test]
fn a_resize_that_fails_changes_nothing() {
    alone("a_resize_that_fails_changes_nothing", || {
        let sizes = [40_000, 700_000, 2_097_153, 5_000_000, 20_000_000, 70_000_000];
        for (from, to) in sizes.into_iter().flat_map(|from| sizes.map(|to| (from, to))) {
            for (n, goes_on) in (1..6).flat_map(|n| [(n, false), (n, true)]) {
                let mut heap = Heap::builder().isolated(true).build();
                let Some(mut kept) = Kept::new(&heap, layout(from, 8), 3) else {
                    panic!("there is memory for {from} bytes")
                };
                refuse_call(n, goes_on);
                kept.resize(&heap, layout(to, 8), from % 2 == 0);
                refuse_call(0, false);
                kept.check();
                assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 1), "{from} {to}");
                kept.free(&heap);
            }
        }
    });
}
