//! Heaps on sources: all their memory comes from there and goes back, and refusals lose nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::mem::MaybeUninit;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{
    AllocatorSource, BufferHeap, CountingSource, Decay, FailingSource, FileSource, Heap,
    HeapBuilder, HugePageSource, Source, SystemSource,
};

use support::{Held, Random, assert_disjoint, run_to_the_end, scaled};

const MIB: usize = 1024 * 1024;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Where the tests' sources lie, which stay for good: a leak checker finds them by it.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn leaked<S: Source>(source: S) -> &'static CountingSource<S> {
    let source = Box::leak(Box::new(CountingSource::new(source)));
    KEPT.lock().unwrap().push((&raw const *source).addr());
    source
}

/// Random operations of every tier from three threads, resizes too.
fn work(heap: &Heap, name: &str) {
    let live = run_to_the_end((0..3).map(|thread| {
        move || {
            let mut random = Random::for_test(&format!("{name} {thread}"));
            let mut live: Vec<Held> = Vec::new();
            for step in 0..scaled(4_000) {
                let wanted = layout(random.size(3 * MIB), random.align());
                match random.below(5) {
                    0..=2 if live.len() < 40 => live.extend(Held::new(&heap, wanted, step as u64)),
                    3 if !live.is_empty() => {
                        let pick = random.below(live.len());
                        let to = layout(live[pick].layout.size() + random.size(MIB), 8);
                        let _ = live[pick].grow(&heap, to);
                    }
                    _ if !live.is_empty() => {
                        live.swap_remove(random.below(live.len())).free(&heap);
                    }
                    _ => {}
                }
            }
            live
        }
    }));
    assert_disjoint(live.iter().flatten().map(Held::region));
    live.into_iter().flatten().for_each(|held| held.free(&heap));
}

/// Works in heaps on `source` and checks that everything comes from it and goes back.
fn check<S: Source>(
    source: &'static CountingSource<S>,
    builder: impl Fn() -> HeapBuilder,
    name: &str,
) {
    for round in 0..3 {
        let mut heap = builder().name(name).build_in(source).unwrap();
        assert_eq!(source.mapped_bytes(), 4 * MIB, "the first region");
        let zeroed = Held::zeroed(&&heap, layout(5 * MIB, 64), round).unwrap();
        let small = Held::new(&&heap, layout(100, 8), round).unwrap();
        work(&heap, name);
        assert_eq!(heap.verify(), Ok(()));
        assert!(heap.owns(zeroed.block) && heap.owns(small.block));
        let held = heap.stats().regions * 4 * MIB + 5 * MIB;
        assert!(source.mapped_bytes() >= held, "{} of {held}", source.mapped_bytes());
        zeroed.free(&&heap);
        small.free(&&heap);
        heap.trim();
        assert_eq!(heap.verify(), Ok(()));
        heap.reset();
        work(&heap, name);
        drop(heap);
        assert_eq!((source.mapped_bytes(), source.maps()), (0, source.unmaps()));
    }
}

#[test]
fn a_heap_on_the_system_or_on_huge_pages_takes_and_gives_everything_there() {
    check(leaked(SystemSource), Heap::builder, "system");
    check(leaked(HugePageSource), Heap::builder, "huge pages");
    check(leaked(SystemSource), || Heap::builder().decay(Decay::Eager), "eager");
    check(leaked(SystemSource), || Heap::builder().thread_cache(false), "direct");
    let purging = leaked(SystemSource);
    check(purging, || Heap::builder().decay(Decay::Eager), "purging");
    assert!(purging.purges() > 0);
}

#[test]
fn a_heap_on_another_heap_is_part_of_it() {
    let outer = Heap::builder().name("outer").build().share();
    check(leaked(AllocatorSource(outer.clone())), Heap::builder, "inner");
    assert_eq!(outer.stats().live_bytes, 0);
}

