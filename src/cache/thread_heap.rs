//! Thread heaps: one heap's caches for one thread.
//!
//! A thread heap lies in the header of the region it leased first, so there is one for each such
//! region and its number is the region's. It outlives the thread: idle ones wait for the next
//! thread to bind. What an unbound thread sees instead is one shared constant whose bins have
//! nothing and take nothing, so the fast paths need not know whether the thread is bound.
//!
//! *Invariants held here*: `[bin-single-writer]`, `[thread-heap-in-lease]`.
//!
//! *Concurrency*: `tenure` says who may write: the bound thread, or whoever made it Busy. Others
//! read counters for statistics; all fields are relaxed atomics for that reason.
//!
//! *Neighbours*: stands on `magazine` and `store`; the heap room binds it to threads.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;

use super::class_state::ClassState;
use super::exchange::depot_places;
use super::flush::give_group;
use super::large::{drain_large, sweep_large};
use super::large_cache::LargeCache;
use super::magazine::{Bin, Magazine, exchange_mark};
use super::store::Store;
use super::supply::Lease;
use crate::base::{
    META_CLASS, SLAB_CLASSES, address, home_mask, in_register, magazine_bytes, magazine_rounds,
    slab_block_bytes,
};
use crate::config::{
    EMPTY_MAGAZINES_KEPT, OWN_REGIONS, PASSES_PER_LOOK, REGION_BYTES, WARM_BYTES_KEPT,
};
use crate::region::RegionRef;
use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// States and bins of a thread heap: the slab classes, and size zero.
const CLASS_STATES: usize = SLAB_CLASSES + 1;

/// Who may write a thread heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Tenure {
    /// Nobody; a thread may bind it.
    Idle = 0,
    /// The thread whose slot table leads to it.
    Bound = 1,
    /// Whoever put it into this state, for a short while; it was Idle, or its thread is leaving.
    Busy = 2,
    /// Whoever holds the whole heap exclusively; it was Bound.
    Held = 3,
    /// As Held, and the bound thread has left meanwhile.
    Orphaned = 4,
}

/// One heap's caches for one thread.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ThreadHeap {
    /// The loaded magazines; the last bin, of size zero, is for ever empty and full.
    pub(crate) bins: [Bin; CLASS_STATES],
    /// Base of the region blocks are compared with at free, see `away`. Read and written by the
    /// holder of the tenure alone, and not an atomic, so that the compiler drops the read for
    /// classes that do not need it.
    home: UnsafeCell<usize>,
    /// Bases of regions leased to this thread heap, each at the place its number has; 0 for none.
    /// A few of them: the home region moves among these without a look at the region map.
    own_regions: [AtomicUsize; OWN_REGIONS],
    /// Who may write; a `Tenure`. Acquire on taking, Release on handing over.
    tenure: AtomicU32,
    /// The mark of this thread heap in leases.
    mark: AtomicU32,
    /// The slot table of the bound thread, null when idle.
    pub(crate) table: AtomicPtr<u8>,
    /// Base of the region to cut new slabs from.
    lease: AtomicUsize,
    /// Bytes that full spare magazines may still take.
    spare_bytes_left: AtomicUsize,
    /// Empty magazines kept, and how many.
    empties: AtomicPtr<Magazine>,
    empties_count: AtomicUsize,
    /// Passes to let by before the clock is looked at again, and what it showed last.
    passes_left: AtomicU32,
    seen_ms: AtomicU32,
    /// Spans and mappings kept, null until the first comes back.
    large: AtomicPtr<LargeCache>,
    /// The rest, a class each.
    classes: [ClassState; CLASS_STATES],
}

// SAFETY: all fields but `home` are atomics; `home` is touched by the holder of the tenure alone,
// and tenure is handed over by Release and Acquire, `[bin-single-writer]`.
unsafe impl Sync for ThreadHeap {}

impl ThreadHeap {
    /// Returns a thread heap nobody binds: its bins have nothing and take nothing.
    pub(crate) const fn unbound() -> ThreadHeap {
        ThreadHeap::with_classes([const { ClassState::unbound() }; CLASS_STATES])
    }

    /// Returns a thread heap with nothing in it.
    const fn empty() -> ThreadHeap {
        let mut classes = [const { MaybeUninit::new(ClassState::unbound()) }; CLASS_STATES];
        let mut class = 0;
        while class < SLAB_CLASSES {
            classes[class] = MaybeUninit::new(ClassState::empty(class));
            class += 1;
        }
        // SAFETY: every element is initialised, and `MaybeUninit` has the layout of what it holds.
        let classes = unsafe {
            core::mem::transmute::<
                [MaybeUninit<ClassState>; CLASS_STATES],
                [ClassState; CLASS_STATES],
            >(classes)
        };
        ThreadHeap::with_classes(classes)
    }

