//! Freeing, measuring and resizing by address alone, for callers that know no layout: C and preloads.
//!
//! The region map says which heap the address lies in, the control word of its chunk (or the map
//! itself, for mappings) which class the block has. From there on everything is as with a layout.
//!
//! ```text
//! deallocate_if_owned ─ map, control word, push on the bin        (inlined)
//!   └─ free_again ─ what else the thread has
//!        └─ free_found ─ as the cold side of a free with a layout
//! ```
//!
//! Every address has an answer: a block, a fault (inside a heap, but no block starts there), or
//! "in no heap", upon which nothing was touched. The start of a block is checked before anything
//! is pushed; whether it is still out is decided as for every other free.
//!
//! *Concurrency*: as allocate and free. Whoever names no heap pins the one it found while it is in
//! it, but for the push on the thread's own bin.
//!
//! *Neighbours*: stands on `thread`, `core` and the region map; the process-wide adapters call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::core::HeapCore;
use super::resize::{Tail, block_bytes};
use super::slow::thread_heap;
use super::sweep::{sweep_beside, sweep_now_and_then};
use super::{Heap, thread};
use crate::base::{
    Large, META_CLASS, PARTIAL_CLASSES, Tier, address, align_down, at_address, block_index,
    class_of, home_mask, slab_block_bytes,
};
use crate::cache::{
    free_at_home, free_large, free_stray, give_block, give_with_spares, keep_quickly,
};
use crate::config::{CHUNK_BYTES, CHUNK_LOG2, REGION_BYTES, REGION_CHUNKS};
use crate::os::{FaultKind, FaultSite, broken_invariant, fault, spin_wait};
use crate::region::{
    EntryKind, RegionRef, lookup, mapping_at, mapping_bytes, mapping_colour, owner_slot,
    was_mapping_of,
};
use crate::slab::{Control, State};
use crate::sync::Ordering;

/// The first word of a bin whose class looks at where a block's region is.
const HOME_WORD: u8 = 0;

const _: () =
    assert!(home_mask(HOME_WORD) == !(REGION_BYTES - 1), "the smallest blocks share lines");

/// By class, 2^64 over the bytes of a block, rounded up: the product with an offset wraps to less
/// than this exactly when a block starts at the offset (Lemire, Kaser and Kurz, *Faster remainder by
/// direct computation*).
const STEPS: &[u64; PARTIAL_CLASSES.next_power_of_two()] = &{
    let mut steps = [0; PARTIAL_CLASSES.next_power_of_two()];
    let mut class = 0;
    while class < PARTIAL_CLASSES {
        steps[class] = u64::MAX / slab_block_bytes(class) as u64 + 1;
        class += 1;
    }
    steps
};

/// What kind of memory of a heap an address lies in.
#[derive(Clone, Copy, Debug)]
enum Ground {
    /// The region around it.
    Region,
    /// The mapping that starts at this address.
    Mapping(usize),
}

/// A block found by its address.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// A block of a slab of this class.
    Slab(usize),
    /// A span or a mapping, and the bytes the caller may use.
    Large(Large, usize),
}

impl Found {
    fn usable_bytes(self) -> usize {
        match self {
            Found::Slab(class) => slab_block_bytes(class),
            Found::Large(_, usable_bytes) => usable_bytes,
        }
    }

    /// Reports a fault unless `layout` has this block's class.
    fn verify_layout(self, core: &HeapCore, place: usize, layout: Layout) {
        let given = Large::of(layout.size(), layout.align());
        let fits = match self {
            Found::Slab(class) => class_of(layout.size(), layout.align()) == Tier::Slab(class),
            Found::Large(large, _) => given.is_some_and(|given| given.bytes == large.bytes),
        };
        if !fits {
            let site = FaultSite {
                name: core.store.name(),
                heap: core.store.id,
                address: place,
                given_bytes: block_bytes(layout).max(layout.size()),
                block_bytes: self.usable_bytes(),
            };
            fault(FaultKind::WrongLayout, site);
        }
    }
}

