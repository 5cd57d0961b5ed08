//! A lock-free stack of numbered items whose links lie outside the items.
//!
//! ```text
//! head { item : 36 | tag : 28 }        links: item -> item below (0 = bottom), never unmapped
//! ```
//!
//! Treiber's stack. Two things make it safe here. A pop may read the link of an item another
//! thread has just taken, so links live in memory that is never unmapped (the region map, a slot
//! table's first word). And the head counts its changes in a tag, so a pop that was overtaken by
//! a pop and a push of the same item fails its exchange (`[stack-tag]`).
//!
//! *Invariants held here*: `[stack-tag]`.
//!
//! *Concurrency*: any thread, lock-free. Release on push pairs with Acquire on pop and publishes
//! the item's memory and its link.
//!
//! *Neighbours*: stands on nothing; the region cache and the slot-table pool are such stacks.

use super::{AtomicU64, Ordering};

const ITEM_BITS: u32 = 36;
const ITEM_MASK: u64 = (1 << ITEM_BITS) - 1;

/// Where the links of a stack's items are kept.
pub(crate) trait Links {
    /// Returns the item below `item`; any value when `item` is in no stack.
    fn below(&self, item: u64) -> u64;
    /// Records what lies below `item`, which the caller owns.
    fn set_below(&self, item: u64, below: u64);
}

/// A stack of items numbered from 1 up to 2^36 - 1.
#[derive(Debug)]
pub(crate) struct TaggedStack {
    /// Written by every push and pop; the tag grows at each. Pairs with itself.
    head: AtomicU64,
}

impl TaggedStack {
    /// Returns an empty stack.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> TaggedStack {
        TaggedStack { head: AtomicU64::new(0) }
    }

    /// Returns an empty stack.
    #[cfg(loom)]
    pub(crate) fn new() -> TaggedStack {
        TaggedStack { head: AtomicU64::new(0) }
    }

    /// Puts `item`, which the caller owns, on top.
    pub(crate) fn push(&self, item: u64, links: &impl Links) {
        debug_assert!(item != 0 && item <= ITEM_MASK);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            links.set_below(item, head & ITEM_MASK);
            let next = item | next_tag(head);
            // Release: publishes the item's contents and its link to the pop that takes it.
            match self.head.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the top item, which the caller then owns.
    pub(crate) fn pop(&self, links: &impl Links) -> Option<u64> {
        // Acquire: the link read next was written before this head was published.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let item = head & ITEM_MASK;
            if item == 0 {
                return None;
            }
            let next = links.below(item) | next_tag(head);
            match self.head.compare_exchange_weak(head, next, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(item),
                Err(now) => head = now,
            }
        }
    }
}

/// Returns the tag bits that follow those of `head`.
fn next_tag(head: u64) -> u64 {
    (head & !ITEM_MASK).wrapping_add(1 << ITEM_BITS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::RefCell;

    struct Table(RefCell<[u64; 8]>);

    impl Links for Table {
        fn below(&self, item: u64) -> u64 {
            self.0.borrow()[item as usize]
        }
        fn set_below(&self, item: u64, below: u64) {
            self.0.borrow_mut()[item as usize] = below;
        }
    }

    #[test]
    fn last_in_is_first_out() {
        let (stack, links) = (TaggedStack::new(), Table(RefCell::new([0; 8])));
        stack.push(3, &links);
        stack.push(5, &links);
        assert_eq!(stack.pop(&links), Some(5));
        stack.push(7, &links);
        assert_eq!(stack.pop(&links), Some(7));
        assert_eq!(stack.pop(&links), Some(3));
        assert_eq!(stack.pop(&links), None);
    }
}