    const fn with_classes(classes: [ClassState; CLASS_STATES]) -> ThreadHeap {
        ThreadHeap {
            bins: [const { Bin::unloaded() }; CLASS_STATES],
            home: UnsafeCell::new(0),
            own_regions: [const { AtomicUsize::new(0) }; OWN_REGIONS],
            tenure: AtomicU32::new(Tenure::Busy as u32),
            mark: AtomicU32::new(0),
            table: AtomicPtr::new(ptr::null_mut()),
            lease: AtomicUsize::new(0),
            spare_bytes_left: AtomicUsize::new(0),
            empties: AtomicPtr::new(ptr::null_mut()),
            empties_count: AtomicUsize::new(0),
            passes_left: AtomicU32::new(0),
            seen_ms: AtomicU32::new(0),
            large: AtomicPtr::new(ptr::null_mut()),
            classes,
        }
    }

    /// Returns the mark of the thread heap in the header of `region`.
    pub(crate) fn mark_of(region: RegionRef) -> u32 {
        region.index() as u32 + 1
    }

    /// Builds the thread heap of `region`, Busy, for the lessee that just leased the region.
    ///
    /// # Safety
    /// 1. The caller leased `region` for building, so nobody else uses its thread area.
    pub(crate) unsafe fn build<'a>(region: RegionRef, store: &Store) -> &'a ThreadHeap {
        let place = region.thread_area::<ThreadHeap>();
        // SAFETY: the area is in the mapped header, large enough, and the caller's alone.
        unsafe { place.write(const { ThreadHeap::empty() }) };
        // SAFETY: just written; nobody else knows it yet.
        let thread_heap = unsafe { place.as_ref() };
        thread_heap.spare_bytes_left.store(store.policy.thread_cache_bytes, Ordering::Relaxed);
        thread_heap.set_home(region);
        thread_heap.lease.store(region.base(), Ordering::Relaxed);
        thread_heap.mark.store(Self::mark_of(region), Ordering::Relaxed);
        thread_heap.tenure.store(Tenure::Busy as u32, Ordering::Release);
        thread_heap
    }