impl Heap {
    /// Frees a block of this heap whose layout the caller does not know. Anything else is a fault:
    /// an address inside a block, in another heap, or in none.
    ///
    /// # Safety
    /// 1. If a block of this heap starts at `block`, it is the caller's to free.
    ///
    /// # Cost
    /// As a free with the layout, and the look-up of the block's class: four dependent loads.
    ///
    /// # Examples
    /// ```
    /// use polyheap::allocator_api2::alloc::{Allocator, Layout};
    ///
    /// let heap = polyheap::Heap::new();
    /// let block = heap.allocate(Layout::new::<[u64; 9]>()).unwrap().cast();
    /// // SAFETY: just allocated, and used by nobody.
    /// unsafe { heap.deallocate_unsized(block) };
    /// assert_eq!(heap.stats().live_blocks, 0);
    /// ```
    #[inline]
    pub unsafe fn deallocate_unsized(&self, block: NonNull<u8>) {
        // SAFETY: (1) is this function's contract.
        if !unsafe { self.deallocate_if_owned(block) } {
            self.misused(block, owner_kind(self.core(), address(block.as_ptr())));
        }
    }

    /// Frees a block if it lies in this heap; returns false, having touched nothing, if it does
    /// not. An address in this heap where no block starts is a fault.
    ///
    /// # Safety
    /// 1. If a block of this heap starts at `block`, it is the caller's to free.
    ///
    /// # Cost
    /// As [`deallocate_unsized`](Heap::deallocate_unsized).
    ///
    /// # Examples
    /// ```
    /// use polyheap::allocator_api2::alloc::{Allocator, Layout};
    ///
    /// let (net, disk) = (polyheap::Heap::new(), polyheap::Heap::new());
    /// let block = net.allocate(Layout::new::<u64>()).unwrap().cast();
    /// // SAFETY: just allocated, and used by nobody.
    /// assert!(unsafe { !disk.deallocate_if_owned(block) && net.deallocate_if_owned(block) });
    /// ```
    // Inlined always: as `deallocate_block`, the fast path itself; out of line, a free of the C library
    // takes a sixth more instructions.
    #[inline(always)]
    #[must_use = "a block that lies in another heap was not freed"]
    pub unsafe fn deallocate_if_owned(&self, block: NonNull<u8>) -> bool {
        let place = address(block.as_ptr());
        let thread_heap = thread::current(self.entry());
        // Most blocks lie in the thread's own region, which spares the look-up: a fifth of the
        // instructions. Nobody's own region is at address zero.
        let is_at_home = place >= REGION_BYTES && thread_heap.is_home(block.as_ptr(), HOME_WORD);
        let is_in_region = is_at_home || {
            let eightfold_slot = thread::eightfold_slot_of(self.entry());
            lookup(place).is_kind_of(EntryKind::Region, eightfold_slot)
        };
        if is_in_region {
            // SAFETY: the map says that a region of this heap lies there, or it is the one that
            // this heap's thread heap leases.
            let region = unsafe { RegionRef::of(place) };
            if let Some(class) = slab_class_at(region, place)
                && (is_at_home || thread_heap.is_home(block.as_ptr(), bin_word(class)))
                && thread_heap.bin_at(bin_word(class)).push(block.as_ptr())
            {
                return true;
            }
        }
        self.free_again(block)
    }

