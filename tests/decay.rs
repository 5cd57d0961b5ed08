//! Decay: idle memory goes back to the system by itself, or at once, or only when told.
//!
//! Nothing but slow paths looks at the clock, so the tests pass some with small blocks of another
//! heap. What is waited for comes within a few decay times; the deadlines are for busy machines.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::mem::{self, MaybeUninit};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use polyheap::allocator_api2::alloc::Layout;
use polyheap::{Decay, Heap, HeapBuilder};

use support::{Held, Random, alone, current_resident_bytes, mapping_count, run_to_the_end, scaled};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const LIMIT: Duration = Duration::from_secs(100);

/// A decay time that passes while one waits.
const SOON: Decay = Decay::After(Duration::from_millis(50));

/// How long after its decay time memory may stay before a test fails.
const PATIENCE: Duration = Duration::from_secs(8);

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn held(heap: &Heap, size: usize, id: usize) -> Held {
    Held::new(&heap, bytes(size), id as u64).unwrap()
}

fn several(heap: &Heap, size: usize, count: usize) -> Vec<Held> {
    (0..count).map(|id| held(heap, size, id)).collect()
}

fn free_all(heap: &Heap, blocks: Vec<Held>) {
    blocks.into_iter().for_each(|block| block.free(&heap));
}

/// Passes slow paths of a heap with a few small blocks.
fn pass_by(heap: &Heap) {
    free_all(heap, several(heap, 64, 400));
}

/// Passes slow paths of `by` until `is_done`, panics when that takes too long.
fn pass_by_until(by: &Heap, what: &str, mut is_done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "{what}: still not after {PATIENCE:?}");
        pass_by(by);
        thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}

fn resident_above(before: usize) -> usize {
    current_resident_bytes().saturating_sub(before)
}

/// Blocks of each tier, 24 MiB of each, freed by the thread that made them.
const TIERS: [usize; 7] = [600, 4_096, 32_768, 65_536, 500_000, 2_500_000, 20_000_000];

fn burst(heap: &Heap, size: usize) {
    let mut list = LIST.lock().unwrap();
    list.extend((0..(24 * MIB).div_ceil(size)).map(|id| held(heap, size, id)));
    list.drain(..).for_each(|block| block.free(&heap));
}

/// The blocks of a burst. Touched before anything is measured, so that resident memory is the
/// heaps'.
static LIST: LazyLock<Mutex<Vec<Held>>> = LazyLock::new(|| {
    let mut list = Vec::with_capacity((24 * MIB).div_ceil(TIERS[0]));
    list.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
    Mutex::new(list)
});

/// Returns the bytes resident before anything is allocated.
fn resident_at_first() -> usize {
    LazyLock::force(&LIST);
    current_resident_bytes()
}

#[test]
fn idle_memory_goes_back_without_any_call() {
    alone("idle_memory_goes_back_without_any_call", LIMIT, || {
        let other = Heap::builder().decay(Decay::Never).build();
        pass_by(&other);
        for size in TIERS {
            let heap = Heap::builder().decay(SOON).build();
            heap.bind().unwrap();
            let before = resident_at_first();
            burst(&heap, size);
            let took = pass_by_until(&other, "dirty memory", || {
                let stats = heap.stats();
                stats.dirty_bytes == 0 && stats.kept_large_bytes == 0
            });
            let left = resident_above(before);
            eprintln!("{size}: {left} bytes left after {took:?}");
            assert!(left <= 3 * MIB, "{size}: {left} bytes left, {}", heap.stats());
            // The same heap works on with what it gave back.
            Held::zeroed(&&heap, bytes(size), 1).unwrap().free(&&heap);
        }
    });
}

/// The heap that idles need not be the one that is used, nor must it be another.
#[test]
fn a_heap_that_goes_on_a_little_gives_its_idle_memory_back() {
    alone("a_heap_that_goes_on_a_little_gives_its_idle_memory_back", LIMIT, || {
        for size in TIERS {
            let heap = Heap::builder().decay(SOON).build();
            pass_by(&heap);
            let before = resident_at_first();
            burst(&heap, size);
            pass_by_until(&heap, "the heap itself", || heap.stats().dirty_bytes <= 256 * KIB);
            // Mappings kept for all threads stay while the heap is in use.
            let kept = heap.stats().kept_large_bytes;
            let left = resident_above(before).saturating_sub(kept);
            assert!(left <= 4 * MIB, "{size}: {left} bytes left, {}", heap.stats());
        }
    });
}

