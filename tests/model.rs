//! Random operations over several heaps and threads, against a model of what must be live.
//!
//! The model is the list of blocks each thread holds, every one with a pattern that proves nobody
//! else wrote to it. Between rounds the threads gather, and each heap must agree with the model in
//! every way it can be asked: `verify`, `stats`, `visit_blocks`, the reports of its ends.
//!
//! `POLYHEAP_MODEL_ROUNDS` sets the rounds of the long run, `POLYHEAP_SEED` its seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::mem;
use core::num::NonZeroUsize;
use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex, RwLock};
use std::thread;
use std::time::Duration;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{Decay, Heap, HugePages, LeakReport};

use support::{Held, Random, alone, assert_disjoint, run_to_the_end, scaled, size_from_env};

const HEAPS: usize = 4;
/// Threads that stay for all rounds, bound to whatever heaps they used.
const VETERANS: usize = 2;
/// Threads that come and go with each round.
const VISITORS: usize = 2;
/// Blocks a thread holds in one heap at most.
const HELD_MAX: usize = 150;
/// Bytes of the largest block.
const SIZE_BYTES_MAX: usize = 5_000_000;
/// Bytes of the largest block now and then: past the largest that is kept for the next request.
const RARE_BYTES_MAX: usize = 80_000_000;

/// What all threads see: the heaps, and the blocks somebody left for anybody to free.
struct World {
    heaps: Vec<RwLock<Heap>>,
    /// By heap: blocks that change hands.
    pools: Vec<Mutex<Vec<Held>>>,
    /// By veteran, by heap: blocks kept over rounds.
    kept: Vec<Vec<Mutex<Vec<Held>>>>,
}

impl World {
    fn new(random: &mut Random) -> World {
        let lists = || (0..HEAPS).map(|_| Mutex::new(Vec::new())).collect::<Vec<_>>();
        World {
            heaps: (0..HEAPS).map(|_| RwLock::new(random_heap(random))).collect(),
            pools: lists(),
            kept: (0..VETERANS).map(|_| lists()).collect(),
        }
    }

    /// Returns every list of blocks of `heap`.
    fn lists(&self, heap: usize) -> impl Iterator<Item = &Mutex<Vec<Held>>> {
        self.kept.iter().map(move |lists| &lists[heap]).chain([&self.pools[heap]])
    }

    /// Returns address and usable bytes of all blocks of `heap`, after checking their patterns.
    fn model(&self, heap: usize) -> BTreeMap<usize, usize> {
        let mut model = BTreeMap::new();
        for list in self.lists(heap) {
            for held in list.lock().unwrap().iter() {
                held.check();
                assert_eq!(model.insert(held.address(), held.usable), None, "{held:?} twice");
            }
        }
        model
    }

    /// Forgets all blocks of `heap`, which are dead or another heap's now.
    fn take_all(&self, heap: usize) -> Vec<Held> {
        self.lists(heap).flat_map(|list| mem::take(&mut *list.lock().unwrap())).collect()
    }
}

fn random_heap(random: &mut Random) -> Heap {
    let mut builder = Heap::builder().name("model");
    builder = match random.below(6) {
        0 => builder.thread_cache(false),
        1 => builder.thread_cache_bytes(0),
        2 => builder.thread_cache_bytes(20_000),
        3 => builder.thread_large_bytes(random.below(3_000_000)).heap_large_bytes(0),
        4 => builder.isolated(true),
        _ => builder,
    };
    builder = match random.below(5) {
        0 => builder.decay(Decay::Eager),
        1 => builder.decay(Decay::Never),
        2 => builder.decay(Decay::After(Duration::from_millis(1 + random.below(30) as u64))),
        _ => builder,
    };
    match random.below(8) {
        0 => builder.huge_pages(HugePages::Never).build(),
        1 => builder.soft_max_bytes(random.below(20_000_000)).build(),
        2 => builder.max_bytes(60_000_000 + random.below(60_000_000)).build(),
        _ => builder.build(),
    }
}

fn random_layout(random: &mut Random) -> Layout {
    let size = match random.below(300) {
        0 => 1 + random.below(RARE_BYTES_MAX),
        _ => random.size(SIZE_BYTES_MAX),
    };
    Layout::from_size_align(size, random.align()).unwrap()
}

