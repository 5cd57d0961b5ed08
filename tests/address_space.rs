//! Short address spaces and crowded ones: everything works under a limit on virtual memory and
//! among tens of thousands of foreign mappings; warm heaps ask the system for nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{Decay, Heap};

use support::{
    Child, Held, Random, alone, current_address_space_bytes, mapping_count, run_to_the_end,
    scenario,
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const LIMIT: Duration = Duration::from_secs(100);

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// Sizes of every tier that a short address space has room for.
const SIZES: [usize; 10] =
    [16, 100, 1_000, 10_000, 32_768, 65_536, 300_000, 2 * MIB, 2 * MIB + 1, 5 * MIB];

fn free_all(heap: &Heap, blocks: Vec<Held>) {
    blocks.into_iter().for_each(|block| block.free(&heap));
}

/// Allocates at least `total` bytes in blocks of `size`.
fn take(heap: &Heap, size: usize, total: usize) -> Vec<Held> {
    let allocate = |id| Held::new(&heap, bytes(size), id as u64).unwrap();
    (0..total.div_ceil(size)).map(allocate).collect()
}

/// Allocates until there is no memory; returns the bytes there were.
fn exhaust(heap: &Heap, size: usize, list: &mut Vec<Held>) -> usize {
    let first = list.len();
    while list.len() < list.capacity() {
        match Held::new(&heap, bytes(size), list.len() as u64) {
            Ok(block) => list.push(block),
            Err(_) => return (list.len() - first) * size,
        }
    }
    panic!("no limit holds");
}

/// Eight threads, four heaps, 60 MiB; then all there is; then 40 MiB again.
fn use_what_there_is(least_bytes: usize) {
    let mut list = Vec::with_capacity(120_000);
    let heaps: [Heap; 4] = [
        Heap::builder().isolated(true).build(),
        Heap::new(),
        Heap::builder().thread_cache(false).build(),
        Heap::builder().max_bytes(40 * MIB).build(),
    ];
    for heap in &heaps {
        let blocks = take(heap, 5_000, 15 * MIB);
        free_all(heap, blocks);
    }
    run_to_the_end((0..8).map(|number| {
        let heap = &heaps[number % 4];
        move || {
            for size in SIZES.into_iter().filter(|&size| size <= 2 * MIB) {
                let block = Held::new(&heap, bytes(size), 1).unwrap();
                let mut other = Held::zeroed(&heap, bytes(size), 2).unwrap();
                other.grow(&heap, bytes(size + size / 2)).unwrap();
                other.shrink(&heap, bytes(size / 2 + 1)).unwrap();
                block.free(&heap);
                other.free(&heap);
            }
        }
    }));
    // One after the other: a heap's regions keep their addresses, though not their memory.
    for mut heap in heaps {
        polyheap::trim_all();
        for size in [3_000_000, 1_000_000, 100_000, 30_000, 5_000] {
            let found = exhaust(&heap, size, &mut list);
            let least = least_bytes.min(heap_limit(&heap)) * 3 / 4;
            assert!(found >= least, "{found} bytes in blocks of {size}: {}", heap.stats());
            // Where no region fits any more, there are fewer addresses than one takes to align.
            let left = unused_address_bytes();
            let is_full = left <= 12 * MIB || size > MIB || heap.stats().denied_by_limit != 0;
            assert!(is_full, "{left} bytes of addresses unused: {}", heap.stats());
            // Whoever has nothing says so, whatever is asked for.
            for size in [size, 10 * size, 600 * MIB] {
                let Some(first) = list.first_mut() else { continue };
                let grown = first.grow(&&heap, bytes(first.layout.size().max(size)));
                assert!(size < 600 * MIB || grown.is_err());
            }
            list.drain(..).for_each(|block| block.free(&&heap));
            heap.trim();
            polyheap::trim_all();
            assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0), "{size}");
            // Also when regions had all the addresses before.
            let again = take(&heap, size, 20 * MIB);
            free_all(&heap, again);
        }
    }
    let (mut one, two) = (Heap::new(), Heap::new());
    free_all(&two, take(&two, 9_000, 20 * MIB));
    two.leak_into(&one);
    assert_eq!((one.verify(), one.stats().live_blocks), (Ok(()), 0));
    free_all(&one, take(&one, 9_000, 20 * MIB));
    one.reset();
    free_all(&one, take(&one, 70_000, 20 * MIB));
}

/// Returns what a heap of these tests may hold.
fn heap_limit(heap: &Heap) -> usize {
    let is_limited = heap.stats().denied_by_limit != 0;
    if is_limited { 40 * MIB } else { usize::MAX }
}

