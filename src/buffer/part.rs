//! A part: one buffer of a heap, laid out and shared by a lock.
//!
//! *Invariants held here*: `[buffer-inside]`.
//!
//! *Concurrency*: the lock's Acquire and Release hand the engine from one holder to the next. It is
//! held for a bounded time: no request waits for anything in it.
//!
//! *Neighbours*: stands on `engine` and `geometry`; heaps are lists of parts.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::bins::Bins;
use super::cells::{Bits, Cells, GRANULE_LOG2, Granules, NONE};
use super::core_cache::CoreCache;
use super::engine::{Engine, Tally};
use super::geometry::Geometry;
use super::lock::Lock;
use super::recent::Recent;
use crate::base::address;
use crate::error::HeapError;
use crate::sync::{AtomicPtr, Ordering};

/// One buffer of a heap. Lies in it.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Part {
    engine: Lock<Engine>,
    /// The next part of the heap, null for the last. Set once, Release; read Acquire.
    next: AtomicPtr<Part>,
    /// Written before the part is shared, as the next.
    caches: NonNull<CoreCache>,
    cache_count: usize,
    granules: Granules,
}

// SAFETY: the engine is behind a lock; the fields that are no atomics do not change once the part is
// shared.
unsafe impl Sync for Part {}

impl Part {
    /// Lays a part out in a buffer of `bytes` bytes.
    ///
    /// # Errors
    /// [`HeapError::BufferTooSmall`].
    ///
    /// # Safety
    /// 1. The buffer is memory that nobody else uses as long as the part is used.
    pub(super) unsafe fn lay_out(
        buffer: NonNull<u8>,
        bytes: usize,
        caches: usize,
    ) -> Result<NonNull<Part>, HeapError> {
        let geometry =
            Geometry::of(Layout::new::<Part>(), address(buffer.as_ptr()), bytes, caches)?;
        // SAFETY: [buffer-inside] all offsets of a geometry lie in its buffer.
        let at = |offset: usize| unsafe { buffer.add(offset) };
        let numbers = |offset, count| {
            // SAFETY: (1) laid out for this array, which the part alone uses.
            unsafe { Cells::filled(at(offset).cast::<u32>(), count, NONE) }
        };
        let bits = |offset| {
            let words = Bits::words(geometry.granule_count as usize);
            // SAFETY: (1) laid out for this array, which the part alone uses.
            Bits(unsafe { Cells::filled(at(offset).cast::<usize>(), words, 0) })
        };
        // SAFETY: (1) laid out for these granules, aligned.
        let granules = unsafe { Granules::new(at(geometry.granules), geometry.granule_count) };
        let mut engine = Engine {
            granules,
            ends: bits(geometry.ends),
            live: bits(geometry.live),
            bins: Bins::new(numbers(geometry.bins, geometry.bin_count)),
            recent: Recent::new(
                numbers(geometry.recent, geometry.recent_count),
                geometry.granule_count,
            ),
            tally: Tally::default(),
        };
        engine.list(0, geometry.granule_count);
        let caches = at(geometry.caches).cast::<CoreCache>();
        for index in 0..geometry.cache_count {
            // SAFETY: [buffer-inside] laid out for so many.
            let cache = unsafe { caches.add(index) };
            // SAFETY: as above, aligned, and this call's alone.
            unsafe { cache.write(CoreCache::new()) };
        }
        let part = at(geometry.part).cast::<Part>();
        let made = Part {
            engine: Lock::new(engine),
            next: AtomicPtr::new(ptr::null_mut()),
            caches,
            cache_count: geometry.cache_count,
            granules,
        };
        // SAFETY: laid out for the part, aligned, and this call's alone.
        unsafe { part.write(made) };
        Ok(part)
    }

    /// Calls `act` with the engine, alone.
    #[inline]
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Engine) -> T) -> T {
        self.engine.with(act)
    }

    /// Returns the next part.
    pub(super) fn next(&self) -> Option<&Part> {
        // Acquire: pairs with `append`, publishes the part.
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: [buffer-stays] a listed part lies in a buffer that its heap borrows.
        unsafe { next.as_ref() }
    }

    /// Appends a part to the list this one is in.
    pub(super) fn append(&self, part: NonNull<Part>) {
        let mut last = self;
        loop {
            // AcqRel: publishes the part, or sees who came first.
            let won = last.next.compare_exchange(
                ptr::null_mut(),
                part.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match (won, last.next()) {
                (Err(_), Some(next)) => last = next,
                _ => return,
            }
        }
    }

    /// Returns the granules.
    #[inline]
    pub(super) fn granules(&self) -> Granules {
        self.granules
    }

    /// Returns the number of the granule that `pointer` points into, and by how many bytes.
    #[inline]
    pub(super) fn granule_of(&self, pointer: NonNull<u8>) -> Option<(u32, usize)> {
        let first = address(self.granules.at(0).as_ptr());
        let offset = address(pointer.as_ptr()).wrapping_sub(first);
        let index = offset >> GRANULE_LOG2;
        let is_inside = index < self.granules.count() as usize;
        is_inside.then_some((index as u32, offset & ((1 << GRANULE_LOG2) - 1)))
    }

    /// Returns the cache of core `number`; one of the caches whatever the number is, `None` when there
    /// are none.
    #[inline]
    pub(super) fn cache(&self, number: usize) -> Option<&CoreCache> {
        let index = number.checked_rem(self.cache_count)?;
        // SAFETY: [buffer-inside] the part was laid out with so many caches.
        let cache = unsafe { self.caches.add(index) };
        // SAFETY: as above; written before the part was shared.
        Some(unsafe { cache.as_ref() })
    }

    /// Iterates over the caches.
    pub(super) fn caches(&self) -> impl Iterator<Item = &CoreCache> {
        (0..self.cache_count).filter_map(|index| self.cache(index))
    }
}