#[test]
fn heaps_on_a_buffer_share_its_bytes_and_meet_its_end() {
    let memory: &'static mut [MaybeUninit<u8>] =
        Box::leak(Box::<[u8]>::new_uninit_slice(200 * MIB));
    let source = leaked(AllocatorSource(BufferHeap::new(memory).unwrap()));
    check(source, Heap::builder, "in a buffer");
    let heap = Heap::builder().build_in(source).unwrap();
    assert!(heap.allocate(layout(300 * MIB, 8)).is_err());
    let others: Vec<Heap> = (0..100).map_while(|_| Heap::builder().build_in(source).ok()).collect();
    assert!((40..50).contains(&others.len()), "{}", others.len());
    assert!(heap.stats().denied_by_system > 0);
    drop(others);
    Held::new(&&heap, layout(100 * MIB, 8), 1).unwrap().free(&&heap);
}

#[test]
fn a_heap_on_a_file_lies_in_it_and_leaves_holes() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("polyheap-file-source");
    let open = || File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let source = leaked(FileSource::new(open().unwrap()).unwrap());
    check(source, Heap::builder, "in a file");
    let heap = Heap::builder().build_in(source).unwrap();
    let text = heap.boxed(*b"found in the file by its contents");
    assert!(fs::metadata(&path).unwrap().len() >= 4 * MIB as u64);
    let contents = fs::read(&path).unwrap();
    assert!(contents.windows(text.len()).any(|window| window == *text), "shared with the file");
    fs::remove_file(&path).unwrap();
}

#[test]
fn refusals_at_every_request_lose_nothing() {
    let source: &'static FailingSource<SystemSource> =
        Box::leak(Box::new(FailingSource::new(SystemSource, 0)));
    let counted = leaked(Borrowed(source));
    assert!(Heap::builder().build_in(counted).is_err());
    for granted in 1..12 {
        source.grant(granted);
        let mut heap = Heap::builder().build_in(counted).unwrap();
        let sizes = [64, 3 * MIB, 600_000, 40_000, 9 * MIB, 1_700_000, 1_700_000, 20 * MIB];
        let mut live = Vec::new();
        let mut refused = 0;
        for (id, size) in sizes.into_iter().cycle().take(24).enumerate() {
            match Held::new(&&heap, layout(size, 8), id as u64) {
                Ok(held) => live.push(held),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0, "{granted}");
        assert_eq!(heap.verify(), Ok(()));
        source.grant(1_000);
        live.push(Held::new(&&heap, layout(9 * MIB, 8), 99).unwrap());
        live.into_iter().for_each(|held| held.free(&&heap));
        drop(heap);
        assert_eq!(counted.mapped_bytes(), 0);
    }
}

/// A source by reference.
struct Borrowed<S: Source + 'static>(&'static S);

// SAFETY: the promises are those of the source behind it.
unsafe impl<S: Source> Source for Borrowed<S> {
    fn map(&self, layout: Layout) -> Option<core::ptr::NonNull<u8>> {
        self.0.map(layout)
    }

    unsafe fn unmap(&self, start: core::ptr::NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.0.unmap(start, layout) };
    }

    unsafe fn purge(&self, start: core::ptr::NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.0.purge(start, bytes) }
    }
}

#[test]
fn alignments_above_a_region_are_refused_and_limits_hold() {
    let source = leaked(SystemSource);
    let heap = Heap::builder().max_bytes(16 * MIB).build_in(source).unwrap();
    assert!(heap.allocate(layout(100, 8 * MIB)).is_err());
    Held::new(&&heap, layout(100, 4 * MIB), 1).unwrap().free(&&heap);
    assert!(heap.allocate(layout(17 * MIB, 8)).is_err());
    assert!(heap.stats().denied_by_limit > 0);
}

/// Blocks never move between heaps with different sources: they stay where they are, for ever.
#[test]
fn blocks_stay_with_their_source_when_their_heap_is_leaked() {
    let (one, other) = (leaked(SystemSource), leaked(SystemSource));
    let parent = Heap::builder().build_in(one).unwrap();
    for source in [one, other] {
        let child = Heap::builder().build_in(source).unwrap();
        let held = Held::new(&&child, layout(1_000, 8), 7).unwrap();
        child.leak_into(&parent);
        held.check();
        assert_eq!(parent.owns(held.block), core::ptr::eq(source, one));
        if parent.owns(held.block) {
            held.free(&&parent);
        }
    }
    drop(parent);
    assert_eq!((one.mapped_bytes(), other.mapped_bytes()), (0, 4 * MIB));
}
