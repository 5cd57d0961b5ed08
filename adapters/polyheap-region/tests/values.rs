//! Values, slices, text, closures that fail or panic, iterators that lie.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use polyheap::Heap;
use polyheap_region::{self as region, AllocOrInitError, Region};

use support::assert_empty;

#[test]
fn values_of_every_kind_keep_their_contents() {
    let mut heap = Heap::new();
    let region = Region::new_in(&heap);
    let number = region.alloc(7u64);
    let made = region.alloc_with(|| [1u16, 2, 3]);
    let copied = region.alloc_slice_copy(&[1u8, 2, 3]);
    let cloned = region.alloc_slice_clone(&[String::from("a"), String::from("b")]);
    let filled = region.alloc_slice_fill_with(5, |place| place * place);
    let collected = region.alloc_slice_from_iter((0..1000).filter(|number| number % 3 == 0));
    let text = region.alloc_str("größer");
    let formatted = region.alloc_fmt(format_args!("{text}: {number} {copied:?}"));
    *number += 1;
    text.make_ascii_uppercase();
    assert_eq!((*number, *made, &*copied), (8, [1, 2, 3], &[1u8, 2, 3][..]));
    assert_eq!((cloned[0].as_str(), cloned[1].as_str()), ("a", "b"));
    assert_eq!(filled, [0, 1, 4, 9, 16]);
    assert_eq!(collected.len(), 334);
    assert!(collected.iter().enumerate().all(|(place, &number)| number == 3 * place));
    assert_eq!((&*text, &*formatted), ("GRößER", "größer: 7 [1, 2, 3]"));
    // The region does not drop the strings, so their buffers must be dropped by hand.
    cloned.iter_mut().for_each(|text| drop(std::mem::take(text)));
    drop(region);
    assert_empty(&mut heap);
}

#[test]
fn values_of_no_size_take_nothing() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    #[derive(Clone, Copy)]
    #[repr(align(256))]
    struct Aligned;
    region.alloc(());
    assert_eq!(&raw mut *region.alloc(Aligned) as usize % 256, 0);
    assert_eq!(region.alloc_slice_from_iter((0..77).map(|_| ())).len(), 77);
    assert_eq!(region.alloc_slice_fill_with(9, |_| Aligned).len(), 9);
    assert_eq!(region.alloc_slice_copy::<u64>(&[]).len(), 0);
    assert_eq!(region.alloc_str(""), "");
    assert_eq!(region.alloc_fmt(format_args!("")), "");
    assert_eq!(region.alloc_slice_from_iter(std::iter::empty::<u32>()).len(), 0);
    assert_eq!(region.stats(), polyheap_region::RegionStats::default());
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn the_first_chunk_is_taken_by_the_first_allocation() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    assert_eq!(heap.stats().live_blocks, 0);
    region.alloc(1u8);
    assert_eq!(heap.stats().live_bytes, Region::CHUNK_BYTES_FIRST);
    let large = Region::with_capacity_in(1 << 20, &heap);
    let before = large.stats();
    large.alloc_slice_fill_with(1 << 20, |_| 1u8);
    assert_eq!((large.stats().chunks, before.chunks), (1, 1));
}

#[test]
fn values_of_any_size_fill_a_chunk_to_its_last_byte() {
    fn fill<T: Copy + PartialEq>(heap: &Heap, value: T) {
        let region = Region::new_in(heap);
        let first = region.alloc(value);
        let stats = region.stats();
        let free_bytes = stats.held_bytes - stats.used_bytes - stats.wasted_bytes;
        let step_bytes = stats.used_bytes;
        let others: Vec<_> = (0..free_bytes / step_bytes).map(|_| region.alloc(value)).collect();
        assert_eq!(region.stats().chunks, 1, "{step_bytes} bytes each");
        let last = &raw const **others.last().unwrap() as usize;
        assert!(last - &raw const *first as usize == others.len() * step_bytes);
        region.alloc(value);
        assert_eq!(region.stats().chunks, 2);
        assert!(*first == value && others.iter().all(|other| **other == value));
    }
    let mut heap = Heap::new();
    fill(&heap, 1u8);
    fill(&heap, [2u64; 2]);
    fill(&heap, [3u8; 44]);
    // Around the size up to which values have a way of their own.
    fill(&heap, [4u8; 4087]);
    fill(&heap, [5u8; 4088]);
    fill(&heap, [6u8; 4089]);
    fill(&heap, [7u64; 512]);
    assert_empty(&mut heap);
}

