//! Admission and placement: whether a request fits behind the cursor, and where.
//!
//! ```text
//! data ······ cursor │ gap │ block        │ pad │ ······ end
//!                          ^ start              ^ next
//! ```
//!
//! The gap aligns the block, the pad aligns the cursor again. Cursor and end are multiples of
//! [`CURSOR_ALIGN`], so that a block up to that alignment needs no gap, and the pad fits whenever
//! the block does.
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: stands on `config`; `arena` calls it for every block.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::config::{CHUNK_BYTES_MIN, CURSOR_ALIGN};

/// Where a block goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The block's first byte.
    pub(crate) start: NonNull<u8>,
    /// The cursor behind the block.
    pub(crate) next: NonNull<u8>,
}

/// Returns where a block of `layout` goes, if it fits between `cursor` and `end`.
///
/// # Safety
/// 1. Both are multiples of [`CURSOR_ALIGN`], and `end` is not below `cursor`.
/// 2. The bytes between them belong to one allocation, or there are none.
// Inlined always: benchmark `regions`, this is the fast path itself.
#[inline(always)]
pub(crate) unsafe fn place(cursor: NonNull<u8>, end: NonNull<u8>, layout: Layout) -> Option<Place> {
    let room = end.addr().get() - cursor.addr().get();
    let gap = gap_bytes(cursor, layout.align());
    // No overflow: a layout's size rounded up to its alignment fits an `isize`.
    if gap + layout.size() > room {
        return None;
    }
    // SAFETY: (2) and the comparison: inside the allocation.
    let start = unsafe { cursor.add(gap) };
    // SAFETY: (1) room and gap are multiples of the cursor's alignment, so the padded size is not
    // above the room left either.
    let next = unsafe { start.add(padded_bytes(layout.size())) };
    Some(Place { start, next })
}

/// As [`place`], in fewer instructions where `layout` is a constant and small.
///
/// # Safety
/// As [`place`], and 3. `end` is in a chunk or at its end, or both dangle.
// Inlined always: benchmark `regions`, a tenth to a fifth of the time of a value.
#[inline(always)]
pub(crate) unsafe fn place_value(
    cursor: NonNull<u8>,
    end: NonNull<u8>,
    layout: Layout,
) -> Option<Place> {
    let bytes = padded_bytes(layout.size());
    if layout.align() > CURSOR_ALIGN || bytes >= CHUNK_BYTES_MIN {
        // SAFETY: as this function's.
        return unsafe { place(cursor, end, layout) };
    }
    // Does not wrap: chunks are aligned to `CHUNK_BYTES_MIN` at least, so by (3) that many bytes
    // of the address space lie behind `end`.
    if cursor.addr().get() + bytes > end.addr().get() {
        return None;
    }
    // SAFETY: (2) and the comparison: inside the allocation or at its end.
    Some(Place { start: cursor, next: unsafe { cursor.add(bytes) } })
}

/// Returns the bytes a block of `bytes` takes, the pad behind it counted.
#[inline(always)]
pub(crate) const fn padded_bytes(bytes: usize) -> usize {
    bytes.wrapping_add(CURSOR_ALIGN - 1) & !(CURSOR_ALIGN - 1)
}

/// Returns the bytes that a layout may take at most, wherever the cursor stands.
pub(crate) fn needed_bytes(layout: Layout) -> usize {
    let gap_max = layout.align().max(CURSOR_ALIGN) - CURSOR_ALIGN;
    padded_bytes(layout.size()).saturating_add(gap_max)
}

#[inline(always)]
fn gap_bytes(cursor: NonNull<u8>, align: usize) -> usize {
    if align <= CURSOR_ALIGN { 0 } else { cursor.addr().get().wrapping_neg() & (align - 1) }
}
