//! The ends of heaps: dropped, reset, closed, merged, shared to the last handle.

use std::sync::mpsc;
use std::thread;

use polyheap::allocator_api2::alloc::Allocator;
use polyheap::allocator_api2::boxed::Box;
use polyheap::{Heap, HeapError};

use crate::support::{
    Held, alone, assert_disjoint, current_address_space_bytes, current_resident_bytes,
    minor_faults, run_to_the_end,
};
use crate::{LIMIT, NOISE_BYTES, bytes};

/// Sizes of every tier.
const SIZES: [usize; 6] = [24, 500, 9_000, 32_768, 150_000, 3_000_000];

fn held_of_every_tier(heap: &Heap) -> Vec<Held> {
    let sizes = SIZES.into_iter().cycle().take(60);
    sizes.zip(0..).map(|(size, id)| Held::new(&heap, bytes(size), id).unwrap()).collect()
}

#[test]
fn a_dropped_heap_gives_everything_back() {
    alone("ends::a_dropped_heap_gives_everything_back", LIMIT, || {
        // The first heaps fill the cache of warm regions.
        let fill_and_drop = || {
            let heap = Heap::new();
            for id in 0..100 {
                Held::new(&&heap, bytes(1_000_000), id).unwrap();
                Held::new(&&heap, bytes(3_000_000), id).unwrap();
            }
            (0..50_000).for_each(|id| {
                Held::new(&&heap, bytes(700), id).unwrap();
            });
            assert!(heap.stats().live_bytes > 400_000_000);
        };
        fill_and_drop();
        let (resident, mapped) = (current_resident_bytes(), current_address_space_bytes());
        (0..5).for_each(|_| fill_and_drop());
        assert!(current_resident_bytes() <= resident + NOISE_BYTES);
        assert!(current_address_space_bytes() <= mapped + NOISE_BYTES);
        assert!(resident < 100 << 20, "a dropped heap still holds {resident} bytes");
    });
}

#[test]
fn a_heap_may_be_dropped_by_a_thread_that_never_used_it() {
    let heap = Heap::new();
    held_of_every_tier(&heap).iter().for_each(Held::check);
    let id = heap.id().unwrap();
    thread::spawn(move || drop(heap)).join().unwrap();
    assert!(polyheap::heaps().all(|summary| summary.id != id));
    // The slot and its entry in this thread's table are free for the next.
    let next = Heap::new();
    assert_disjoint(held_of_every_tier(&next).iter().map(Held::region));
}

#[test]
fn a_heap_may_be_dropped_while_threads_that_used_it_sleep() {
    let shared = Heap::new().share();
    let (finished, all_finished) = mpsc::channel();
    let mut wakers = Vec::new();
    let sleepers: Vec<_> = (0..4)
        .map(|_| {
            let (waker, sleeper) = mpsc::channel::<Heap>();
            let (heap, finished) = (shared.clone(), finished.clone());
            wakers.push(waker);
            thread::spawn(move || {
                let held = held_of_every_tier(&heap);
                held.into_iter().take(30).for_each(|held| held.free(&&*heap));
                drop(heap);
                finished.send(()).unwrap();
                let next = sleeper.recv().unwrap();
                held_of_every_tier(&next).into_iter().for_each(|held| held.free(&&next));
                next
            })
        })
        .collect();
    (0..4).for_each(|_| all_finished.recv().unwrap());
    let heap = shared.try_unshare().unwrap();
    assert_eq!(heap.stats().threads, 4);
    drop(heap);
    for (waker, sleeper) in wakers.into_iter().zip(sleepers) {
        waker.send(Heap::new()).unwrap();
        let mut next = sleeper.join().unwrap();
        assert_eq!((next.verify(), next.stats().live_blocks), (Ok(()), 0));
    }
}

#[test]
fn heap_numbers_are_never_used_again() {
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3_000 {
        let heap = Heap::new();
        assert!(seen.insert(heap.id().unwrap()));
    }
}

