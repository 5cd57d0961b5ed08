//! The core of a heap: everything about it but its handle, in its first region's header.
//!
//! *Invariants held here*: `[core-in-first-region]`, `[heap-id-unique]`.
//!
//! *Concurrency*: built by one thread and published by the handle; its parts are shared as each
//! says.
//!
//! *Neighbours*: stands on `cache::Store`; the handle, binding and walks reach a heap through it.

use core::ptr::NonNull;

use super::builder::Options;
use super::table;
use crate::cache::{Look, Store, Tenure};
use crate::config::REGION_BYTES;
use crate::error::HeapError;
use crate::os::{debug_check, spin_wait};
use crate::region::{RegionRef, release_region, retire_mapping};
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Bit of `HeapCore::visitors`: the heap is held.
const HELD: usize = 1 << (usize::BITS - 1);

/// Looks at a moving heap before statistics take what they got.
const LOOKS_MAX: u32 = 64;

/// A heap held exclusively, see [`HeapCore::hold`]; lets go when dropped.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a HeapCore);

impl Held<'_> {
    /// Empties every cache into the slabs.
    pub(super) fn drain(&self) {
        for thread_heap in self.0.store.thread_heaps() {
            thread_heap.drain(&self.0.store);
        }
        crate::cache::drain_depots(&self.0.store);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for thread_heap in self.0.store.thread_heaps() {
            if thread_heap.change_tenure(Tenure::Held, Tenure::Bound) {
                continue;
            }
            let is_idle = thread_heap.change_tenure(Tenure::Busy, Tenure::Idle)
                || thread_heap.change_tenure(Tenure::Orphaned, Tenure::Idle);
            debug_check!(is_idle, "bin-single-writer");
            self.0.store.idle.mark(thread_heap.region_index());
        }
        // Release: publishes what was done while holding.
        self.0.visitors.fetch_and(!HELD, Ordering::Release);
    }
}

/// What a heap is.
#[derive(Debug)]
pub(super) struct HeapCore {
    /// Regions, summaries, depots, identity.
    pub(super) store: Store,
    /// Handles of a shared heap. Release on leaving, Acquire by the last.
    pub(super) handles: AtomicUsize,
    /// Threads that are leaving the heap (low half) and that have left (high half). Raised before
    /// and after a leaving thread's flush, so that statistics notice one in between.
    pub(super) leaves: AtomicU64,
    /// Visitors inside, and whether the heap is held against them. See `hold` and `visit`.
    visitors: AtomicUsize,
    /// Whether threads keep caches in this heap.
    pub(super) has_thread_cache: bool,
}

/// The core of the heap in each slot, null when there is none. Written by the heap's maker
/// (Release) and its dropper; read under a pin (Acquire).
static CORES: [AtomicPtr<HeapCore>; crate::config::HEAP_SLOTS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; crate::config::HEAP_SLOTS];

impl HeapCore {
    /// Makes a heap: a slot, a first region, and the core in its header.
    pub(super) fn create(options: &Options) -> Result<NonNull<HeapCore>, HeapError> {
        let slot = table::take_slot().ok_or(HeapError::TooManyHeaps)?;
        let store = Store::new(slot, table::heap_number(slot), options.name(), options.policy);
        store.account.set_max_bytes(options.max_bytes);
        store.account.set_soft_max_bytes(options.soft_max_bytes);
        let first = store.first_region().inspect_err(|_| table::give_slot(slot))?;
        super::sweep::note_process_use();
        let place = first.core_area::<HeapCore>();
        let core = HeapCore {
            store,
            handles: AtomicUsize::new(1),
            leaves: AtomicU64::new(0),
            visitors: AtomicUsize::new(0),
            has_thread_cache: options.has_thread_cache,
        };
        // SAFETY: the area is in the mapped header of a region this thread just acquired, it is
        // aligned and large enough for a core.
        unsafe { place.write(core) };
        // SAFETY: just written; the region stays until the heap is dropped.
        let core = unsafe { place.as_ref() };
        // A fresh roster has place for one.
        core.store.adopt_region(first, 0);
        CORES[slot].store(place.as_ptr(), Ordering::Release);
        Ok(place)
    }

    /// Calls `look` with the core of the heap in `slot`, pinned meanwhile; `None` if it is going.
    pub(super) fn with_pinned<R>(slot: usize, look: impl FnOnce(&HeapCore) -> R) -> Option<R> {
        let word = table::word(slot);
        if !table::pin(word) {
            return None;
        }
        let core = CORES[slot].load(Ordering::Acquire);
        // SAFETY: [pin-excludes-drop] the pin keeps a core that is listed from going away.
        let result = unsafe { core.as_ref() }.map(look);
        table::unpin(word);
        result
    }

