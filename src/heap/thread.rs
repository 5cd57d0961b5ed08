//! Binding: how a thread reaches its thread heap of a heap, and how it leaves.
//!
//! ```text
//! thread-local pointer ─> slot table { link | touched | entry per heap slot }
//!                                                            │ distance in bytes from UNBOUND
//!        UNBOUND, one constant thread heap <── 0: not bound ─┤
//!        ThreadHeap in a region's header <──── otherwise ────┘
//! ```
//!
//! An entry holds the distance from [`UNBOUND`] to the bound thread heap. A zero entry leads to
//! UNBOUND itself, whose bins have nothing and take nothing: both fast paths fall to their cold
//! side without a compare. A thread without a table shares one of zeros.
//!
//! The fast path compares no generation. Instead a heap that goes away clears its entry in the
//! tables of the threads bound to it before its slot can be given out again
//! (`[slot-clear-before-reuse]`). Tables are never unmapped, so that a late clear is harmless.
//!
//! *Invariants held here*: `[slot-clear-before-reuse]`, `[table-stays]`.
//!
//! *Concurrency*: a table's entries are set by its thread and cleared by it or by the heap's
//! dropper; the heap table's pins keep a heap from going while a thread leaves it.
//!
//! *Neighbours*: stands on `core` and `table`; the fast paths start here.

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::{self, NonNull};

use super::core::HeapCore;
use crate::base::{address, at_address, bits_of, reach};
use crate::cache::{Tenure, ThreadHeap};
use crate::config::HEAP_SLOTS;
use crate::os::{arm_exit_hook, map_aligned, os_page_bytes, spin_wait, thread_words};
use crate::region::{LEASED_FOR_BUILDING, RegionRef};
use crate::sync::{AtomicU64, AtomicUsize, Links, Ordering, TaggedStack};

/// What threads see of heaps they are not bound to.
static UNBOUND: ThreadHeap = ThreadHeap::unbound();

/// What a thread knows of all heaps. All zeros is a thread bound to none.
#[repr(C)]
struct SlotTable {
    /// Link of the pool of tables, see `TABLES`.
    below: AtomicU64,
    /// Bit = word of `touched` that is not zero. Own thread only.
    summary: [AtomicU64; HEAP_SLOTS / 64 / 64],
    /// Bit = slot this thread was bound to. Own thread only.
    touched: [AtomicU64; HEAP_SLOTS / 64],
    /// The entry of handles that are not bound: always 0.
    unbound: AtomicUsize,
    /// Distance to the bound thread heap, 0 for none. See the file's text for who writes.
    entries: [AtomicUsize; HEAP_SLOTS],
}

/// Offset of the entry that no heap has: what an unbound handle points to.
pub(super) const UNBOUND_ENTRY: usize = offset_of!(SlotTable, unbound);

/// The table of threads that have none.
static NO_TABLE: ZeroTable = ZeroTable([const { AtomicUsize::new(0) }; TABLE_WORDS]);

const TABLE_WORDS: usize = size_of::<SlotTable>() / size_of::<usize>();

/// A slot table that is never written.
#[repr(C, align(64))]
struct ZeroTable([AtomicUsize; TABLE_WORDS]);

/// Tables of threads that ended. Never unmapped, so links may be read late (`[table-stays]`).
static TABLES: TaggedStack = TaggedStack::new();

/// Where a thread stands with binding.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
enum Stage {
    /// It has no table yet.
    Fresh = 0,
    /// It is getting one; requests that come in meanwhile take the direct path.
    Binding,
    /// It has a table.
    Live,
    /// It gave its table back and takes the direct path to its end.
    Dead,
}

/// What binding keeps for each thread. A thread begins with the first word leading to `NO_TABLE`
/// and the second zero.
#[repr(C)]
struct Local {
    table: Cell<*mut u8>,
    stage: Cell<Stage>,
}

thread_words! {
    LOCAL: Local = Local {
        table: Cell::new((&raw const NO_TABLE).cast_mut().cast()),
        stage: Cell::new(Stage::Fresh),
    };
    table = table at NO_TABLE
}

/// Returns the offset of the entry of `slot` in every slot table.
pub(super) const fn entry_of(slot: usize) -> usize {
    offset_of!(SlotTable, entries) + slot * size_of::<usize>()
}

/// Returns eight times the slot whose entry lies at an offset that [`entry_of`] gave; of the other
/// offset, the one of no slot.
#[inline(always)]
pub(super) const fn eightfold_slot_of(entry: usize) -> usize {
    let offset_bytes = entry.wrapping_sub(offset_of!(SlotTable, entries));
    offset_bytes.wrapping_mul(8 / size_of::<usize>())
}

