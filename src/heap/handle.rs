//! The handle of a heap and its two fast paths.
//!
//! A handle is where the heap's slot, and with it the calling thread's bins, are found: one word.
//! Moving it moves nothing else. It binds at first use, so it can be made in a constant.
//!
//! *Concurrency*: `Send` and `Sync`; the words are written once, by whoever uses the heap first.
//!
//! *Neighbours*: stands on `thread` and `cache::Bin`; the `Allocator` faces call it.

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::builder::{HeapBuilder, Options};
use super::core::HeapCore;
use super::thread;
use crate::base::{fast_bin_word, fast_block_bytes, is_fast_layout};
use crate::buffer::BufferHeap;
use crate::config;
use crate::error::HeapError;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

/// A memory heap instance: an allocator that owns its memory and gives it back whole.
///
/// Any number of threads may allocate from and free into one heap at the same time, by reference.
/// As many as 65 536 heaps may be alive. Dropping a heap releases everything in it, in time
/// proportional to the memory regions it holds, whatever is still allocated; the borrow checker
/// sees to it that no container outlives its heap.
///
/// # Concurrency
/// `Send + Sync`. On a thread that has used the heap before, [`allocate`] and
/// [`deallocate`] of sizes up to 32 KiB take no lock, make no system call and,
/// while the thread's magazines last, no atomic read-modify-write.
///
/// [`allocate`]: allocator_api2::alloc::Allocator::allocate
/// [`deallocate`]: allocator_api2::alloc::Allocator::deallocate
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
///
/// let net = Heap::new();
/// let mut packets = Vec::new_in(&net);
/// std::thread::scope(|scope| {
///     scope.spawn(|| (0..1000u32).for_each(|number| packets.push(number)));
/// });
/// assert_eq!(packets.len(), 1000);
/// assert!(net.stats().live_bytes >= 4000);
/// ```
// A cache line of its own: every call reads the handle, and a neighbour that is written often
// would take the line away.
#[repr(C, align(64))]
pub struct Heap {
    /// Offset of the heap's entry in the slot tables; `UNBOUND_ENTRY` until the heap binds, and
    /// for ever when it has no thread caches. Relaxed: a thread finds in its table only what it
    /// put there itself.
    entry: AtomicUsize,
    /// The core; null until the heap binds. Release by the binder, Acquire by all others.
    core: AtomicPtr<HeapCore>,
    options: Options,
}

/// A block and its usable bytes; a null block when there is no memory. Two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) block: *mut u8,
    pub(super) bytes: usize,
}

impl Granted {
    /// Returns the block with its length.
    #[inline(always)]
    pub(super) fn slice(self) -> Option<NonNull<[u8]>> {
        NonNull::new(self.block).map(|block| NonNull::slice_from_raw_parts(block, self.bytes))
    }
}

/// Names a heap for the life of the process: numbers are not reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HeapId(pub(super) u64);

impl HeapId {
    /// Returns the number, as it stands in fault reports.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl Heap {
    /// Bytes of the largest alignment any request may have: 1 GiB.
    pub const ALIGN_BYTES_MAX: usize = config::ALIGN_BYTES_MAX;

    /// Returns a heap with default options. It takes memory from the system at its first use.
    ///
    /// # Examples
    /// ```
    /// static CACHE: polyheap::Heap = polyheap::Heap::new();
    /// let text = CACHE.string();
    /// assert!(text.is_empty());
    /// ```
    pub const fn new() -> Heap {
        Heap::with_options(Options::DEFAULT)
    }

    /// Returns a builder, to set a name and policies.
    pub const fn builder() -> HeapBuilder {
        HeapBuilder::new()
    }

