//! The store: what all threads of a heap refill from and give back to.
//!
//! It knows the heap's regions, which of them are worth a look (summaries), the depots, and the
//! sum of bytes taken from slabs. The heap's core embeds it, in the first region's header.
//!
//! *Invariants held here*: `[region-one-heap]`, `[summary-never-misses]`.
//!
//! *Concurrency*: any thread, lock-free throughout.
//!
//! *Neighbours*: stands on `region` and `slab`; refill, flush, exchange and the direct path share
//! it, `supply` searches it.

use core::ptr::{self, NonNull};

use super::account::Account;
use super::decay::Sweeps;
use super::depot::Depot;
use super::large_cache::LargeCache;
use super::magazine::Magazine;
use super::summary::Summary;
use super::thread_heap::ThreadHeap;
use crate::base::{
    MAPPING_CLASSES, META_CLASS, PARTIAL_CLASSES, SLAB_CLASSES, address, at_address,
    magazine_rounds,
};
use crate::config::{
    CHUNK_BYTES, DEPOT_PLACES, GATHER_REGIONS_LOW, HEAP_MAPPINGS_KEPT, MAGAZINE_BYTES,
    NAME_BYTES_MAX, PURGE_CHUNKS_MAX, REGION_BYTES,
};
use crate::error::HeapError;
use crate::policy::HugePages;
use crate::region::{MappingDepot, Origin, RegionRef, Roster, Sharing, acquire_region};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Mappings a heap keeps for all its threads.
pub(crate) type KeptMappings = MappingDepot<MAPPING_CLASSES, HEAP_MAPPINGS_KEPT>;

/// What a heap was made with, as far as its memory is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorePolicy {
    /// Bytes of full spare magazines a thread keeps.
    pub(crate) thread_cache_bytes: usize,
    /// Bytes of spans and mappings a thread keeps.
    pub(crate) thread_large_bytes: usize,
    /// Bytes of mappings the heap keeps for all threads.
    pub(crate) heap_large_bytes: usize,
    /// Milliseconds until idle memory goes back: 0 at once, `u32::MAX` never.
    pub(crate) decay_ms: u32,
    /// Whether memory may lie in huge pages.
    pub(crate) huge_pages: HugePages,
    /// Whether nothing is shared with heaps before and after this one.
    pub(crate) is_isolated: bool,
    /// Where memory comes from; a heap on a source is isolated.
    pub(crate) origin: Origin,
}

/// A heap's regions, summaries and depots.
#[derive(Debug)]
pub(crate) struct Store {
    /// Slot of the heap; the region map's entries carry it.
    pub(crate) slot: usize,
    /// Number of the heap, unique in the process.
    pub(crate) id: u64,
    /// Name for reports, cut to `NAME_BYTES_MAX`.
    name: [u8; NAME_BYTES_MAX],
    name_bytes: u8,
    /// What the heap was made with.
    pub(crate) policy: StorePolicy,
    /// What the heap holds and may hold.
    pub(crate) account: Account,
    /// When idle memory goes back.
    pub(crate) sweeps: Sweeps,
    /// Whether caches pin slabs that hold little else, see [`Store::note_growth`].
    wants_gathering: AtomicBool,
    /// Regions whose chunks have no memory. A hint: where it says there are none, none is looked for.
    hollow_regions: AtomicUsize,
    /// Regions there were when the caches were last emptied for that. A hint.
    gathered_regions: AtomicUsize,
    /// Mappings of the heap, live and kept, by their addresses.
    pub(crate) mappings: Roster,
    /// Bytes of those mappings. Relaxed; publishes nothing.
    pub(crate) mapped_bytes: AtomicUsize,
    /// Mappings kept for all threads; like a depot below.
    kept_mappings: AtomicPtr<KeptMappings>,
    /// Every region of the heap, by number.
    pub(crate) regions: Roster,
    /// Regions with partial slabs, by class.
    pub(crate) partial: [Summary; PARTIAL_CLASSES],
    /// Regions with free chunks.
    pub(crate) roomy: Summary,
    /// Regions whose thread heap is idle.
    pub(crate) idle: Summary,
    /// Full magazines, by class; null until the class's first is stored. Installed by an exchange
    /// (Release) in a metadata block that stays until the heap's end.
    depots: [AtomicPtr<Depot<Magazine>>; SLAB_CLASSES],
    /// Empty magazines on their way from threads that empty them to threads that fill them; like a
    /// depot otherwise.
    empties: AtomicPtr<Depot<Magazine>>,
    /// Bytes of blocks out of the slabs and of spans and mappings: live ones and cached ones.
    /// Moved at refill and flush with relaxed additions; publishes nothing.
    taken_bytes: AtomicUsize,
    /// The most `taken_bytes` has been.
    peak_bytes: AtomicUsize,
}

