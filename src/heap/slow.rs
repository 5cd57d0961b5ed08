//! The cold side of allocate and free: binding, refilling, exchanging, and the direct path.
//!
//! The entrances are `extern "C"`: should a bounds check of ours ever fail, the process stops there
//! and nothing unwinds out of an allocator call.
//!
//! *Concurrency*: any thread; nothing here waits for another thread.
//!
//! *Neighbours*: stands on `cache` and `thread`; called by the fast paths in `handle`.

use core::ptr::{self, NonNull};

use super::core::HeapCore;
use super::handle::Granted;
use super::sweep::{sweep_beside, sweep_now_and_then};
use super::trim::trim_process_wholly;
use super::{Heap, thread};
use crate::base::{Large, Tier, address, at_address, class_of, run_mask, slab_block_bytes};
use crate::cache::{
    ThreadHeap, free_at_home, free_large, free_stray, give_block, give_with_spares, hand_out,
    hand_out_at_start, keep_quickly, recirculate, refill, take_block, take_growing, take_kept,
    take_large,
};
use crate::config::{ALIGN_BYTES_MAX, CHUNK_BYTES};
use crate::os::{FaultKind, FaultSite, fault};
use crate::region::RegionRef;
use crate::sync::Ordering;

impl Heap {
    /// Allocates when the bin has nothing to take: from what else the thread has. Short, as a loop
    /// that frees what it allocates comes here every few rounds.
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn allocate_again(
        &self,
        thread_heap: &ThreadHeap,
        bin_word: u8,
        size: usize,
        align: usize,
    ) -> *mut u8 {
        let block = recirculate(thread_heap, bin_word);
        if block.is_null() {
            return self.allocate_slow(size, align).block;
        }
        sweep_now_and_then(thread_heap);
        block
    }

    /// Frees when a push found no place: with what else the thread has.
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn deallocate_again(
        &self,
        thread_heap: &ThreadHeap,
        bin_word: u8,
        block: NonNull<u8>,
        size: usize,
        align: usize,
    ) {
        let pointer = block.as_ptr();
        let is_home = thread_heap.is_home(pointer, bin_word) || thread_heap.follow_home(pointer);
        if !is_home || !give_with_spares(thread_heap, bin_word, pointer) {
            return self.deallocate_slow(block, size, align);
        }
        sweep_now_and_then(thread_heap);
    }

    /// Allocates when the layout is not a fast one: what the thread keeps of large blocks.
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn allocate_large(
        &self,
        thread_heap: &ThreadHeap,
        size: usize,
        align: usize,
    ) -> Granted {
        if let Some(large) = Large::of_plain(size, align) {
            let kept = take_kept(thread_heap, large.class);
            if kept != 0 {
                let block = at_address(hand_out(kept, large));
                return Granted { block, bytes: large.usable_bytes() };
            }
        }
        // The last thing to do, so that what is above needs no frame.
        self.allocate_slow(size, align)
    }

    /// Frees when the layout is not a fast one: into what the thread keeps of large blocks.
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn deallocate_large(
        &self,
        thread_heap: &ThreadHeap,
        block: NonNull<u8>,
        size: usize,
        align: usize,
    ) {
        if let Some(large) = Large::of_plain(size, align) {
            let slot = thread::eightfold_slot_of(self.entry());
            if keep_quickly(thread_heap, slot, large, address(block.as_ptr())) {
                return;
            }
        }
        self.deallocate_slow(block, size, align);
    }

    /// Allocates when the bin is empty, or no large block is kept.
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn allocate_slow(&self, size: usize, align: usize) -> Granted {
        if let Some(large) = Large::of(size, align) {
            return Granted { block: self.take_large(large).0, bytes: large.usable_bytes() };
        }
        match class_of(size, align) {
            Tier::Slab(class) => {
                let block = self.allocate_with(|core| allocate_slab(core, class));
                Granted { block, bytes: slab_block_bytes(class) }
            }
            _ => Granted { block: at_address(align), bytes: 0 },
        }
    }

    /// Allocates a span or a mapping the thread does not keep; returns whether it is all zero.
    pub(super) fn take_large(&self, large: Large) -> (*mut u8, bool) {
        if large.bytes > isize::MAX as usize || large.align > ALIGN_BYTES_MAX {
            // No system grants that, whatever the heap gives back.
            if let Ok(core) = self.bound_core() {
                core.store.account.denied_by_system.fetch_add(1, Ordering::Relaxed);
            }
            return (ptr::null_mut(), false);
        }
        let mut is_zero = false;
        let block = self.allocate_with(|core| {
            let taken = take_large(&core.store, large);
            is_zero = taken.is_zero;
            taken.pointer
        });
        (block, is_zero)
    }