    /// Holds the heap against everyone who may be in it without a `&Heap`, until the guard goes.
    /// The caller holds the heap exclusively, so no bound thread is inside.
    pub(super) fn hold(&self) -> Held<'_> {
        // Acquire: what visitors did is seen.
        let mut visitors = self.visitors.fetch_or(HELD, Ordering::Acquire);
        let mut round = 0;
        while visitors & !HELD != 0 {
            spin_wait(&mut round);
            visitors = self.visitors.load(Ordering::Acquire);
        }
        for thread_heap in self.store.thread_heaps() {
            while !thread_heap.change_tenure(Tenure::Idle, Tenure::Busy)
                && !thread_heap.change_tenure(Tenure::Bound, Tenure::Held)
            {
                spin_wait(&mut round);
            }
        }
        Held(self)
    }

    /// Forgets visitors, holders and leaving threads that are gone. In a forked child only.
    pub(super) fn forget_visitors(&self) {
        self.visitors.store(0, Ordering::Relaxed);
        // The low half: threads that are leaving.
        self.leaves.fetch_and(!u64::from(u32::MAX), Ordering::Relaxed);
    }

    /// Calls `look` until no thread was leaving the heap meanwhile, a few dozen times at most.
    pub(super) fn look_in_peace<R>(&self, mut look: impl FnMut() -> R) -> R {
        let mut round = 0;
        loop {
            let before = self.leaves.load(Ordering::Acquire);
            let result = look();
            let after = self.leaves.load(Ordering::Acquire);
            let is_quiet = before == after && before as u32 == 0;
            if is_quiet || round == LOOKS_MAX {
                return result;
            }
            spin_wait(&mut round);
        }
    }

    /// Calls `act` as a visitor of a heap the caller only pins; `None` if the heap is held.
    pub(super) fn visit<R>(&self, act: impl FnOnce(&HeapCore) -> R) -> Option<R> {
        let enter = |now: usize| (now & HELD == 0).then_some(now + 1);
        // Acquire: what the last holder did is seen.
        self.visitors.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).ok()?;
        let result = act(self);
        // Release: pairs with the Acquire in `hold`.
        self.visitors.fetch_sub(1, Ordering::Release);
        Some(result)
    }

    /// Calls `act` on every idle thread heap, Busy meanwhile.
    pub(super) fn for_each_idle_thread_heap(&self, act: impl Fn(&crate::cache::ThreadHeap)) {
        for thread_heap in self.store.thread_heaps() {
            if thread_heap.change_tenure(Tenure::Idle, Tenure::Busy) {
                act(thread_heap);
                thread_heap.change_tenure(Tenure::Busy, Tenure::Idle);
                // A search that saw it Busy may have cleared the mark.
                self.store.idle.mark(thread_heap.region_index());
            }
        }
    }

    /// Takes an idle thread heap, Busy.
    pub(super) fn take_idle(&self) -> Option<&crate::cache::ThreadHeap> {
        let end = || self.store.regions.end();
        self.store.idle.search(end, |index| {
            let found = self.store.region(index).and_then(|region| {
                let is_own = region.lessee() == crate::cache::ThreadHeap::mark_of(region);
                // SAFETY: [thread-heap-in-lease] such a region has an initialised thread heap.
                is_own.then(|| unsafe { region.thread_area::<crate::cache::ThreadHeap>().as_ref() })
            });
            match found {
                Some(idle) if idle.change_tenure(Tenure::Idle, Tenure::Busy) => Look::Found(idle),
                _ => Look::Nothing,
            }
        })
    }

    /// Ends the heap: nobody may reach it any more, its memory goes to the next.
    ///
    /// # Safety
    /// 1. The caller owns the heap's last handle, and uses the core no more.
    pub(super) unsafe fn destroy(core: NonNull<HeapCore>) {
        // SAFETY: the caller's handle is the last, so the core is still there.
        let this = unsafe { core.as_ref() };
        let slot = this.store.slot;
        this.withdraw();
        for base in this.store.mappings.iter() {
            // SAFETY: (1) the roster lists mappings of this heap; nobody uses them any more, and
            // its tiers go with it.
            unsafe {
                retire_mapping(base, this.store.shares_contents(), this.store.policy.origin);
            };
        }
        // SAFETY: nobody else is in the heap.
        unsafe { this.store.mappings.dismantle() };
        // SAFETY: this thread is alone with the heap and the regions hold nothing in use but the
        // core itself, which is read no more after the first region is released.
        unsafe { this.release_regions() };
        table::give_slot(slot);
        super::sweep::note_process_idle();
    }

    /// Makes sure that no thread reaches the heap again: closes the slot, waits for threads on
    /// their way out, clears the slot in the tables of bound threads.
    pub(super) fn withdraw(&self) {
        let slot = self.store.slot;
        let mut round = 0;
        table::close(table::word(slot), || spin_wait(&mut round));
        CORES[slot].store(core::ptr::null_mut(), Ordering::Release);
        for thread_heap in self.store.thread_heaps() {
            super::thread::forget(thread_heap, slot);
        }
    }

    /// Hands every region to the process's cache, the first one last.
    ///
    /// # Safety
    /// 1. The heap was withdrawn and its blocks are dead; the core is not used afterwards.
    unsafe fn release_regions(&self) {
        let first = crate::base::align_down(crate::base::address(&raw const *self), REGION_BYTES);
        let (sharing, origin) = (self.store.sharing(), self.store.policy.origin);
        for region in self.store.all_regions().filter(|region| region.base() != first) {
            // SAFETY: (1) of this function's contract.
            unsafe { release_region(region, sharing, origin) };
        }
        // SAFETY: nobody else uses the roster.
        unsafe { self.store.regions.dismantle() };
        // SAFETY: [core-in-first-region] the core's own region is mapped.
        let region = unsafe { RegionRef::at(first) };
        // SAFETY: (1) of this function's contract; `self` is not touched after this.
        unsafe { release_region(region, sharing, origin) };
    }
}

/// Returns the slots that have a heap.
pub(super) fn live_slots() -> impl Iterator<Item = usize> {
    live_slots_from(0)
}

/// Returns the slots from `first` on that have a heap.
pub(super) fn live_slots_from(first: usize) -> impl Iterator<Item = usize> {
    let slots = table::used_slots_from(first);
    slots.filter(|&slot| !CORES[slot].load(Ordering::Relaxed).is_null())
}
