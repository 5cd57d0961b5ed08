//! Growing and shrinking: in place within the block, else by moving.
//!
//! A block has room up to its class; only the bytes the caller had are its contents, the slack
//! behind them is never taken for data (`[slack-is-no-content]`).
//!
//! *Invariants held here*: `[slack-is-no-content]`.
//!
//! *Concurrency*: as allocate and free.
//!
//! *Neighbours*: stands on `handle`; the `Allocator` faces call it.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::{Heap, thread};
use crate::base::{
    Large, Tier, address, at_address, class_of, fast_bin_word, fast_block_bytes, is_aligned,
    is_fast_layout, slab_block_bytes,
};
use crate::cache::{Resized, hand_out, resize_large, take_kept};

/// Whether the bytes behind the caller's must read as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// They may hold anything.
    Any,
    /// They are zero, to the end of the block.
    Zeroed,
}

/// Returns the usable bytes of a block allocated with `layout`.
// Inlined, so that callers that ignore the length do not pay for it.
#[inline]
pub(super) fn block_bytes(layout: Layout) -> usize {
    if is_fast_layout(layout.size(), layout.align()) {
        fast_block_bytes(layout.size())
    } else {
        odd_block_bytes(layout)
    }
}

/// Returns what a layout above the slab classes asks for.
#[inline]
fn large_of(layout: Layout) -> Option<Large> {
    Large::of(layout.size(), layout.align())
}

/// [`block_bytes`] of layouts that are not fast ones.
#[cold]
#[inline(never)]
fn odd_block_bytes(layout: Layout) -> usize {
    if let Some(large) = large_of(layout) {
        return large.usable_bytes();
    }
    match class_of(layout.size(), layout.align()) {
        Tier::Slab(class) => slab_block_bytes(class),
        _ => 0,
    }
}

impl Heap {
    /// Allocates a block whose bytes are all zero; `None` when there is no memory.
    pub(super) fn allocate_zeroed_block(&self, layout: Layout) -> Option<NonNull<u8>> {
        let (block, is_zero) = match large_of(layout) {
            Some(large) => {
                let plain = Large::of_plain(layout.size(), layout.align());
                let take = |plain: Large| take_kept(thread::current(self.entry()), plain.class);
                match plain.map_or(0, take) {
                    0 => self.take_large(large),
                    kept => (at_address(hand_out(kept, large)), false),
                }
            }
            None => (self.allocate_block(layout).block, false),
        };
        let block = NonNull::new(block)?;
        if !is_zero {
            // SAFETY: the block has `block_bytes` bytes and is the caller's alone.
            unsafe { block.write_bytes(0, block_bytes(layout)) };
        }
        Some(block)
    }

    /// Makes a block fit `to`; `None` when there is no memory, the block being as it was.
    ///
    /// # Safety
    /// 1. `block` is a live block of this heap that fits `from`.
    pub(super) unsafe fn resize_block(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
        tail: Tail,
    ) -> Option<NonNull<u8>> {
        if tail == Tail::Any && is_same_run(block, from, to) {
            return Some(block);
        }
        let kept_bytes = from.size().min(to.size());
        if let Some((resized, is_zero_from)) = self.resize_without_copy(block, from, to) {
            let end_bytes = block_bytes(to).min(is_zero_from);
            if tail == Tail::Zeroed && end_bytes > kept_bytes {
                // SAFETY: the block has `block_bytes` bytes, at least `kept_bytes`.
                unsafe { zero_from(resized, kept_bytes, end_bytes) };
            }
            return Some(resized);
        }
        let is_large = tail == Tail::Zeroed && large_of(to).is_some();
        let growing = Large::of_plain(to.size(), to.align());
        let moved = match growing {
            // Fresh memory needs no clearing.
            _ if is_large => self.allocate_zeroed_block(to)?,
            Some(large) if to.size() > from.size() => NonNull::new(self.take_growing(large))?,
            _ => NonNull::new(self.allocate_block(to).block)?,
        };
        // SAFETY: both blocks have at least `kept_bytes` bytes, and a fresh block overlaps none.
        unsafe { moved.copy_from_nonoverlapping(block, kept_bytes) };
        if tail == Tail::Zeroed && !is_large {
            // SAFETY: the fresh block has `block_bytes` bytes.
            unsafe { zero_from(moved, kept_bytes, block_bytes(to)) };
        }
        match large_of(from).filter(|from| from.is_span()) {
            Some(from) => self.free_outgrown(from, large_of(to), block),
            // SAFETY: (1) and (2) by this function's contract.
            None => unsafe { self.deallocate_block(block, from) },
        }
        Some(moved)
    }

    /// Makes a block fit `to` where it lies, or by moving its pages; `None` when that cannot be.
    /// Returns it and the offset from which it reads as zero.
    fn resize_without_copy(
        &self,
        block: NonNull<u8>,
        from: Layout,
        to: Layout,
    ) -> Option<(NonNull<u8>, usize)> {
        if let (Some(from), Some(to)) = (large_of(from), large_of(to)) {
            let core = self.core()?;
            let resize = || resize_large(&core.store, address(block.as_ptr()), from, to);
            let refusals = core.store.account.refusals();
            let mut resized = resize();
            if resized == Resized::Refused && core.store.account.refusals() != refusals {
                // What nobody uses may be in the limit's way.
                self.relieve(core);
                resized = resize();
            }
            return match resized {
                Resized::At { block, zero_from } => Some((NonNull::new(block)?, zero_from)),
                Resized::Refused => None,
            };
        }
        let from_tier = class_of(from.size(), from.align());
        let is_same = from_tier == class_of(to.size(), to.align())
            && matches!(from_tier, Tier::Slab(_))
            && is_aligned(address(block.as_ptr()), to.align());
        is_same.then_some((block, usize::MAX))
    }
}

/// Returns whether a block that fits `from` fits `to` as it is, for the layouts most blocks have.
/// Vectors that grow by small steps ask this more often than anything else.
#[inline]
fn is_same_run(block: NonNull<u8>, from: Layout, to: Layout) -> bool {
    if !is_aligned(address(block.as_ptr()), to.align()) {
        return false;
    }
    if is_fast_layout(from.size(), from.align()) && is_fast_layout(to.size(), to.align()) {
        return fast_bin_word(from.size()) == fast_bin_word(to.size());
    }
    let plain = |layout: Layout| Large::of_plain(layout.size(), layout.align());
    let (Some(from), Some(to)) = (plain(from), plain(to)) else { return false };
    from.class == to.class && from.has_colours == to.has_colours
}

/// Clears a block from `from_bytes` to its end.
///
/// # Safety
/// 1. The block has `block_bytes` bytes, at least `from_bytes`.
unsafe fn zero_from(block: NonNull<u8>, from_bytes: usize, block_bytes: usize) {
    // SAFETY: the start is inside the block or at its end.
    let start = unsafe { block.add(from_bytes) };
    // SAFETY: the rest of the block follows.
    unsafe { start.write_bytes(0, block_bytes - from_bytes) };
}