#[test]
fn memory_in_use_again_is_not_taken_for_idle() {
    let mut heap = Heap::builder().decay(SOON).build();
    let mut random = Random::for_test("memory_in_use_again_is_not_taken_for_idle");
    let start = Instant::now();
    let mut live = several(&heap, 70_000, 40);
    let mut number = 0;
    while start.elapsed() < Duration::from_millis(700) {
        let at = random.below(live.len());
        number += 1;
        let size = [70_000, 300_000, 1_000, 3_000_000, 40_000][random.below(5)];
        mem::replace(&mut live[at], held(&heap, size, number)).free(&&heap);
        if random.one_in(100) {
            thread::sleep(Duration::from_millis(3));
            live.iter().for_each(Held::check);
        }
    }
    assert_eq!(heap.verify(), Ok(()));
    free_all(&heap, live);
    assert_eq!(heap.verify(), Ok(()));
}

#[test]
fn memory_younger_than_the_decay_time_stays() {
    let name = "memory_younger_than_the_decay_time_stays";
    alone(name, LIMIT, || {
        let heap = Heap::builder().decay(Decay::After(Duration::from_millis(1_500))).build();
        let other = Heap::new();
        let start = Instant::now();
        free_all(&heap, several(&heap, 200_000, 60));
        let dirty = heap.stats().dirty_bytes;
        assert!(dirty >= 11_000_000, "{dirty}");
        // Past the first sweeps, which come at half of the decay time each.
        while start.elapsed() < Duration::from_millis(1_300) {
            pass_by(&other);
            let stats = heap.stats();
            let is_young = start.elapsed() < Duration::from_millis(1_400);
            assert!(stats.dirty_bytes >= dirty || !is_young, "{stats}");
        }
    });
}

#[test]
fn eager_heaps_give_back_at_once() {
    alone("eager_heaps_give_back_at_once", LIMIT, || {
        for has_cache in [true, false] {
            let builder = Heap::builder().decay(Decay::Eager).isolated(true);
            let mut heap = builder.thread_cache(has_cache).build();
            heap.bind().unwrap();
            for size in [65_536, 500_000, 2 * MIB, 2_500_000, 20_000_000, 100_000_000] {
                let (resident, mappings) = (current_resident_bytes(), mapping_count());
                for id in 0..3 {
                    let blocks = several(&heap, size, 1 + (4 * MIB) / size);
                    assert!(resident_above(resident) > 0 || resident == 0);
                    free_all(&heap, blocks);
                    let stats = heap.stats();
                    let idle = (stats.dirty_bytes, stats.kept_large_bytes);
                    assert_eq!(idle, (0, 0), "{size}, round {id}: {stats}");
                    let left = resident_above(resident);
                    assert!(left <= MIB, "{size}: {left} bytes left at once");
                    if size > 2 * MIB {
                        assert!(mapping_count() <= mappings + 2, "{size}");
                    }
                }
            }
            // Slabs empty when their blocks leave the caches.
            free_all(&heap, several(&heap, 1_000, 10_000));
            heap.trim();
            assert_eq!(heap.stats().dirty_bytes, 0);
            assert_eq!(heap.verify(), Ok(()));
        }
    });
}

#[test]
fn heaps_that_never_decay_keep_everything_until_a_trim() {
    alone("heaps_that_never_decay_keep_everything_until_a_trim", LIMIT, || {
        let mut heap = Heap::builder().decay(Decay::Never).build();
        let other = Heap::builder().decay(SOON).build();
        let before = resident_at_first();
        for size in [4_096, 65_536, 2_500_000] {
            burst(&heap, size);
        }
        let stats = heap.stats();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            burst(&other, 70_000);
            pass_by(&other);
        }
        let later = heap.stats();
        assert_eq!(later.dirty_bytes, stats.dirty_bytes);
        assert_eq!(later.kept_large_bytes, stats.kept_large_bytes);
        assert_eq!(later.held_bytes, stats.held_bytes);
        let given = heap.trim();
        assert!(given >= stats.dirty_bytes, "{given} of {stats}");
        let stats = heap.stats();
        let idle = (stats.dirty_bytes, stats.kept_large_bytes, stats.cached_bytes);
        assert_eq!((idle, heap.verify()), ((0, 0, 0), Ok(())), "{stats}");
        polyheap::trim_all();
        assert!(resident_above(before) <= 2 * MIB, "{} left", resident_above(before));
    });
}

