//! The ledger of unit tests: what the thread's regions have of their heaps, with the layouts.
//!
//! *Concurrency*: one a thread.
//!
//! *Neighbours*: `upstream` writes it; the tests below read it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::alloc::Layout;
use core::cell::RefCell;
use core::ptr::NonNull;
use std::collections::BTreeMap;

std::thread_local! {
    static TAKEN: RefCell<BTreeMap<usize, Layout>> = const { RefCell::new(BTreeMap::new()) };
}

/// Notes memory that was taken.
///
/// # Panics
/// When it is misaligned or overlaps other memory.
pub(crate) fn note_taken(start: NonNull<u8>, layout: Layout) {
    let first = start.addr().get();
    assert!(first.is_multiple_of(layout.align()), "{layout:?} at {first:x} is misaligned");
    TAKEN.with_borrow_mut(|taken| {
        if let Some((&at, below)) = taken.range(..first + layout.size()).next_back() {
            assert!(at + below.size() <= first, "{layout:?} at {first:x} overlaps {below:?}");
        }
        taken.insert(first, layout);
    });
}

/// Notes memory that is given back.
///
/// # Panics
/// When it was not taken, or with another layout.
pub(crate) fn note_given(start: NonNull<u8>, layout: Layout) {
    let known = TAKEN.with_borrow_mut(|taken| taken.remove(&start.addr().get()));
    assert_eq!(known, Some(layout), "given back at {start:?}");
}

fn taken_count() -> usize {
    TAKEN.with_borrow(BTreeMap::len)
}

mod tests {
    use core::alloc::Layout;

    use polyheap::Heap;
    use polyheap::allocator_api2::alloc::Allocator;

    use super::taken_count;
    use crate::{Region, RegionBuilder, scope};

    /// A seeded generator (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % limit as u64) as usize
        }

        fn layout(&mut self) -> Layout {
            let most = [1, 32, 300, 5000, 20_000, 200_000][self.below(6)];
            let size = 1 + self.below(most);
            Layout::from_size_align(size, 1 << self.below(13)).unwrap()
        }
    }

    fn builders() -> [RegionBuilder; 6] {
        let plain = Region::builder();
        // The last two reach their limits, one of them before a whole chunk is used.
        [
            plain,
            plain.secret(),
            plain.capacity_bytes(0x2000),
            plain.capacity_bytes(1),
            plain.max_bytes(150_000),
            plain.max_bytes(60_000).secret(),
        ]
    }

    #[test]
    fn scopes_resets_and_rewinds_in_any_order_give_back_what_they_took() {
        for (builder, seed) in builders().into_iter().zip(1..) {
            let (heap, mut random) = (Heap::new(), Random(0x9e37_79b9 + seed));
            let mut region = builder.build_in(&heap);
            let mut checkpoint = region.checkpoint();
            for _ in 0..4000 {
                match random.below(30) {
                    0 => region.reset(),
                    1 => checkpoint = region.checkpoint(),
                    // It may have been made stale meanwhile, which is refused.
                    2 => _ = region.try_rewind(checkpoint),
                    3 => region = builder.build_in(&heap),
                    4 => region.scope(|r| {
                        for _ in 0..9 {
                            let _ = r.try_alloc_layout(random.layout());
                        }
                        r.scope(|inner| inner.try_alloc_layout(random.layout()).is_ok());
                    }),
                    _ => _ = region.try_alloc_layout(random.layout()),
                }
            }
            assert!(taken_count() > 0 || region.stats().held_bytes == 0);
            drop(region);
            assert_eq!(taken_count(), 0, "{builder:?}");
        }
    }

    #[test]
    fn resized_blocks_are_given_back_as_they_became() {
        for (builder, seed) in builders().into_iter().zip(1..) {
            let (heap, mut random) = (Heap::new(), Random(0x5851_f42d + seed));
            let region = builder.build_in(&heap);
            let region = &region;
            let mut from = Layout::new::<u64>();
            let mut block = region.allocate(from).unwrap();
            for _ in 0..2000 {
                let to = random.layout();
                let resized = if to.size() >= from.size() {
                    // SAFETY: the block is live and was last resized to `from`; not smaller.
                    unsafe { region.grow(block.cast(), from, to) }
                } else {
                    // SAFETY: as above; smaller.
                    unsafe { region.shrink(block.cast(), from, to) }
                };
                if let Ok(resized) = resized {
                    (block, from) = (resized, to);
                }
            }
            // SAFETY: the block is live and was last resized to `from`.
            unsafe { region.deallocate(block.cast(), from) };
            assert!(taken_count() > 0);
        }
        assert_eq!(taken_count(), 0);
    }

    #[test]
    fn a_scope_takes_one_chunk_and_none_before_it_allocates() {
        let heap = Heap::new();
        for _ in 0..3 {
            scope(&heap, |r| {
                assert_eq!(taken_count(), 0);
                r.alloc(1u8);
                r.alloc([0u64; 100]);
                assert_eq!(taken_count(), 1);
                // An inner scope has the same chunk, a scope beside it one of its own.
                r.scope(|inner| *inner.alloc(1u8));
                assert_eq!(taken_count(), 1);
                scope(r.heap(), |beside| {
                    beside.alloc(1u8);
                    assert_eq!(taken_count(), 2);
                });
                assert_eq!(taken_count(), 1);
                // A large block and its descriptor.
                r.alloc_slice_fill_with(100_000, |_| 1u8);
                assert_eq!(taken_count(), 3);
            });
            assert_eq!(taken_count(), 0);
        }
    }
}
