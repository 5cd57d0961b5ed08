//! The global allocator with scopes that allocate from another heap.
//!
//! ```text
//! allocate ─ the thread's target, if it is in a scope ─ else the program's heap
//! free, resize ─ the program's heap, if the block lies in it ─ else the heap the block lies in
//! ```
//!
//! A block knows its heap by its address (the core's region map). To free it a handle is needed,
//! so every heap that was ever a target is in a table, found by its number; heaps that are targets
//! live as long as the program.
//!
//! *Concurrency*: any thread, lock-free. A thread's target is its own. Places of the table are
//! taken once and never given up: the number is reserved by an exchange, the handle is published
//! by Release before the first allocation from it.
//!
//! *Neighbours*: stands on `calls`; programs install it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::num::NonZeroUsize;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use polyheap::allocator_api2::alloc::Allocator;
use polyheap::{Heap, HeapBuilder, HeapError, HeapId, HeapStats, heap_of};

use crate::{calls, fork};

/// Heaps that may ever be targets in one process.
const TARGETS_MAX: usize = 1024;

/// A heap that was a target, and its number plus one; 0 for a free place.
struct Place {
    /// Taken once by the first to enter the heap (Relaxed: it names, it publishes nothing).
    mark: AtomicU64,
    /// Written once, Release; null until then.
    heap: AtomicPtr<Heap>,
}

static TARGETS: [Place; TARGETS_MAX] =
    [const { Place { mark: AtomicU64::new(0), heap: AtomicPtr::new(ptr::null_mut()) } };
        TARGETS_MAX];

std::thread_local! {
    // Constant and without a destructor: usable whenever anything allocates. Null or a heap that
    // lives as long as the program.
    static TARGET: Cell<*const Heap> = const { Cell::new(ptr::null()) };
}

/// A global allocator over one heap, from which a scope can turn away to another.
///
/// Costs one thread-local read at each allocation and one look-up of the address at each free more
/// than [`GlobalHeap`](crate::GlobalHeap).
///
/// # Examples
/// ```
/// use polyheap_global::{Heap, RedirectingGlobalHeap};
///
/// #[global_allocator]
/// static GLOBAL: RedirectingGlobalHeap = RedirectingGlobalHeap::new();
/// static PLUGIN: Heap = Heap::builder().name("plugin").max_bytes(64 << 20).build();
///
/// fn main() {
///     let text = GLOBAL.with_heap(&PLUGIN, || "anything that allocates".repeat(100));
///     assert!(PLUGIN.stats().live_bytes >= text.len());
///     // Freed outside the scope, and yet into the heap it came from.
///     drop(text);
///     assert_eq!(PLUGIN.stats().live_blocks, 0);
/// }
/// ```
#[derive(Debug)]
pub struct RedirectingGlobalHeap {
    heap: Heap,
}

impl RedirectingGlobalHeap {
    /// Returns a global allocator over a heap with default options, which takes memory from the
    /// system at its first use.
    pub const fn new() -> RedirectingGlobalHeap {
        RedirectingGlobalHeap::from_builder(Heap::builder().name("global"))
    }

    /// Returns a global allocator over the heap that `builder` makes.
    pub const fn from_builder(builder: HeapBuilder) -> RedirectingGlobalHeap {
        fork::link();
        RedirectingGlobalHeap { heap: builder.build() }
    }

    /// Calls `act`; what the calling thread allocates meanwhile comes from `heap`.
    ///
    /// Blocks belong to the heap they came from: they may leave the scope, are freed into their own
    /// heap wherever that happens, and stay in it when they are resized. A request that `heap`
    /// refuses fails; it does not go to the program's heap. Scopes nest, and end when `act` unwinds.
    /// Threads that `act` starts are not in the scope.
    ///
    /// As blocks may stay behind anywhere, for example in a buffer that the standard library makes
    /// once, the heap has to live as long as the program.
    ///
    /// # Panics
    /// When `heap` cannot be bound, or 1 024 other heaps were targets before.
    ///
    /// # Cost
    /// At the first time of a heap O(targets), then the same without writing; no lock.
    pub fn with_heap<R>(&self, heap: &'static Heap, act: impl FnOnce() -> R) -> R {
        if let Err(reason) = enlist(heap) {
            panic!("allocations cannot be redirected to heap {:?}: {reason}", heap.name());
        }
        let _back = Back(TARGET.replace(heap));
        act()
    }

