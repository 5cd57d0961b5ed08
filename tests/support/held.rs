//! A block held by a test, with the pattern that proves nobody else wrote to it.
//!
//! The first eight bytes are the block's id, the rest one byte derived from it. Blocks above
//! 256 KiB are written and checked at both ends and in the middle only.

use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use polyheap::allocator_api2::alloc::{AllocError, Allocator, Layout};

/// Bytes up to which a block is written whole.
const WHOLE_BYTES: usize = 256 * 1024;
/// Bytes of a window written in larger blocks.
const WINDOW_BYTES: usize = 4096;

/// An address range, for proofs that blocks do not overlap.
pub(crate) type Region = Range<usize>;

/// A live block and what was asked for it. It frees nothing by itself.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) block: NonNull<u8>,
    pub(crate) layout: Layout,
    /// Bytes the allocator said the block has.
    pub(crate) usable: usize,
    id: u64,
    written: usize,
}

// SAFETY: the block is plain memory that only the holder touches, and any thread may free it.
unsafe impl Send for Held {}

impl Held {
    /// Allocates and fills a block.
    pub(crate) fn new(alloc: &impl Allocator, layout: Layout, id: u64) -> Result<Held, AllocError> {
        let block = alloc.allocate(layout)?;
        Ok(Held::of(block, layout, id))
    }

    /// Allocates a block, checks that all of it is zero, and fills it.
    pub(crate) fn zeroed(
        alloc: &impl Allocator,
        layout: Layout,
        id: u64,
    ) -> Result<Held, AllocError> {
        let block = alloc.allocate_zeroed(layout)?;
        let mut held = Held::unwritten(block, layout, id);
        held.assert_zero(0..held.usable);
        held.fill();
        Ok(held)
    }

    /// Takes charge of a block just allocated and fills it.
    pub(crate) fn of(block: NonNull<[u8]>, layout: Layout, id: u64) -> Held {
        let mut held = Held::unwritten(block, layout, id);
        held.fill();
        held
    }

    /// Takes charge of a block whose contents are left as they are.
    pub(crate) fn unwritten(block: NonNull<[u8]>, layout: Layout, id: u64) -> Held {
        let held = Held { block: block.cast(), layout, usable: block.len(), id, written: 0 };
        assert!(held.address().is_multiple_of(layout.align()), "{held:?} is not aligned");
        assert!(held.usable >= layout.size(), "{held:?} is too short");
        held
    }

    /// Returns the block's address.
    pub(crate) fn address(&self) -> usize {
        self.block.as_ptr() as usize
    }

    /// Returns the addresses the block has.
    pub(crate) fn region(&self) -> Region {
        self.address()..self.address() + self.usable
    }

    /// Writes the pattern to all the bytes the allocator said there are, slack included.
    pub(crate) fn fill(&mut self) {
        self.written = self.usable;
        let (id, tag) = (self.id.to_le_bytes(), self.tag());
        for window in windows(self.written) {
            self.bytes_mut(window).fill(tag);
        }
        if self.written >= id.len() {
            self.bytes_mut(0..id.len()).copy_from_slice(&id);
        }
    }

    /// Panics unless the pattern is still there.
    pub(crate) fn check(&self) {
        self.check_first(self.written);
    }

    /// Panics unless the pattern is still there in the first `kept` bytes.
    pub(crate) fn check_first(&self, kept: usize) {
        let head = if self.written >= 8 { 8 } else { 0 };
        let id = self.id.to_le_bytes();
        let shown = head.min(kept);
        assert_eq!(self.bytes(0..shown), &id[..shown], "{self:?} lost its id");
        for window in windows(self.written) {
            let start = window.start.max(head);
            let end = window.end.min(kept);
            if start < end {
                let is_intact = is_all(self.bytes(start..end), self.tag());
                assert!(is_intact, "{self:?} was overwritten in {start}..{end}");
            }
        }
    }

    /// Panics unless the bytes of `range` are zero.
    pub(crate) fn assert_zero(&self, range: Range<usize>) {
        // Whole, but for the inside of huge blocks.
        let is_zero = if range.len() <= 16 * 1024 * 1024 {
            is_all(self.bytes(range), 0)
        } else {
            is_all(self.bytes(range.start..range.start + WHOLE_BYTES), 0)
                && is_all(self.bytes(range.end - WHOLE_BYTES..range.end), 0)
        };
        assert!(is_zero, "{self:?} is not zero");
    }