    /// Allocates a large block for one that grows.
    pub(super) fn take_growing(&self, large: Large) -> *mut u8 {
        if !large.is_span() {
            // What the thread keeps is warm.
            let kept = take_kept(thread::current(self.entry()), large.class);
            if kept != 0 {
                return at_address(hand_out_at_start(kept, large));
            }
        }
        self.allocate_with(|core| take_growing(&core.store, large))
    }

    /// Calls `take` with the core; once more when a limit was in the way and something could be
    /// given back. Counts what is denied.
    fn allocate_with(&self, mut take: impl FnMut(&HeapCore) -> *mut u8) -> *mut u8 {
        let Ok(core) = self.bound_core() else { return ptr::null_mut() };
        sweep_beside(core);
        if core.store.is_to_gather() {
            self.gather(core);
        }
        let account = &core.store.account;
        if account.should_relieve() {
            self.relieve(core);
            account.note_relieved();
        }
        let refusals = account.refusals();
        let mut block = take(core);
        if block.is_null() {
            self.relieve(core);
            if account.refusals() == refusals {
                // The system refused: what the process keeps, or this heap, may be in the way.
                trim_process_wholly();
                core.store.hollow_out_regions();
            }
            block = take(core);
        }
        if block.is_null() {
            let is_by_limit = account.refusals() != refusals;
            let denied =
                if is_by_limit { &account.denied_by_limit } else { &account.denied_by_system };
            denied.fetch_add(1, Ordering::Relaxed);
        }
        block
    }

    /// Frees when the bin is full, the block is a stranger, or no large block can be kept.
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn deallocate_slow(&self, block: NonNull<u8>, size: usize, align: usize) {
        let block = address(block.as_ptr());
        if let Some(large) = Large::of(size, align) {
            return self.free_large(large, block);
        }
        if let Tier::Slab(class) = class_of(size, align) {
            let core = self.core_of(block);
            free_slab(core, class, block);
            sweep_beside(core);
        }
    }

    fn free_large(&self, large: Large, block: usize) {
        let core = self.core_of(block);
        free_large(&core.store, thread_heap(core), large, block);
        sweep_beside(core);
    }

    /// Frees the span that a block which was resized has left for a block like `to`. Not kept: the chunks
    /// behind a block that grows melt into a run for its next move. A block that becomes a mapping comes
    /// back to no span: its pages go back at once, or it would hold them twice until they decay.
    pub(super) fn free_outgrown(&self, from: Large, to: Option<Large>, block: NonNull<u8>) {
        let block = address(block.as_ptr());
        let store = &self.core_of(block).store;
        free_large(store, None, from, block);
        if to.is_some_and(|to| !to.is_span()) && store.policy.decay_ms != u32::MAX {
            // SAFETY: a span of this heap, just freed: its region stays.
            let region = unsafe { RegionRef::of(block) };
            let first = (block - region.base()) / CHUNK_BYTES;
            store.purge_chunks(region, run_mask(first, from.chunks()), || false);
        }
    }

    /// Returns the core, to free `block`.
    fn core_of(&self, block: usize) -> &HeapCore {
        match self.core() {
            Some(core) => core,
            None => foreign_to_unused(self.name(), block),
        }
    }
}

/// Returns the calling thread's thread heap, binding it first if need be; `None` for the direct
/// path.
pub(super) fn thread_heap(core: &HeapCore) -> Option<&ThreadHeap> {
    if !core.has_thread_cache {
        return None;
    }
    thread::bound(core.store.slot).or_else(|| thread::bind(core))
}

fn allocate_slab(core: &HeapCore, class: usize) -> *mut u8 {
    let Some(thread_heap) = thread_heap(core) else { return take_block(&core.store, class) };
    let block = thread_heap.bins[class].pop();
    if !block.is_null() {
        return block;
    }
    let mut block = recirculate(thread_heap, 2 * class as u8);
    if block.is_null() {
        block = refill(&core.store, thread_heap, class);
    }
    // Without memory for a magazine there may still be a block.
    if block.is_null() { take_block(&core.store, class) } else { block }
}

fn free_slab(core: &HeapCore, class: usize, block: usize) {
    let store = &core.store;
    let Some(thread_heap) = thread_heap(core) else { return give_block(store, block, class) };
    let pointer: *mut u8 = at_address(block);
    if !thread_heap.is_home(pointer, 2 * class as u8) {
        return free_stray(store, thread_heap, class, block);
    }
    free_at_home(store, thread_heap, class, block);
}

#[cold]
fn foreign_to_unused(name: &str, block: usize) -> ! {
    let site = FaultSite { name, address: block, ..FaultSite::default() };
    fault(FaultKind::ForeignBlock, site)
}