#[test]
fn a_reset_heap_is_empty_and_keeps_its_memory_warm() {
    alone("ends::a_reset_heap_is_empty_and_keeps_its_memory_warm", LIMIT, || {
        let mut heap = Heap::new();
        let fill = |heap: &Heap| {
            for id in 0..20_000 {
                Held::new(&heap, bytes(500), id).unwrap();
            }
            (0..20).for_each(|id| {
                Held::new(&heap, bytes(200_000), id).unwrap();
            });
        };
        fill(&heap);
        heap.reset();
        fill(&heap);
        let (faults, mapped) = (minor_faults(), current_address_space_bytes());
        for _ in 0..10 {
            heap.reset();
            assert_eq!((heap.stats().live_blocks, heap.stats().live_bytes), (0, 0));
            fill(&heap);
        }
        assert!(minor_faults() <= faults + 50, "a reset must not drop the contents");
        assert!(current_address_space_bytes() <= mapped + NOISE_BYTES);
        assert_eq!(heap.verify(), Ok(()));
    });
}

#[test]
fn a_reset_while_bound_threads_sleep_leaves_them_nothing_stale() {
    let name = "ends::a_reset_while_bound_threads_sleep_leaves_them_nothing_stale";
    alone(name, LIMIT, reset_between_rounds);
}

fn reset_between_rounds() {
    let mut heap = Heap::new();
    let shared = std::sync::RwLock::new(&mut heap);
    let gathering = std::sync::Barrier::new(4);
    let use_twice = || {
        for _ in 0..20 {
            {
                let heap = shared.read().unwrap();
                let held = held_of_every_tier(&heap);
                assert_disjoint(held.iter().map(Held::region));
                // Caches are full of free blocks when the heap is reset.
                held.into_iter().skip(10).for_each(|held| held.free(&&**heap));
            }
            gathering.wait();
            gathering.wait();
        }
    };
    thread::scope(|scope| {
        (0..3).for_each(|_| {
            scope.spawn(use_twice);
        });
        for _ in 0..20 {
            gathering.wait();
            let mut heap = shared.write().unwrap();
            assert_eq!(heap.stats().live_blocks, 30);
            heap.reset();
            assert_eq!((heap.stats().live_blocks, heap.verify()), (0, Ok(())));
            drop(heap);
            gathering.wait();
        }
    });
}

#[test]
fn a_closed_heap_reports_what_was_not_freed() {
    let heap = Heap::builder().name("leaky").build();
    let held = held_of_every_tier(&heap);
    let bytes_live: usize = held.iter().map(|held| held.usable).sum();
    let addresses: Vec<usize> = held.iter().map(Held::address).collect();
    let report = heap.close();
    assert_eq!((report.blocks, report.bytes, report.is_clean()), (60, bytes_live, false));
    assert!(report.first_addresses().all(|address| addresses.contains(&address)));
    assert_eq!(report.first_addresses().count(), 8);
    let classes: Vec<(usize, usize)> =
        report.classes().map(|class| (class.block_bytes, class.blocks)).collect();
    assert_eq!(classes, [(32, 10), (512, 10), (10_240, 10), (32_768, 10)]);
    let text = report.to_string();
    assert!(text.contains("60 blocks") && text.contains("10 x 512 B"), "{text}");
}

#[test]
fn a_heap_closed_with_full_caches_or_never_used_is_clean() {
    assert!(Heap::new().close().is_clean());
    let heap = Heap::new();
    held_of_every_tier(&heap).into_iter().for_each(|held| held.free(&&heap));
    let cache = || held_of_every_tier(&heap).into_iter().for_each(|held| held.free(&&heap));
    run_to_the_end([cache, cache]);
    assert!(heap.close().is_clean());
}

#[test]
fn blocks_leaked_into_a_parent_are_freed_there() {
    let mut parent = Heap::new();
    let child = Heap::new();
    let mut held = held_of_every_tier(&child);
    let half = |held: &mut Vec<Held>| held.drain(..30).collect::<Vec<_>>();
    half(&mut held).into_iter().for_each(|held| held.free(&&child));
    let kept = held_of_every_tier(&parent);
    child.leak_into(&parent);
    assert_eq!(parent.verify(), Ok(()));
    assert_eq!(parent.stats().live_blocks, 30 + 60);
    let more = held_of_every_tier(&parent);
    assert_disjoint(held.iter().chain(&kept).chain(&more).map(Held::region));
    for held in held.iter() {
        assert!(parent.owns(held.block));
        assert_eq!(parent.usable_size(held.block), Some(held.usable));
        assert_eq!(polyheap::heap_of(held.block), parent.id().ok());
    }
    let free_there = || held.into_iter().for_each(|held| held.free(&&parent));
    run_to_the_end([free_there]);
    kept.into_iter().chain(more).for_each(|held| held.free(&&parent));
    assert_eq!((parent.verify(), parent.stats().live_blocks), (Ok(()), 0));
    assert!(parent.close().is_clean());
}