#[test]
fn a_failing_closure_gives_its_room_back() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    region.alloc(1u64);
    let before = region.stats();
    for _ in 0..1000 {
        assert_eq!(region.alloc_try_with(|| Err::<[u64; 100], _>("no")), Err("no"));
        let failed = region.try_alloc_slice_try_fill_with(10, |place| match place {
            9 => Err("late"),
            _ => Ok([0u64; 10]),
        });
        assert_eq!(failed, Err(AllocOrInitError::Init("late")));
    }
    assert_eq!(region.stats(), before);
    assert_eq!(region.alloc_try_with(|| Ok::<_, ()>(5)), Ok(&mut 5));
}

#[test]
fn a_failing_closure_may_return_what_it_allocated() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let error = region.alloc_try_with(|| Err::<[u64; 4], _>(region.alloc_str("kept"))).unwrap_err();
    let large = region
        .alloc_try_with(|| Err::<u64, _>(region.alloc_slice_fill_with(100_000, |_| 3u8)))
        .unwrap_err();
    let next = region.alloc([0xffu8; 4096]);
    assert_eq!((&*error, next[0]), ("kept", 0xff));
    assert!(large.iter().all(|&byte| byte == 3));
}

#[test]
fn closures_may_allocate_in_the_same_region() {
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    let pair = region.alloc_with(|| (region.alloc(1u8), region.alloc_str("inner")));
    // Each item lies behind the list, which therefore moves when it grows.
    let items = region.alloc_slice_from_iter((0..500usize).map(|number| region.alloc(number)));
    let rows = region.alloc_slice_fill_with(100, |row| {
        region.alloc_slice_fill_with(row, |column| region.alloc(row * column))
    });
    assert_eq!((&*pair.0, &*pair.1), (&1, "inner"));
    assert!(items.iter().enumerate().all(|(place, number)| place == **number));
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row.len(), number);
        assert!(row.iter().enumerate().all(|(place, item)| **item == number * place));
    }
}

#[test]
fn a_panic_in_a_closure_leaves_the_region_usable() {
    let mut heap = Heap::new();
    let dropped = Rc::new(());
    region::scope(&heap, |r| {
        let first = r.alloc(1u32);
        for kind in 0..4 {
            let r = AssertUnwindSafe(&*r);
            let panicked = catch_unwind(|| {
                let item = |place: usize| match place {
                    50 => panic!("in the middle"),
                    _ => (r.alloc([place; 30])[0], dropped.clone()),
                };
                match kind {
                    0 => drop(r.alloc_with(|| item(50)).0),
                    1 => drop(r.alloc_slice_fill_with(100, item)[0].0),
                    2 => drop(r.alloc_slice_from_iter((0..100).map(item))[0].0),
                    _ => drop(r.alloc_slice_try_fill_with(100, |n| Ok::<_, ()>(item(n))).is_ok()),
                }
            });
            assert!(panicked.is_err());
            assert_eq!(Rc::strong_count(&dropped), 1, "items made were not dropped");
            let after = r.alloc_slice_fill_with(100, |place| place);
            assert!(after.iter().enumerate().all(|(place, &item)| place == item));
        }
        assert_eq!(*first, 1);
    });
    assert_empty(&mut heap);
}

/// An iterator that says it has `hint` items and has `len`.
struct Liar {
    hint: (usize, Option<usize>),
    len: usize,
}