#[test]
fn a_trim_says_how_much_it_gave_back() {
    let name = "a_trim_says_how_much_it_gave_back";
    alone(name, LIMIT, || {
        let mut heap = Heap::builder().isolated(true).build();
        heap.bind().unwrap();
        for size in [65_536, 500_000, 2_500_000, 20_000_000] {
            let before = resident_at_first();
            burst(&heap, size);
            let held_bytes = heap.stats().held_bytes;
            let given = heap.trim();
            let now = heap.stats().held_bytes;
            // A thread's own mappings go on to the process.
            assert!(given + now >= held_bytes, "{size}: {given} given, {held_bytes} to {now}");
            assert!(resident_above(before) <= MIB, "{size}");
            assert_eq!(heap.trim(), 0, "{size}");
            assert_eq!(heap.verify(), Ok(()));
        }
    });
}

#[test]
fn trimming_all_reaches_every_heap_and_what_the_process_keeps() {
    alone("trimming_all_reaches_every_heap_and_what_the_process_keeps", LIMIT, || {
        let mut heaps: Vec<Heap> =
            (0..3).map(|_| Heap::builder().decay(Decay::Never).build()).collect();
        let before = resident_at_first();
        for heap in &heaps {
            // Threads that end leave everything to the heap.
            run_to_the_end([|| TIERS.iter().for_each(|&size| burst(heap, size))]);
        }
        for size in TIERS {
            burst(&Heap::new(), size);
        }
        let peak = resident_above(before);
        assert!(peak >= 40 * MIB || before == 0, "{peak}");
        let given = polyheap::trim_all();
        assert!(given >= 40 * MIB, "{given}");
        for heap in &mut heaps {
            let stats = heap.stats();
            let idle = (stats.dirty_bytes, stats.kept_large_bytes, stats.cached_bytes);
            assert_eq!((idle, heap.verify()), ((0, 0, 0), Ok(())), "{stats}");
        }
        let left = resident_above(before);
        assert!(left <= 2 * MIB, "{left} bytes left of {peak}");
    });
}

/// A thread makes blocks of `size` bytes and sleeps with a `heap` of its own or another's.
fn make_and_sleep(heap: &'static Heap, size: usize) -> (Vec<Held>, mpsc::Sender<()>) {
    let (waker, sleep) = mpsc::channel();
    let (done, made) = mpsc::channel();
    thread::spawn(move || {
        done.send(several(heap, size, (64 * MIB).div_ceil(size))).unwrap();
        let _ = sleep.recv();
    });
    (made.recv().unwrap(), waker)
}

#[test]
fn memory_freed_by_another_thread_decays_while_its_maker_sleeps() {
    let name = "memory_freed_by_another_thread_decays_while_its_maker_sleeps";
    alone(name, LIMIT, || {
        static HEAP: Heap = Heap::builder().decay(SOON).build();
        let other = Heap::new();
        for size in [65_536, 4_096, 600, 1_000_000, 3_000_000] {
            let before = resident_at_first();
            let (blocks, waker) = make_and_sleep(&HEAP, size);
            let peak = resident_above(before);
            // Of larger blocks only parts are written.
            assert!(peak >= 60 * MIB || size > 256 * KIB || before == 0);
            blocks.into_iter().rev().for_each(|block| block.free(&&HEAP));
            pass_by_until(&other, "memory of a sleeping thread", || {
                resident_above(before) <= 64 * MIB / 10 && HEAP.stats().dirty_bytes == 0
            });
            drop(waker);
        }
    });
}