/// One thread's part of a round: `steps` random operations. `kept` are the blocks it holds.
fn work(world: &World, kept: &[Mutex<Vec<Held>>], random: &mut Random, steps: usize) {
    for _ in 0..steps {
        let index = random.below(HEAPS);
        let heap = world.heaps[index].read().unwrap();
        let mut own = kept[index].lock().unwrap();
        step(&heap, &mut own, &world.pools[index], random);
    }
}

fn step(heap: &Heap, own: &mut Vec<Held>, pool: &Mutex<Vec<Held>>, random: &mut Random) {
    let choice = if own.len() >= HELD_MAX { 40 + random.below(60) } else { random.below(100) };
    match choice {
        0..=39 => {
            let (layout, id) = (random_layout(random), random.next());
            let denied = heap.stats_denied();
            let held = match random.one_in(4) {
                true => Held::zeroed(&heap, layout, id),
                false => Held::new(&heap, layout, id),
            };
            match held {
                Ok(held) => own.push(held),
                Err(_) => assert!(heap.stats_denied() > denied, "{layout:?} was denied uncounted"),
            }
        }
        40..=64 => {
            if let Some(held) = take_any(own, random) {
                free(heap, held, random);
            }
        }
        65..=74 => {
            if let Some(held) = take_any(own, random) {
                pool.lock().unwrap().push(held);
            }
        }
        75..=84 => {
            let found = take_any(&mut pool.lock().unwrap(), random);
            if let Some(held) = found {
                free(heap, held, random);
            }
        }
        85..=94 if !own.is_empty() => {
            let at = random.below(own.len());
            resize(heap, &mut own[at], random);
        }
        95..=97 => look(heap, own, random),
        98 => {
            heap.trim();
        }
        99 if random.one_in(4) => set_limits(heap, random),
        _ => {}
    }
}

/// Sets limits that deny some requests, or none.
fn set_limits(heap: &Heap, random: &mut Random) {
    let more = |random: &mut Random| match random.one_in(2) {
        true => None,
        false => NonZeroUsize::new(heap.stats().held_bytes + random.below(4_000_000)),
    };
    heap.set_limit(more(random)).unwrap();
    heap.set_soft_limit(more(random)).unwrap();
}

/// What a heap has denied so far.
trait Denied {
    fn stats_denied(&self) -> u64;
}

impl Denied for Heap {
    fn stats_denied(&self) -> u64 {
        let stats = self.stats();
        assert_eq!(stats.denied_by_system, 0, "{stats}");
        stats.denied_by_limit
    }
}

fn take_any(list: &mut Vec<Held>, random: &mut Random) -> Option<Held> {
    (!list.is_empty()).then(|| list.swap_remove(random.below(list.len())))
}

fn free(heap: &Heap, held: Held, random: &mut Random) {
    let slack = held.usable - held.layout.size();
    let length = held.layout.size() + random.below(slack + 1);
    held.free_as(&heap, length);
}

fn resize(heap: &Heap, held: &mut Held, random: &mut Random) {
    // Elsewhere in the tiers, or a little: within the class, or into what lies behind.
    let to = match random.one_in(2) {
        true => random_layout(random),
        false => {
            let size = held.layout.size();
            let size = size - random.below(size / 2 + 1) + random.below(size / 2 + 1);
            Layout::from_size_align(size.max(1), held.layout.align()).unwrap()
        }
    };
    let before = (held.block, held.layout, held.usable);
    let outcome = match to.size() >= held.layout.size() {
        true if random.one_in(2) => held.grow_zeroed(&heap, to),
        true => held.grow(&heap, to),
        false => held.shrink(&heap, to),
    };
    if outcome.is_err() {
        assert!(heap.stats_denied() > 0, "{to:?} was denied uncounted");
        assert_eq!((held.block, held.layout, held.usable), before);
        held.check();
    }
}

/// Asks the heap things that must not disturb anybody.
fn look(heap: &Heap, own: &[Held], random: &mut Random) {
    match random.below(4) {
        0 => assert!(heap.stats().held_bytes > 0 || own.is_empty()),
        1 => assert!(polyheap::heaps().count() <= 65_536),
        2 => assert!(heap.stats().to_string().contains("live")),
        _ => {
            polyheap::trim_all();
        }
    }
    if let Some(held) = own.last() {
        assert!(heap.owns(held.block));
        assert_eq!(heap.usable_size(held.block), Some(held.usable));
        assert_eq!(polyheap::heap_of(held.block), heap.id().ok());
    }
}

