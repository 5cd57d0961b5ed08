//! What each ready-made resource promises, and each of its guards.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![cfg_attr(feature = "nightly", feature(allocator_api))]

mod support;

use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use bumpalo::Bump;
use polyheap::allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec;
use polyheap::resource::{
    Budget, Counting, EventKind, FailWhen, Failing, Fallback, MemoryResource, Monotonic, Null,
    Owner, Pool, Segregate, Traced, Zeroizing,
};
use polyheap::{BufferHeap, Heap, SharedHeap};

use support::{Held, Random, assert_disjoint, scaled};

type Dyn<'a> = &'a dyn MemoryResource;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn resource(resource: &impl MemoryResource) -> Dyn<'_> {
    resource
}

/// A resource that keeps a ledger: every block must come back with the alignment it was asked for
/// with, and a size between the one asked for and the one returned, which is longer by `slack`.
struct Ledger {
    heap: Heap,
    slack: usize,
    live: RefCell<std::vec::Vec<(usize, Layout, usize)>>,
    freed: RefCell<std::vec::Vec<std::vec::Vec<u8>>>,
}

impl Ledger {
    fn new(slack: usize) -> Ledger {
        Ledger { heap: Heap::new(), slack, live: RefCell::default(), freed: RefCell::default() }
    }
}

// SAFETY: as the heap, which is asked for the slack as well.
unsafe impl MemoryResource for Ledger {
    fn allocate(&self, asked: Layout) -> Result<NonNull<[u8]>, AllocError> {
        assert_ne!(asked.size(), 0, "nobody passes a request of size 0 on");
        let bytes = asked.size().checked_add(self.slack).ok_or(AllocError)?;
        let whole = Layout::from_size_align(bytes, asked.align()).or(Err(AllocError))?;
        let block = MemoryResource::allocate(&self.heap, whole)?.cast::<u8>();
        self.live.borrow_mut().push((block.as_ptr() as usize, asked, bytes));
        Ok(NonNull::slice_from_raw_parts(block, bytes))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        let mut live = self.live.borrow_mut();
        let at = live.iter().position(|entry| entry.0 == block.as_ptr() as usize);
        let (_, asked, bytes) = live.swap_remove(at.expect("a block of this resource"));
        assert_eq!(asked.align(), layout.align(), "freed as {layout:?}, asked for as {asked:?}");
        assert!((asked.size()..=bytes).contains(&layout.size()), "{layout:?}, asked {asked:?}");
        // SAFETY: the block is still there, and was written before it was given back.
        let seen = unsafe { core::slice::from_raw_parts(block.as_ptr(), layout.size()) };
        self.freed.borrow_mut().push(seen.to_vec());
        let whole = Layout::from_size_align(bytes, asked.align()).unwrap();
        // SAFETY: as it was allocated.
        unsafe { MemoryResource::deallocate(&self.heap, block, whole) };
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let live = self.live.take();
        assert!(std::thread::panicking() || live.is_empty(), "not given back: {live:?}");
    }
}

// The trait.

fn sum_in<A: Allocator>(alloc: A) -> u64 {
    let mut list = Vec::new_in(alloc);
    list.extend(0..1_000u64);
    list.into_iter().sum()
}