    /// Checks the pattern and frees the block with the layout it was asked for.
    pub(crate) fn free(self, alloc: &impl Allocator) {
        let size = self.layout.size();
        self.free_as(alloc, size);
    }

    /// Checks the pattern and frees the block as one of `size` bytes, which lies between the size
    /// asked for and the one returned.
    pub(crate) fn free_as(self, alloc: &impl Allocator, size: usize) {
        self.check();
        let layout = Layout::from_size_align(size, self.layout.align()).expect("a fitting layout");
        // SAFETY: the block is live, this value owned it, and the layout fits it.
        unsafe { alloc.deallocate(self.block, layout) };
    }

    /// Makes the block as large as `to`, checks what was kept, and fills it again.
    pub(crate) fn grow(&mut self, alloc: &impl Allocator, to: Layout) -> Result<(), AllocError> {
        self.check();
        // SAFETY: the block is live and fits its layout; `to` is not smaller.
        let block = unsafe { alloc.grow(self.block, self.layout, to) }?;
        self.settle_in(block, to, self.layout.size());
        self.fill();
        Ok(())
    }

    /// As [`grow`](Held::grow), and the bytes gained must be zero.
    pub(crate) fn grow_zeroed(
        &mut self,
        alloc: &impl Allocator,
        to: Layout,
    ) -> Result<(), AllocError> {
        self.check();
        let kept = self.layout.size();
        // SAFETY: the block is live and fits its layout; `to` is not smaller.
        let block = unsafe { alloc.grow_zeroed(self.block, self.layout, to) }?;
        self.settle_in(block, to, kept);
        self.assert_zero(kept..self.usable);
        self.fill();
        Ok(())
    }

    /// Makes the block as small as `to`, checks what was kept, and fills it again.
    pub(crate) fn shrink(&mut self, alloc: &impl Allocator, to: Layout) -> Result<(), AllocError> {
        self.check();
        // SAFETY: the block is live and fits its layout; `to` is not larger.
        let block = unsafe { alloc.shrink(self.block, self.layout, to) }?;
        self.settle_in(block, to, to.size());
        self.fill();
        Ok(())
    }

    fn settle_in(&mut self, block: NonNull<[u8]>, to: Layout, kept: usize) {
        let written = self.written;
        *self = Held::unwritten(block, to, self.id);
        self.written = written;
        self.check_first(kept);
        self.written = 0;
    }

    /// Returns some of the block's bytes.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.end <= self.usable);
        // SAFETY: the range is inside the block, whose start is its own mapping.
        let start = unsafe { self.block.add(range.start) };
        // SAFETY: the block is live and written or zeroed there, and nobody else has it.
        unsafe { slice::from_raw_parts(start.as_ptr(), range.len()) }
    }

    /// Returns some of the block's bytes, to write to.
    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.end <= self.usable);
        // SAFETY: the range is inside the block.
        let start = unsafe { self.block.add(range.start) };
        // SAFETY: the block is live and nobody else has it; bytes need no valid value to be written.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), range.len()) }
    }

    fn tag(&self) -> u8 {
        (self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 | 1
    }
}

fn windows(written: usize) -> impl Iterator<Item = Range<usize>> {
    let middle = written / 2;
    let all = if written <= WHOLE_BYTES {
        [0..written, 0..0, 0..0]
    } else {
        [0..WINDOW_BYTES, middle..middle + WINDOW_BYTES, written - WINDOW_BYTES..written]
    };
    all.into_iter()
}

/// Returns whether all of `bytes` are `byte`. Two overlapping views compare as memory does, which
/// is fast in unoptimised builds too.
fn is_all(bytes: &[u8], byte: u8) -> bool {
    match bytes {
        [] => true,
        [first, rest @ ..] => *first == byte && bytes[..rest.len()] == *rest,
    }
}

/// Panics when two of the regions have an address in common.
pub(crate) fn assert_disjoint(regions: impl IntoIterator<Item = Region>) {
    let mut sorted: Vec<Region> = regions.into_iter().collect();
    sorted.sort_by_key(|region| region.start);
    for pair in sorted.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{:x?} overlaps {:x?}", pair[0], pair[1]);
    }
}
