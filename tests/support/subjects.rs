//! The allocators every suite runs over.

/// Makes a test of each suite for each allocator the crate ships and each option that changes a
/// path: `for_each_allocator!(suite, ...)`, where a suite is
/// `fn suite<A: Allocator>(alloc: &A, heap: &Heap)` and `heap` is what `alloc` allocates from.
///
/// At the end of each test the heap must have nothing live.
macro_rules! for_each_allocator {
    ($($suite:ident),+ $(,)?) => {
        for_each_allocator! { @heap heap_by_reference: polyheap::Heap::new(); $($suite)+ }
        for_each_allocator! {
            @heap heap_without_thread_caches:
            polyheap::Heap::builder().name("direct").thread_cache(false).build(); $($suite)+
        }
        for_each_allocator! {
            @heap heap_without_spare_magazines:
            polyheap::Heap::builder().thread_cache_bytes(0).build(); $($suite)+
        }

        mod shared_handle {
            $(#[test]
            fn $suite() {
                let shared = polyheap::Heap::new().share();
                super::$suite(&shared, &shared);
                $crate::support::for_each_allocator!(@end shared);
            })+
        }

        mod shared_handle_by_reference {
            $(#[test]
            fn $suite() {
                let shared = polyheap::Heap::new().share();
                super::$suite(&&shared, &shared);
                $crate::support::for_each_allocator!(@end shared);
            })+
        }

        mod static_heap {
            $(#[test]
            fn $suite() {
                static HEAP: polyheap::Heap = polyheap::Heap::builder().name("static").build();
                super::$suite(&&HEAP, &HEAP);
                $crate::support::for_each_allocator!(@end HEAP);
            })+
        }
    };

    (@heap $name:ident: $heap:expr; $($suite:ident)+) => {
        mod $name {
            $(#[test]
            fn $suite() {
                let mut heap = $heap;
                super::$suite(&&heap, &heap);
                $crate::support::for_each_allocator!(@end heap);
                assert_eq!(heap.verify(), Ok(()));
            })+
        }
    };

    (@end $heap:expr) => {
        let stats = $heap.stats();
        assert_eq!((stats.live_blocks, stats.live_bytes, stats.mappings), (0, 0, 0), "{stats}");
    };
}

pub(crate) use for_each_allocator;
