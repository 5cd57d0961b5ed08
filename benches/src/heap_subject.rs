//! Heap subjects: heap instances, which are made, used and dropped as a whole.
//!
//! mimalloc's heaps can be used by any thread since version 3, rusty_alloc's by the thread that made them, dlmalloc's
//! by one thread at a time; the arenas have no per-block free. The workloads here are single-threaded.

use crate::ours;
use bumpalo::Bump;
use libmimalloc_sys as mi;
use polyheap::Heap;
use std::alloc::Layout;
use std::ptr::{self, NonNull};

/// Heap instances with per-block free.
pub(crate) const HEAPS: &[&str] =
    &["polyheap", "polyheap-nocache", "mimalloc-heap", "rusty_alloc-heap", "dlmalloc-heap"];

/// Arenas: `bumpalo` is made and dropped every cycle, `bumpalo-reset` kept and reset.
pub(crate) const ARENAS: &[&str] = &["bumpalo", "bumpalo-reset"];

/// Heap instance; dropping it frees all its blocks.
pub(crate) trait HeapSubject: Sized {
    fn create() -> Self;

    /// Allocates a block, or returns null; the size is not zero.
    fn alloc(&mut self, layout: Layout) -> *mut u8;

    /// Frees a block; an arena does nothing.
    ///
    /// # Safety
    /// 1. `start` is a live block of this heap's, allocated with `layout`.
    unsafe fn dealloc(&mut self, start: *mut u8, layout: Layout);
}

/// Something to do with heaps, whichever they are.
pub(crate) trait HeapJob {
    type Output;
    fn run<H: HeapSubject>(self) -> Self::Output;
}

/// Does `job` with the heaps called `name`; `None` if there are none of that name.
pub(crate) fn with_heap<J: HeapJob>(name: &str, job: J) -> Option<J::Output> {
    Some(match name {
        "polyheap" => job.run::<Heap>(),
        "polyheap-nocache" => job.run::<NoCache>(),
        "mimalloc-heap" => job.run::<MimallocHeap>(),
        "rusty_alloc-heap" => job.run::<rusty_alloc_api::Heap>(),
        "dlmalloc-heap" => job.run::<DlmallocHeap>(),
        "bumpalo" => job.run::<Bump>(),
        _ => return None,
    })
}

impl HeapSubject for Heap {
    #[inline(always)]
    fn create() -> Heap {
        Heap::new()
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        ours::alloc(self, layout)
    }

    #[inline(always)]
    unsafe fn dealloc(&mut self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { ours::dealloc(self, start, layout) }
    }
}

/// polyheap without thread caches.
struct NoCache(Heap);

impl HeapSubject for NoCache {
    #[inline(always)]
    fn create() -> NoCache {
        NoCache(Heap::builder().thread_cache(false).build())
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        ours::alloc(&self.0, layout)
    }

    #[inline(always)]
    unsafe fn dealloc(&mut self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { ours::dealloc(&self.0, start, layout) }
    }
}

/// mimalloc's first-class heap.
struct MimallocHeap(*mut mi::mi_heap_t);

impl HeapSubject for MimallocHeap {
    #[inline(always)]
    fn create() -> MimallocHeap {
        // SAFETY: no precondition.
        MimallocHeap(unsafe { mi::mi_heap_new() })
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: the heap is live until drop; its blocks are aligned to 8 at least, as all of the harness's are.
        unsafe { mi::mi_heap_malloc(self.0, layout.size()).cast() }
    }

    #[inline(always)]
    unsafe fn dealloc(&mut self, start: *mut u8, _: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { mi::mi_free(start.cast()) }
    }
}

impl Drop for MimallocHeap {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the heap is live, and neither it nor its blocks are used again.
        unsafe { mi::mi_heap_destroy(self.0) }
    }
}

impl HeapSubject for rusty_alloc_api::Heap {
    #[inline(always)]
    fn create() -> Self {
        Self::new_destroyable()
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        Self::alloc(self, layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn dealloc(&mut self, start: *mut u8, _: Layout) {
        // SAFETY: a live block's address is not null.
        let start = unsafe { NonNull::new_unchecked(start) };
        // SAFETY: the caller's promise is the callee's.
        unsafe { Self::dealloc(self, start) }
    }
}

/// dlmalloc's instance over the system's mappings.
struct DlmallocHeap(Option<dlmalloc::Dlmalloc>);

impl HeapSubject for DlmallocHeap {
    #[inline(always)]
    fn create() -> DlmallocHeap {
        DlmallocHeap(Some(dlmalloc::Dlmalloc::new()))
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        let Some(heap) = &mut self.0 else { return ptr::null_mut() };
        // SAFETY: no precondition beyond a valid alignment.
        unsafe { heap.malloc(layout.size(), layout.align()) }
    }

    #[inline(always)]
    unsafe fn dealloc(&mut self, start: *mut u8, layout: Layout) {
        let Some(heap) = &mut self.0 else { return };
        // SAFETY: the caller's promise is the callee's.
        unsafe { heap.free(start, layout.size(), layout.align()) }
    }
}

impl Drop for DlmallocHeap {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(heap) = self.0.take() {
            // SAFETY: none of the heap's blocks is used again.
            unsafe { heap.destroy() };
        }
    }
}

impl HeapSubject for Bump {
    #[inline(always)]
    fn create() -> Bump {
        Bump::new()
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        self.alloc_layout(layout).as_ptr()
    }

    #[inline(always)]
    unsafe fn dealloc(&mut self, _: *mut u8, _: Layout) {}
}