impl Store {
    /// Returns the store of a heap without regions.
    pub(crate) fn new(slot: usize, id: u64, name: &str, policy: StorePolicy) -> Store {
        let mut end = name.len().min(NAME_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let mut kept = [0; NAME_BYTES_MAX];
        kept[..end].copy_from_slice(&name.as_bytes()[..end]);
        Store {
            slot,
            id,
            name: kept,
            name_bytes: end as u8,
            policy,
            account: Account::new(),
            sweeps: Sweeps::new(),
            wants_gathering: AtomicBool::new(false),
            hollow_regions: AtomicUsize::new(0),
            gathered_regions: AtomicUsize::new(0),
            mappings: Roster::new(policy.origin),
            mapped_bytes: AtomicUsize::new(0),
            kept_mappings: AtomicPtr::new(ptr::null_mut()),
            regions: Roster::new(policy.origin),
            partial: [const { Summary::new() }; PARTIAL_CLASSES],
            roomy: Summary::new(),
            idle: Summary::new(),
            depots: [const { AtomicPtr::new(ptr::null_mut()) }; SLAB_CLASSES],
            empties: AtomicPtr::new(ptr::null_mut()),
            taken_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the heap's name.
    pub(crate) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.name_bytes)]).unwrap_or("")
    }

    /// Returns region `index`.
    pub(crate) fn region(&self, index: usize) -> Option<RegionRef> {
        let base = self.regions.get(index)?;
        // SAFETY: [region-one-heap] the roster lists mapped regions of this heap, which outlives
        // every use of its store.
        Some(unsafe { RegionRef::at(base) })
    }

    /// Iterates over the heap's regions.
    pub(crate) fn all_regions(&self) -> impl Iterator<Item = RegionRef> + '_ {
        (0..self.regions.end()).filter_map(|index| self.region(index))
    }

    /// Adds a region, leased to `mark` (0 for nobody); `None` when the system refuses.
    pub(crate) fn add_region(&self, mark: u32) -> Option<RegionRef> {
        if let Some(region) = self.fill_hollow_region(mark) {
            return Some(region);
        }
        let region = self.acquire_region()?;
        let resident_bytes = region.resident_bytes();
        if self.charge(resident_bytes) {
            if self.adopt_region(region, mark) {
                self.advise(region);
                self.note_growth();
                return Some(region);
            }
            self.uncharge(resident_bytes);
        }
        // SAFETY: the region was just acquired and nothing was put into it.
        unsafe { crate::region::release_region(region, self.sharing(), self.policy.origin) };
        None
    }

    /// Fills up one of the heap's hollow regions, leased to `mark` if nobody leases it.
    fn fill_hollow_region(&self, mark: u32) -> Option<RegionRef> {
        if self.hollow_regions.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let region = self.all_regions().find(|region| region.fill_up(self.slot))?;
        self.hollow_regions.fetch_sub(1, Ordering::Relaxed);
        if mark != 0 {
            region.lease(mark);
        }
        self.roomy.mark(region.index());
        Some(region)
    }

    /// Gives the addresses of regions without a block back to the system, their headers excepted; returns
    /// how many there were. For when addresses are short: trimming comes first.
    pub(crate) fn hollow_out_regions(&self) -> usize {
        if !self.policy.origin.is_system() {
            return 0;
        }
        let hollowed = self.all_regions().filter(|region| region.hollow_out(self.slot)).count();
        self.hollow_regions.fetch_add(hollowed, Ordering::Relaxed);
        hollowed
    }

    /// Takes the first region of the heap; the caller lists it.
    pub(crate) fn first_region(&self) -> Result<RegionRef, HeapError> {
        let none = HeapError::OutOfMemory { requested_bytes: REGION_BYTES };
        let region = self.acquire_region().ok_or(none)?;
        let resident_bytes = region.resident_bytes();
        if self.charge(resident_bytes) {
            return Ok(region);
        }
        // SAFETY: the region was just acquired and nothing was put into it.
        unsafe { crate::region::release_region(region, self.sharing(), self.policy.origin) };
        Err(HeapError::LimitExceeded { requested_bytes: resident_bytes })
    }

    fn acquire_region(&self) -> Option<RegionRef> {
        acquire_region(self.slot, 0, self.taken_sharing(), self.policy.origin)
    }

    /// Returns what regions taken now may come from: what lies in a warm one would be charged
    /// before anything is handed out.
    fn taken_sharing(&self) -> Sharing {
        if self.account.has_limit() {
            Sharing::Addresses.min(self.sharing())
        } else {
            self.sharing()
        }
    }

    /// Notes that the heap grew by a region. When little of its regions is out of the slabs, and
    /// none of them had a run of free chunks, blocks in caches pin slabs that are empty otherwise,
    /// as after frees in random order: the caches are to be emptied.
    fn note_growth(&self) {
        let regions = self.regions.end();
        let taken_bytes = self.taken_bytes.load(Ordering::Relaxed);
        let is_loose = taken_bytes < regions * REGION_BYTES / 2;
        let gathered = self.gathered_regions.load(Ordering::Relaxed);
        // Not again before the heap has grown by an eighth: what is loose then is not pinned.
        if is_loose && regions > GATHER_REGIONS_LOW && regions > gathered + gathered / 8 {
            self.wants_gathering.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the caches are to be emptied, see `note_growth`, and forgets it.
    #[inline]
    pub(crate) fn is_to_gather(&self) -> bool {
        if !self.wants_gathering.load(Ordering::Relaxed) {
            return false;
        }
        self.gathered_regions.store(self.regions.end(), Ordering::Relaxed);
        self.wants_gathering.swap(false, Ordering::Relaxed)
    }

    /// Tells the system of the policy about huge pages.
    fn advise(&self, region: RegionRef) {
        if self.policy.huge_pages == HugePages::Always && self.policy.origin.is_system() {
            region.advise_huge_pages(HugePages::Always);
        }
    }

    /// Returns what the heap shares with heaps before and after it.
    pub(crate) fn sharing(&self) -> Sharing {
        match self.policy {
            StorePolicy { is_isolated: true, .. } => Sharing::Nothing,
            // Their pages are huge: none of them is passed on.
            StorePolicy { huge_pages: HugePages::Always, .. } => Sharing::Nothing,
            _ => Sharing::Contents,
        }
    }

    /// Returns whether mappings come from other heaps and go to them.
    pub(crate) fn shares_contents(&self) -> bool {
        !self.policy.is_isolated && self.policy.huge_pages == HugePages::System
    }

    /// Charges the heap for memory it is about to hold; returns whether it may. See [`Account`].
    pub(crate) fn charge(&self, bytes: usize) -> bool {
        self.account.charge(bytes)
    }

    /// Takes back a charge, for memory the system got back.
    pub(crate) fn uncharge(&self, bytes: usize) {
        self.account.uncharge(bytes);
    }

    /// Returns the depot of kept mappings, if it was ever needed.
    pub(crate) fn kept_mappings(&self) -> Option<&KeptMappings> {
        depot_in(&self.kept_mappings)
    }

    /// Keeps a mapping for all threads; returns whether it did.
    pub(crate) fn keep_mapping(&self, class: usize, base: usize, bytes: usize) -> bool {
        let bytes_max = self.policy.heap_large_bytes;
        if bytes > bytes_max || self.policy.decay_ms == 0 {
            return false;
        }
        let kept = self.depot_or_new_in(&self.kept_mappings, KeptMappings::new);
        let is_kept = kept.is_some_and(|kept| kept.store(class, base, bytes, bytes_max));
        if is_kept {
            self.sweeps.note_idle(self.policy.decay_ms);
        }
        is_kept
    }

    /// Acts on chunks of `region` that became free.
    pub(crate) fn chunks_freed(&self, region: RegionRef) {
        self.roomy.mark(region.index());
        match self.policy.decay_ms {
            0 => {
                self.purge_chunks(region, region.dirty_chunks(), || false);
            }
            decay_ms => self.sweeps.note_idle(decay_ms),
        }
    }

    /// Drops what is left of a region without blocks: its bitmaps; returns the bytes.
    pub(crate) fn purge_header(&self, region: RegionRef) -> usize {
        let bytes = region.purge_free_header(self.policy.origin);
        self.uncharge(bytes);
        self.mark_again(region, true);
        bytes
    }

    /// Drops the contents of those chunks of `region` in `mask` that are free; returns the bytes
    /// and the chunks not seen to, when `is_enough` said so between two runs.
    pub(crate) fn purge_chunks(
        &self,
        region: RegionRef,
        mask: u64,
        is_enough: impl Fn() -> bool,
    ) -> (usize, u64) {
        let (mut rest, mut purged_bytes) = (mask, 0);
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let run = ((rest >> first).trailing_ones() as usize).min(PURGE_CHUNKS_MAX);
            rest &= !crate::base::run_mask(first, run);
            let bytes = region.purge_free_run(first, run, self.policy.origin);
            self.uncharge(bytes);
            purged_bytes += bytes;
            // A search that came meanwhile may have cleared the mark.
            self.roomy.mark(region.index());
            if is_enough() {
                break;
            }
        }
        (purged_bytes, rest)
    }

    /// Lists a region of this heap; returns whether the roster had place for it.
    pub(crate) fn adopt_region(&self, region: RegionRef, mark: u32) -> bool {
        if mark != 0 {
            region.lease(mark);
        }
        let number = |index| region.set_index(index as u32);
        let Some(index) = self.regions.insert(region.base(), number) else { return false };
        if region.free_chunks() != 0 {
            self.roomy.mark(index);
        } else if region.is_hollow() {
            self.hollow_regions.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Iterates over the thread heaps that were ever made, with their regions.
    pub(crate) fn thread_heaps(&self) -> impl Iterator<Item = &ThreadHeap> + '_ {
        self.all_regions().filter_map(|region| {
            let is_own = region.lessee() == ThreadHeap::mark_of(region);
            // SAFETY: [thread-heap-in-lease] a region leased to the mark of its own number has an
            // initialised thread heap in its header.
            is_own.then(|| unsafe { region.thread_area::<ThreadHeap>().as_ref() })
        })
    }

    /// Counts bytes leaving the slabs.
    pub(crate) fn count_taken(&self, bytes: usize) {
        let now = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Not an exchange: when two threads set a new peak at once, the lower may win.
        if now > self.peak_bytes.load(Ordering::Relaxed) {
            self.peak_bytes.store(now, Ordering::Relaxed);
        }
    }

    /// Counts bytes coming back to the slabs.
    pub(crate) fn count_given(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes out of the slabs, and the most there ever were.
    pub(crate) fn taken_and_peak_bytes(&self) -> (usize, usize) {
        (self.taken_bytes.load(Ordering::Relaxed), self.peak_bytes.load(Ordering::Relaxed))
    }

    /// Forgets the peak and counts `taken_bytes` as out: after blocks moved between heaps.
    pub(crate) fn recount(&self, taken_bytes: usize) {
        self.taken_bytes.store(taken_bytes, Ordering::Relaxed);
        self.peak_bytes.store(taken_bytes, Ordering::Relaxed);
    }

    /// Returns the depot of `class`, if it was ever needed.
    #[inline]
    pub(crate) fn depot(&self, class: usize) -> Option<&Depot<Magazine>> {
        depot_in(&self.depots[class])
    }

    /// Returns the depot of `class`, making it first if need be; `None` without memory.
    pub(crate) fn depot_or_new(&self, class: usize) -> Option<&Depot<Magazine>> {
        self.depot_or_new_in(&self.depots[class], Depot::new)
    }

    fn depot_or_new_in<'a, T>(
        &'a self,
        place: &'a AtomicPtr<T>,
        new: impl FnOnce() -> T,
    ) -> Option<&'a T> {
        const { assert!(size_of::<T>() <= MAGAZINE_BYTES, "a depot fills a metadata block") };
        if let Some(depot) = depot_in(place) {
            return Some(depot);
        }
        let block = NonNull::new(self.new_magazine(None))?;
        let made = block.cast::<T>();
        // SAFETY: the metadata block is this call's, aligned, and as large as a depot.
        unsafe { made.write(new()) };
        let won = place.compare_exchange(
            ptr::null_mut(),
            made.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if won.is_err() {
            self.release_magazine(block.as_ptr());
        }
        depot_in(place)
    }

    /// Forgets the depots and the magazines in them, all dead.
    pub(crate) fn forget_depots(&self) {
        for depot in self.depots.iter().chain([&self.empties]) {
            depot.store(ptr::null_mut(), Ordering::Relaxed);
        }
        self.kept_mappings.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Gives the depots' blocks back, and the empty magazines. Nobody else uses the heap.
    pub(crate) fn dismantle_depots(&self) {
        while let Some(empty) = depot_in(&self.empties).and_then(Depot::load) {
            self.release_magazine(empty);
        }
        for depot in self.depots.iter().chain([&self.empties]) {
            let block = depot.swap(ptr::null_mut(), Ordering::Acquire);
            if !block.is_null() {
                self.release_magazine(block.cast());
            }
        }
        let block = self.kept_mappings.swap(ptr::null_mut(), Ordering::Acquire);
        if !block.is_null() {
            self.release_magazine(block.cast());
        }
    }

    /// Makes a thread's cache of large blocks in a metadata block; null without memory.
    pub(super) fn new_large_cache(&self, lease: Option<RegionRef>) -> *mut LargeCache {
        let Some(block) = NonNull::new(self.take_magazine(lease)) else { return ptr::null_mut() };
        let made = block.cast::<LargeCache>();
        // SAFETY: the metadata block is this call's, aligned, and as large as the cache.
        unsafe { made.write(LargeCache::new(self.policy.thread_large_bytes)) };
        made.as_ptr()
    }

    /// Calls `act` with class and block for every block in a depot. Nobody else uses the heap.
    pub(crate) fn for_each_stored(&self, act: &mut impl FnMut(usize, usize)) {
        for class in 0..SLAB_CLASSES {
            for magazine in self.depot(class).into_iter().flat_map(Depot::stored) {
                // SAFETY: [magazine-one-owner] the depot's, and the caller excludes others.
                let blocks = unsafe { &*magazine }.blocks(magazine_rounds(class));
                blocks.for_each(|block| act(class, block));
            }
        }
    }

    /// Takes an empty magazine; null when there is no memory for one.
    pub(crate) fn take_magazine(&self, lease: Option<RegionRef>) -> *mut Magazine {
        match depot_in(&self.empties).and_then(Depot::load) {
            Some(empty) => empty,
            None => self.new_magazine(lease),
        }
    }

    /// Gives an empty magazine to whoever needs one next.
    pub(crate) fn give_magazine(&self, magazine: *mut Magazine) {
        let empties = self.depot_or_new_in(&self.empties, Depot::new);
        if !empties.is_some_and(|empties| empties.store(magazine, DEPOT_PLACES)) {
            self.release_magazine(magazine);
        }
    }

    /// Takes a magazine out of a region's header, that of `lease` first, or out of a slab.
    fn new_magazine(&self, lease: Option<RegionRef>) -> *mut Magazine {
        let charge = |bytes| self.charge(bytes);
        let from_header = lease.and_then(|region| region.take_magazine(charge));
        let block = match from_header.or_else(|| self.magazine_of_any_region()) {
            Some(magazine) => magazine.as_ptr(),
            None => super::direct::take_block(self, META_CLASS),
        };
        block.cast()
    }

    /// Gives a magazine back to where it came from.
    fn release_magazine(&self, magazine: *mut Magazine) {
        let place = address(magazine);
        // SAFETY: magazines lie in regions of this heap.
        let region = unsafe { RegionRef::of(place) };
        if place - region.base() >= CHUNK_BYTES {
            super::direct::give_block(self, place, META_CLASS);
        } else if let Some(magazine) = NonNull::new(at_address(place)) {
            region.give_magazine(magazine);
        }
    }

    fn magazine_of_any_region(&self) -> Option<NonNull<u8>> {
        self.all_regions()
            .take(4)
            .find_map(|region| region.take_magazine(|bytes| self.charge(bytes)))
    }
}

fn depot_in<T>(place: &AtomicPtr<T>) -> Option<&T> {
    let depot = place.load(Ordering::Acquire);
    // SAFETY: [depot-stays] an installed depot lies in a metadata block of this heap until the
    // heap's end.
    unsafe { depot.as_ref() }
}