    /// Returns the program's heap.
    pub const fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Returns what the program's heap holds at this moment, other heaps not counted.
    pub fn stats(&self) -> HeapStats {
        self.heap.stats()
    }

    /// Gives memory of the program's heap without a live owner back to the system; returns the
    /// bytes.
    pub fn trim(&self) -> usize {
        self.heap.trim()
    }

    /// Sets the most bytes the program's heap may hold; see [`Heap::set_limit`].
    ///
    /// # Errors
    /// As [`Heap::bind`].
    pub fn set_limit(&self, max_bytes: Option<NonZeroUsize>) -> Result<(), HeapError> {
        self.heap.set_limit(max_bytes)
    }

    /// Returns the heap to allocate from.
    #[inline]
    fn target(&self) -> &Heap {
        let target = TARGET.with(Cell::get);
        // SAFETY: null, or set by `with_heap` to a heap that lives as long as the program.
        unsafe { target.as_ref() }.unwrap_or(&self.heap)
    }

    /// Returns the heap that `block` belongs to.
    #[inline]
    fn owner(&self, block: NonNull<u8>) -> &Heap {
        if self.heap.owns(block) { &self.heap } else { self.other_owner(block) }
    }

    /// Returns the target that `block` belongs to; the program's heap, which reports the fault,
    /// when it is none's.
    #[cold]
    #[inline(never)]
    fn other_owner(&self, block: NonNull<u8>) -> &Heap {
        heap_of(block).and_then(listed).unwrap_or(&self.heap)
    }
}

impl Default for RedirectingGlobalHeap {
    fn default() -> RedirectingGlobalHeap {
        RedirectingGlobalHeap::new()
    }
}

// SAFETY: each heap keeps `Allocator`'s contract, which is `GlobalAlloc`'s and more, and never
// unwinds; a block is freed and resized in the heap it came from.
unsafe impl GlobalAlloc for RedirectingGlobalHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        calls::allocate(self.target(), layout)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        calls::allocate_zeroed(self.target(), layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block was allocated here, so it is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the caller's block is live and was allocated from its owner with this layout.
        unsafe { self.owner(block).deallocate(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block was allocated here, so it is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: (1) the caller's block is live, its owner's, and fits this layout.
        unsafe { calls::resize(self.owner(block), block, layout, size) }
    }
}

/// Leads the thread back to its former target when dropped.
struct Back(*const Heap);

impl Drop for Back {
    fn drop(&mut self) {
        TARGET.set(self.0);
    }
}

/// Puts `heap` into the table, unless it is there.
fn enlist(heap: &'static Heap) -> Result<(), &'static str> {
    let id = heap.id().map_err(|_| "there is no memory for it")?;
    let mark = mark_of(id);
    for place in probe(id) {
        let found = place.mark.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
        if found.is_ok() || found == Err(mark) {
            // Release: pairs with the Acquire in `listed`. Whoever comes second writes the same.
            place.heap.store((&raw const *heap).cast_mut(), Ordering::Release);
            return Ok(());
        }
    }
    Err("there are too many targets")
}

/// Returns the target with this number.
fn listed(id: HeapId) -> Option<&'static Heap> {
    let mark = mark_of(id);
    for place in probe(id) {
        match place.mark.load(Ordering::Relaxed) {
            0 => return None,
            found if found == mark => {
                // Acquire: the handle is seen as the one that entered it first left it.
                let heap = place.heap.load(Ordering::Acquire);
                // SAFETY: null, or entered by `enlist`: it lives as long as the program.
                return unsafe { heap.as_ref() };
            }
            _ => {}
        }
    }
    None
}

fn mark_of(id: HeapId) -> u64 {
    id.number() + 1
}

/// Returns the places where the heap with this number may be, in order.
fn probe(id: HeapId) -> impl Iterator<Item = &'static Place> {
    let first = (id.number() % TARGETS_MAX as u64) as usize;
    TARGETS[first..].iter().chain(&TARGETS[..first])
}