#[test]
fn many_children_merge_while_the_parent_is_in_use() {
    let mut parent = Heap::new();
    let merge = || {
        let mut taken = Vec::new();
        for _ in 0..20 {
            let child = Heap::new();
            taken.extend(held_of_every_tier(&child));
            child.leak_into(&parent);
        }
        taken.iter().for_each(Held::check);
        taken.into_iter().for_each(|held| held.free(&&parent));
    };
    let work = || {
        for _ in 0..40 {
            held_of_every_tier(&parent).into_iter().for_each(|held| held.free(&&parent));
        }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(merge), scope.spawn(merge), scope.spawn(work)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!((parent.verify(), parent.stats().live_blocks), (Ok(()), 0));
}

#[test]
fn a_child_whose_threads_sleep_merges_and_they_go_on_elsewhere() {
    let (parent, child) = (Heap::new(), Heap::new());
    let (bound, merged) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    let child_block = thread::scope(|scope| {
        let child_ref = &child;
        let held =
            scope.spawn(move || Held::new(&child_ref, bytes(48), 1).unwrap()).join().unwrap();
        held.check();
        held
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            // Bound to the parent, and to a heap that is merged while this thread sleeps.
            Held::new(&&parent, bytes(48), 2).unwrap().free(&&parent);
            bound.wait();
            merged.wait();
            held_of_every_tier(&parent).into_iter().for_each(|held| held.free(&&parent));
        });
        bound.wait();
        child.leak_into(&parent);
        merged.wait();
    });
    child_block.free(&&parent);
    assert_eq!(parent.stats().live_blocks, 0);
}

#[test]
fn an_unused_child_merges_and_an_unused_parent_takes_over() {
    let parent = Heap::new();
    Heap::new().leak_into(&parent);
    assert_eq!(parent.stats().live_blocks, 0);
    let child = Heap::new();
    let raw = Box::into_raw(child.boxed(7u64));
    child.leak_into(&parent);
    // SAFETY: the block is the parent's now and nothing else refers to it.
    let boxed = unsafe { Box::from_raw_in(raw, &parent) };
    assert_eq!((*boxed, parent.stats().live_blocks), (7, 1));
}

#[test]
fn the_last_shared_handle_drops_the_heap() {
    let shared = Heap::builder().name("shared").build().share();
    let id = shared.id().unwrap();
    let is_listed = || polyheap::heaps().any(|summary| summary.id == id);
    let handles: Vec<_> = (0..10).map(|_| shared.clone()).collect();
    assert_eq!((shared.handle_count(), shared.name(), is_listed()), (11, "shared", true));
    drop(shared);
    let ends = handles.into_iter().map(|handle| {
        move || {
            held_of_every_tier(&handle).into_iter().skip(3).for_each(|held| held.free(&handle));
        }
    });
    run_to_the_end(ends);
    assert!(!is_listed());
}

#[test]
fn a_shared_heap_can_be_had_back_by_its_only_handle() {
    let shared = Heap::new().share();
    let held = Held::new(&shared, bytes(100), 1).unwrap();
    let other = shared.clone();
    let shared = shared.try_unshare().expect_err("another handle exists");
    drop(other);
    let mut heap = shared.try_unshare().expect("the only handle");
    held.free(&&heap);
    heap.reset();
    assert_eq!(heap.verify(), Ok(()));
    // And shared again.
    let shared = heap.share();
    assert!(shared.allocate(bytes(10)).is_ok());
}

#[test]
fn errors_say_what_is_wrong() {
    let texts = [
        HeapError::OutOfMemory { requested_bytes: 4096 }.to_string(),
        HeapError::TooManyHeaps.to_string(),
        HeapError::AlignmentTooLarge { requested_bytes: 1 << 40 }.to_string(),
    ];
    assert!(texts[0].contains("4096") && texts[1].contains("65536"));
    assert!(texts[2].contains("1099511627776"));
}

#[test]
fn moving_a_heap_moves_no_block() {
    let heap = Heap::new();
    let held = held_of_every_tier(&heap);
    let boxed = std::boxed::Box::new(heap);
    let mut moved = Some(*boxed);
    let heap = moved.take().unwrap();
    held.into_iter().for_each(|held| held.free(&&heap));
    assert_eq!(heap.stats().live_blocks, 0);
}