#[test]
fn resources_are_allocators_behind_every_kind_of_reference() {
    let heap = Heap::new();
    let shared = Heap::new().share();
    let counting = Counting::new(&heap);
    let sums = [
        sum_in(&counting),
        sum_in(&counting as Dyn<'_>),
        sum_in(&counting as &(dyn MemoryResource + Send)),
        sum_in(&counting as &(dyn MemoryResource + Sync)),
        sum_in(&counting as &(dyn MemoryResource + Send + Sync)),
        sum_in(&heap as Dyn<'_>),
        sum_in(&&heap as Dyn<'_>),
        sum_in(&shared as Dyn<'_>),
        sum_in(&Global as Dyn<'_>),
        sum_in(&Ledger::new(5) as Dyn<'_>),
        sum_in(&&Bump::new() as Dyn<'_>),
        sum_in(std::boxed::Box::leak(std::boxed::Box::new(Global)) as Dyn<'_>),
    ];
    assert_eq!(sums, [499_500; 12]);
    assert_eq!(counting.counts().live_blocks, 0);
}

#[test]
fn containers_of_shared_resources_go_to_other_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Vec<u8, &(dyn MemoryResource + Sync)>>();
    is_send::<Vec<u8, &Counting<Budget<&Heap>>>>();
    is_sync::<Fallback<Failing<Heap>, Zeroizing<SharedHeap>>>();
    is_sync::<Segregate<Traced<Heap, 8>, Null>>();
    is_send::<Monotonic<'static, Heap>>();
    is_send::<Pool<SharedHeap>>();
}

/// Type names of the containers are equal: one type for all, which is what the trait is for.
#[test]
fn vectors_in_different_resources_have_one_type() {
    let (heap, bump) = (Heap::new(), Bump::new());
    let bump = &bump;
    let scratch = Monotonic::new(&heap);
    let mut lists: [Vec<u8, Dyn<'_>>; 3] =
        [Vec::new_in(&heap), Vec::new_in(&bump), Vec::new_in(&scratch)];
    lists.iter_mut().for_each(|list| list.extend_from_slice(b"abc"));
    assert!(lists.iter().all(|list| list == b"abc"));
}

#[test]
fn defaults_of_the_trait_keep_the_contract() {
    let ledger = Ledger::new(0);
    let alloc = resource(&ledger);
    let mut held = Held::zeroed(&alloc, layout(100, 8), 1).unwrap();
    held.grow(&alloc, layout(200, 64)).unwrap();
    held.grow_zeroed(&alloc, layout(400, 1)).unwrap();
    held.shrink(&alloc, layout(10, 4096)).unwrap();
    held.free(&alloc);
    assert_eq!(alloc.owns(NonNull::dangling()), None);
    assert!(alloc.upstream().is_none());
}

#[test]
fn ownership_is_known_through_values_references_and_trait_objects() {
    let (heap, other) = (Heap::new(), Heap::new());
    let value = Box::new_in(7u64, &heap);
    let block = NonNull::from(&*value).cast::<u8>();
    let shared = Heap::new().share();
    let counting = Counting::new(resource(&heap));
    let owners: [Dyn<'_>; 7] = [
        &heap,
        &&heap,
        &(&heap as Dyn<'_>),
        &(&heap as &(dyn MemoryResource + Send + Sync)),
        &counting,
        &Zeroizing::new(Budget::new(&heap, 1)),
        &(resource(&counting)),
    ];
    for (number, owner) in owners.into_iter().enumerate() {
        assert_eq!(owner.owns(block), Some(true), "{number}");
    }
    let others: [Dyn<'_>; 4] = [&other, &shared, &&shared, &Monotonic::new(&heap)];
    for (number, other) in others.into_iter().enumerate() {
        assert_eq!(other.owns(block), Some(false), "{number}");
    }
    let unknowing: [Dyn<'_>; 3] = [&Global, &&Bump::new(), &Counting::new(Global)];
    for (number, unknowing) in unknowing.into_iter().enumerate() {
        assert_eq!(unknowing.owns(block), None, "{number}");
    }
    let value = Box::new_in(1u8, &shared);
    assert_eq!(shared.owns(NonNull::from(&*value)), Some(true));
}

#[test]
fn a_chain_can_be_walked_to_its_end() {
    let heap = Heap::new();
    let pool = Pool::new(Traced::<_, 2>::new(Budget::new(&heap, 1)));
    let counting = Counting::new(resource(&pool));
    let (mut link, mut links) = (resource(&counting), 1);
    while let Some(next) = link.upstream() {
        (link, links) = (next, links + 1);
    }
    // The reference to the pool, the resource it is on, the budget, the reference to the heap.
    assert_eq!(links, 5);
    assert_eq!(link.owns(NonNull::from(&*Box::new_in(1u8, &heap))), Some(true));
    assert!(Null.upstream().is_none());
}

#[test]
fn frees_of_size_zero_reach_nobody() {
    // `Box` of a zero-size type frees what nobody allocated.
    let ledger = Ledger::new(0);
    let counting = Counting::new(&ledger as Dyn<'_>);
    let traced = Traced::<_, 4>::new(&counting as Dyn<'_>);
    drop(Box::new_in((), &traced));
    drop(Box::new_in([(); 3], &traced as Dyn<'_>));
    drop(Vec::<()>::new());
    let fallback = Fallback::new(Monotonic::with_buffer(&mut [], Null), &traced);
    drop(Box::new_in((), &fallback));
    let mut list = Vec::new_in(&fallback);
    list.extend([(); 100]);
    drop(list);
    assert_eq!((counting.counts().allocated_blocks, counting.counts().freed_blocks), (0, 0));
    assert_eq!(traced.seen_events(), 0);
}

/// Some allocators look at every pointer they are to free.
#[test]
fn foreign_allocators_get_no_free_of_size_zero() {
    struct Strict(Heap);
    // SAFETY: as the heap.
    unsafe impl Allocator for Strict {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            Allocator::allocate(&self.0, layout)
        }

        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
            assert!(self.0.owns(block), "not a block of this heap: {layout:?}");
            // SAFETY: the caller's promise.
            unsafe { Allocator::deallocate(&self.0, block, layout) };
        }
    }
    let strict = Strict(Heap::new());
    drop(Box::new_in((), &strict as Dyn<'_>));
    drop(Box::new_in(1, &strict as Dyn<'_>));
}

// Each upstream gets back what it handed out, as it was asked for.

#[test]
fn upstreams_with_and_without_slack_get_their_blocks_back_as_they_were_asked_for() {
    let mut random = Random::for_test("upstreams_with_slack");
    for slack in [0, 1, 13, 32, 5_000] {
        let (one, two) = (Ledger::new(slack), Ledger::new(slack));
        let (one, two) = (resource(&one), resource(&two));
        let mut buffer = [MaybeUninit::uninit(); 3_000];
        let resources: [Dyn<'_>; 10] = [
            &Counting::new(one),
            &Budget::new(one, usize::MAX),
            &Traced::<_, 4>::new(one),
            &Zeroizing::new(one),
            &Failing::new(one, FailWhen::EveryNth(5)),
            &Segregate::new(200, one, two),
            &Fallback::new(Monotonic::with_buffer(&mut buffer, Null), two),
            &Monotonic::new(one),
            &Pool::new(one),
            &Pool::new(Monotonic::new(Pool::new(one))),
        ];
        for resource in resources {
            any_operations(&resource, &mut random);
        }
    }
}

/// Random operations of which some may be refused; frees with any length there may be.
fn any_operations(alloc: &Dyn<'_>, random: &mut Random) {
    let mut live: std::vec::Vec<Held> = std::vec::Vec::new();
    for step in 0..scaled(20_000) {
        let wanted = layout(random.below(2_000), 1 << random.below(9));
        let at = random.below(live.len().max(1));
        match random.below(6) {
            0 | 1 => live.extend(Held::new(alloc, wanted, step as u64)),
            2 => live.extend(Held::zeroed(alloc, wanted, step as u64)),
            3 if !live.is_empty() => {
                let held = &mut live[at];
                let _ = match wanted.size() >= held.layout.size() {
                    true if random.one_in(2) => held.grow_zeroed(alloc, wanted),
                    true => held.grow(alloc, wanted),
                    false => held.shrink(alloc, wanted),
                };
            }
            _ if !live.is_empty() => {
                let held = live.swap_remove(at);
                let slack = held.usable - held.layout.size();
                let length = held.layout.size() + random.below(slack + 1);
                held.free_as(alloc, length);
            }
            _ => {}
        }
    }
    assert_disjoint(live.iter().map(Held::region));
    live.into_iter().for_each(|held| held.free(alloc));
}

// Counting.

#[test]
fn bytes_are_counted_as_asked_for_whatever_the_containers_make_of_them() {
    let heap = Heap::new();
    let counting = Counting::new(&heap);
    let block = Allocator::allocate(&&counting, layout(84, 1)).unwrap();
    assert_eq!((block.len(), counting.counts().live_bytes), (84, 84));
    // SAFETY: just allocated, and as it was asked for.
    unsafe { Allocator::deallocate(&&counting, block.cast(), layout(84, 1)) };
    // hashbrown frees with lengths of its own making.
    let mut map =
        hashbrown::HashMap::with_hasher_in(hashbrown::DefaultHashBuilder::default(), &counting);
    for number in 0..1_000 {
        map.insert(number, number);
    }
    map.shrink_to_fit();
    drop(map);
    let counts = counting.counts();
    assert_eq!((counts.live_blocks, counts.live_bytes), (0, 0), "{counts:?}");
    assert!(counts.peak_live_bytes > 8_000 && counts.allocated_blocks > 5, "{counts:?}");
}

#[test]
fn resizes_and_refusals_are_counted() {
    let counting = Counting::new(Failing::new(Heap::new(), FailWhen::LargerThan(1_000)));
    let alloc = resource(&counting);
    let mut held = Held::new(&alloc, layout(100, 1), 1).unwrap();
    held.grow(&alloc, layout(900, 1)).unwrap();
    assert_eq!(counting.counts().live_bytes, 900);
    assert!(held.grow(&alloc, layout(2_000, 1)).is_err());
    held.shrink(&alloc, layout(30, 1)).unwrap();
    let counts = counting.counts();
    assert_eq!((counts.live_blocks, counts.live_bytes, counts.peak_live_bytes), (1, 30, 900));
    assert_eq!((counts.resized_blocks, counts.denied_requests), (2, 1));
    held.free(&alloc);
    assert_eq!((counting.counts().freed_blocks, counting.counts().live_bytes), (1, 0));
}

#[test]
fn counters_are_exact_when_threads_share_them() {
    let heap = Heap::new();
    let counting = Counting::new(&heap);
    let rounds = scaled(40_000);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let counting = &counting;
            scope.spawn(move || {
                for round in 0..rounds {
                    let mut list =
                        Vec::<u8, _>::with_capacity_in(1 + (round + thread) % 500, counting);
                    list.reserve_exact(700);
                    list.shrink_to_fit();
                }
            });
        }
    });
    let counts = counting.counts();
    assert_eq!((counts.live_blocks, counts.live_bytes), (0, 0), "{counts:?}");
    assert_eq!(counts.allocated_blocks, 4 * rounds);
    assert!((700..=4 * 700).contains(&counts.peak_live_bytes), "{counts:?}");
}

// Budget.

#[test]
fn a_budget_is_spent_to_the_byte_and_comes_back() {
    let budget = Budget::new(Heap::new(), 1_000);
    let alloc = resource(&budget);
    let mut first = Held::new(&alloc, layout(600, 1), 1).unwrap();
    let second = Held::new(&alloc, layout(400, 1), 2).unwrap();
    assert!(Held::new(&alloc, layout(1, 1), 3).is_err());
    assert!(Held::new(&alloc, layout(0, 64), 3).is_ok(), "size 0 costs nothing");
    assert!(first.grow(&alloc, layout(601, 1)).is_err());
    first.shrink(&alloc, layout(599, 1)).unwrap();
    first.grow_zeroed(&alloc, layout(600, 1)).unwrap();
    second.free(&alloc);
    assert_eq!(
        (budget.used_bytes(), budget.denied_requests(), budget.max_bytes()),
        (600, 2, 1_000)
    );
    first.free(&alloc);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn what_the_upstream_refuses_is_not_charged() {
    let budget = Budget::new(Failing::new(Heap::new(), FailWhen::EveryNth(2)), 1_000);
    let alloc = resource(&budget);
    let mut held = Held::new(&alloc, layout(100, 1), 1).unwrap();
    assert!(held.grow(&alloc, layout(300, 1)).is_err());
    assert_eq!(budget.used_bytes(), 100);
    held.grow(&alloc, layout(300, 1)).unwrap();
    assert!(held.shrink(&alloc, layout(10, 1)).is_err());
    assert_eq!((budget.used_bytes(), budget.denied_requests()), (300, 0));
    held.free(&alloc);
    let budget = Budget::new(Null, 1_000);
    assert!(MemoryResource::allocate(&budget, layout(1_000, 1)).is_err());
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn threads_never_pass_a_budget_together() {
    const MOST: usize = 10_000;
    let heap = Heap::new();
    let counting = Counting::new(&heap);
    let budget = Budget::new(&counting as &(dyn MemoryResource + Sync), MOST);
    let denied = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (budget, denied) = (&budget, &denied);
            scope.spawn(move || {
                let mut lists = std::vec::Vec::new();
                for round in 0..scaled(20_000) {
                    let mut list = Vec::<u8, _>::new_in(budget);
                    match list.try_reserve_exact(1 + (round * 7 + thread) % 900) {
                        Ok(()) => lists.push(list),
                        Err(_) => {
                            denied.fetch_add(1, Ordering::Relaxed);
                            lists.clear();
                        }
                    }
                }
            });
        }
    });
    assert!(counting.counts().peak_live_bytes <= MOST, "{:?}", counting.counts());
    assert_eq!(budget.denied_requests(), denied.load(Ordering::Relaxed));
    assert_ne!(budget.denied_requests(), 0);
    assert_eq!(budget.used_bytes(), 0);
}

// Failing, Null.

#[test]
fn requests_fail_by_number_and_by_size() {
    let outcome = |when, requests: usize| -> std::vec::Vec<usize> {
        let failing = Failing::new(Heap::new(), when);
        let fails = |number: &usize| {
            let block = MemoryResource::allocate(&failing, layout(*number, 1));
            let block = block.inspect(|block| {
                // SAFETY: just allocated like this.
                unsafe { MemoryResource::deallocate(&failing, block.cast(), layout(*number, 1)) };
            });
            block.is_err()
        };
        let failed: std::vec::Vec<usize> = (1..=requests).filter(fails).collect();
        assert_eq!((failing.requests(), failing.denied_requests()), (requests, failed.len()));
        failed
    };
    assert_eq!(outcome(FailWhen::Never, 5), []);
    assert_eq!(outcome(FailWhen::Nth(3), 7), [3]);
    assert_eq!(outcome(FailWhen::Nth(0), 7), []);
    assert_eq!(outcome(FailWhen::EveryNth(3), 7), [3, 6]);
    assert_eq!(outcome(FailWhen::EveryNth(0), 7), []);
    assert_eq!(outcome(FailWhen::FromNth(6), 7), [6, 7]);
    assert_eq!(outcome(FailWhen::LargerThan(5), 7), [6, 7]);
}

#[test]
fn null_refuses_all_but_nothing() {
    let alloc = resource(&Null);
    assert!(alloc.allocate(layout(1, 1)).is_err());
    assert!(alloc.allocate_zeroed(layout(1, 1)).is_err());
    let mut held = Held::new(&alloc, layout(0, 64), 1).unwrap();
    assert!(held.grow(&alloc, layout(1, 1)).is_err());
    held.grow(&alloc, layout(0, 4096)).unwrap();
    held.free(&alloc);
    assert!(!Null.has(NonNull::dangling()));
}

/// A container that fails to grow is whole afterwards.
#[test]
fn a_vector_survives_every_failing_request() {
    for nth in 1..40 {
        let failing = Failing::new(Heap::new(), FailWhen::Nth(nth));
        let mut list = Vec::new_in(&failing as Dyn<'_>);
        let mut refused = 0;
        for number in 0..5_000u32 {
            while list.try_reserve(1).is_err() {
                refused += 1;
            }
            list.push(number);
        }
        assert!(list.iter().copied().eq(0..5_000), "{nth}");
        assert!(refused == failing.denied_requests() && refused <= 1);
    }
}

// Fallback, Segregate.

#[test]
fn what_the_primary_refuses_comes_from_the_secondary_and_goes_back_there() {
    let (first, second) = (Counting::new(Heap::new()), Counting::new(Heap::new()));
    let fallback = Fallback::new(Budget::new(&first as Dyn<'_>, 1_000), &second);
    let alloc = resource(&fallback);
    let mut moved = Held::new(&alloc, layout(900, 1), 1).unwrap();
    let beside = Held::new(&alloc, layout(900, 1), 2).unwrap();
    assert_eq!((first.counts().live_blocks, second.counts().live_blocks), (1, 1));
    // Too large for the primary now: it moves, and the budget is free for another.
    moved.grow(&alloc, layout(5_000, 64)).unwrap();
    assert_eq!((first.counts().live_blocks, second.counts().live_blocks), (0, 2));
    let third = Held::new(&alloc, layout(900, 1), 3).unwrap();
    assert!(first.upstream().owns(third.block) && second.upstream().owns(beside.block));
    [moved, beside, third].into_iter().for_each(|held| held.free(&alloc));
    assert_eq!((first.counts().live_bytes, second.counts().live_bytes), (0, 0));
    assert_eq!(
        (fallback.primary().used_bytes(), fallback.secondary().counts().freed_blocks),
        (0, 2)
    );
}

#[test]
fn a_fallback_refuses_blocks_that_it_could_not_tell_apart() {
    let heap = Heap::new();
    let fallback = Fallback::new(Budget::new(&heap, 100), &heap);
    let alloc = resource(&fallback);
    let held = Held::new(&alloc, layout(80, 1), 1).unwrap();
    assert!(Held::new(&alloc, layout(80, 1), 2).is_err());
    assert_eq!((heap.stats().live_blocks, fallback.primary().used_bytes()), (1, 80));
    held.free(&alloc);
    assert_eq!((heap.stats().live_blocks, fallback.primary().used_bytes()), (0, 0));
}

#[test]
fn a_primary_that_cannot_tell_its_blocks_is_not_used() {
    let global = Counting::new(Global);
    let second = Counting::new(Heap::new());
    let fallback = Fallback::new(&global as Dyn<'_>, &second);
    let value = Box::new_in(5u64, &fallback);
    assert_eq!((global.counts().live_blocks, second.counts().live_blocks), (0, 1));
    drop(value);
    assert_eq!((global.counts().live_blocks, second.counts().live_blocks), (0, 0));
}

#[test]
fn no_length_crosses_the_threshold() {
    for slack in [0, 7, 500] {
        let (small, large) = (Ledger::new(slack), Ledger::new(slack));
        let segregate = Segregate::new(256, resource(&small), resource(&large));
        let alloc = resource(&segregate);
        for size in 200..300 {
            for length in [0, slack / 2, slack] {
                let held = Held::new(&alloc, layout(size, 8), size as u64).unwrap();
                assert_eq!(held.usable <= 256, size <= 256, "{size} {}", held.usable);
                let freed = (size + length).min(held.usable);
                held.free_as(&alloc, freed);
            }
        }
        // Across the threshold and back, and beside it.
        let mut held = Held::zeroed(&alloc, layout(250, 1), 3).unwrap();
        for size in [256, 257, 300, 5_000, 257, 256, 1, 256] {
            let is_growth = size >= held.layout.size();
            match is_growth {
                true => held.grow_zeroed(&alloc, layout(size, 1)).unwrap(),
                false => held.shrink(&alloc, layout(size, 1)).unwrap(),
            }
            assert_eq!(held.usable <= 256, size <= 256);
            assert_eq!(small.live.borrow().len(), usize::from(size <= 256));
        }
        held.free(&alloc);
    }
    let segregate = Segregate::new(1, Null, Null);
    assert_eq!(
        (segregate.threshold_bytes(), segregate.small(), segregate.large()),
        (1, &Null, &Null)
    );
}

// Zeroizing. What a release build might remove is looked at in `resource_clearing.rs`.

#[test]
fn blocks_tails_and_moved_blocks_go_back_clear() {
    let ledger = Ledger::new(50);
    let zeroizing = Zeroizing::new(resource(&ledger));
    let alloc = resource(&zeroizing);
    let mut held = Held::new(&alloc, layout(1_000, 1), 0x55).unwrap();
    assert_eq!(held.usable, 1_000, "what is not the caller's is not cleared either");
    held.shrink(&alloc, layout(300, 1)).unwrap();
    held.grow(&alloc, layout(4_000, 64)).unwrap();
    held.grow_zeroed(&alloc, layout(9_000, 1)).unwrap();
    held.shrink(&alloc, layout(0, 1)).unwrap();
    held.free(&alloc);
    let freed = ledger.freed.borrow();
    let lengths: std::vec::Vec<usize> = freed.iter().map(|bytes| bytes.len()).collect();
    assert_eq!(lengths, [1_000, 300, 4_000, 9_000]);
    assert!(freed.iter().flatten().all(|&byte| byte == 0), "something was left");
}

#[test]
fn a_failed_shrink_leaves_the_tail() {
    let zeroizing = Zeroizing::new(Failing::new(Heap::new(), FailWhen::Nth(2)));
    let alloc = resource(&zeroizing);
    let mut held = Held::new(&alloc, layout(1_000, 1), 7).unwrap();
    assert!(held.shrink(&alloc, layout(10, 1)).is_err());
    held.free(&alloc);
}

// Traced.

#[test]
fn the_last_events_are_kept_in_order() {
    let traced = Traced::<_, 4>::new(Failing::new(Heap::new(), FailWhen::LargerThan(500)));
    let alloc = resource(&traced);
    let mut held = Held::new(&alloc, layout(10, 2), 1).unwrap();
    let first = held.address();
    held.grow_zeroed(&alloc, layout(300, 64)).unwrap();
    let second = held.address();
    assert!(held.grow(&alloc, layout(600, 1)).is_err());
    held.free(&alloc);
    let events: std::vec::Vec<_> = traced.events().collect();
    let kinds =
        [EventKind::Allocate, EventKind::ResizeZeroed, EventKind::Resize, EventKind::Deallocate];
    assert!(events.iter().map(|event| event.kind).eq(kinds));
    assert!(events.iter().map(|event| event.number).eq(0..4));
    assert_eq!((events[0].address, events[0].bytes, events[0].align_bytes), (first, 10, 2));
    assert_eq!((events[1].old_address, events[1].old_bytes), (first, 10));
    assert_eq!((events[1].address, events[1].bytes, events[1].align_bytes), (second, 300, 64));
    assert_eq!((events[2].old_address, events[2].address, events[2].bytes), (second, 0, 600));
    assert!(events[2].is_denied() && !events[1].is_denied() && !events[3].is_denied());
    assert_eq!((events[3].old_address, events[3].old_bytes), (second, 300));
    // Two more push the first two out.
    Held::zeroed(&alloc, layout(1, 1), 1).unwrap().free(&alloc);
    assert!(traced.events().map(|event| event.number).eq(2..6));
    assert_eq!(traced.events().nth(2).unwrap().kind, EventKind::AllocateZeroed);
    assert_eq!((traced.seen_events(), traced.lost_events()), (6, 0));
}

/// Every event read is whole: its words belong to each other, whoever writes meanwhile.
#[test]
fn events_are_never_torn() {
    let heap = Heap::new();
    let traced = Traced::<_, 8>::new(&heap);
    let left = AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for thread in 1..=3usize {
            let (traced, left) = (&traced, &left);
            scope.spawn(move || {
                for round in 0..scaled(60_000) {
                    let size = 1 + (round * thread) % 2_000;
                    // The alignment follows from the size.
                    let wanted = layout(size, 1 << (size % 5));
                    let held = Held::new(&traced, wanted, 1).unwrap();
                    held.free(&traced);
                }
                left.fetch_sub(1, Ordering::Release);
            });
        }
        let mut seen = 0;
        while left.load(Ordering::Acquire) != 0 || seen == 0 {
            for event in traced.events() {
                let size = event.bytes + event.old_bytes;
                assert_eq!(event.align_bytes, 1 << (size % 5), "{event:?}");
                assert_eq!(event.kind == EventKind::Allocate, event.bytes != 0, "{event:?}");
                assert_eq!(event.address == 0, event.bytes == 0, "{event:?}");
                seen += 1;
            }
        }
    });
    assert_eq!(traced.seen_events(), 3 * 2 * scaled(60_000));
    assert!(traced.lost_events() < traced.seen_events());
}

// Heaps in buffers.

#[test]
fn a_heap_in_a_buffer_knows_its_blocks_and_overflows_into_another() {
    let mut memory = vec![MaybeUninit::uninit(); 64 << 10];
    let near = BufferHeap::new(&mut memory).unwrap();
    let far = Counting::new(Heap::new());
    let fallback = Fallback::new(&near, &far);
    let alloc = resource(&fallback);
    let mut live = std::vec::Vec::new();
    while far.counts().live_blocks == 0 {
        live.push(Held::new(&alloc, layout(1_000, 8), live.len() as u64).unwrap());
    }
    assert!(live.len() > 40, "{} blocks of 1000 B in 64 KiB", live.len());
    let (first, last) = (live[0].block, live.last().unwrap().block);
    for near in [resource(&near), &&near, &Counting::new(&near as Dyn<'_>)] {
        assert_eq!((near.owns(first), near.owns(last)), (Some(true), Some(false)));
    }
    live.into_iter().for_each(|held| held.free(&alloc));
    assert_eq!((near.stats().live_blocks, far.counts().live_blocks), (0, 0));
}

// Foreign allocators as upstreams.

#[test]
fn bump_arenas_and_the_global_allocator_serve_as_upstreams() {
    let bump = Bump::new();
    let counting = Counting::new(&bump);
    let pool = Pool::new(&counting);
    let by_size = Segregate::new(100, &pool, Global);
    let heap = Heap::new();
    let near = Fallback::new(Monotonic::new(Budget::new(&bump, 10_000)), &heap);
    for resource in [&by_size as Dyn<'_>, &near, &Zeroizing::new(&bump), &Zeroizing::new(Global)] {
        let mut lists = Vec::new_in(resource);
        for number in 0..100u32 {
            let mut list = Vec::new_in(resource);
            list.extend(0..number);
            lists.push(list);
        }
        let sum: u32 = lists.iter().flatten().sum();
        assert_eq!(sum, 161_700);
    }
    assert_ne!(counting.counts().live_blocks, 0, "the pool took its memory from the arena");
    drop(pool);
    assert_eq!(counting.counts().live_blocks, 0);
}

/// Nothing runs the caller's code inside, so a panic in between leaves a resource as it is.
#[test]
fn a_panic_between_two_requests_leaves_a_resource_whole() {
    let pool = Pool::new(Heap::new());
    let seen = Cell::new(0);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut list = Vec::new_in(&pool);
        list.extend((0..100).inspect(|&number| {
            seen.set(number);
            assert!(number < 50, "as it should");
        }));
    }));
    assert!(outcome.is_err() && seen.get() == 50);
    assert_eq!(sum_in(&pool), 499_500);
}

#[cfg(feature = "allocator-api2-04")]
#[test]
fn the_newer_trait_serves_its_own_containers() {
    use allocator_api2_04::boxed::Box as NewerBox;
    use allocator_api2_04::vec::Vec as NewerVec;

    let heap = Heap::new();
    let counting = Counting::new(&heap);
    let pool = Pool::new(&counting as Dyn<'_>);
    let mut list = NewerVec::new_in(&pool as Dyn<'_>);
    list.extend((0..100).map(|number| NewerBox::new_in(number, &counting)));
    assert_eq!(list.len(), 100);
    let shared: &(dyn MemoryResource + Send + Sync) = &counting;
    let send: &(dyn MemoryResource + Send) = &counting;
    let sync: &(dyn MemoryResource + Sync) = &counting;
    let boxes = (NewerBox::new_in(1, shared), NewerBox::new_in(2, send), NewerBox::new_in(3, sync));
    assert_eq!(*boxes.0 + *boxes.1 + *boxes.2, 6);
}

#[cfg(feature = "nightly")]
#[test]
fn the_standard_trait_serves_the_standard_containers() {
    let heap = Heap::new();
    let counting = Counting::new(&heap);
    let pool = Pool::new(&counting as Dyn<'_>);
    let mut list = std::vec::Vec::new_in(&pool as Dyn<'_>);
    list.extend((0..100).map(|number| std::boxed::Box::new_in(number, &counting)));
    assert_eq!(list.len(), 100);
    let shared: &(dyn MemoryResource + Send + Sync) = &counting;
    let send: &(dyn MemoryResource + Send) = &counting;
    let sync: &(dyn MemoryResource + Sync) = &counting;
    let boxes = [
        *std::boxed::Box::new_in(1, shared),
        *std::boxed::Box::new_in(2, send),
        *std::boxed::Box::new_in(3, sync),
    ];
    assert_eq!(boxes, [1, 2, 3]);
}
