//! polyheap as a subject, in its forms.
//!
//! | name | what |
//! |---|---|
//! | `polyheap` | one heap, by reference |
//! | `polyheap-nocache` | the same without thread caches |
//! | `polyheap-static` | a heap in a static, as a global allocator would hold it |
//! | `polyheap-heaps` | eight heaps at once, picked by block size |

use crate::subject::{Job, Subject};
use allocator_api2::alloc::Allocator;
use polyheap::Heap;
use std::alloc::Layout;
use std::array;
use std::ptr::{self, NonNull};

static HEAP: Heap = Heap::new();

/// Heaps of `polyheap-heaps`.
const HEAPS: usize = 8;

/// Does `job` with the form of polyheap called `name`.
///
/// # Panics
/// If there is none.
pub(crate) fn with_subject<J: Job>(name: &str, job: J) -> J::Output {
    match name {
        "polyheap" => job.run(&OneHeap(&Heap::new())),
        "polyheap-nocache" => job.run(&OneHeap(&Heap::builder().thread_cache(false).build())),
        "polyheap-static" => job.run(&StaticHeap),
        "polyheap-heaps" => job.run(&HeapsBySize(array::from_fn(|_| Heap::new()))),
        _ => panic!("no allocator {name}"),
    }
}

struct OneHeap<'a>(&'a Heap);
struct StaticHeap;
struct HeapsBySize([Heap; HEAPS]);

impl HeapsBySize {
    #[inline(always)]
    fn of(&self, layout: Layout) -> &Heap {
        &self.0[layout.size() / 16 % HEAPS]
    }
}

// SAFETY: the heap lives as long as the subject, and is an allocator.
unsafe impl Subject for OneHeap<'_> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        alloc(self.0, layout)
    }

    #[inline(always)]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { dealloc(self.0, start, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the callee's.
        unsafe { realloc(self.0, start, layout, new_size) }
    }

    fn trim(&self) -> bool {
        self.0.trim();
        true
    }
}

// SAFETY: the heap is a static, and an allocator.
unsafe impl Subject for StaticHeap {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        alloc(&HEAP, layout)
    }

    #[inline(always)]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { dealloc(&HEAP, start, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the callee's.
        unsafe { realloc(&HEAP, start, layout, new_size) }
    }

    fn trim(&self) -> bool {
        HEAP.trim();
        true
    }
}

// SAFETY: a block's layout names the one heap that made it.
unsafe impl Subject for HeapsBySize {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        alloc(self.of(layout), layout)
    }

    #[inline(always)]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's, and the same layout picked the heap at allocation.
        unsafe { dealloc(self.of(layout), start, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller gives a valid size, and the alignment is an old one's.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        if ptr::eq(self.of(layout), self.of(new)) {
            // SAFETY: the caller's promise is the callee's.
            return unsafe { realloc(self.of(layout), start, layout, new_size) };
        }
        let target = alloc(self.of(new), new);
        if !target.is_null() {
            // SAFETY: both blocks are live, distinct, and at least this long.
            unsafe { start.copy_to_nonoverlapping(target, layout.size().min(new_size)) };
            // SAFETY: the block is live and of this heap, and not used again.
            unsafe { dealloc(self.of(layout), start, layout) };
        }
        target
    }

    fn trim(&self) -> bool {
        self.0.iter().for_each(|heap| _ = heap.trim());
        true
    }
}

#[inline(always)]
pub(crate) fn alloc(heap: &Heap, layout: Layout) -> *mut u8 {
    match heap.allocate(layout) {
        Ok(block) => block.as_ptr().cast(),
        Err(_) => ptr::null_mut(),
    }
}

/// Frees a block.
///
/// # Safety
/// `start` is a live block of `heap`'s, allocated with `layout`.
#[inline(always)]
pub(crate) unsafe fn dealloc(heap: &Heap, start: *mut u8, layout: Layout) {
    // SAFETY: a live block's address is not null.
    let start = unsafe { NonNull::new_unchecked(start) };
    // SAFETY: the caller's promise is the callee's.
    unsafe { heap.deallocate(start, layout) }
}

/// Resizes a block.
///
/// # Safety
/// As for [`Subject::realloc`].
#[inline(always)]
unsafe fn realloc(heap: &Heap, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    // SAFETY: a live block's address is not null.
    let start = unsafe { NonNull::new_unchecked(start) };
    // SAFETY: the caller gives a valid size, and the alignment is an old one's.
    let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
    let resized = if new_size >= layout.size() {
        // SAFETY: the block is live and of this layout, and the new one is no smaller.
        unsafe { heap.grow(start, layout, new) }
    } else {
        // SAFETY: the block is live and of this layout, and the new one is smaller.
        unsafe { heap.shrink(start, layout, new) }
    };
    resized.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
}