    /// Moves the tenure from one state to another; returns whether it was in the first.
    pub(crate) fn change_tenure(&self, from: Tenure, to: Tenure) -> bool {
        // AcqRel: the last holder's writes are seen; ours are published to the next.
        self.tenure
            .compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns whether the thread heap is in `tenure`, a snapshot.
    pub(crate) fn is_in(&self, tenure: Tenure) -> bool {
        self.tenure.load(Ordering::Acquire) == tenure as u32
    }

    /// Returns the mark of this thread heap in leases.
    pub(crate) fn mark(&self) -> u32 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Returns the number of the region whose header this thread heap lies in.
    pub(crate) fn region_index(&self) -> usize {
        self.mark() as usize - 1
    }

    /// Returns the bin that starts at word `bin_word` of the bins.
    #[inline(always)]
    pub(crate) fn bin_at(&self, bin_word: u8) -> &Bin {
        let first: *const Bin = self.bins.as_ptr();
        // SAFETY: a bin is two words, and a bin word is twice the number of a bin, `fast_bin_word`.
        let bin = unsafe { first.cast::<AtomicPtr<u8>>().add(usize::from(bin_word)) };
        // SAFETY: as above, a bin starts there.
        unsafe { &*in_register(bin.cast()) }
    }

    /// Returns whether `block` lies in the home region, as far as its bin's class cares.
    #[inline(always)]
    pub(crate) fn is_home(&self, block: *mut u8, bin_word: u8) -> bool {
        // SAFETY: [bin-single-writer] the caller is the holder of the tenure, or looks at the
        // unbound thread heap, which nobody writes.
        let home = unsafe { *self.home.get() };
        (address(block) ^ home) & home_mask(bin_word) == 0
    }

    /// Makes `region`, which is leased to this thread heap, the home region. Holder of the tenure
    /// only.
    pub(crate) fn set_home(&self, region: RegionRef) {
        own_place(&self.own_regions, region.base()).store(region.base(), Ordering::Relaxed);
        self.move_home(region.base());
    }

    /// Makes the region of `block` the home region if it is known to be leased to this thread heap;
    /// returns whether it is. Holder of the tenure only.
    #[inline]
    pub(crate) fn follow_home(&self, block: *mut u8) -> bool {
        let base = address(block) & !(REGION_BYTES - 1);
        let is_own = own_place(&self.own_regions, base).load(Ordering::Relaxed) == base;
        if is_own {
            self.move_home(base);
        }
        is_own
    }

    fn move_home(&self, base: usize) {
        // SAFETY: [bin-single-writer] nobody but the holder of the tenure reads or writes it.
        unsafe { *self.home.get() = base };
    }

    /// Returns what is kept beside the bin that starts at word `bin_word` of the bins.
    #[inline(always)]
    pub(crate) fn class_at(&self, bin_word: u8) -> &ClassState {
        // SAFETY: a bin word is twice the number of a bin, `fast_bin_word`; there is a state each.
        unsafe { self.classes.get_unchecked(usize::from(bin_word / 2)) }
    }

    /// Returns what is kept for `class` beside the bin.
    pub(crate) fn class(&self, class: usize) -> &ClassState {
        &self.classes[class]
    }

    /// Returns the regions this thread prefers.
    pub(crate) fn lease(&self) -> Lease {
        let base = self.lease.load(Ordering::Relaxed);
        // SAFETY: [region-stays] the lease is a region of the heap this thread heap is part of.
        Lease { mark: self.mark(), region: Some(unsafe { RegionRef::at(base) }) }
    }

    /// Moves the lease to another region, which becomes the home.
    pub(crate) fn set_lease(&self, lease: &Lease) {
        let Some(region) = lease.region else { return };
        if self.lease.load(Ordering::Relaxed) != region.base() {
            self.lease.store(region.base(), Ordering::Relaxed);
            self.set_home(region);
        }
    }

    /// Takes an empty magazine kept by the thread; null when there is none.
    #[inline]
    pub(crate) fn pop_empty(&self) -> *mut Magazine {
        let first = self.empties.load(Ordering::Relaxed);
        if !first.is_null() {
            // SAFETY: [magazine-one-owner] the list holds empty magazines of this thread heap.
            self.empties.store(unsafe { &*first }.next(), Ordering::Relaxed);
            let count = self.empties_count.load(Ordering::Relaxed);
            self.empties_count.store(count - 1, Ordering::Relaxed);
        }
        first
    }

    /// Takes an empty magazine, from the heap if need be; null when there is no memory for one.
    pub(crate) fn take_empty(&self, store: &Store) -> *mut Magazine {
        let kept = self.pop_empty();
        if kept.is_null() { store.take_magazine(self.lease().region) } else { kept }
    }

    /// Keeps an empty magazine if few are kept; returns whether it did.
    #[inline]
    pub(crate) fn push_empty(&self, magazine: *mut Magazine) -> bool {
        let count = self.empties_count.load(Ordering::Relaxed);
        if count >= EMPTY_MAGAZINES_KEPT {
            return false;
        }
        // SAFETY: [magazine-one-owner] the caller owns the magazine it gives.
        unsafe { &*magazine }.set_next(self.empties.load(Ordering::Relaxed));
        self.empties.store(magazine, Ordering::Relaxed);
        self.empties_count.store(count + 1, Ordering::Relaxed);
        true
    }

    /// Keeps an empty magazine, or gives it to the heap when enough are kept; null is ignored.
    pub(crate) fn give_empty(&self, store: &Store, magazine: *mut Magazine) {
        if !magazine.is_null() && !self.push_empty(magazine) {
            store.give_magazine(magazine);
        }
    }

    /// Returns whether `push_empty` will keep a magazine.
    #[inline]
    pub(crate) fn has_place_for_empty(&self) -> bool {
        self.empties_count.load(Ordering::Relaxed) < EMPTY_MAGAZINES_KEPT
    }

    /// Takes a full spare magazine of `class`; null when there is none.
    #[inline]
    pub(crate) fn pop_spare(&self, class: usize) -> *mut Magazine {
        let state = &self.classes[class];
        let first = state.spares.load(Ordering::Relaxed);
        if !first.is_null() {
            // SAFETY: [magazine-one-owner] the list holds full magazines of this thread heap.
            state.spares.store(unsafe { &*first }.next(), Ordering::Relaxed);
            let left = self.spare_bytes_left.load(Ordering::Relaxed) + magazine_bytes(class);
            self.spare_bytes_left.store(left, Ordering::Relaxed);
            let count = state.spare_count.load(Ordering::Relaxed);
            state.spare_count.store(count - 1, Ordering::Relaxed);
        }
        first
    }

    /// Keeps a full magazine as a spare if the cache's bytes allow; returns whether it did.
    #[inline]
    pub(crate) fn push_spare(&self, class: usize, magazine: *mut Magazine) -> bool {
        let state = &self.classes[class];
        let left = self.spare_bytes_left.load(Ordering::Relaxed);
        let count = state.spare_count.load(Ordering::Relaxed);
        if left < magazine_bytes(class) || count == u16::MAX {
            return false;
        }
        // SAFETY: [magazine-one-owner] the caller owns the magazine it gives.
        unsafe { &*magazine }.set_next(state.spares.load(Ordering::Relaxed));
        state.spares.store(magazine, Ordering::Relaxed);
        self.spare_bytes_left.store(left - magazine_bytes(class), Ordering::Relaxed);
        state.spare_count.store(count + 1, Ordering::Relaxed);
        true
    }

    /// Returns whether it is time to look at the clock, which `now_ms` reads: always for a thread that
    /// passes seldom, at every 32nd pass for one that passes several times within a tick.
    #[inline]
    pub(crate) fn is_time_to_look(&self, now_ms: impl Fn() -> u64) -> bool {
        let passes_left = self.passes_left.load(Ordering::Relaxed);
        if passes_left != 0 {
            self.passes_left.store(passes_left - 1, Ordering::Relaxed);
            return false;
        }
        let now_ms = now_ms() as u32;
        if self.seen_ms.load(Ordering::Relaxed) == now_ms {
            self.passes_left.store(PASSES_PER_LOOK - 1, Ordering::Relaxed);
        }
        self.seen_ms.store(now_ms, Ordering::Relaxed);
        true
    }

    /// Returns the spans and mappings kept, if there ever were any.
    #[inline]
    pub(crate) fn large(&self) -> Option<&LargeCache> {
        // SAFETY: [magazine-one-owner] null, or a metadata block of this thread heap.
        unsafe { self.large.load(Ordering::Relaxed).as_ref() }
    }

    /// Returns the spans and mappings kept, making the cache first if need be; `None` when there
    /// is no memory for it, or when the heap's threads keep none.
    pub(super) fn large_or_new(&self, store: &Store) -> Option<&LargeCache> {
        let keeps_some = store.policy.thread_large_bytes != 0 && store.policy.decay_ms != 0;
        if keeps_some && self.large.load(Ordering::Relaxed).is_null() {
            let made = store.new_large_cache(self.lease().region);
            self.large.store(made, Ordering::Relaxed);
        }
        self.large()
    }

    /// Gives back spans and mappings that were not used since the last sweep. Holder of the tenure only.
    pub(crate) fn sweep_large(&self, store: &Store) {
        if let Some(cache) = self.large() {
            sweep_large(store, cache);
        }
    }

    /// Returns the blocks of `class` cached here; any thread, a snapshot.
    pub(crate) fn cached_blocks(&self, class: usize) -> usize {
        let state = &self.classes[class];
        self.bins[class].count(magazine_rounds(class))
            + usize::from(state.spare_count.load(Ordering::Relaxed)) * magazine_rounds(class)
            + usize::from(state.away_blocks.load(Ordering::Relaxed))
    }

    /// Forgets every block and magazine, all dead. Holder of the tenure only.
    pub(crate) fn reset(&self, store: &Store) {
        self.own_regions.iter().for_each(|base| base.store(0, Ordering::Relaxed));
        for (class, bin) in self.bins.iter().enumerate().take(SLAB_CLASSES) {
            bin.clear();
            self.classes[class].reset(class);
        }
        self.spare_bytes_left.store(store.policy.thread_cache_bytes, Ordering::Relaxed);
        self.large.store(ptr::null_mut(), Ordering::Relaxed);
        self.empties.store(ptr::null_mut(), Ordering::Relaxed);
        self.empties_count.store(0, Ordering::Relaxed);
    }

    /// Calls `act` with class and block for every block cached here. Holder of the tenure only.
    pub(crate) fn for_each_cached(&self, act: &mut impl FnMut(usize, usize)) {
        for (class, state) in self.classes.iter().enumerate().take(SLAB_CLASSES) {
            self.bins[class].for_each_block(magazine_rounds(class), |block| act(class, block));
            let mut spare = state.spares.load(Ordering::Relaxed);
            while !spare.is_null() {
                // SAFETY: [magazine-one-owner] the list holds full magazines of this thread heap.
                let magazine = unsafe { &*spare };
                magazine.blocks(magazine_rounds(class)).for_each(|block| act(class, block));
                spare = magazine.next();
            }
            let away = state.away.load(Ordering::Relaxed);
            // SAFETY: [magazine-one-owner] null, or this thread heap's.
            if let Some(magazine) = unsafe { away.as_ref() } {
                let count = usize::from(state.away_blocks.load(Ordering::Relaxed));
                (0..count).for_each(|index| act(class, magazine.round(index)));
            }
        }
    }

    /// Flushes all but a small warm rest, as the thread leaves; full magazines go to the depots as
    /// they are. Holder of the tenure only.
    pub(crate) fn cool(&self, store: &Store) {
        if store.policy.decay_ms != 0 {
            (0..SLAB_CLASSES).for_each(|class| self.store_spares(store, class));
            store.sweeps.note_idle(store.policy.decay_ms);
        }
        self.flush(store, WARM_BYTES_KEPT);
    }

    /// Flushes everything. Holder of the tenure only.
    pub(crate) fn drain(&self, store: &Store) {
        self.flush(store, 0);
        let large = self.large.swap(ptr::null_mut(), Ordering::Relaxed);
        if !large.is_null() {
            store.give_magazine(large.cast());
        }
        let mut empty = self.empties.swap(ptr::null_mut(), Ordering::Relaxed);
        self.empties_count.store(0, Ordering::Relaxed);
        while !empty.is_null() {
            // SAFETY: [magazine-one-owner] the list holds empty magazines of this thread heap.
            let next = unsafe { &*empty }.next();
            store.give_magazine(empty);
            empty = next;
        }
    }

    /// Flushes all but `kept_bytes` bytes of blocks of each class.
    fn flush(&self, store: &Store, kept_bytes: usize) {
        if let Some(cache) = self.large() {
            drain_large(store, cache);
        }
        for class in 0..SLAB_CLASSES {
            self.flush_away(store, class);
            self.flush_spares(store, class);
            self.flush_bin(store, class, kept_bytes / slab_block_bytes(class));
            if let Some(slab) = self.classes[class].take_slab() {
                let settled = slab.leave();
                store.follow_up(slab, settled);
            }
        }
    }

    /// Sends the blocks of `class` that wait in `away` home.
    pub(crate) fn flush_away(&self, store: &Store, class: usize) {
        let state = &self.classes[class];
        let count = usize::from(state.away_blocks.swap(0, Ordering::Relaxed));
        let magazine = state.away.swap(ptr::null_mut(), Ordering::Relaxed);
        if magazine.is_null() {
            return;
        }
        // SAFETY: [magazine-one-owner] the magazine was this thread heap's.
        let rounds = unsafe { &*magazine };
        give_group(store, class, (0..count).map(|index| rounds.round(index)));
        self.give_empty(store, magazine);
    }

    /// Stores the spares of `class` in its depot, as far as there is place.
    fn store_spares(&self, store: &Store, class: usize) {
        let places = depot_places(class);
        while let Some(depot) = self.class(class).has_spare().then(|| store.depot_or_new(class)) {
            let magazine = self.pop_spare(class);
            if !depot.is_some_and(|depot| depot.store(magazine, places)) {
                self.push_spare(class, magazine);
                return;
            }
        }
    }

    fn flush_spares(&self, store: &Store, class: usize) {
        loop {
            let magazine = self.pop_spare(class);
            if magazine.is_null() {
                return;
            }
            // SAFETY: [magazine-one-owner] popped, so the caller's.
            give_group(store, class, unsafe { &*magazine }.blocks(magazine_rounds(class)));
            self.give_empty(store, magazine);
        }
    }

    fn flush_bin(&self, store: &Store, class: usize, kept: usize) {
        let (bin, rounds) = (&self.bins[class], magazine_rounds(class));
        let surplus = bin.count(rounds).saturating_sub(kept);
        give_group(store, class, (0..surplus).map(|_| take_either(bin, rounds)));
        if kept == 0 {
            self.give_empty(store, bin.unload_taking());
            self.give_empty(store, bin.unload_given());
        }
    }
}

/// Returns the place of a region in a table of own regions.
fn own_place(own_regions: &[AtomicUsize; OWN_REGIONS], base: usize) -> &AtomicUsize {
    &own_regions[(base / REGION_BYTES) % OWN_REGIONS]
}

/// Takes a block of a bin that has one, from whichever magazine.
fn take_either(bin: &Bin, rounds: usize) -> usize {
    let block = bin.pop();
    if !block.is_null() {
        return address(block);
    }
    bin.exchange(exchange_mark(rounds, 1));
    address(bin.pop())
}

const _: () = assert!(META_CLASS == SLAB_CLASSES, "the last bin is the one of size zero");