/// What a thread that ended kept, what the heap keeps for all threads, and full magazines.
#[test]
fn what_idle_heaps_keep_for_their_threads_goes_back() {
    alone("what_idle_heaps_keep_for_their_threads_goes_back", LIMIT, || {
        let other = Heap::new();
        pass_by(&other);
        for spares in [0, MIB] {
            let mut heap = Heap::builder().decay(SOON).thread_cache_bytes(spares).build();
            heap.bind().unwrap();
            let before = resident_at_first();
            let work = |heap: &Heap| TIERS.iter().for_each(|&size| burst(heap, size));
            run_to_the_end([&heap, &heap].map(|heap| move || work(heap)));
            let stats = heap.stats();
            assert!(stats.kept_large_bytes > 0 && stats.cached_bytes > 0, "{stats}");
            pass_by_until(&other, "caches of an idle heap", || {
                let stats = heap.stats();
                stats.kept_large_bytes == 0 && stats.cached_bytes == 0 && stats.dirty_bytes == 0
            });
            // The mappings went to the process, which gives them back as it idles.
            pass_by_until(&other, "what the process keeps", || resident_above(before) <= 2 * MIB);
            assert_eq!(heap.verify(), Ok(()));
            work(&heap);
            assert_eq!(heap.verify(), Ok(()));
        }
    });
}

/// Threads that come and go hand their magazines on; nothing of that stays when the heap idles,
/// although no chunk became free that would say so.
#[test]
fn full_magazines_of_a_thread_that_ends_serve_the_next_until_the_heap_idles() {
    let name = "full_magazines_of_a_thread_that_ends_serve_the_next_until_the_heap_idles";
    alone(name, LIMIT, || {
        let (heap, other) = (Heap::builder().decay(SOON).build(), Heap::new());
        let one_a_chunk = several(&heap, 64, 4_000);
        run_to_the_end([&heap].map(|heap| move || free_all(heap, several(heap, 64, 4_000))));
        let stats = heap.stats();
        assert!(stats.cached_bytes >= 64 * 3_000, "{stats}");
        pass_by_until(&other, "magazines of a thread that ended", || {
            heap.stats().cached_bytes <= 64 * 200
        });
        free_all(&heap, one_a_chunk);
    });
}

/// What a heap keeps goes along with its blocks to the heap that takes them over.
#[test]
fn what_a_heap_kept_can_be_given_back_by_the_heap_that_takes_it_over() {
    let name = "what_a_heap_kept_can_be_given_back_by_the_heap_that_takes_it_over";
    alone(name, LIMIT, || {
        let mut parent = Heap::builder().decay(Decay::Never).build();
        parent.bind().unwrap();
        let child = Heap::builder().decay(Decay::Never).build();
        let live = held(&child, 3_000_000, 1);
        // The heap keeps what the thread kept that ends.
        run_to_the_end([|| {
            [3_000_000, 9_000_000, 70_000]
                .iter()
                .for_each(|&size| held(&child, size, 2).free(&&child));
        }]);
        held(&child, 5_000_000, 2).free(&&child);
        assert!(child.stats().kept_large_bytes >= 12_000_000, "{}", child.stats());
        child.leak_into(&parent);
        assert_eq!((parent.verify(), parent.stats().live_blocks), (Ok(()), 1));
        parent.trim();
        let stats = parent.stats();
        assert_eq!((stats.kept_large_bytes, stats.mappings), (0, 1), "{stats}");
        assert!(stats.held_bytes <= 4 * MIB, "{stats}");
        live.free(&&parent);
        assert_eq!((parent.verify(), parent.stats().live_blocks), (Ok(()), 0));
    });
}

/// The thread that sweeps gives back what itself kept of a heap that it uses no more.
#[test]
fn kept_large_blocks_of_a_thread_go_back_as_it_goes_on() {
    alone("kept_large_blocks_of_a_thread_go_back_as_it_goes_on", LIMIT, || {
        let heap = Heap::builder().decay(SOON).build();
        let other = Heap::new();
        pass_by(&other);
        let before = resident_at_first();
        for size in [40_000, 65_536, 500_000, 2_500_000, 20_000_000] {
            held(&heap, size, 1).free(&&heap);
        }
        // Both spans too, which the heap would not keep.
        assert!(heap.stats().kept_large_bytes >= 24_000_000, "{}", heap.stats());
        pass_by_until(&other, "kept blocks", || heap.stats().kept_large_bytes == 0);
        pass_by_until(&other, "resident memory", || resident_above(before) <= MIB);
    });
}

#[test]
fn memory_of_dropped_heaps_goes_back() {
    alone("memory_of_dropped_heaps_goes_back", LIMIT, || {
        let other = Heap::builder().decay(Decay::Never).build();
        pass_by(&other);
        let before = resident_at_first();
        for _ in 0..2 {
            for size in TIERS {
                let heap = Heap::new();
                several(&heap, size, (12 * MIB).div_ceil(size));
            }
            let kept = resident_above(before);
            assert!(kept >= 10 * MIB || before == 0, "{kept} bytes kept warm");
            let what = "memory of dropped heaps";
            let took = pass_by_until(&other, what, || resident_above(before) <= 2 * MIB);
            assert!(took >= Duration::from_millis(500) || before == 0, "gone after {took:?}");
        }
    });
}

