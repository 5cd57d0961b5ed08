//! The allocator contract, for every ready-made resource, alone and in compositions three deep.
//!
//! Each runs behind `&dyn MemoryResource`, as its users have it. At the end of each suite all that the
//! resource took from its heap must be back.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::mem::MaybeUninit;

use bumpalo::Bump;
use polyheap::Heap;
use polyheap::allocator_api2::alloc::Global;
use polyheap::resource::{
    Budget, Counting, FailWhen, Failing, Fallback, MemoryResource, Monotonic, Null, Pool,
    Segregate, Traced, Zeroizing,
};

use support::contract::{
    self, any_length_between_the_one_asked_for_and_the_one_returned_frees, layout,
    random_resizes_agree_with_a_shadow_vector, resizing_may_change_the_alignment_either_way,
    resizing_to_the_same_layout_keeps_the_block, slack_is_never_taken_for_contents,
    zeroed_blocks_are_zero_on_dirty_memory_of_every_tier,
};
use support::{Held, Random, SIZES, assert_disjoint, scaled};

/// What a suite gets: the resource, and the heap at its end.
type Dyn<'a> = &'a dyn MemoryResource;

/// Bytes of the buffer for a resource that has one: odd, and it begins off any alignment.
const BUFFER_BYTES: usize = 100_003;