/// Compares every heap with the model. No thread is inside.
fn compare(world: &World, random: &mut Random) {
    let mut all = Vec::new();
    for (index, heap) in world.heaps.iter().enumerate() {
        let mut heap = heap.write().unwrap();
        let model = world.model(index);
        all.extend(model.iter().map(|(&start, &bytes)| start..start + bytes));
        assert_eq!(heap.verify(), Ok(()), "heap {index}");
        assert_stats(&heap, &model);
        if random.one_in(2) {
            let mut visited = BTreeMap::new();
            heap.visit_blocks(|block| {
                let again = visited.insert(block.pointer().as_ptr() as usize, block.bytes());
                assert_eq!(again, None, "{block:?} was visited twice");
            });
            assert_eq!(visited, model, "heap {index}");
            assert_eq!(heap.verify(), Ok(()), "heap {index} after a walk");
            assert_stats(&heap, &model);
        }
    }
    assert_disjoint(all);
}

fn assert_stats(heap: &Heap, model: &BTreeMap<usize, usize>) {
    let stats = heap.stats();
    assert_eq!(stats.live_blocks, model.len(), "{stats}");
    assert_eq!(stats.live_bytes, model.values().sum::<usize>(), "{stats}");
    assert!(stats.live_bytes + stats.cached_bytes <= stats.held_bytes, "{stats}");
    assert!(stats.peak_live_bytes >= stats.live_bytes, "{stats}");
}

fn assert_report(report: &LeakReport, model: &BTreeMap<usize, usize>) {
    assert_eq!((report.blocks, report.bytes), (model.len(), model.values().sum()), "{report}");
    assert_eq!(report.is_clean(), model.is_empty());
    assert!(report.first_addresses().all(|address| model.contains_key(&address)), "{report}");
    let in_slabs: usize = model.values().filter(|&&bytes| bytes <= 32 * 1024).count();
    assert_eq!(report.classes().map(|class| class.blocks).sum::<usize>(), in_slabs, "{report}");
}

/// Ends a heap, or empties it, in one of the ways there are.
fn end_some_heap(world: &World, random: &mut Random) {
    let index = random.below(HEAPS);
    let model = world.model(index);
    let mut heap = world.heaps[index].write().unwrap();
    match random.below(6) {
        0 => {
            heap.reset();
            world.take_all(index);
            assert_eq!(heap.verify(), Ok(()), "after a reset");
            assert_stats(&heap, &BTreeMap::new());
        }
        1 => {
            let ended = mem::replace(&mut *heap, random_heap(random));
            assert_report(&ended.close(), &model);
            world.take_all(index);
        }
        2 => {
            let other = (index + 1 + random.below(HEAPS - 1)) % HEAPS;
            let ended = mem::replace(&mut *heap, random_heap(random));
            let mut parent = world.heaps[other].write().unwrap();
            ended.leak_into(&parent);
            world.pools[other].lock().unwrap().extend(world.take_all(index));
            assert_eq!(parent.verify(), Ok(()), "after taking another heap's blocks over");
            assert_stats(&parent, &world.model(other));
        }
        3 => {
            *heap = random_heap(random);
            world.take_all(index);
        }
        4 => {
            heap.trim();
            polyheap::trim_all();
            assert_eq!(heap.verify(), Ok(()), "after a trim");
        }
        _ => {
            let shared = mem::take(&mut *heap).share();
            let copy = shared.clone();
            drop(shared);
            *heap = copy.try_unshare().expect("the only handle");
        }
    }
}

fn run(name: &str, rounds: usize, steps: usize) {
    let mut random = Random::for_test(name);
    let world = World::new(&mut random);
    let gathering = Barrier::new(VETERANS + 1);
    thread::scope(|scope| {
        for veteran in 0..VETERANS {
            let (world, gathering, mut random) = (&world, &gathering, random.fork());
            scope.spawn(move || {
                for _ in 0..rounds {
                    gathering.wait();
                    work(world, &world.kept[veteran], &mut random, steps);
                    gathering.wait();
                }
            });
        }
        // A failure must not leave the veterans waiting for ever; the process is this test's own.
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            for _ in 0..rounds {
                play_round(&world, &gathering, &mut random, steps);
            }
        }));
        if outcome.is_err() {
            std::process::abort();
        }
    });
    for (index, heap) in world.heaps.iter().enumerate() {
        let mut heap = heap.write().unwrap();
        world.take_all(index).into_iter().for_each(|held| held.free(&&*heap));
        assert_eq!(heap.verify(), Ok(()), "at the end");
        assert_stats(&heap, &BTreeMap::new());
    }
}

