//! The heap in a buffer: its parts and the way to them.
//!
//! *Invariants held here*: `[buffer-stays]`.
//!
//! *Concurrency*: any thread; see `part` and `core_cache`.
//!
//! *Neighbours*: stands on `part`; `faces` makes it an allocator.

use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::cells::{GRANULE_BYTES, NONE};
use super::core_cache::{CACHED_GRANULES_MAX, Kept};
use super::engine::{Engine, Misuse};
use super::part::Part;
use crate::base::address;
use crate::error::HeapError;
use crate::os::{FaultKind, FaultSite, fault};
use crate::sync::{AtomicUsize, Ordering};

/// Tells the core that the caller runs on; any number will do, and it may be wrong.
pub(super) type CoreIndex = fn() -> usize;

/// A heap inside a buffer of the caller's, which needs no system and no other memory.
///
/// A request fails when no run of free bytes in the buffer is long enough, and not before. When all
/// blocks are freed, the largest block that fitted the new heap fits again. Blocks have multiples of
/// 16 bytes and nothing in front of them.
///
/// # Concurrency
/// `Send + Sync`: any number of threads or cores, without thread-local storage. Requests take a spin
/// lock for a short, bounded time; with [`with_core_caches`](BufferHeap::with_core_caches) most small
/// ones take one that no other core wants. Not to be used by an interrupt handler that may have
/// interrupted a request on the same core.
///
/// # Examples
/// ```
/// use core::mem::MaybeUninit;
/// use polyheap::BufferHeap;
/// use polyheap::allocator_api2::vec::Vec;
///
/// let mut memory = [MaybeUninit::uninit(); 4096];
/// let heap = BufferHeap::new(&mut memory).unwrap();
/// let mut samples = Vec::new_in(&heap);
/// samples.extend([3_u16, 1, 4, 1, 5]);
/// assert!(samples.try_reserve(10_000).is_err());
/// assert_eq!(heap.stats().live_blocks, 1);
/// ```
pub struct BufferHeap<'b> {
    first: NonNull<Part>,
    core_index: Option<CoreIndex>,
    /// Requests that found no memory. Relaxed: it publishes nothing.
    denied: AtomicUsize,
    _buffer: PhantomData<&'b mut [MaybeUninit<u8>]>,
}

// SAFETY: the buffer is borrowed exclusively, so it may go where the heap goes; what lies in it is
// shared by locks.
unsafe impl Send for BufferHeap<'_> {}
// SAFETY: as above; all methods by reference go through the parts' locks and atomics.
unsafe impl Sync for BufferHeap<'_> {}

impl<'b> BufferHeap<'b> {
    /// Returns a heap inside `buffer`, at any address and of any length from about a kilobyte on; it
    /// uses the first 64 GiB of longer ones.
    ///
    /// # Errors
    /// [`HeapError::BufferTooSmall`], which tells how many bytes are needed.
    ///
    /// # Cost
    /// O(buffer / 64): clears two bits for each 16 bytes.
    pub fn new(buffer: &'b mut [MaybeUninit<u8>]) -> Result<BufferHeap<'b>, HeapError> {
        BufferHeap::lay_out(buffer, 0, None)
    }

    /// Returns a heap inside `buffer` with a cache for each of `cores` cores. `core_index` tells on
    /// which one it is called: any number will do, and it may be outdated when it returns.
    ///
    /// A cache keeps up to 32 blocks of each length to 512 bytes. When a request finds nothing else,
    /// all caches are emptied.
    ///
    /// # Errors
    /// As [`new`](BufferHeap::new).
    ///
    /// # Examples
    /// ```
    /// use core::mem::MaybeUninit;
    /// use polyheap::BufferHeap;
    ///
    /// fn core_index() -> usize {
    ///     0 // On real hardware, a register tells.
    /// }
    /// let mut memory = vec![MaybeUninit::uninit(); 65_536];
    /// let heap = BufferHeap::with_core_caches(&mut memory, 4, core_index).unwrap();
    /// assert!(heap.stats().capacity_bytes > 60_000);
    /// ```
    pub fn with_core_caches(
        buffer: &'b mut [MaybeUninit<u8>],
        cores: usize,
        core_index: fn() -> usize,
    ) -> Result<BufferHeap<'b>, HeapError> {
        BufferHeap::lay_out(buffer, cores, Some(core_index))
    }