/// Returns the calling thread's thread heap by the offset of its entry; `UNBOUND` when it is
/// not bound.
// Inlined always: benchmark `hot`, a call here doubles the instructions of a pair.
#[inline(always)]
pub(super) fn current<'a>(entry: usize) -> &'a ThreadHeap {
    let place: *const AtomicUsize = table().wrapping_add(entry).cast();
    // SAFETY: [table-stays] every thread's table pointer leads to a whole table, and `entry` is
    // the offset of one of its entries.
    let distance = unsafe { &*place }.load(Ordering::Relaxed);
    // SAFETY: [slot-clear-before-reuse] a distance that is not 0 leads to the thread heap this
    // thread bound, whose heap is alive; 0 leads to `UNBOUND`.
    unsafe { &*reach::<ThreadHeap>((&raw const UNBOUND).cast_mut().cast(), distance) }
}

/// Returns the calling thread's thread heap of the heap in `slot`, if it is bound.
pub(super) fn bound<'a>(slot: usize) -> Option<&'a ThreadHeap> {
    let thread_heap = current(entry_of(slot));
    (!ptr::eq(thread_heap, &raw const UNBOUND)).then_some(thread_heap)
}

/// Binds the calling thread to the heap; `None` when it must take the direct path.
pub(super) fn bind(core: &HeapCore) -> Option<&ThreadHeap> {
    let table = own_table()?;
    let thread_heap = match core.take_idle() {
        Some(idle) => idle,
        None => build(core)?,
    };
    let slot = core.store.slot;
    thread_heap.table.store((&raw const *table).cast_mut().cast(), Ordering::Relaxed);
    thread_heap.change_tenure(Tenure::Busy, Tenure::Bound);
    table.touch(slot);
    let distance = address(&raw const *thread_heap).wrapping_sub(address(&raw const UNBOUND));
    table.entries[slot].store(distance, Ordering::Relaxed);
    Some(thread_heap)
}

/// Clears the entry of `slot` in the table of the thread bound to `thread_heap`, if there is one.
/// The heap is closed: its threads neither use it nor leave it any more.
pub(super) fn forget(thread_heap: &ThreadHeap, slot: usize) {
    let table = thread_heap.table.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: [table-stays] a thread heap's table pointer, unless null, leads to a table.
    if let Some(table) = unsafe { table.cast::<SlotTable>().as_ref() } {
        // Release by way of the slot's own word: `give_slot` comes later.
        table.entries[slot].store(0, Ordering::Relaxed);
    }
}

/// Builds a thread heap in a region nobody leases, or a new one.
fn build(core: &HeapCore) -> Option<&ThreadHeap> {
    // Not its own mark yet: others take a region with that for one with a thread heap.
    let take = |region: &RegionRef| region.lessee() == 0 && region.lease(LEASED_FOR_BUILDING);
    let region = match core.store.all_regions().find(take) {
        Some(region) => region,
        // A new region another thread leases at once leaves this one on the direct path for now.
        None => core.store.add_region(0).filter(take)?,
    };
    // SAFETY: (1) this thread just leased the region for building.
    let thread_heap = unsafe { ThreadHeap::build(region, &core.store) };
    region.settle_lease(ThreadHeap::mark_of(region));
    Some(thread_heap)
}

/// Returns the calling thread's table, getting one on its first call.
fn own_table() -> Option<&'static SlotTable> {
    let stage = LOCAL.with(|local| local.stage.get());
    match stage {
        Stage::Live => {
            // SAFETY: [table-stays] a Live thread's pointer leads to its table.
            Some(unsafe { &*table().cast::<SlotTable>() })
        }
        Stage::Fresh => {
            LOCAL.with(|local| local.stage.set(Stage::Binding));
            let table = acquire_table();
            let stage = if table.is_some() { Stage::Live } else { Stage::Fresh };
            LOCAL.with(|local| local.stage.set(stage));
            table
        }
        Stage::Binding | Stage::Dead => None,
    }
}

fn acquire_table() -> Option<&'static SlotTable> {
    let page = os_page_bytes();
    let table = match TABLES.pop(&TableLinks) {
        Some(item) => NonNull::new(at_address(table_address(item)))?,
        None => map_aligned(size_of::<SlotTable>().next_multiple_of(page), page)?,
    };
    if !arm_exit_hook(leave_all, table) {
        TABLES.push(table_item(address(table.as_ptr())), &TableLinks);
        return None;
    }
    LOCAL.with(|local| local.table.set(table.as_ptr()));
    // SAFETY: [table-stays] mapped as a table, zeroed or left clean by its last thread.
    Some(unsafe { table.cast::<SlotTable>().as_ref() })
}