fn play_round(world: &World, gathering: &Barrier, random: &mut Random, steps: usize) {
    gathering.wait();
    let visits = (0..VISITORS).map(|_| {
        let mut random = random.fork();
        move || {
            let kept: Vec<_> = (0..HEAPS).map(|_| Mutex::new(Vec::new())).collect();
            work(world, &kept, &mut random, steps);
            // Whoever leaves gives the blocks it holds to the others.
            for (pool, kept) in world.pools.iter().zip(kept) {
                pool.lock().unwrap().extend(kept.into_inner().unwrap());
            }
        }
    });
    run_to_the_end(visits);
    gathering.wait();
    compare(world, random);
    while !random.one_in(3) {
        end_some_heap(world, random);
    }
    // Pools must not grow without end: the main thread frees what is too much.
    for (heap, pool) in world.heaps.iter().zip(&world.pools) {
        let (heap, mut pool) = (heap.read().unwrap(), pool.lock().unwrap());
        while pool.len() > HELD_MAX {
            free(&heap, pool.pop().unwrap(), random);
        }
    }
}

#[test]
fn several_heaps_and_threads_agree_with_the_model() {
    let name = "several_heaps_and_threads_agree_with_the_model";
    alone(name, Duration::from_secs(120), || run(name, 40, 600));
}

#[test]
#[ignore = "a soak of some minutes; POLYHEAP_MODEL_ROUNDS sets its length"]
fn several_heaps_and_threads_agree_with_the_model_for_long() {
    let name = "several_heaps_and_threads_agree_with_the_model_for_long";
    let rounds = size_from_env("POLYHEAP_MODEL_ROUNDS", 2_000);
    alone(name, Duration::from_secs(3_600), || run(name, rounds, 1_000));
}

/// One thread, two heaps, `verify` after every single operation.
#[test]
fn every_structure_holds_after_every_operation() {
    let name = "every_structure_holds_after_every_operation";
    alone(name, Duration::from_secs(60), || verify_after_every_step(Random::for_test(name)));
}

fn verify_after_every_step(mut random: Random) {
    for heap in [Heap::new(), Heap::builder().thread_cache(false).build(), {
        Heap::builder().thread_cache_bytes(0).build()
    }] {
        let mut heap = heap;
        let pool = Mutex::new(Vec::new());
        let mut own = Vec::new();
        for number in 0..1_500 {
            step(&heap, &mut own, &pool, &mut random);
            assert_eq!(heap.verify(), Ok(()), "step {number}");
            let live = own.len() + pool.lock().unwrap().len();
            assert_eq!(heap.stats().live_blocks, live, "step {number}");
        }
    }
}

/// The same block sizes over and over: full and empty magazines, slabs that empty and fill.
#[test]
fn waves_of_one_class_leave_every_structure_whole() {
    let mut random = Random::for_test("waves_of_one_class_leave_every_structure_whole");
    for size in [16, 48, 64, 512, 2_048, 12_000, 32_768, 65_536, 2 << 20] {
        let mut heap = Heap::new();
        let layout = Layout::from_size_align(size, 1).unwrap();
        let most = (8 << 20) / size;
        for _ in 0..6 {
            let count = 1 + random.below(most.min(3_000));
            let mut live: Vec<Held> =
                (0..count).map(|id| Held::new(&&heap, layout, id as u64).unwrap()).collect();
            assert_eq!(heap.verify(), Ok(()));
            while live.len() > count / 10 {
                live.swap_remove(random.below(live.len())).free(&&heap);
            }
            assert_eq!(heap.verify(), Ok(()));
            assert_eq!(heap.stats().live_blocks, live.len());
            live.into_iter().for_each(|held| held.free(&&heap));
        }
        assert_eq!(heap.verify(), Ok(()));
        assert!(heap.close().is_clean());
    }
}