    /// Makes a block of this heap fit `to`, where it lies if its class allows, and returns it with
    /// its usable bytes. Contents are kept up to the shorter of the two lengths, counting all that
    /// was usable. What is no block of this heap is a fault.
    ///
    /// # Errors
    /// When there is no memory; the block is as it was.
    ///
    /// # Safety
    /// 1. If a block of this heap starts at `block`, it is the caller's, and given up for the
    ///    result when this succeeds.
    ///
    /// # Cost
    /// As a resize with the layouts.
    ///
    /// # Examples
    /// ```
    /// use polyheap::allocator_api2::alloc::{Allocator, Layout};
    ///
    /// let heap = polyheap::Heap::new();
    /// let block = heap.allocate(Layout::from_size_align(100, 1).unwrap()).unwrap().cast();
    /// let wished = Layout::from_size_align(110, 1).unwrap();
    /// // SAFETY: the block is this program's alone.
    /// let resized = unsafe { heap.resize_unsized(block, wished) }.unwrap();
    /// assert_eq!((resized.cast(), resized.len()), (block, 112));
    /// # // SAFETY: as above.
    /// # unsafe { heap.deallocate_unsized(block) };
    /// ```
    pub unsafe fn resize_unsized(
        &self,
        block: NonNull<u8>,
        to: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let place = address(block.as_ptr());
        let own_slot = self.core().map(|core| core.store.slot);
        let usable_bytes = match ground_at(place) {
            Some((slot, ground)) if Some(slot) == own_slot => match find(ground, place) {
                Ok(found) => found.usable_bytes(),
                Err(kind) => self.misused(block, kind),
            },
            _ => self.misused(block, owner_kind(self.core(), place)),
        };
        // The length of a block is that of a layout, and 1 is an alignment.
        let from = Layout::from_size_align(usable_bytes, 1).map_err(|_| AllocError)?;
        // SAFETY: (1) a block of this heap starts there, which is the caller's by this function's
        // contract; every length up to its usable bytes has its class, `[class-pure]`.
        let resized = unsafe { self.resize_block(block, from, to, Tail::Any) }.ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(resized, block_bytes(to)))
    }

    /// Frees what the bin did not take; returns false when it does not lie in this heap.
    #[cold]
    #[inline(never)]
    extern "C" fn free_again(&self, block: NonNull<u8>) -> bool {
        let place = address(block.as_ptr());
        let eightfold_slot = thread::eightfold_slot_of(self.entry());
        if let Some(large) = plain_large_at(place, eightfold_slot)
            && keep_quickly(thread::current(self.entry()), eightfold_slot, large, place)
        {
            return true;
        }
        let Some(core) = self.core() else { return false };
        let Some((slot, ground)) = ground_at(place) else { return false };
        if slot != core.store.slot {
            return false;
        }
        match find(ground, place) {
            Ok(found) => {
                if !free_quickly(slot, found, block) {
                    free_found(core, found, place);
                }
            }
            Err(kind) => self.misused(block, kind),
        }
        true
    }

    /// Reports that `block` is none of this heap.
    #[cold]
    fn misused(&self, block: NonNull<u8>, kind: FaultKind) -> ! {
        report(self.core(), self.name(), address(block.as_ptr()), kind)
    }
}

/// Frees a block into whichever live heap of the process it lies in; returns false, having touched
/// nothing, when it lies in none. An address in a heap where no block starts is a fault, and so is
/// one in a mapping that is kept for the next heap.
///
/// # Safety
/// 1. If a block of a heap starts at `block`, it is the caller's to free.
/// 2. Nobody drops, resets, closes or merges that heap meanwhile.
///
/// # Concurrency
/// Any thread. A thread that does not name a heap can be bound to it all the same.
///
/// # Cost
/// As [`Heap::deallocate_unsized`]; the cold side pins the heap, two atomic operations.
///
/// # Examples
/// ```
/// use polyheap::allocator_api2::alloc::{Allocator, Layout};
///
/// let heap = polyheap::Heap::new();
/// let block = heap.allocate(Layout::new::<u64>()).unwrap().cast();
/// // SAFETY: just allocated, and used by nobody; a value on the stack lies in no heap.
/// unsafe {
///     assert!(polyheap::deallocate_anywhere(block));
///     assert!(!polyheap::deallocate_anywhere(core::ptr::NonNull::from(&block).cast()));
/// }
/// ```
#[inline]
#[must_use = "a block that lies in no heap was not freed"]
pub unsafe fn deallocate_anywhere(block: NonNull<u8>) -> bool {
    let place = address(block.as_ptr());
    let entry = lookup(place);
    if entry.kind() == EntryKind::Region {
        // SAFETY: the map says that a region lies there; by (2) its heap stays.
        let region = unsafe { RegionRef::of(place) };
        if let Some(class) = slab_class_at(region, place) {
            let thread_heap = thread::current(thread::entry_of(entry.slot()));
            if thread_heap.is_home(block.as_ptr(), bin_word(class))
                && thread_heap.bin_at(bin_word(class)).push(block.as_ptr())
            {
                return true;
            }
        }
    }
    free_anywhere_again(block)
}

