//! The heap behind the exported functions.
//!
//! It is made with what the environment says when the first request comes, which is before any
//! constructor of this library would run. Two bounds, zero until then, send every request to the
//! cold side; afterwards they answer a question that has to be asked anyway:
//!
//! ```text
//! bytes - 1   < QUICK_BYTES      a size the inlined path serves: not 0, not large, heap made
//! address - 1 < ADDRESSES        an address that may be a block: not null, heap made
//! ```
//!
//! The functions are `extern "C"`: should a check of ours ever fail, the process stops there, and the
//! exported ones need no frame for it.
//!
//! *Concurrency*: any thread. One makes the heap, and publishes it by the bounds (Release; Acquire
//! by everyone); others wait for it, which makes no call that could come back here.
//!
//! *Neighbours*: stands on `polyheap` and `settings`; the exported functions call it.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::fmt::Write;
use core::hint::{assert_unchecked, spin_loop};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{AllocError, Allocator};

use crate::output::Output;
use crate::{next, settings};

/// Alignment of every block in bytes, as C's `max_align_t` wants it.
pub(crate) const ALIGN_BYTES: usize = 16;

/// Bytes of the largest block the core serves inline. Larger ones are right too, and slower.
const QUICK_BYTES_MAX: usize = 32 << 10;

/// `QUICK_BYTES_MAX`, and 0 before the heap is made. Written once, Release.
static QUICK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// All ones, and 0 before the heap is made. Written once, Release.
static ADDRESSES: AtomicUsize = AtomicUsize::new(0);

/// How far the making of the heap is: a `FRESH`, `BUSY` or `READY`. Taken by whoever makes it.
static STAGE: AtomicUsize = AtomicUsize::new(FRESH);

const FRESH: usize = 0;
const BUSY: usize = 1;
const READY: usize = 2;

/// Where the heap lies. Written once, before the bounds are.
struct Place(UnsafeCell<Heap>);

// SAFETY: the heap itself may be shared, and it is written before anybody reads it, see `make`.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(Heap::new()));

/// Allocates; null, and `ENOMEM`, when there is no memory.
// Inlined always: benchmark `preload`, this is the fast path itself.
#[inline(always)]
pub(crate) fn allocate(bytes: usize) -> *mut u8 {
    // Acquire: pairs with `make`, publishes the heap.
    let quick_bytes = QUICK_BYTES.load(Ordering::Acquire);
    if bytes.wrapping_sub(1) >= quick_bytes {
        return allocate_aligned(bytes, ALIGN_BYTES);
    }
    // SAFETY: the bound is 0, which lets no size pass, or this.
    unsafe { assert_unchecked(bytes.wrapping_sub(1) < QUICK_BYTES_MAX) };
    let Ok(layout) = Layout::from_size_align(bytes, ALIGN_BYTES) else { return out_of_memory() };
    // SAFETY: the bound says that the heap is made.
    start_of(unsafe { made() }.allocate(layout))
}

/// Allocates a block of at least one byte that starts at a multiple of `align`, a power of two;
/// null, and `ENOMEM`, when there is no memory.
#[inline(never)]
pub(crate) extern "C" fn allocate_aligned(bytes: usize, align: usize) -> *mut u8 {
    match layout_of(bytes, align) {
        Some(layout) => start_of(heap().allocate(layout)),
        None => out_of_memory(),
    }
}

/// Allocates a block that reads as zero; null, and `ENOMEM`, when there is no memory.
pub(crate) extern "C" fn allocate_zeroed(bytes: usize) -> *mut u8 {
    match layout_of(bytes, ALIGN_BYTES) {
        Some(layout) => start_of(heap().allocate_zeroed(layout)),
        None => out_of_memory(),
    }
}

/// Resizes a block of any owner; null, and `ENOMEM`, when there is no memory, the block being as it
/// was.
///
/// # Safety
/// 1. `block` is a live block, of ours or of the next C library, and the caller's.
pub(crate) unsafe extern "C" fn resize(block: NonNull<u8>, bytes: usize) -> *mut u8 {
    let heap = heap();
    if !heap.owns(block) {
        // SAFETY: (1) of this function's contract.
        if let Some(resized) = unsafe { next::resize(block, bytes) } {
            return resized;
        }
    }
    match layout_of(bytes, ALIGN_BYTES) {
        // SAFETY: (1) of this function's contract; what is nobody's is reported.
        Some(layout) => start_of(unsafe { heap.resize_unsized(block, layout) }),
        None => out_of_memory(),
    }
}