    /// Returns a heap inside a buffer of the caller's, which makes no system call on any path; see
    /// [`BufferHeap`].
    ///
    /// # Errors
    /// [`HeapError::BufferTooSmall`], which tells how many bytes are needed.
    ///
    /// # Examples
    /// ```
    /// use core::mem::MaybeUninit;
    /// use polyheap::Heap;
    ///
    /// let mut memory = [MaybeUninit::uninit(); 8192];
    /// let heap = Heap::in_buffer(&mut memory).unwrap();
    /// assert!(heap.largest_free_bytes() > 7_000);
    /// ```
    pub fn in_buffer(buffer: &mut [MaybeUninit<u8>]) -> Result<BufferHeap<'_>, HeapError> {
        BufferHeap::new(buffer)
    }

    pub(super) const fn with_options(options: Options) -> Heap {
        Heap {
            entry: AtomicUsize::new(thread::UNBOUND_ENTRY),
            core: AtomicPtr::new(ptr::null_mut()),
            options,
        }
    }

    /// Returns the heap's name, empty if it was given none.
    pub fn name(&self) -> &str {
        self.options.name()
    }

    /// Returns the heap's number, unique in the process; binds the heap if it was not used yet.
    ///
    /// # Errors
    /// As [`bind`](Heap::bind).
    pub fn id(&self) -> Result<HeapId, HeapError> {
        Ok(HeapId(self.bound_core()?.store.id))
    }

    /// Takes the heap's slot and first region now rather than at the first allocation.
    ///
    /// # Errors
    /// [`HeapError::OutOfMemory`] when the system grants no memory, [`HeapError::TooManyHeaps`]
    /// when 65 536 heaps are alive. The heap stays unbound and may be tried again.
    ///
    /// # Cost
    /// Well under a microsecond when a region is cached; may call the OS.
    pub fn bind(&self) -> Result<(), HeapError> {
        self.bound_core().map(|_| ())
    }

    /// Allocates a block.
    // Inlined always: benchmark `hot`, this is the fast path itself.
    #[inline(always)]
    pub(super) fn allocate_block(&self, layout: Layout) -> Granted {
        let thread_heap = thread::current(self.entry());
        if is_fast_layout(layout.size(), layout.align()) {
            let bin_word = fast_bin_word(layout.size());
            let mut block = thread_heap.bin_at(bin_word).pop();
            if block.is_null() {
                block = self.allocate_again(thread_heap, bin_word, layout.size(), layout.align());
            }
            return Granted { block, bytes: fast_block_bytes(layout.size()) };
        }
        self.allocate_large(thread_heap, layout.size(), layout.align())
    }

    /// Frees a block.
    ///
    /// # Safety
    /// 1. `block` was allocated from this heap and not freed since.
    /// 2. `layout` has the alignment it was allocated with and a size between the one asked for
    ///    and the one returned.
    // Inlined always: benchmark `hot`, this is the fast path itself.
    #[inline(always)]
    pub(super) unsafe fn deallocate_block(&self, block: NonNull<u8>, layout: Layout) {
        let thread_heap = thread::current(self.entry());
        if is_fast_layout(layout.size(), layout.align()) {
            let bin_word = fast_bin_word(layout.size());
            if thread_heap.is_home(block.as_ptr(), bin_word)
                && thread_heap.bin_at(bin_word).push(block.as_ptr())
            {
                return;
            }
            let (size, align) = (layout.size(), layout.align());
            return self.deallocate_again(thread_heap, bin_word, block, size, align);
        }
        self.deallocate_large(thread_heap, block, layout.size(), layout.align());
    }

    /// Returns the offset of the heap's entry in the slot tables.
    #[inline(always)]
    pub(super) fn entry(&self) -> usize {
        self.entry.load(Ordering::Relaxed)
    }

    /// Returns the core if the heap is bound.
    #[inline]
    pub(super) fn core(&self) -> Option<&HeapCore> {
        // Acquire: pairs with the Release in `bound_core`, publishes the core.
        let core = self.core.load(Ordering::Acquire);
        // SAFETY: [core-in-first-region] a handle's core lives as long as the handle.
        unsafe { core.as_ref() }
    }

    /// Returns the core, binding the heap first if need be.
    pub(super) fn bound_core(&self) -> Result<&HeapCore, HeapError> {
        match self.core() {
            Some(core) => Ok(core),
            None => self.bind_now(),
        }
    }

    #[cold]
    fn bind_now(&self) -> Result<&HeapCore, HeapError> {
        let made = HeapCore::create(&self.options)?;
        let won = self.core.compare_exchange(
            ptr::null_mut(),
            made.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let core = match won {
            Ok(_) => made,
            Err(other) => {
                // SAFETY: the heap just made was never published.
                unsafe { HeapCore::destroy(made) };
                // SAFETY: the exchange failed, so another thread published a core.
                unsafe { NonNull::new_unchecked(other) }
            }
        };
        // SAFETY: [core-in-first-region] published in this handle, so alive while it is.
        let core = unsafe { core.as_ref() };
        if core.has_thread_cache {
            self.entry.store(thread::entry_of(core.store.slot), Ordering::Relaxed);
        }
        Ok(core)
    }

    /// Returns a second handle of the same bound heap, for a [`SharedHeap`](super::SharedHeap).
    pub(super) fn second_handle(&self) -> Heap {
        Heap {
            entry: AtomicUsize::new(self.entry.load(Ordering::Relaxed)),
            core: AtomicPtr::new(self.core.load(Ordering::Acquire)),
            options: self.options,
        }
    }

    /// Takes the core out of the handle, which is unbound afterwards.
    pub(super) fn take_core(&mut self) -> Option<NonNull<HeapCore>> {
        *self.entry.get_mut() = thread::UNBOUND_ENTRY;
        NonNull::new(core::mem::replace(self.core.get_mut(), ptr::null_mut()))
    }
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("name", &self.name())
            .field("number", &self.core().map(|core| core.store.id))
            .finish()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if let Some(core) = self.take_core() {
            // SAFETY: (1) the handle owned the heap and is gone; shared heaps never drop a handle
            // but the last.
            unsafe { HeapCore::destroy(core) };
        }
    }
}