    fn lay_out(
        buffer: &'b mut [MaybeUninit<u8>],
        cores: usize,
        core_index: Option<CoreIndex>,
    ) -> Result<BufferHeap<'b>, HeapError> {
        let first = part_in(buffer, cores)?;
        Ok(BufferHeap { first, core_index, denied: AtomicUsize::new(0), _buffer: PhantomData })
    }

    /// Adds another buffer, which need not lie beside the first. No block lies in both.
    ///
    /// # Errors
    /// As [`new`](BufferHeap::new); the heap is as it was.
    ///
    /// # Concurrency
    /// Any thread, while others allocate.
    pub fn extend(&self, buffer: &'b mut [MaybeUninit<u8>]) -> Result<(), HeapError> {
        self.first().append(part_in(buffer, 0)?);
        Ok(())
    }

    pub(super) fn first(&self) -> &Part {
        // SAFETY: [buffer-stays] the part lies in the buffer this heap borrows.
        unsafe { self.first.as_ref() }
    }

    /// Iterates over the parts, the first one first.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        core::iter::successors(Some(self.first()), |part| part.next())
    }

    /// Takes a block of `length` granules; `None` when there is none.
    pub(super) fn take(&self, length: u32, align: u32) -> Option<NonNull<u8>> {
        let first = self.first();
        if let (Some(core_index), 1) = (self.core_index, align)
            && let Some(cache) = first.cache(core_index())
        {
            let block = cache.take(first.granules(), length);
            if block != NONE {
                return Some(first.granules().at(block));
            }
        }
        let block = first.with(|engine| engine.take(length, align));
        if block != NONE {
            return Some(first.granules().at(block));
        }
        self.take_elsewhere(length, align)
    }

    #[cold]
    fn take_elsewhere(&self, length: u32, align: u32) -> Option<NonNull<u8>> {
        let take = || {
            self.parts().find_map(|part| {
                let block = part.with(|engine| engine.take(length, align));
                (block != NONE).then(|| part.granules().at(block))
            })
        };
        let found = take().or_else(|| {
            self.empty_caches();
            take()
        });
        if found.is_none() {
            self.denied.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Frees a block, or reports why it cannot.
    pub(super) fn give(&self, block: NonNull<u8>, length: u32) {
        let Some((part, granule)) = self.find(block) else { self.foreign(block) };
        if let Some(core_index) = self.core_index
            && let Some(cache) = part.cache(core_index())
        {
            match cache.put(part.granules(), granule, length) {
                Kept::Now => return,
                Kept::Before => {
                    self.report(FaultKind::DoubleFree, block, length as usize * GRANULE_BYTES)
                }
                Kept::NoPlace => {}
            }
        }
        if let Err(misuse) = part.with(|engine| engine.give(granule, length)) {
            self.misused(part, misuse, block, length);
        }
    }

    /// Makes a block longer or shorter where it lies; returns whether it could.
    pub(super) fn resize(&self, block: NonNull<u8>, from: u32, to: u32) -> bool {
        let Some((part, granule)) = self.find(block) else { self.foreign(block) };
        from == to || part.with(|engine| engine.resize(granule, from, to))
    }

    /// Returns the part and granule that a block starts at.
    #[inline]
    fn find(&self, block: NonNull<u8>) -> Option<(&Part, u32)> {
        let first = self.first();
        let (part, (granule, offset)) = match first.granule_of(block) {
            Some(place) => (first, place),
            None => self.parts().find_map(|part| Some((part, part.granule_of(block)?)))?,
        };
        if offset != 0 {
            self.report(FaultKind::InteriorPointer, block, 0);
        }
        Some((part, granule))
    }

    /// Gives all that the caches of the cores keep back to the first part.
    pub(super) fn empty_caches(&self) {
        let part = self.first();
        for cache in part.caches() {
            for length in 1..=CACHED_GRANULES_MAX {
                loop {
                    let block = cache.take(part.granules(), length);
                    if block == NONE {
                        break;
                    }
                    if let Err(misuse) = part.with(|engine| engine.give(block, length)) {
                        self.misused(part, misuse, part.granules().at(block), length);
                    }
                }
            }
        }
    }

    /// Forgets all blocks. Nobody else uses the heap.
    pub(super) fn forget_all(&self) {
        self.first().caches().for_each(|cache| cache.clear());
        self.parts().for_each(|part| part.with(Engine::clear));
    }

    /// Returns the requests that found no memory.
    pub(super) fn denied(&self) -> usize {
        self.denied.load(Ordering::Relaxed)
    }

    #[cold]
    fn foreign(&self, block: NonNull<u8>) -> ! {
        self.report(FaultKind::ForeignBlock, block, 0)
    }

    #[cold]
    fn misused(&self, part: &Part, misuse: Misuse, block: NonNull<u8>, length: u32) -> ! {
        let kind = match misuse {
            Misuse::WrongLength => FaultKind::WrongLayout,
            Misuse::NotLive if self.is_inside_live(part, block) => FaultKind::InteriorPointer,
            Misuse::NotLive => FaultKind::DoubleFree,
        };
        self.report(kind, block, length as usize * GRANULE_BYTES)
    }

    /// Returns whether an address that starts no live block lies in one.
    fn is_inside_live(&self, part: &Part, block: NonNull<u8>) -> bool {
        let Some((granule, _)) = part.granule_of(block) else { return false };
        part.with(|engine| {
            engine.settle();
            engine.is_inside_live(granule)
        })
    }

    fn report(&self, kind: FaultKind, block: NonNull<u8>, given_bytes: usize) -> ! {
        let site = FaultSite {
            name: "buffer",
            address: address(block.as_ptr()),
            given_bytes,
            ..FaultSite::default()
        };
        fault(kind, site)
    }
}

/// Lays a part out in `buffer`.
fn part_in(buffer: &mut [MaybeUninit<u8>], cores: usize) -> Result<NonNull<Part>, HeapError> {
    let bytes = buffer.len();
    let start = NonNull::from(buffer).cast::<u8>();
    // SAFETY: (1) the heap that gets the part borrows the buffer exclusively.
    unsafe { Part::lay_out(start, bytes, cores) }
}

impl fmt::Debug for BufferHeap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferHeap").field("stats", &self.stats()).finish()
    }
}