impl Iterator for Liar {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.len as u32)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.hint
    }
}

impl ExactSizeIterator for Liar {
    fn len(&self) -> usize {
        self.hint.0
    }
}

#[test]
fn iterators_may_lie_about_their_length() {
    let mut heap = Heap::new();
    region::scope(&heap, |r| {
        for hint in [0, 1, 10, 99, 101, 5000, 1 << 20, usize::MAX / 4, usize::MAX] {
            for len in [0, 1, 100, 20_000] {
                let items = r.alloc_slice_from_iter(Liar { hint: (hint, Some(hint)), len });
                let next = r.alloc(0xffff_ffffu32);
                assert_eq!(items.len(), len);
                assert!(items.iter().rev().enumerate().all(|(place, &item)| place as u32 == item));
                assert_eq!(*next, 0xffff_ffff);
            }
        }
    });
    assert_empty(&mut heap);
    // What a liar did not use is given back.
    let region = Region::new_in(&heap);
    region.alloc_slice_from_iter(Liar { hint: (3000, None), len: 2 });
    assert_eq!(region.stats().used_bytes, 8);
}

#[test]
fn a_failing_display_is_an_error_and_frees_its_text() {
    struct Failing;
    impl fmt::Display for Failing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            Err(fmt::Error)
        }
    }
    let heap = Heap::new();
    let region = Region::new_in(&heap);
    assert!(region.try_alloc_fmt(format_args!("{Failing}")).is_err());
    assert_eq!(region.stats().used_bytes, 0);
    let long = region.alloc_fmt(format_args!("{:>50000}", 1));
    assert_eq!((long.len(), long.trim_start()), (50_000, "1"));
}

#[test]
fn boxes_drop_their_values_and_plain_values_are_not_dropped() {
    struct Counted<'a>(&'a Cell<usize>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let (heap, drops) = (Heap::new(), Cell::new(0));
    region::scope(&heap, |r| {
        r.alloc(Counted(&drops));
        drop(r.alloc_box(Counted(&drops)));
        assert_eq!(drops.get(), 1);
        let kept = region::RegionBox::into_inner(r.alloc_box(Counted(&drops)));
        region::RegionBox::leak(r.alloc_box(Counted(&drops)));
        assert_eq!(drops.get(), 1);
        let _until_the_end = (kept, r.alloc_box(Counted(&drops)));
    });
    assert_eq!(drops.get(), 3);
}

#[test]
#[should_panic(expected = "the region has no memory, or its limit is reached")]
fn methods_without_try_panic_as_documented() {
    let heap = Heap::new();
    Region::builder().max_bytes(100).build_in(&heap).alloc([0u8; 104]);
}

#[test]
fn values_may_refer_to_what_lives_around_their_scope() {
    struct Node<'v> {
        name: &'v str,
        above: Option<&'v Node<'v>>,
    }
    let heap = Heap::new();
    let outside = String::from("outside");
    let depth = region::scope(&heap, |r| {
        let local = String::from("local");
        let first = &*r.alloc(Node { name: &outside, above: None });
        let second = &*r.alloc(Node { name: r.alloc_str("second"), above: Some(first) });
        r.scope(|inner| {
            let third = &*inner.alloc(Node { name: &local, above: Some(second) });
            let fourth = &*inner.alloc(Node { name: inner.alloc_str("4"), above: Some(third) });
            // A scope beside: both stay usable.
            region::scope(inner.heap(), |beside| {
                let fifth =
                    &*beside.alloc(Node { name: inner.alloc_str("5"), above: Some(fourth) });
                let names: Vec<&str> =
                    std::iter::successors(Some(fifth), |node| node.above).map(|n| n.name).collect();
                assert_eq!(names, ["5", "4", "local", "second", "outside"]);
                names.len()
            })
        })
    });
    assert_eq!((depth, heap.stats().live_blocks), (5, 0));
}