/// Returns the usable bytes of the block that starts at `pointer`, in whichever live heap of the
/// process; `None` for every other address. A block that was freed may still be answered for.
///
/// # Concurrency
/// Any thread, lock-free; pins the heap, so that it does not go while it is asked. For a heap that
/// is being dropped the answer is `None`.
///
/// # Cost
/// Two atomic operations on a word of the heap. Who has the heap asks it itself,
/// [`Heap::usable_size`].
///
/// # Examples
/// ```
/// let heap = polyheap::Heap::new();
/// let value = heap.boxed([0u8; 100]);
/// let place = core::ptr::NonNull::from(&*value).cast();
/// assert_eq!(polyheap::usable_size_anywhere(place), Some(112));
/// assert_eq!(polyheap::usable_size_anywhere(core::ptr::NonNull::dangling()), None);
/// ```
pub fn usable_size_anywhere(pointer: NonNull<u8>) -> Option<usize> {
    let place = address(pointer.as_ptr());
    let measure = |core: &HeapCore| {
        // Again, now that the heap stays.
        let (slot, ground) = ground_at(place)?;
        let is_there = slot == core.store.slot;
        if is_there { find(ground, place).ok().map(Found::usable_bytes) } else { None }
    };
    HeapCore::with_pinned(owner_slot(place)?, measure).flatten()
}

/// Verifies that `layout` names the class of the block that starts at `block`, in whichever live heap
/// of the process. If it names another one, or no block starts there, that is a fault. Returns
/// false, having looked at nothing, when the address lies in no heap.
///
/// For faces that are told sizes at free and do not need them.
///
/// # Concurrency
/// As [`usable_size_anywhere`].
///
/// # Examples
/// ```
/// use core::alloc::Layout;
///
/// let heap = polyheap::Heap::new();
/// let value = heap.boxed(7u64);
/// let place = core::ptr::NonNull::from(&*value).cast();
/// assert!(polyheap::verify_layout_anywhere(place, Layout::new::<u64>()));
/// ```
pub fn verify_layout_anywhere(block: NonNull<u8>, layout: Layout) -> bool {
    let place = address(block.as_ptr());
    let verify = |core: &HeapCore| match ground_at(place) {
        Some((slot, ground)) if slot == core.store.slot => {
            match find(ground, place) {
                Ok(found) => found.verify_layout(core, place, layout),
                Err(kind) => report(Some(core), core.store.name(), place, kind),
            }
            true
        }
        _ => false,
    };
    owner_slot(place).and_then(|slot| HeapCore::with_pinned(slot, verify)).unwrap_or(false)
}

/// Returns the first word of the bin of `class`.
#[inline]
fn bin_word(class: usize) -> u8 {
    2 * class as u8
}

/// Returns the class of the slab block that starts at `place`; `None` when none does. The gap
/// behind a slab's last block may pass for one: no block of it is ever out, so its flush is a
/// fault. A metadata block has the bin of size zero, which takes nothing.
#[inline]
fn slab_class_at(region: RegionRef, place: usize) -> Option<usize> {
    // Acquire: what the maker of the run wrote is seen.
    let word = region.controls[(place >> CHUNK_LOG2) % REGION_CHUNKS].load(Ordering::Acquire);
    // The first chunk of a run, as nearly always: there is no need to know where the run starts.
    match Control(word) {
        control if control.is_slab() => class_if_start(control, place % CHUNK_BYTES),
        _ => slab_class_behind(region, place),
    }
}