/// Returns the bytes of address space that the limit allows beyond what the process has.
fn unused_address_bytes() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for a write.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) }, 0);
    (limit.rlim_cur as usize).saturating_sub(current_address_space_bytes())
}

/// Runs this program's `test` as a child that may have `kib` KiB of address space.
fn run_under_ulimit(test: &str, kib: usize) {
    let command = format!("ulimit -v {kib} && MALLOC_ARENA_MAX=1 exec \"$0\" \"$@\"");
    let child = Child::under(&["sh", "-c", &command], test, test).limit(LIMIT);
    child.run().unwrap().assert_success();
}

#[test]
fn a_quarter_of_a_gibibyte_of_addresses_is_enough() {
    let name = "a_quarter_of_a_gibibyte_of_addresses_is_enough";
    match scenario() {
        Some(_) => use_what_there_is(60 * MIB),
        None if current_address_space_bytes() == 0 => {}
        None => run_under_ulimit(name, 256 * KIB),
    }
}

#[test]
fn half_a_gibibyte_of_addresses_is_enough() {
    let name = "half_a_gibibyte_of_addresses_is_enough";
    match scenario() {
        Some(_) => use_what_there_is(200 * MIB),
        None if current_address_space_bytes() == 0 => {}
        None => run_under_ulimit(name, 512 * KIB),
    }
}

/// What threads, heaps and the process keep for later must not stand in the way of a request.
#[test]
fn kept_memory_gives_way_where_addresses_are_short() {
    let name = "kept_memory_gives_way_where_addresses_are_short";
    let keep_and_ask = || {
        let heap = Heap::new();
        for size in [20 * MIB, 30 * MIB, 12 * MIB] {
            Held::new(&&heap, bytes(size), 1).unwrap().free(&&heap);
            run_to_the_end([|| Held::new(&&heap, bytes(size), 1).unwrap().free(&&heap)]);
        }
        let _ = Held::new(&&Heap::new(), bytes(25 * MIB), 1).unwrap();
        Held::new(&&heap, bytes(150 * MIB), 1).unwrap().free(&&heap);
        let spans: Vec<Held> = take(&heap, 2 * MIB, 150 * MIB);
        free_all(&heap, spans);
    };
    match scenario() {
        Some(_) => keep_and_ask(),
        None if current_address_space_bytes() == 0 => {}
        None => run_under_ulimit(name, 256 * KIB),
    }
}

/// Addresses that served small blocks are not lost to large ones.
#[test]
fn addresses_of_dropped_heaps_serve_mappings() {
    let name = "addresses_of_dropped_heaps_serve_mappings";
    let use_and_drop = || {
        let heap = Heap::new();
        free_all(&heap, take(&heap, 5_000, 180 * MIB));
        drop(heap);
        polyheap::trim_all();
        let heap = Heap::new();
        Held::new(&&heap, bytes(100 * MIB), 1).unwrap().free(&&heap);
        free_all(&heap, take(&heap, 5_000, 120 * MIB));
    };
    match scenario() {
        Some(_) => use_and_drop(),
        None if current_address_space_bytes() == 0 => {}
        None => run_under_ulimit(name, 256 * KIB),
    }
}

/// Regions without a block give their addresses up where something else needs them, and have them again
/// when that is gone.
#[test]
fn addresses_of_regions_without_a_block_serve_mappings_of_the_same_heap() {
    let name = "addresses_of_regions_without_a_block_serve_mappings_of_the_same_heap";
    let fill_and_ask = || {
        let mut list = Vec::with_capacity(100_000);
        for mut heap in [Heap::new(), Heap::builder().thread_cache(false).build()] {
            for _ in 0..3 {
                let found = exhaust(&heap, 5_000, &mut list);
                let inside = list[list.len() / 2].block;
                list.drain(..).for_each(|block| block.free(&&heap));
                let large = Held::new(&&heap, bytes(100 * MIB), 1).unwrap();
                assert!(heap.stats().regions > 30, "{}", heap.stats());
                assert_eq!(heap.verify(), Ok(()));
                assert!(
                    heap.usable_size(inside).is_none() || !heap.owns(inside),
                    "may be anybody's"
                );
                // What is left serves small blocks, and all of it when the large one is gone.
                free_all(&heap, take(&heap, 5_000, 10 * MIB));
                large.free(&&heap);
                polyheap::trim_all();
                heap.trim();
                let again = exhaust(&heap, 5_000, &mut list);
                assert!(again >= found - found / 8, "{again} of {found}");
                list.drain(..).for_each(|block| block.free(&&heap));
                assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
            }
            Held::new(&&heap, bytes(100 * MIB), 1).unwrap().free(&&heap);
            heap.reset();
            assert_eq!(heap.verify(), Ok(()));
            let mut parent = Heap::new();
            let held = Held::new(&&heap, bytes(100), 2).unwrap();
            heap.leak_into(&parent);
            assert_eq!(parent.verify(), Ok(()));
            held.free(&&parent);
            free_all(&parent, take(&parent, 5_000, 60 * MIB));
            drop(parent);
            polyheap::trim_all();
        }
    };
    match scenario() {
        Some(_) => fill_and_ask(),
        None if current_address_space_bytes() == 0 => {}
        None => run_under_ulimit(name, 256 * KIB),
    }
}

