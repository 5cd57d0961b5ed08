//! A heap in a static of its own, for programs without a system: also as their global allocator.
//!
//! *Concurrency*: the first request lays the buffer out under a lock; later ones look at one flag.
//!
//! *Neighbours*: stands on `heap`; programs install it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::faces::Tail;
use super::heap::BufferHeap;
use super::lock::Lock;
use crate::error::HeapError;
use crate::sync::{AtomicBool, Ordering};

/// A [`BufferHeap`] of `BYTES` bytes that is made in a constant and laid out at its first use.
///
/// It is meant for statics. A value that is moved after its first use is of no use any more: that is
/// why the safe methods want a `'static` borrow, and why no one may allocate through
/// [`GlobalAlloc`] from one that is no static.
///
/// # Concurrency
/// As [`BufferHeap`].
///
/// # Examples
/// ```
/// use polyheap::StaticHeap;
/// use polyheap::allocator_api2::vec::Vec;
///
/// static SENSORS: StaticHeap<16_384> = StaticHeap::new();
///
/// let heap = SENSORS.heap().unwrap();
/// let mut readings = Vec::new_in(heap);
/// readings.extend_from_slice(&[20.5_f32, 21.0]);
/// assert_eq!(heap.stats().live_blocks, 1);
/// ```
///
/// As the global allocator:
/// ```
/// #[global_allocator]
/// static HEAP: polyheap::StaticHeap<4_000_000> = polyheap::StaticHeap::new();
///
/// fn main() {
///     let words = vec!["no system call".to_string(); 100];
///     assert!(HEAP.heap().unwrap().stats().live_blocks > words.len());
/// }
/// ```
#[repr(C, align(64))]
pub struct StaticHeap<const BYTES: usize> {
    memory: UnsafeCell<[MaybeUninit<u8>; BYTES]>,
    heap: UnsafeCell<Option<BufferHeap<'static>>>,
    /// Whether `heap` was written. Set once, Release; read Acquire.
    is_ready: AtomicBool,
    starting: Lock<()>,
}

// SAFETY: `memory` is the heap's, which is shared by locks; `heap` is written once, under `starting`,
// and read after `is_ready` says so.
unsafe impl<const BYTES: usize> Sync for StaticHeap<BYTES> {}

impl<const BYTES: usize> StaticHeap<BYTES> {
    /// Returns a heap that was not used yet.
    pub const fn new() -> StaticHeap<BYTES> {
        StaticHeap {
            memory: UnsafeCell::new([MaybeUninit::uninit(); BYTES]),
            heap: UnsafeCell::new(None),
            is_ready: AtomicBool::new(false),
            starting: Lock::new(()),
        }
    }

    /// Returns the heap, laying it out at the first call.
    ///
    /// # Errors
    /// [`HeapError::BufferTooSmall`] when `BYTES` are too few.
    ///
    /// # Cost
    /// One load and a branch after the first call.
    #[inline]
    pub fn heap(&'static self) -> Result<&'static BufferHeap<'static>, HeapError> {
        // SAFETY: (1) the borrow says so.
        unsafe { self.ready() }
    }

    /// Returns the heap, laying it out at the first call.
    ///
    /// # Safety
    /// 1. `self` is a static: it is never moved, and lives for ever.
    #[inline]
    unsafe fn ready(&self) -> Result<&'static BufferHeap<'static>, HeapError> {
        // Acquire: pairs with `start`, publishes the heap.
        if !self.is_ready.load(Ordering::Acquire) {
            // SAFETY: (1) of this function's contract.
            unsafe { self.start()? };
        }
        let too_small = HeapError::BufferTooSmall { given_bytes: BYTES, needed_bytes: 0 };
        // SAFETY: written before `is_ready` was set, and never again; (1) it lives for ever.
        unsafe { &*self.heap.get() }.as_ref().ok_or(too_small)
    }

    /// # Safety
    /// 1. As [`ready`](StaticHeap::ready).
    #[cold]
    unsafe fn start(&self) -> Result<(), HeapError> {
        self.starting.with(|()| {
            if self.is_ready.load(Ordering::Acquire) {
                return Ok(());
            }
            // SAFETY: (1) it lives for ever; nobody else uses it before the heap is ready.
            let memory = unsafe { &mut *self.memory.get() };
            let made = BufferHeap::new(memory)?;
            // SAFETY: under the lock, and nobody reads it before `is_ready` is set.
            unsafe { *self.heap.get() = Some(made) };
            // Release: publishes the heap.
            self.is_ready.store(true, Ordering::Release);
            Ok(())
        })
    }
}

impl<const BYTES: usize> Default for StaticHeap<BYTES> {
    fn default() -> StaticHeap<BYTES> {
        StaticHeap::new()
    }
}

impl<const BYTES: usize> fmt::Debug for StaticHeap<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_ready = self.is_ready.load(Ordering::Relaxed);
        f.debug_struct("StaticHeap").field("bytes", &BYTES).field("is_ready", &is_ready).finish()
    }
}

// SAFETY: the heap keeps `Allocator`'s contract, which is `GlobalAlloc`'s and more, and never unwinds.
unsafe impl<const BYTES: usize> GlobalAlloc for StaticHeap<BYTES> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: (1) a global allocator is a static, as the type's text demands.
        let heap = unsafe { self.ready() };
        start_of(heap.ok().and_then(|heap| heap.allocate_block(layout)))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block was allocated here, so it is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: (1) as in `alloc`.
        if let Ok(heap) = unsafe { self.ready() } {
            // SAFETY: (1) the caller's block is live and was allocated with this layout.
            unsafe { heap.deallocate_block(block, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(to) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        // SAFETY: the caller's block was allocated here, so it is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: (1) as in `alloc`.
        let Ok(heap) = (unsafe { self.ready() }) else { return ptr::null_mut() };
        // SAFETY: (1) the caller's block is live and fits this layout.
        start_of(unsafe { heap.resize_block(block, layout, to, Tail::Any) })
    }
}

fn start_of(block: Option<NonNull<[u8]>>) -> *mut u8 {
    block.map_or(ptr::null_mut(), |block| block.cast().as_ptr())
}
