//! Memory over time: blocks freed elsewhere come back, trims give back, huge alignments leave
//! nothing behind.

use std::sync::mpsc;
use std::thread;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{Allocator, Layout};

use crate::support::{
    Held, Random, alone, current_address_space_bytes, current_resident_bytes, run_to_the_end,
    scaled,
};
use crate::{LIMIT, NOISE_BYTES, bytes};

/// Blocks of 592 bytes that producers keep alive, and what they take at least.
const PRODUCERS: usize = 8;
const LIVE_EACH: usize = 4_000;
const LIVE_BYTES: usize = PRODUCERS * LIVE_EACH * 592;

/// Producers replace blocks at random; what they replace is freed by a thread that does nothing
/// else. Returns the bytes resident at the end, above those at the start.
fn produce_and_free_elsewhere(heap: &Heap, replaced: usize, allocates_first: bool) -> usize {
    let before = current_resident_bytes();
    let (to_freer, from_producers) = mpsc::sync_channel::<Held>(1_000);
    let mut random = Random::for_test("produce_and_free_elsewhere");
    let free = move || {
        if allocates_first {
            Held::new(&heap, bytes(592), 0).unwrap().free(&heap);
        }
        from_producers.into_iter().for_each(|held| held.free(&heap));
    };
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let (to_freer, mut random) = (to_freer.clone(), random.fork());
            move || {
                let mut live: Vec<Held> = (0..LIVE_EACH)
                    .map(|id| Held::new(&heap, bytes(592), id as u64).unwrap())
                    .collect();
                for id in 0..replaced {
                    let held = Held::new(&heap, bytes(592), id as u64).unwrap();
                    let at = random.below(live.len());
                    to_freer.send(core::mem::replace(&mut live[at], held)).unwrap();
                }
                live
            }
        })
        .collect();
    drop(to_freer);
    let live = thread::scope(|scope| {
        let freer = scope.spawn(free);
        let live = run_to_the_end(producers);
        freer.join().unwrap();
        live
    });
    let resident = current_resident_bytes() - before;
    live.into_iter().flatten().for_each(|held| held.free(&heap));
    resident
}

#[test]
fn blocks_freed_by_a_thread_that_never_allocates_are_used_again() {
    let name = "memory::blocks_freed_by_a_thread_that_never_allocates_are_used_again";
    alone(name, LIMIT, || {
        let replaced = scaled(1_000_000).min(200_000);
        let residents = [false, true].map(|allocates_first| {
            let heap = Heap::new();
            produce_and_free_elsewhere(&heap, replaced, allocates_first)
        });
        eprintln!("{residents:?} bytes resident for {LIVE_BYTES} live");
        for resident in residents {
            assert!(resident <= 2 * LIVE_BYTES, "{resident} bytes for {LIVE_BYTES} live");
        }
    });
}

/// A thread allocates 256 MiB in blocks of `size` bytes and sleeps; the blocks and a waker return.
fn allocate_and_sleep(heap: &'static Heap, size: usize) -> (Vec<Held>, mpsc::Sender<()>) {
    let (waker, sleep) = mpsc::channel();
    let (done, made) = mpsc::channel();
    thread::spawn(move || {
        let count = (256 << 20) / size;
        let all: Vec<Held> =
            (0..count).map(|id| Held::new(&heap, bytes(size), id as u64).unwrap()).collect();
        done.send(all).unwrap();
        let _ = sleep.recv();
    });
    (made.recv().unwrap(), waker)
}

#[test]
fn memory_freed_by_another_thread_goes_back_while_its_maker_sleeps() {
    let name = "memory::memory_freed_by_another_thread_goes_back_while_its_maker_sleeps";
    alone(name, LIMIT, || {
        static HEAP: Heap = Heap::new();
        for size in [64 * 1024, 4 * 1024, 600] {
            let before = current_resident_bytes();
            let (held, waker) = allocate_and_sleep(&HEAP, size);
            let peak = current_resident_bytes() - before;
            assert!(peak >= 250 << 20 || peak == 0);
            // In another order than they were made, by a thread that goes on living.
            held.into_iter().rev().for_each(|held| held.free(&&HEAP));
            HEAP.trim();
            let left = current_resident_bytes().saturating_sub(before);
            assert!(left <= peak / 10, "{left} of {peak} bytes left, blocks of {size}");
            drop(waker);
        }
    });
}

#[test]
fn a_heap_destroyed_while_its_users_sleep_leaves_nothing_mapped() {
    let name = "memory::a_heap_destroyed_while_its_users_sleep_leaves_nothing_mapped";
    alone(name, LIMIT, || {
        // A first round makes what stays: the table of the sleeper, warm regions.
        let mut resident = 0;
        for round in 0..4 {
            let shared = Heap::new().share();
            let (waker, sleep) = mpsc::channel::<()>();
            let (done, made) = mpsc::channel();
            let heap = shared.clone();
            thread::spawn(move || {
                (0..4_000).for_each(|id| {
                    Held::new(&heap, bytes(64 * 1024), id).unwrap();
                });
                drop(heap);
                done.send(()).unwrap();
                let _ = sleep.recv();
            });
            made.recv().unwrap();
            drop(shared.try_unshare().unwrap());
            let now = current_resident_bytes();
            if round == 0 {
                resident = now;
            }
            assert!(now <= resident + NOISE_BYTES, "round {round}: {resident} -> {now}");
            assert_eq!(polyheap::heaps().count(), 0);
            drop(waker);
        }
        assert!(resident < 64 << 20);
    });
}