/// Many heaps at once, and one after another, where there is room for few regions.
#[test]
fn heaps_come_and_go_in_a_short_address_space() {
    let name = "heaps_come_and_go_in_a_short_address_space";
    let come_and_go = || {
        let mut heaps = Vec::new();
        while heaps.len() < 1_000 {
            let heap = Heap::builder().isolated(heaps.len() % 2 == 0).build();
            match Held::new(&&heap, bytes(100), 1) {
                Ok(_) => heaps.push(heap),
                Err(_) => break,
            }
        }
        assert!((20..1_000).contains(&heaps.len()), "{} heaps", heaps.len());
        drop(heaps);
        for round in 0..200 {
            let heap = Heap::builder().isolated(round % 2 == 0).build();
            let size = SIZES[round % SIZES.len()];
            let _ = Held::zeroed(&&heap, bytes(size), 1).unwrap();
        }
    };
    match scenario() {
        Some(_) => come_and_go(),
        None if current_address_space_bytes() == 0 => {}
        None => run_under_ulimit(name, 256 * KIB),
    }
}

/// Takes mappings of one page each, no two alike, until the system grants only `left` more.
fn crowd(left: usize) -> Vec<(*mut libc::c_void, usize)> {
    const PAGE: usize = 4_096;
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let most: usize = text.trim().parse().unwrap_or(0);
    if most == 0 || most > 1 << 20 {
        return Vec::new();
    }
    let count = most.saturating_sub(mapping_count() + left);
    let map = |pages: usize| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping without MAP_FIXED replaces nothing.
        unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, libc::PROT_NONE, flags, -1, 0) }
    };
    let area = map(count);
    assert_ne!(area, libc::MAP_FAILED);
    for page in (0..count).step_by(2) {
        let start = area.cast::<u8>().wrapping_add(page * PAGE);
        // SAFETY: the page is in the area mapped above, which nobody uses.
        let outcome = unsafe { libc::mprotect(start.cast(), PAGE, libc::PROT_READ) };
        assert_eq!(outcome, 0, "page {page} of {count}");
    }
    vec![(area, count * PAGE)]
}

#[test]
fn tens_of_thousands_of_foreign_mappings_leave_room_for_heaps() {
    let name = "tens_of_thousands_of_foreign_mappings_leave_room_for_heaps";
    alone(name, LIMIT, || {
        for left in [300, 60, 12] {
            let areas = crowd(left);
            if areas.is_empty() {
                eprintln!("skipped: nothing is known of how many mappings there may be");
                return;
            }
            crowded(left);
            for (area, bytes) in areas {
                // SAFETY: mapped whole in `crowd`, and used by nobody.
                assert_eq!(unsafe { libc::munmap(area, bytes) }, 0);
            }
            // Once there is room again, everything is as ever.
            let mut heap = Heap::new();
            let blocks: Vec<Held> =
                SIZES.iter().map(|&size| Held::zeroed(&&heap, bytes(size), 1).unwrap()).collect();
            free_all(&heap, blocks);
            (0..64).for_each(|_| {
                polyheap::trim_all();
            });
            assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
        }
    });
}

