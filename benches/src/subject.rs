//! Subjects: the allocators under test, called as a global allocator is.
//!
//! Workloads are generic over [`Subject`], so every allocator is called as its `GlobalAlloc` would be: inlined as far as
//! it lets itself be, an external call for the C ones. [`with_subject`] makes the one subject of this process.

use crate::{ours, trims};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;

/// The empty loop: always the same block.
pub(crate) const NULL: &str = "null";

/// Forms of polyheap that take part in every workload.
pub(crate) const OURS: &[&str] = &["polyheap", "polyheap-nocache", "polyheap-static"];

/// Forms of polyheap that only mixed sizes make sense of.
pub(crate) const OURS_BY_SIZE: &[&str] = &["polyheap-heaps"];

/// The other allocators.
pub(crate) const PEERS: &[&str] = &[
    "mimalloc",
    "snmalloc",
    "jemalloc",
    "rpmalloc",
    "rusty_alloc",
    "rallocator",
    "sefer",
    "dlmalloc",
    "glibc",
];

/// Allocator under test.
///
/// # Safety
/// As for [`GlobalAlloc`]: blocks are disjoint, as large and aligned as asked for, and live until freed.
pub(crate) unsafe trait Subject: Sync {
    /// Allocates a block, or returns null.
    ///
    /// # Safety
    /// 1. `layout` has a size that is not zero.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8;

    /// Frees a block.
    ///
    /// # Safety
    /// 1. `start` is a live block of this subject's, allocated with `layout`.
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout);

    /// Resizes a block and keeps its contents, or returns null and leaves it.
    ///
    /// # Safety
    /// 1. `start` is a live block of this subject's, allocated with `layout`.
    /// 2. `new_size` is not zero.
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8;

    /// Gives back to the system what is free, where there is a call for that; returns whether there is one.
    fn trim(&self) -> bool {
        false
    }
}

/// Something to do with a subject, whichever it is.
pub(crate) trait Job {
    type Output;
    fn run<S: Subject>(self, subject: &S) -> Self::Output;
}

/// Does `job` with the subject called `name`.
///
/// # Panics
/// If there is none: the parent checks the names.
pub(crate) fn with_subject<J: Job>(name: &str, job: J) -> J::Output {
    match name {
        NULL => job.run(&Null(UnsafeCell::new([0; 8]))),
        "mimalloc" => job.run(&Global::trimmed(mimalloc::MiMalloc, trims::mimalloc)),
        "snmalloc" => job.run(&Global::new(snmalloc_rs::SnMalloc)),
        "jemalloc" => job.run(&Global::trimmed(tikv_jemallocator::Jemalloc, trims::jemalloc)),
        "rpmalloc" => job.run(&Global::new(rpmalloc::RpMalloc)),
        "rusty_alloc" => job.run(&Global::new(rusty_alloc_api::RustyAlloc)),
        "rallocator" => job.run(&Global::new(rallocator::Rallocator)),
        "sefer" => job.run(&Global::new(sefer_alloc::SeferAlloc::new())),
        "dlmalloc" => job.run(&Global::new(dlmalloc::GlobalDlmalloc)),
        "glibc" => job.run(&Global::trimmed(System, trims::glibc)),
        _ => ours::with_subject(name, job),
    }
}

/// A global allocator as a subject.
struct Global<A> {
    allocator: A,
    trim: Option<fn()>,
}

impl<A> Global<A> {
    /// One without a call to trim it.
    fn new(allocator: A) -> Global<A> {
        Global { allocator, trim: None }
    }

    fn trimmed(allocator: A, trim: fn()) -> Global<A> {
        Global { allocator, trim: Some(trim) }
    }
}

// SAFETY: GlobalAlloc promises what Subject asks for.
unsafe impl<A: GlobalAlloc + Sync> Subject for Global<A> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.allocator.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.allocator.dealloc(start, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.allocator.realloc(start, layout, new_size) }
    }

    fn trim(&self) -> bool {
        self.trim.inspect(|trim| trim()).is_some()
    }
}

/// The empty loop's block. Not an allocator: for loops that write the first byte, in one thread, and nothing more.
struct Null(UnsafeCell<[u64; 8]>);

// SAFETY: used by single-threaded loops only.
unsafe impl Sync for Null {}

// SAFETY: not kept, and not relied upon: the loops that run it write the first byte of a block and never read it.
unsafe impl Subject for Null {
    #[inline(always)]
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        self.0.get().cast()
    }

    #[inline(always)]
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

    #[inline(always)]
    unsafe fn realloc(&self, start: *mut u8, _: Layout, _: usize) -> *mut u8 {
        start
    }
}