/// [`slab_class_at`] for chunks that are not the first of a slab.
#[cold]
fn slab_class_behind(region: RegionRef, place: usize) -> Option<usize> {
    let (base, control) = run_around(region, place);
    if control.is_slab() { class_if_start(control, place - base) } else { None }
}

/// Returns the class of a slab if a block starts `offset_bytes` into it.
#[inline]
fn class_if_start(control: Control, offset_bytes: usize) -> Option<usize> {
    let class = control.class();
    let step = STEPS[class % STEPS.len()];
    ((offset_bytes as u64).wrapping_mul(step) < step).then_some(class)
}

/// Returns the plain large block that starts at `place` in the heap in a slot, given as eight times
/// that; `None` for any other address, and for some blocks.
#[inline]
fn plain_large_at(place: usize, eightfold_slot: usize) -> Option<Large> {
    let entry = lookup(place);
    let (base, colour, bytes) = if entry.is_kind_of(EntryKind::Region, eightfold_slot) {
        // SAFETY: the map says that a region of this heap lies there.
        let region = unsafe { RegionRef::of(place) };
        let (base, control) = run_around(region, place);
        let colour = region.colour_of((base - region.base()) / CHUNK_BYTES);
        let is_span = control.state() == State::Span;
        (base, colour, if is_span { control.run() * CHUNK_BYTES } else { 0 })
    } else if entry.kind() == EntryKind::Mapping {
        let base = align_down(place, REGION_BYTES);
        (base, mapping_colour(base), mapping_bytes(base))
    } else {
        return None;
    };
    if place - base == colour.offset_bytes() { Large::of_plain(bytes, 1) } else { None }
}

/// Returns the first address of the run that `place` lies in, and its control word.
#[inline]
fn run_around(region: RegionRef, place: usize) -> (usize, Control) {
    // Acquire: what the maker of the run wrote is seen.
    let control_of = |chunk: usize| Control(region.controls[chunk].load(Ordering::Acquire));
    let chunk = (place >> CHUNK_LOG2) % REGION_CHUNKS;
    let control = control_of(chunk);
    if control.state() != State::Tail {
        return (region.chunk_base(chunk), control);
    }
    let first = chunk.wrapping_sub(control.live()) % REGION_CHUNKS;
    (region.chunk_base(first), control_of(first))
}

/// Returns the slot of the heap that `place` lies in, and where in it; touches the map only.
fn ground_at(place: usize) -> Option<(usize, Ground)> {
    let entry = lookup(place);
    if entry.kind() == EntryKind::Region {
        return Some((entry.slot(), Ground::Region));
    }
    mapping_at(place, entry).map(|(base, head)| (head.slot(), Ground::Mapping(base)))
}

/// Finds the block that starts at `place`, or says what is wrong with freeing it. The caller keeps
/// the heap from going.
fn find(ground: Ground, place: usize) -> Result<Found, FaultKind> {
    let Ground::Mapping(base) = ground else {
        // SAFETY: the map says that a region lies there, whose heap the caller keeps.
        return find_in_region(unsafe { RegionRef::of(place) }, place);
    };
    let colour = mapping_colour(base);
    if place - base != colour.offset_bytes() {
        return Err(FaultKind::InteriorPointer);
    }
    let bytes = mapping_bytes(base);
    Ok(found_large(bytes, colour.usable_bytes(bytes)))
}

fn find_in_region(region: RegionRef, place: usize) -> Result<Found, FaultKind> {
    let (base, control) = run_around(region, place);
    match control.state() {
        _ if base == region.base() => Err(FaultKind::ForeignBlock),
        State::Free => Err(FaultKind::DoubleFree),
        State::Tail => Err(FaultKind::InteriorPointer),
        State::Span => {
            let colour = region.colour_of((base - region.base()) / CHUNK_BYTES);
            if place - base != colour.offset_bytes() {
                return Err(FaultKind::InteriorPointer);
            }
            let bytes = control.run() * CHUNK_BYTES;
            Ok(found_large(bytes, colour.usable_bytes(bytes)))
        }
        State::Active | State::Partial | State::Full => match control.class() {
            META_CLASS => Err(FaultKind::ForeignBlock),
            class if block_index(class, place - base).is_none() => Err(FaultKind::InteriorPointer),
            class => Ok(Found::Slab(class)),
        },
    }
}