/// Uses heaps where the system grants about `left` more mappings: what works works, what does not
/// is an error.
fn crowded(left: usize) {
    let mut heaps = [
        Heap::new(),
        Heap::builder().thread_cache(false).build(),
        Heap::builder().isolated(true).build(),
    ];
    let mut random = Random::for_test("crowded");
    for heap in &mut heaps {
        let mut live: Vec<Held> = Vec::new();
        let (mut granted, mut denied) = (0, 0);
        for id in 0..1_200 {
            let size = SIZES[random.below(SIZES.len())];
            match Held::new(&&*heap, bytes(size), id) {
                Ok(block) => {
                    granted += 1;
                    live.push(block);
                }
                Err(_) => denied += 1,
            }
            if live.len() > 60 || (random.one_in(3) && !live.is_empty()) {
                live.swap_remove(random.below(live.len())).free(&&*heap);
            }
            if random.one_in(4) && !live.is_empty() {
                let at = random.below(live.len());
                let to = bytes(1 + random.below(6 * MIB));
                let _ = match to.size() >= live[at].layout.size() {
                    true => live[at].grow_zeroed(&&*heap, to),
                    false => live[at].shrink(&&*heap, to),
                };
                live[at].check();
            }
            if random.one_in(300) {
                heap.trim();
                polyheap::trim_all();
            }
        }
        eprintln!("{left} mappings left: {granted} granted, {denied} denied");
        assert!(granted >= 600 || left < 100, "{left}: {granted} granted, {denied} denied");
        assert_eq!(heap.verify(), Ok(()), "{left} mappings left");
        assert_eq!(heap.stats().live_blocks, live.len());
        live.iter().for_each(Held::check);
        free_all(heap, live);
        heap.trim();
        assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
    }
}

/// Takes and frees a block of `size` bytes at a time.
fn pairs(heap: &Heap, size: usize, rounds: usize) {
    for _ in 0..rounds {
        let block = heap.allocate(bytes(size)).unwrap();
        // SAFETY: just allocated with this layout, and freed once.
        unsafe { heap.deallocate(block.cast(), bytes(size)) };
    }
}

/// Makes and drops heaps, some with blocks in them.
fn make_and_drop(rounds: usize) {
    for round in 0..rounds {
        let heap = Heap::new();
        for size in [64, 5_000, 70_000, 300_000, 3_000_000] {
            let block = heap.allocate(bytes(size)).unwrap();
            if round % 2 == 0 {
                // SAFETY: just allocated with this layout, and freed once.
                unsafe { heap.deallocate(block.cast(), bytes(size)) };
            }
        }
    }
}

fn pairs_of_each(heap: &Heap, sizes: &[usize], rounds: usize) {
    (0..rounds).for_each(|_| sizes.iter().for_each(|&size| pairs(heap, size, 1)));
}

/// Writes `text` where a trace shows it and nobody else sees it.
fn mark(text: &str) {
    // SAFETY: the buffer is valid for its length; the descriptor does not exist.
    unsafe { libc::write(-1, text.as_ptr().cast(), text.len()) };
}

#[test]
fn traced_loop() {
    let heap = Heap::builder().decay(Decay::Never).build();
    let run = |act: &dyn Fn(usize), rounds: usize| {
        act(3);
        mark("begin");
        act(rounds);
        mark("end");
    };
    let some = [64 * KIB, 300 * KIB, MIB, 2 * MIB, 4 * MIB, 10 * MIB, 16 * MIB];
    match scenario().as_deref() {
        Some("large") => {
            for size in (16..=26).map(|log2| 1 << log2) {
                run(&|rounds| pairs(&heap, size, rounds), 1_000);
                // Of all sizes together a thread does not keep the last ones.
                heap.trim();
            }
        }
        Some("several") => run(&|rounds| pairs_of_each(&heap, &some, rounds), 1_000),
        Some("threads") => {
            let one = || run(&|rounds| pairs_of_each(&heap, &some, rounds), 1_000);
            run_to_the_end([(); 2].map(|()| || pairs_of_each(&heap, &some, 10)));
            run_to_the_end([one]);
        }
        Some("heaps") => run(&make_and_drop, 1_000),
        _ => {}
    }
}

/// Returns the calls between the marks of a traced loop; `None` when tracing does not work here.
fn trace(name: &str) -> Option<Vec<String>> {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-space-{name}"));
    let log_name = log.to_str()?;
    let calls = "trace=mmap,munmap,mremap,madvise,mprotect,brk,write";
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
    let (mut between, mut is_between, mut ends) = (Vec::new(), false, 0);
    for line in text.lines() {
        match line.contains("write(-1") {
            true if line.contains("begin") => is_between = true,
            true if line.contains("end") => (is_between, ends) = (false, ends + 1),
            _ if is_between => between.push(String::from(line)),
            _ => {}
        }
    }
    assert!(ends > 0, "{name}: {ending:#?}");
    Some(between)
}

#[test]
fn warm_loops_of_large_blocks_and_of_heaps_make_no_system_calls() {
    for name in ["large", "several", "threads", "heaps"] {
        let Some(calls) = trace(name) else { return };
        assert!(calls.is_empty(), "{name}: {} calls, {:#?}", calls.len(), calls.first());
    }
}