/// A walk finds blocks of every tier, also those another thread allocated and left.
#[test]
fn a_walk_finds_blocks_of_threads_that_ended() {
    let mut heap = Heap::new();
    let mut model = BTreeMap::new();
    for size in [1, 100, 5_000, 40_000, 300_000, 3_000_000] {
        let layout = Layout::from_size_align(size, 1).unwrap();
        let held = thread::scope(|scope| {
            let allocate = || Held::new(&&heap, layout, size as u64).unwrap();
            scope.spawn(allocate).join().unwrap()
        });
        model.insert(held.address(), held.usable);
    }
    let mut visited = BTreeMap::new();
    heap.visit_blocks(|block| {
        visited.insert(block.pointer().as_ptr() as usize, block.bytes());
    });
    assert_eq!(visited, model);
    assert_report(&heap.close(), &model);
}

#[test]
fn allocators_by_reference_and_by_value_are_the_same_heap() {
    fn owner_of(alloc: impl Allocator) -> Option<polyheap::HeapId> {
        let block = alloc.allocate(Layout::new::<u64>()).unwrap();
        let owner = polyheap::heap_of(block.cast());
        // SAFETY: just allocated with this layout, and not used.
        unsafe { alloc.deallocate(block.cast(), Layout::new::<u64>()) };
        owner
    }
    let shared = Heap::new().share();
    let owner = owner_of(&*shared);
    assert!(owner.is_some());
    assert_eq!(owner_of(&shared), owner);
    assert_eq!(owner_of(shared.clone()), owner);
    assert_eq!(owner_of(shared), owner);
}

/// `trim_all` reaches heaps its caller has no reference to: it must keep out while the owner has
/// the heap exclusively, and must never purge what was allocated after a reset.
#[test]
fn trimming_all_heaps_disturbs_no_exclusive_operation() {
    let name = "trimming_all_heaps_disturbs_no_exclusive_operation";
    alone(name, Duration::from_secs(60), || {
        // The trimmer ends with the process.
        thread::spawn(|| {
            loop {
                polyheap::trim_all();
            }
        });
        reset_and_verify_repeatedly(&mut Random::for_test(name));
    });
}

fn reset_and_verify_repeatedly(random: &mut Random) {
    let mut heap = Heap::new();
    for round in 0..scaled(20_000) {
        let mut live = Vec::new();
        for id in 0..20 {
            let layout = Layout::from_size_align(1 + random.below(150_000), 1).unwrap();
            live.push(Held::new(&&heap, layout, id).unwrap());
        }
        live.drain(..10).for_each(|held| held.free(&&heap));
        if round % 4 == 0 {
            assert_eq!(heap.verify(), Ok(()), "round {round}");
            heap.visit_blocks(|_| ());
        }
        live.iter().for_each(Held::check);
        drop(live);
        heap.reset();
    }
}

/// So few blocks that slabs and regions empty and fill all the time, with every thread freeing what
/// others allocated.
#[test]
fn few_blocks_on_many_hands_are_never_handed_out_twice() {
    let mut random = Random::for_test("few_blocks_on_many_hands_are_never_handed_out_twice");
    let heaps = [
        Heap::builder().thread_cache(false).build(),
        Heap::builder().thread_cache_bytes(0).build(),
    ];
    for mut heap in heaps {
        for size in [16, 48, 64, 5_000, 32_768, 65_536, 1 << 20] {
            let hands: [Mutex<Option<Held>>; 3] = core::array::from_fn(|_| Mutex::new(None));
            let layout = Layout::from_size_align(size, 1).unwrap();
            let bodies: [_; 3] = core::array::from_fn(|_| {
                let (heap, hands, mut random) = (&heap, &hands, random.fork());
                move || pass_around(heap, hands, layout, &mut random)
            });
            run_to_the_end(bodies);
            hands.into_iter().filter_map(|hand| hand.into_inner().unwrap()).for_each(|held| {
                held.free(&&heap);
            });
            assert_eq!((heap.verify(), heap.stats().live_blocks), (Ok(()), 0), "{size}");
        }
    }
}

fn pass_around(heap: &Heap, hands: &[Mutex<Option<Held>>], layout: Layout, random: &mut Random) {
    let steps = scaled(if layout.size() > 100_000 { 20_000 } else { 200_000 });
    for id in 0..steps {
        let held = Held::new(&heap, layout, id as u64).unwrap();
        let old = hands[random.below(hands.len())].lock().unwrap().replace(held);
        if let Some(old) = old {
            old.free(&heap);
        }
        if random.one_in(500) {
            heap.trim();
        }
    }
}