/// Returns the block in a run or mapping of so many bytes; each such length is that of its class.
fn found_large(bytes: usize, usable_bytes: usize) -> Found {
    match Large::of_plain(bytes, 1).or_else(|| Large::of(bytes, 1)) {
        Some(large) => Found::Large(large, usable_bytes),
        None => broken_invariant("class-pure"),
    }
}

/// Frees a block of the heap in `slot` with what the calling thread has at hand; returns whether it
/// did.
fn free_quickly(slot: usize, found: Found, block: NonNull<u8>) -> bool {
    let thread_heap = thread::current(thread::entry_of(slot));
    let place = address(block.as_ptr());
    match found {
        Found::Large(large, _) => keep_quickly(thread_heap, 8 * slot, large, place),
        Found::Slab(class) => {
            let is_given = thread_heap.is_home(block.as_ptr(), bin_word(class))
                && give_with_spares(thread_heap, bin_word(class), block.as_ptr());
            if is_given {
                sweep_now_and_then(thread_heap);
            }
            is_given
        }
    }
}

/// Frees a block of this heap, binding the thread first if need be.
fn free_found(core: &HeapCore, found: Found, place: usize) {
    let (store, thread_heap) = (&core.store, thread_heap(core));
    match (found, thread_heap) {
        (Found::Large(large, _), _) => free_large(store, thread_heap, large, place),
        (Found::Slab(class), None) => give_block(store, place, class),
        (Found::Slab(class), Some(thread_heap)) => {
            if thread_heap.is_home(at_address(place), bin_word(class)) {
                free_at_home(store, thread_heap, class, place);
            } else {
                free_stray(store, thread_heap, class, place);
            }
        }
    }
    sweep_beside(core);
}

/// The cold side of [`deallocate_anywhere`].
#[cold]
#[inline(never)]
extern "C" fn free_anywhere_again(block: NonNull<u8>) -> bool {
    let place = address(block.as_ptr());
    let mut round = 0;
    while let Some((slot, ground)) = ground_at(place) {
        let found = find(ground, place);
        if let Ok(found) = found
            && free_quickly(slot, found, block)
        {
            return true;
        }
        let free = |core: &HeapCore| match found {
            Ok(found) => free_found(core, found, place),
            Err(kind) => report(Some(core), core.store.name(), place, kind),
        };
        if HeapCore::with_pinned(slot, free).is_some() {
            return true;
        }
        // More threads are in the heap than can be counted.
        spin_wait(&mut round);
    }
    let unit = align_down(place, REGION_BYTES);
    if lookup(place).kind() == EntryKind::CachedMapping && place - unit < mapping_bytes(unit) {
        // Nobody else can have memory there, and what was there is free.
        report(None, "", place, FaultKind::DoubleFree);
    }
    false
}

/// Returns what is wrong with freeing `place` into a heap it does not lie in.
#[cold]
fn owner_kind(core: Option<&HeapCore>, place: usize) -> FaultKind {
    match owner_slot(place) {
        Some(_) => FaultKind::WrongHeap,
        None if core.is_some_and(|core| was_mapping_of(place, core.store.slot)) => {
            FaultKind::DoubleFree
        }
        None => FaultKind::ForeignBlock,
    }
}

/// Reports a fault about `place` and aborts.
#[cold]
fn report(core: Option<&HeapCore>, name: &str, place: usize, kind: FaultKind) -> ! {
    let heap = core.map_or(0, |core| core.store.id);
    fault(kind, FaultSite { name, heap, address: place, ..FaultSite::default() })
}
