//! The direct path: one block from a slab's bits, one block back to them.
//!
//! It serves threads without a thread heap (before binding, while one is being set up, after
//! thread-local teardown), heaps with caching switched off, and the store's own magazines. It is
//! complete by itself: the magazines are a cache above it.
//!
//! *Concurrency*: any thread, lock-free. Two threads on one class claim different slabs.
//!
//! *Neighbours*: stands on `supply`, `slab` and `flush`.

use core::ptr;

use super::flush::give_group;
use super::store::Store;
use super::supply::Lease;
use crate::base::{at_address, slab_block_bytes};
use crate::slab::{Left, Slab};

/// Takes one block of `class`; null when the system refuses memory.
pub(crate) fn take_block(store: &Store, class: usize) -> *mut u8 {
    let mut lease = Lease::default();
    while let Some(slab) = store.acquire_slab(class, &mut lease) {
        let (block, is_denied) = take_one(store, slab);
        if let Some(block) = block {
            let settled = slab.leave();
            store.follow_up(slab, settled);
            store.count_taken(slab_block_bytes(class));
            return at_address(block);
        }
        if slab.leave_empty_handed() == Left::HasRoom {
            // Blocks came back meanwhile; hand the slab on and find it again.
            let settled = slab.leave();
            store.follow_up(slab, settled);
        }
        if is_denied {
            return ptr::null_mut();
        }
    }
    ptr::null_mut()
}

/// Gives one block of `class` back, with every check a flush makes.
pub(crate) fn give_block(store: &Store, block: usize, class: usize) {
    give_group(store, class, core::iter::once(block));
}

/// Returns a block, and whether a limit stands in the way of another.
fn take_one(store: &Store, slab: Slab) -> (Option<usize>, bool) {
    let mut block = None;
    let charge = |bytes| store.charge(bytes);
    let taken = slab.take(0, 1, charge, |first, bits| {
        block = Some(slab.block(first + bits.trailing_zeros() as usize));
    });
    (block, taken.is_denied)
}