#[test]
fn a_thread_in_the_background_serves_processes_that_sleep() {
    alone("a_thread_in_the_background_serves_processes_that_sleep", LIMIT, || {
        let before = resident_at_first();
        let sweeper = polyheap::sweep_in_background(Duration::from_millis(10)).unwrap();
        let heap = Heap::builder().decay(SOON).build();
        for size in [4_096, 65_536, 2_500_000] {
            run_to_the_end([|| burst(&heap, size)]);
        }
        drop(Heap::new().vec_from([1_u8; 100_000]));
        let start = Instant::now();
        // Nobody allocates from any heap meanwhile.
        while resident_above(before) > 2 * MIB || heap.stats().dirty_bytes != 0 {
            assert!(
                start.elapsed() < PATIENCE,
                "{} left, {}",
                resident_above(before),
                heap.stats()
            );
            thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now();
        drop(sweeper);
        assert!(start.elapsed() < Duration::from_secs(5), "a sweeper ends when it is told to");
        burst(&heap, 70_000);
        let dirty = heap.stats().dirty_bytes;
        thread::sleep(Duration::from_millis(200));
        assert_eq!(heap.stats().dirty_bytes, dirty, "nobody sweeps any more");
    });
}

/// One thread gives back all the time what others free; nobody waits and nothing is lost.
fn purge_while_others_allocate(builder: HeapBuilder, purge: impl Fn(&Heap) + Sync) {
    let mut heap = builder.build();
    let is_over = AtomicBool::new(false);
    let purges = AtomicUsize::new(0);
    let mut random = Random::for_test("purge_while_others_allocate");
    let seeds: [Random; 2] = core::array::from_fn(|_| random.fork());
    let work = |mut random: Random| {
        let mut live: Vec<Held> = Vec::new();
        for id in 0..scaled(100_000) {
            let size = random.size(400_000);
            let block = match random.one_in(3) {
                true => Held::zeroed(&&heap, bytes(size), id as u64),
                false => Held::new(&&heap, bytes(size), id as u64),
            };
            live.push(block.unwrap());
            if live.len() > 30 {
                live.swap_remove(random.below(live.len())).free(&&heap);
            }
        }
        free_all(&heap, live);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                purge(&heap);
                purges.fetch_add(1, Ordering::Relaxed);
            }
        });
        run_to_the_end(seeds.map(|random| {
            let work = &work;
            move || work(random)
        }));
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(purges.load(Ordering::Relaxed) > 0);
    assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
}

#[test]
fn a_purge_holds_up_nobody() {
    let builder = Heap::builder;
    purge_while_others_allocate(builder(), |heap| {
        heap.trim();
    });
    purge_while_others_allocate(builder().thread_cache(false), |_| {
        polyheap::trim_all();
    });
    purge_while_others_allocate(builder().decay(Decay::Eager), |heap| {
        held(heap, 100_000, 1).free(&heap);
    });
    let soon = Decay::After(Duration::from_millis(1));
    purge_while_others_allocate(builder().decay(soon), pass_by);
}

/// Zeroed memory is zero whatever became of it: dirty, purged in part, purged whole, kept.
#[test]
fn what_was_given_back_in_part_reads_as_zero() {
    let mut heap = Heap::builder().decay(SOON).build();
    let mut random = Random::for_test("what_was_given_back_in_part_reads_as_zero");
    let mut live: Vec<Held> = Vec::new();
    for id in 0..1_500 {
        let size = [65_536, 131_072, 600_000, 2_000_000, 2_500_000, 4_096][random.below(6)];
        let block = Held::zeroed(&&heap, bytes(size), id).unwrap();
        live.push(block);
        if live.len() > 12 {
            live.swap_remove(random.below(live.len())).free(&&heap);
        }
        match random.below(40) {
            0 => {
                heap.trim();
            }
            1 => thread::sleep(Duration::from_millis(5)),
            2 => {
                polyheap::trim_all();
            }
            _ => {}
        }
    }
    free_all(&heap, live);
    assert_eq!(heap.verify(), Ok(()));
}
