//! Handles: what a `polyheap_t *` points to, the default heap's among them.
//!
//! A handle is a Rust `Heap` in a block of the default heap. Which handle a heap has is looked up
//! in a table by the heap's number, so that an address leads to a handle without touching memory
//! that may be going away.
//!
//! ```text
//! address ─ region map ─> number of its heap ─ table, by its low 16 bits ─> handle
//! ```
//!
//! *Concurrency*: the table's words are atomics. Whoever names a handle keeps it from being
//! deleted meanwhile; that is the caller's duty, in C.
//!
//! *Neighbours*: stands on `polyheap`; every other file names heaps by these handles.

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use polyheap::Heap;

/// A heap as C sees it; the type behind `polyheap_t`.
#[derive(Debug)]
#[repr(transparent)]
pub struct Handle {
    heap: UnsafeCell<Heap>,
}

// SAFETY: a `Heap` is `Sync`. What takes it exclusively does so by `exclusive`, whose caller promises
// that no other thread is in the heap.
unsafe impl Sync for Handle {}

/// The default heap. It is never dropped.
pub(crate) static DEFAULT: Handle = Handle::new(Heap::builder().name("default").build());

impl Handle {
    /// Returns a handle of this heap.
    pub(crate) const fn new(heap: Heap) -> Handle {
        Handle { heap: UnsafeCell::new(heap) }
    }

    /// Returns the heap.
    #[inline]
    pub(crate) fn heap(&self) -> &Heap {
        // SAFETY: only `exclusive` makes an exclusive reference, and its caller promises that nobody
        // uses the heap meanwhile.
        unsafe { &*self.heap.get() }
    }

    /// Returns the heap, exclusively.
    ///
    /// # Safety
    /// 1. No thread uses the heap while the reference lives.
    #[expect(clippy::mut_from_ref, reason = "handles reach C as plain pointers")]
    pub(crate) unsafe fn exclusive(&self) -> &mut Heap {
        // SAFETY: (1) is this function's contract.
        unsafe { &mut *self.heap.get() }
    }

    /// Returns the heap, taken out of its handle.
    pub(crate) fn into_heap(self) -> Heap {
        self.heap.into_inner()
    }

    /// Returns whether this is the default heap.
    pub(crate) fn is_default(&self) -> bool {
        ptr::eq(self, &raw const DEFAULT)
    }
}

/// Heaps alive at once, as the core has it; and with it what the low bits of a number tell apart.
const SLOTS: usize = 65_536;

/// The handle of the heap that has a slot, and the heap's number.
struct Place {
    /// The number plus one; 0 for none. Written after the handle (Release), cleared before it.
    number: AtomicU64,
    /// The handle.
    handle: AtomicPtr<Handle>,
}

/// Two words a slot, untouched until a heap has it.
static PLACES: [Place; SLOTS] =
    [const { Place { number: AtomicU64::new(0), handle: AtomicPtr::new(ptr::null_mut()) } }; SLOTS];

fn place(number: u64) -> &'static Place {
    // The low 16 bits of a number are the heap's slot, so that no two live heaps share a place.
    &PLACES[number as usize % SLOTS]
}

/// Lists the handle of the heap with this number.
pub(crate) fn list(number: u64, handle: NonNull<Handle>) {
    let place = place(number);
    place.handle.store(handle.as_ptr(), Ordering::Relaxed);
    // Release: publishes the handle to `handle_at`.
    place.number.store(number + 1, Ordering::Release);
}

/// Takes the handle of the heap with this number off the list.
pub(crate) fn unlist(number: u64) {
    place(number).number.store(0, Ordering::Release);
}

/// Returns the handle of the heap that `pointer` points into; `None` when that heap was not made by
/// this library, or there is none.
pub(crate) fn handle_at(pointer: NonNull<u8>) -> Option<NonNull<Handle>> {
    if DEFAULT.heap().owns(pointer) {
        return Some(NonNull::from(&DEFAULT));
    }
    let number = polyheap::heap_of(pointer)?.number();
    let place = place(number);
    // Acquire: pairs with the Release in `list`.
    if place.number.load(Ordering::Acquire) != number + 1 {
        return None;
    }
    NonNull::new(place.handle.load(Ordering::Relaxed))
}

/// The loader's entry of this library. It stands beside the default heap, which every function
/// names, so that a program with any of them contains it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static CONSTRUCTOR: extern "C" fn() = register;

/// Registers the fork handler of the process: when the library is loaded, so that no allocation has
/// to ask whether it is, and that it runs before those registered later, which may allocate.
#[cfg(any(target_os = "linux", target_os = "macos"))]
extern "C" fn register() {
    // Nothing to do before and in the parent: there is no lock to take and to free again. Where the
    // system refuses, children can allocate all the same.
    // SAFETY: the handler is a function that may run in any child.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(enter_child)) };
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
unsafe extern "C" fn enter_child() {
    // SAFETY: (1) the C library calls this in the only thread of a forked child; no heap calls
    // code that forks, so the thread was in none.
    unsafe { polyheap::after_fork_in_child() };
}