/// Makes a test of each suite for each resource: `name: heap, buffer => a resource over them`, with
/// what it refers to in brackets before it.
macro_rules! conforms {
    ($($name:ident: $heap:ident, $buffer:ident => [$($setup:stmt),*] $resource:expr;)+) => {
        $(mod $name {
            use super::*;

            fn run(suite: impl Fn(&Dyn<'_>, &Heap)) {
                let mut heap = Heap::new();
                {
                    let mut memory = vec![MaybeUninit::<u8>::uninit(); BUFFER_BYTES + 3];
                    let ($heap, $buffer) = (&heap, &mut memory[3..]);
                    $($setup)*
                    let resource = $resource;
                    suite(&(&resource as Dyn<'_>), &heap);
                }
                let stats = heap.stats();
                assert_eq!((stats.live_blocks, stats.live_bytes), (0, 0), "{stats}");
                assert_eq!(heap.verify(), Ok(()));
            }

            conforms! { @suites
                every_size_is_served_and_comes_back,
                any_length_between_the_one_asked_for_and_the_one_returned_frees,
                every_alignment_up_to_16_mib_is_served,
                a_refused_growth_leaves_the_block_as_it_was,
                zero_size_requests_are_aligned_and_take_nothing,
                zero_size_blocks_grow_and_others_shrink_to_zero,
                zeroed_blocks_are_zero_on_dirty_memory_of_every_tier,
                resizing_may_change_the_alignment_either_way,
                resizing_to_the_same_layout_keeps_the_block,
                slack_is_never_taken_for_contents,
                random_resizes_agree_with_a_shadow_vector,
                random_operations_never_overlap,
            }
        })+
    };

    (@suites $($suite:ident,)+) => {
        $(#[test]
        fn $suite() {
            run(|alloc, heap| super::$suite(alloc, heap));
        })+
    };
}

conforms! {
    counting: heap, _buffer => [] Counting::new(heap);
    budget: heap, _buffer => [] Budget::new(heap, usize::MAX);
    traced: heap, _buffer => [] Traced::<_, 64>::new(heap);
    zeroizing: heap, _buffer => [] Zeroizing::new(heap);
    failing_never: heap, _buffer => [] Failing::new(heap, FailWhen::Never);
    fallback_from_nothing: heap, _buffer => [] Fallback::new(Null, heap);
    fallback_from_a_buffer: heap, buffer => []
        Fallback::new(Monotonic::with_buffer(buffer, Null), heap);
    fallback_from_another_heap: heap, _buffer => []
        Fallback::new(Budget::new(Heap::new(), 100_000), heap);
    segregate: heap, _buffer => [] Segregate::new(1_000, Heap::new(), heap);
    segregate_one_heap: heap, _buffer => [] Segregate::new(4_096, heap, heap);
    monotonic: heap, _buffer => [] Monotonic::new(heap);
    monotonic_with_buffer: heap, buffer => [] Monotonic::with_buffer(buffer, heap);
    pool: heap, _buffer => [] Pool::new(heap);

    counting_budget_traced: heap, _buffer => []
        Counting::new(Budget::new(Traced::<_, 8>::new(heap), 1 << 40));
    zeroizing_segregate_pool: heap, _buffer => []
        Zeroizing::new(Segregate::new(512, Pool::new(heap), heap));
    pool_monotonic_counting: heap, buffer => []
        Pool::new(Monotonic::with_buffer(buffer, Counting::new(heap)));
    monotonic_pool_zeroizing: heap, _buffer => [] Monotonic::new(Pool::new(Zeroizing::new(heap)));
    pool_zeroizing_counting: heap, _buffer => [] Pool::new(Zeroizing::new(Counting::new(heap)));
    traced_fallback_budget: heap, _buffer => []
        Traced::<_, 4>::new(Fallback::new(Budget::new(Heap::new(), 50_000), heap));
    segregate_pool_fallback_failing: heap, _buffer => [] Segregate::new(
        100,
        Pool::new(heap),
        Fallback::new(Failing::new(Heap::new(), FailWhen::LargerThan(1 << 20)), heap),
    );
    counting_by_reference_three_deep: heap, _buffer => [
        let budget = Budget::new(heap, usize::MAX),
        let traced = Traced::<_, 4>::new(&budget)
    ] Counting::new(&traced);
    fallback_by_reference_three_deep: heap, buffer => [
        let other = Heap::new(),
        let near = Monotonic::with_buffer(buffer, Null),
        let failing = Failing::new(&other, FailWhen::LargerThan(1 << 20)),
        let far = Fallback::new(&failing, heap)
    ] Fallback::new(&near, &far);
    counting_by_dyn_three_deep: heap, _buffer => [
        let budget = Budget::new(heap, usize::MAX),
        let pool = Pool::new(&budget as Dyn<'_>)
    ] Counting::new(&pool as Dyn<'_>);
}

fn every_size_is_served_and_comes_back(alloc: &Dyn<'_>, _: &Heap) {
    let mut live = Vec::new();
    for round in 0..3 {
        for (number, size) in SIZES.into_iter().enumerate() {
            live.push(Held::new(alloc, layout(size, 1), round * 100 + number as u64).unwrap());
        }
    }
    assert_disjoint(live.iter().map(Held::region));
    assert!(live.iter().all(|held| alloc.owns(held.block) != Some(false)));
    live.into_iter().for_each(|held| held.free(alloc));
}

fn every_alignment_up_to_16_mib_is_served(alloc: &Dyn<'_>, _: &Heap) {
    contract::every_alignment_is_served(alloc, 16 << 20);
}

fn a_refused_growth_leaves_the_block_as_it_was(alloc: &Dyn<'_>, heap: &Heap) {
    contract::a_refused_growth_leaves_the_block_as_it_was(alloc, heap);
}

fn zero_size_requests_are_aligned_and_take_nothing(alloc: &Dyn<'_>, _: &Heap) {
    contract::zero_size_requests(alloc, |_| ());
}

fn zero_size_blocks_grow_and_others_shrink_to_zero(alloc: &Dyn<'_>, _: &Heap) {
    contract::zero_size_resizes(alloc, |_| ());
}

/// Fewer steps and smaller blocks than for heaps: a monotonic resource keeps all of them.
fn random_operations_never_overlap(alloc: &Dyn<'_>, _: &Heap) {
    contract::random_operations(alloc, scaled(40_000), 100_000, |_| ());
}

/// Foreign allocators promise no more than the trait asks: they may move a block that need not be.
#[test]
fn foreign_allocators_conform_behind_the_trait() {
    let unused = Heap::new();
    for alloc in [&Global as Dyn<'_>, &Counting::new(Global), &Pool::new(Global), &&Bump::new()] {
        any_length_between_the_one_asked_for_and_the_one_returned_frees(&alloc, &unused);
        a_refused_growth_leaves_the_block_as_it_was(&alloc, &unused);
        zero_size_requests_are_aligned_and_take_nothing(&alloc, &unused);
        zero_size_blocks_grow_and_others_shrink_to_zero(&alloc, &unused);
        resizing_may_change_the_alignment_either_way(&alloc, &unused);
        slack_is_never_taken_for_contents(&alloc, &unused);
        random_operations_never_overlap(&alloc, &unused);
    }
}

/// Every resource refuses by turns, in every function; what it refused to resize is as it was.
#[test]
fn refusals_at_every_request_leave_all_blocks_as_they_were() {
    let mut random = Random::for_test("refusals_at_every_request_leave_all_blocks_as_they_were");
    for every in 2..8 {
        let heap = Heap::new();
        {
            let failing = || Failing::new(&heap, FailWhen::EveryNth(every));
            let resources: [&dyn MemoryResource; 8] = [
                &failing(),
                &Counting::new(failing()),
                &Budget::new(failing(), 300_000),
                &Zeroizing::new(failing()),
                &Segregate::new(300, failing(), failing()),
                &Fallback::new(Failing::new(Heap::new(), FailWhen::EveryNth(3)), failing()),
                &Monotonic::new(Budget::new(failing(), 200_000)),
                &Pool::new(Budget::new(failing(), 200_000)),
            ];
            for resource in resources {
                some_refused_operations(&resource, &mut random);
            }
        }
        assert_eq!(heap.stats().live_blocks, 0);
    }
}

fn some_refused_operations(alloc: &Dyn<'_>, random: &mut Random) {
    let mut live: Vec<Held> = Vec::new();
    let mut refused = 0;
    for step in 0..1_000 {
        let wanted = layout(random.size(50_000), random.align().min(4096));
        let at = random.below(live.len().max(1));
        let result = match random.below(4) {
            0 => Held::new(alloc, wanted, step).map(|held| live.push(held)),
            1 => Held::zeroed(alloc, wanted, step).map(|held| live.push(held)),
            2 if !live.is_empty() => {
                let held = &mut live[at];
                match wanted.size() >= held.layout.size() {
                    true if random.one_in(2) => held.grow_zeroed(alloc, wanted),
                    true => held.grow(alloc, wanted),
                    false => held.shrink(alloc, wanted),
                }
            }
            _ if live.len() > 20 => {
                live.swap_remove(at).free(alloc);
                Ok(())
            }
            _ => Ok(()),
        };
        refused += usize::from(result.is_err());
        // A block that a failed resize gave up would be overwritten by the next.
        live.iter().for_each(Held::check);
    }
    assert!(refused > 0, "nothing was refused");
    assert_disjoint(live.iter().map(Held::region));
    live.into_iter().for_each(|held| held.free(alloc));
}