#[test]
fn a_trim_gives_back_what_no_block_lives_in() {
    alone("memory::a_trim_gives_back_what_no_block_lives_in", LIMIT, || {
        let mut heap = Heap::new();
        let before = current_resident_bytes();
        let mut kept = Vec::new();
        for id in 0..40_000 {
            let held = Held::new(&&heap, bytes(1_500), id).unwrap();
            match id % 400 {
                0 => kept.push(held),
                _ => held.free(&&heap),
            }
        }
        (0..100).for_each(|id| Held::new(&&heap, bytes(900_000), id).unwrap().free(&&heap));
        heap.trim();
        kept.iter().for_each(Held::check);
        assert!(current_resident_bytes() <= before + (16 << 20));
        assert_eq!((heap.verify(), heap.stats().dirty_bytes), (Ok(()), 0));
        kept.into_iter().for_each(|held| held.free(&&heap));
        heap.trim();
        assert!(current_resident_bytes() <= before + NOISE_BYTES);
        assert!(heap.stats().held_bytes <= 1 << 20, "{}", heap.stats());
        // What was given back is zero and usable.
        Held::zeroed(&&heap, bytes(1_000_000), 1).unwrap().free(&&heap);
    });
}

#[test]
fn a_trim_empties_the_caches_of_the_caller_of_ended_threads_and_of_the_heap() {
    // Without spares full magazines go to the heap's store of them.
    let mut heap = Heap::builder().thread_cache_bytes(0).build();
    let make_and_free = || {
        for size in [16, 48, 64, 1_024, 10_000] {
            let count = if size > 1_000 { 40 } else { 600 };
            let held: Vec<Held> =
                (0..count).map(|id| Held::new(&&heap, bytes(size), id).unwrap()).collect();
            held.into_iter().for_each(|held| held.free(&&heap));
        }
    };
    run_to_the_end([make_and_free, make_and_free]);
    make_and_free();
    assert!(heap.stats().cached_bytes > 0);
    heap.trim();
    let stats = heap.stats();
    assert_eq!((stats.cached_bytes, stats.live_bytes, stats.dirty_bytes), (0, 0, 0), "{stats}");
    assert!(stats.classes.iter().all(|class| class.slabs == 0), "{stats}");
    assert_eq!(heap.verify(), Ok(()));
}

#[test]
fn trimming_while_others_allocate_loses_nothing() {
    let mut heap = Heap::new();
    let churn = |mut random: Random| {
        let mut live: Vec<Held> = Vec::new();
        for id in 0..scaled(100_000) {
            live.push(Held::new(&&heap, bytes(random.size(300_000)), id as u64).unwrap());
            if live.len() > 40 {
                live.swap_remove(random.below(live.len())).free(&&heap);
            }
            if random.one_in(50) {
                heap.trim();
            }
        }
        live.into_iter().for_each(|held| held.free(&&heap));
    };
    let mut random = Random::for_test("trimming_while_others_allocate_loses_nothing");
    let seeds: [Random; 3] = core::array::from_fn(|_| random.fork());
    run_to_the_end(seeds.map(|random| {
        let churn = &churn;
        move || churn(random)
    }));
    assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0));
}

#[test]
fn huge_alignments_leave_no_address_space_behind() {
    alone("memory::huge_alignments_leave_no_address_space_behind", LIMIT, || {
        let heap = Heap::new();
        let all = || {
            for log2 in 4..=Heap::ALIGN_BYTES_MAX.ilog2() {
                let align = 1usize << log2;
                for size in [1, align - 1, align, align + 1, 3 * align] {
                    if size > 2 << 30 {
                        continue;
                    }
                    let layout = Layout::from_size_align(size, align).unwrap();
                    let block = heap.allocate(layout).unwrap();
                    let mut held = Held::unwritten(block, layout, 1);
                    held.bytes_mut(0..1)[0] = 1;
                    held.bytes_mut(size - 1..size)[0] = 1;
                    held.free(&&heap);
                }
            }
        };
        let rest_bytes = || {
            heap.trim();
            polyheap::trim_all();
            current_address_space_bytes()
        };
        all();
        let before = rest_bytes();
        (0..3).for_each(|_| all());
        let after = rest_bytes();
        assert!(after <= before + NOISE_BYTES, "{before} -> {after}");
        assert_eq!(heap.stats().live_blocks, 0);
    });
}