/// Runs when a thread ends: leaves every heap it is bound to.
///
/// # Safety
/// 1. `table` is the table the calling thread armed the hook with.
unsafe extern "C" fn leave_all(table: *mut c_void) {
    LOCAL.with(|local| {
        local.stage.set(Stage::Dead);
        local.table.set((&raw const NO_TABLE).cast_mut().cast());
    });
    // SAFETY: [table-stays] by (1) the pointer leads to this thread's table.
    let slots = unsafe { &*table.cast::<SlotTable>() };
    slots.for_each_touched(|slot| leave(slots, slot));
    TABLES.push(table_item(address(table)), &TableLinks);
}

/// Leaves the heap in `slot`: hands its thread heap to the next thread.
fn leave(table: &SlotTable, slot: usize) {
    let entry = &table.entries[slot];
    if entry.load(Ordering::Relaxed) == 0 {
        return;
    }
    // A heap that is closing clears the entry itself.
    HeapCore::with_pinned(slot, |core| {
        // The pin came after the heap's end if the entry is clear now.
        let distance = entry.load(Ordering::Relaxed);
        if distance == 0 {
            return;
        }
        let base = (&raw const UNBOUND).cast_mut().cast();
        // SAFETY: [slot-clear-before-reuse] the entry is this thread's and the heap is pinned.
        let thread_heap = unsafe { &*reach::<ThreadHeap>(base, distance) };
        entry.store(0, Ordering::Relaxed);
        thread_heap.table.store(ptr::null_mut(), Ordering::Relaxed);
        hand_back(core, thread_heap);
    });
}

/// Gives up the tenure of a thread heap whose thread is leaving.
fn hand_back(core: &HeapCore, thread_heap: &ThreadHeap) {
    core.leaves.fetch_add(1, Ordering::AcqRel);
    cool_and_hand_back(core, thread_heap);
    // One fewer leaving, one more gone.
    core.leaves.fetch_add((1 << 32) - 1, Ordering::AcqRel);
}

fn cool_and_hand_back(core: &HeapCore, thread_heap: &ThreadHeap) {
    let mut round = 0;
    loop {
        if thread_heap.change_tenure(Tenure::Bound, Tenure::Busy) {
            thread_heap.cool(&core.store);
            thread_heap.change_tenure(Tenure::Busy, Tenure::Idle);
            return core.store.idle.mark(thread_heap.region_index());
        }
        // Whoever holds the heap makes it Idle.
        if thread_heap.change_tenure(Tenure::Held, Tenure::Orphaned) {
            return;
        }
        spin_wait(&mut round);
    }
}

impl SlotTable {
    fn touch(&self, slot: usize) {
        let (word, bit) = (slot / 64, slot % 64);
        self.touched[word].fetch_or(1 << bit, Ordering::Relaxed);
        self.summary[word / 64].fetch_or(1 << (word % 64), Ordering::Relaxed);
    }

    /// Calls `act` for every slot touched and forgets them.
    fn for_each_touched(&self, mut act: impl FnMut(usize)) {
        for (index, summary) in self.summary.iter().enumerate() {
            for bit in bits_of(summary.swap(0, Ordering::Relaxed)) {
                let word = index * 64 + bit;
                let touched = self.touched[word].swap(0, Ordering::Relaxed);
                bits_of(touched).for_each(|bit| act(word * 64 + bit));
            }
        }
    }
}

/// Tables are numbered by their address in units of 4 KiB, the smallest OS page.
const TABLE_UNIT_LOG2: u32 = 12;

fn table_item(address: usize) -> u64 {
    (address >> TABLE_UNIT_LOG2) as u64
}

fn table_address(item: u64) -> usize {
    (item as usize) << TABLE_UNIT_LOG2
}

struct TableLinks;

impl TableLinks {
    fn link(item: u64) -> &'static AtomicU64 {
        // SAFETY: [table-stays] items are tables, which stay mapped for ever.
        &unsafe { &*at_address::<SlotTable>(table_address(item)) }.below
    }
}

impl Links for TableLinks {
    fn below(&self, item: u64) -> u64 {
        Self::link(item).load(Ordering::Relaxed)
    }

    fn set_below(&self, item: u64, below: u64) {
        Self::link(item).store(below, Ordering::Relaxed);
    }
}
