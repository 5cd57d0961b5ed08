//! Flush: giving groups of blocks back to the bits of their slabs.
//!
//! Blocks that follow each other in one word of a bitmap go back with one `fetch_or`, all blocks
//! of one slab settle with one `fetch_sub`. Here every block is checked: that its address belongs
//! to this heap, that a block of this class starts there, and that its bit was not set.
//!
//! *Invariants held here*: `[flush-checks-all]`.
//!
//! *Concurrency*: any thread, lock-free.
//!
//! *Neighbours*: stands on `slab` and the region map; exchange, away and thread exit flush.

use super::store::Store;
use crate::base::slab_block_bytes;
use crate::config::REGION_BYTES;
use crate::os::{FaultKind, FaultSite, fault};
use crate::region::{RegionRef, lookup, owner_slot, was_mapping_of};
use crate::slab::{Misuse, Slab};

/// Blocks of one slab on their way back.
struct Group<'a> {
    store: &'a Store,
    slab: Slab,
    word: usize,
    bits: u64,
    /// Blocks given and not yet settled.
    given: usize,
}

/// Gives `blocks` of `class` back to their slabs.
pub(crate) fn give_group(store: &Store, class: usize, blocks: impl Iterator<Item = usize>) {
    let mut group: Option<Group<'_>> = None;
    let mut count = 0;
    for block in blocks {
        count += 1;
        let (slab, index) = locate(store, block, class, group.as_ref().map(|g| g.slab));
        match &mut group {
            Some(group) if group.slab == slab => group.add(index),
            _ => {
                if let Some(group) = group.take() {
                    group.settle();
                }
                group = Some(Group::of(store, slab, index));
            }
        }
    }
    if let Some(group) = group {
        group.settle();
    }
    store.count_given(count * slab_block_bytes(class));
}

impl<'a> Group<'a> {
    fn of(store: &'a Store, slab: Slab, index: usize) -> Group<'a> {
        Group { store, slab, word: index / 64, bits: 1 << (index % 64), given: 0 }
    }

    fn add(&mut self, index: usize) {
        let bit = 1 << (index % 64);
        if index / 64 == self.word {
            if self.bits & bit != 0 {
                self.double_free(bit);
            }
            self.bits |= bit;
        } else {
            self.give();
            (self.word, self.bits) = (index / 64, bit);
        }
    }

    fn give(&mut self) {
        let again = self.slab.words().give(self.word, self.bits);
        if again != 0 {
            self.double_free(again);
        }
        self.given += self.bits.count_ones() as usize;
    }

    fn settle(mut self) {
        self.give();
        let settled = self.slab.settle(self.given);
        self.store.follow_up(self.slab, settled);
    }

    #[cold]
    fn double_free(&self, bits: u64) -> ! {
        let block = self.slab.block(self.word * 64 + bits.trailing_zeros() as usize);
        report(self.store, FaultKind::DoubleFree, block, slab_block_bytes(self.slab.class()), 0)
    }
}

/// Finds the slab of a block, trying `last` first; a fault when there is none.
fn locate(store: &Store, block: usize, class: usize, last: Option<Slab>) -> (Slab, usize) {
    let is_near = |slab: &Slab| (block ^ slab.region().base()) < REGION_BYTES;
    let region = match last.as_ref().filter(|slab| is_near(slab)) {
        Some(slab) => slab.region(),
        None if lookup(block).is_region_of(store.slot) => {
            // SAFETY: the map says that a region of this heap lies there.
            unsafe { RegionRef::of(block) }
        }
        None => stranger(store, block, class),
    };
    match Slab::locate(region, block, class) {
        Ok(found) => found,
        Err(misuse) => misused(store, block, class, misuse),
    }
}

#[cold]
fn stranger(store: &Store, block: usize, class: usize) -> ! {
    report(store, stranger_kind(store, block), block, slab_block_bytes(class), 0)
}

/// Returns what is wrong with freeing `address`, which no region of this heap holds.
pub(crate) fn stranger_kind(store: &Store, address: usize) -> FaultKind {
    match owner_slot(address) {
        None if was_mapping_of(address, store.slot) => FaultKind::DoubleFree,
        None => FaultKind::ForeignBlock,
        Some(slot) if slot != store.slot => FaultKind::WrongHeap,
        Some(_) => FaultKind::WrongLayout,
    }
}

#[cold]
fn misused(store: &Store, block: usize, class: usize, misuse: Misuse) -> ! {
    report_misuse(store, misuse, block, slab_block_bytes(class))
}

/// Reports why `block` cannot be freed with a class of `given_bytes` bytes, and aborts.
#[cold]
pub(crate) fn report_misuse(store: &Store, misuse: Misuse, block: usize, given_bytes: usize) -> ! {
    let (kind, block_bytes) = match misuse {
        Misuse::Free => (FaultKind::DoubleFree, 0),
        Misuse::InSpan => (FaultKind::WrongLayout, 0),
        Misuse::OtherClass(bytes) => (FaultKind::WrongLayout, bytes),
        Misuse::Interior => (FaultKind::InteriorPointer, 0),
    };
    report(store, kind, block, given_bytes, block_bytes)
}

/// Reports a fault about `block`, freed with a class of `given_bytes` bytes, and aborts.
#[cold]
pub(crate) fn report(
    store: &Store,
    kind: FaultKind,
    block: usize,
    given_bytes: usize,
    block_bytes: usize,
) -> ! {
    let site =
        FaultSite { name: store.name(), heap: store.id, address: block, given_bytes, block_bytes };
    fault(kind, site)
}