/// Frees a block of any owner; null is ignored.
///
/// # Safety
/// 1. `block` is null or a live block, of ours or of the next C library, and the caller's.
// Not inlined: the exported names are one jump each, and what the core inlines is here once.
#[inline(never)]
pub(crate) unsafe extern "C" fn deallocate(block: *mut u8) {
    // Acquire: pairs with `make`, publishes the heap.
    if block.addr().wrapping_sub(1) < ADDRESSES.load(Ordering::Acquire) {
        // SAFETY: the bound does not let null pass.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the bound says that the heap is made.
        let heap = unsafe { made() };
        // SAFETY: (1) of this function's contract.
        if unsafe { heap.deallocate_if_owned(block) } {
            return;
        }
    }
    // SAFETY: (1) of this function's contract, and the heap does not own the block.
    unsafe { deallocate_foreign(block) };
}

/// Frees a block that is not the heap's, if it is one.
///
/// # Safety
/// 1. As [`deallocate`]; the block is not the heap's.
#[cold]
#[inline(never)]
unsafe extern "C" fn deallocate_foreign(block: *mut u8) {
    let Some(block) = NonNull::new(block) else { return };
    // SAFETY: (1) of this function's contract.
    if !unsafe { next::deallocate(block) } {
        report_foreign(block);
    }
}

/// Ends the process because of a block that is nobody's. The core's own report is not asked for: with
/// its free in one place only, `deallocate` has it inlined.
#[cold]
fn report_foreign(block: NonNull<u8>) -> ! {
    let mut output = Output::to_stderr();
    // A line that cannot be written is lost, and the process ends all the same.
    _ = writeln!(output, "polyheap: free of a foreign pointer: {block:p}, and no next free");
    drop(output);
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}

/// Returns the usable bytes of a block of any owner; 0 for null.
///
/// # Safety
/// 1. As [`deallocate`].
pub(crate) unsafe extern "C" fn usable_bytes(block: *mut u8) -> usize {
    let Some(block) = NonNull::new(block) else { return 0 };
    match heap().usable_size(block) {
        Some(bytes) => bytes,
        // SAFETY: (1) of this function's contract.
        None => unsafe { next::usable_bytes(block) },
    }
}

/// Returns the heap, making it first if need be.
pub(crate) fn heap() -> &'static Heap {
    // Acquire: pairs with `make`, publishes the heap.
    if STAGE.load(Ordering::Acquire) != READY {
        make();
    }
    // SAFETY: made just now at the latest.
    unsafe { made() }
}

/// Returns the heap.
///
/// # Safety
/// 1. The heap was made: the caller saw a bound or the stage say so.
#[inline(always)]
unsafe fn made() -> &'static Heap {
    // SAFETY: by (1) the place is not written any more.
    unsafe { &*PLACE.0.get() }
}

/// Makes the heap, or waits for the thread that does.
#[cold]
fn make() {
    let won = STAGE.compare_exchange(FRESH, BUSY, Ordering::Acquire, Ordering::Acquire);
    if won.is_err() {
        while STAGE.load(Ordering::Acquire) != READY {
            spin_loop();
        }
        return;
    }
    let builder = settings::read();
    // SAFETY: this thread alone may write the place, and nobody reads it before what follows.
    unsafe { PLACE.0.get().write(builder.build()) };
    STAGE.store(READY, Ordering::Release);
    ADDRESSES.store(usize::MAX, Ordering::Release);
    QUICK_BYTES.store(QUICK_BYTES_MAX, Ordering::Release);
}

/// Returns the layout of a block of at least one byte; `None` for sizes that cannot be.
fn layout_of(bytes: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), align.max(ALIGN_BYTES)).ok()
}

#[inline(always)]
fn start_of(block: Result<NonNull<[u8]>, AllocError>) -> *mut u8 {
    match block {
        Ok(block) => block.as_ptr().cast(),
        Err(AllocError) => out_of_memory(),
    }
}

/// Answers a request that cannot be served.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn out_of_memory() -> *mut u8 {
    set_errno(libc::ENOMEM);
    ptr::null_mut()
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the C library returns a pointer to this thread's errno.
    unsafe { *place = code };
}

/// Returns the calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the C library returns a pointer to this thread's errno.
    unsafe { *place }
}