#[test]
fn refused_requests_are_counted_and_harmless() {
    let heap = Heap::new();
    let live = Held::new(&&heap, bytes(100), 1).unwrap();
    for _ in 0..10 {
        assert!(heap.allocate(bytes(1 << 50)).is_err());
    }
    assert_eq!(heap.stats().denied_by_system, 10);
    live.free(&&heap);
}

/// Allows the process `more_bytes` of address space beyond what it has.
fn limit_address_space(more_bytes: usize) {
    let bytes = (current_address_space_bytes() + more_bytes) as libc::rlim_t;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is valid for a read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Allocates blocks of `size` bytes until there is no memory, or no place in `held`.
fn exhaust(heap: &Heap, size: usize, held: &mut Vec<Held>) {
    while held.len() < held.capacity() {
        let Ok(one) = Held::new(&heap, bytes(size), held.len() as u64) else { return };
        held.push(one);
    }
    panic!("the limit does not hold");
}

#[test]
fn no_memory_is_an_error_and_the_heap_works_again_after_frees() {
    let name = "memory::no_memory_is_an_error_and_the_heap_works_again_after_frees";
    alone(name, LIMIT, || {
        if current_address_space_bytes() == 0 {
            return;
        }
        let heaps = [Heap::new(), Heap::builder().thread_cache(false).build()];
        heaps.iter().for_each(|heap| heap.bind().unwrap());
        let mut held = Vec::with_capacity(1 << 20);
        limit_address_space(60 << 20);
        for mut heap in heaps {
            for size in [3_000_000, 1_000, 30_000, 500_000] {
                exhaust(&heap, size, &mut held);
                // Regions keep their addresses, so the second heap finds fewer for mappings.
                let least = if size > 2 << 20 { size } else { 20 << 20 };
                assert!(held.len() * size >= least, "{} blocks of {size}", held.len());
                assert_eq!(heap.stats().live_blocks, held.len());
                // A request that is refused harms nobody; a smaller one may still be served.
                assert!(held[0].grow(&&heap, bytes(200 << 20)).is_err());
                held.iter().for_each(Held::check);
                assert_eq!(heap.verify(), Ok(()));
                held.drain(..).for_each(|held| held.free(&&heap));
                assert_eq!((heap.stats().live_blocks, heap.verify()), (0, Ok(())));
                heap.trim();
                Held::zeroed(&&heap, bytes(size), 1).unwrap().free(&&heap);
                heap.reset();
            }
        }
    });
}

#[test]
fn a_heap_that_cannot_be_bound_says_so_and_may_be_tried_again() {
    let name = "memory::a_heap_that_cannot_be_bound_says_so_and_may_be_tried_again";
    alone(name, LIMIT, || {
        if current_address_space_bytes() == 0 {
            return;
        }
        limit_address_space(2 << 20);
        let heap = Heap::new();
        let refused = heap.bind();
        assert!(matches!(refused, Err(polyheap::HeapError::OutOfMemory { .. })), "{refused:?}");
        assert!(heap.allocate(bytes(10)).is_err() && heap.allocate(bytes(0)).is_ok());
        assert_eq!((heap.stats().held_bytes, heap.id().is_err()), (0, true));
        limit_address_space(1 << 30);
        Held::new(&&heap, bytes(10), 1).unwrap().free(&&heap);
        assert_eq!(heap.bind(), Ok(()));
    });
}

#[test]
fn arena_chunks_come_back_in_turns_and_leave_with_the_thread_and_with_trim() {
    let mut heap = Heap::new();
    let chunk_bytes = Heap::ARENA_CHUNK_BYTES;
    let kept_bytes = |heap: &Heap| heap.stats().kept_large_bytes;
    let take_and_give = |heap: &Heap, chunks: usize| {
        let taken: Vec<_> = (0..chunks).map(|_| heap.take_arena_chunk().unwrap()).collect();
        assert_eq!(heap.stats().live_blocks, chunks);
        // SAFETY: (1) taken just now and not used.
        taken.iter().for_each(|&chunk| unsafe { heap.give_arena_chunk(chunk) });
        taken
    };
    let taken = take_and_give(&heap, 20);
    assert_eq!((kept_bytes(&heap), heap.stats().live_blocks), (16 * chunk_bytes, 0));
    // The last one given of those that found place comes first.
    let again = heap.take_arena_chunk().unwrap();
    assert_eq!(again, taken[15]);
    // SAFETY: (1) taken just now and not used.
    unsafe { heap.give_arena_chunk(again) };
    assert!(heap.trim() >= 16 * chunk_bytes);
    assert_eq!(kept_bytes(&heap), 0);
    run_to_the_end([|| drop(take_and_give(&heap, 3))]);
    assert_eq!(kept_bytes(&heap), 0);
    take_and_give(&heap, 3);
    assert_eq!(heap.verify(), Ok(()));
    heap.reset();
    assert_eq!((kept_bytes(&heap), heap.stats().live_blocks), (0, 0));
}
