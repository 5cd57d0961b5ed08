//! The representations of a bin that `bins` measures.
//!
//! | name | pop and push work on |
//! |---|---|
//! | `array` | the end of one array, found by a cursor; both bounds checked |
//! | `array-top` | the same with the top entry kept in the bin; no top tells that it is empty |
//! | `intrusive` | a list through the free blocks, and a count |
//! | `two-magazines` | an array each, exchanged when the one popped from is empty; null below its first entry |
//!
//! They differ in the fast paths only. On the slow ones, out of line, they exchange whole batches with the stock.

use super::bins::{Bin, ROUNDS, Round, Stock, is_edge};
use std::ptr;

/// The cursor is at the top block, at the floor if there is none.
pub(super) struct Array {
    cursor: *mut Round,
    stock: Stock,
}

impl Bin for Array {
    fn new(mut stock: Stock) -> Array {
        Array { cursor: stock.take_empty(), stock }
    }

    #[inline(always)]
    fn pop(&mut self) -> *mut u8 {
        if is_edge(self.cursor) {
            return self.pop_slow();
        }
        // SAFETY: a cursor above the floor is at a round of the bin's magazine.
        let block = unsafe { self.cursor.read() };
        self.cursor = self.cursor.wrapping_sub(1);
        block
    }

    #[inline(always)]
    fn push(&mut self, block: *mut u8) {
        let above = self.cursor.wrapping_add(1);
        if is_edge(above) {
            return self.push_slow(block);
        }
        // SAFETY: what follows the floor or a round, and is not the end, is a round.
        unsafe { above.write(block) };
        self.cursor = above;
    }
}

impl Array {
    #[cold]
    #[inline(never)]
    fn pop_slow(&mut self) -> *mut u8 {
        self.stock.empty.push(self.cursor);
        self.cursor = self.stock.take_full().wrapping_add(ROUNDS);
        self.pop()
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&mut self, block: *mut u8) {
        self.stock.full.push(self.cursor.wrapping_sub(ROUNDS));
        self.cursor = self.stock.take_empty();
        self.push(block);
    }
}

/// The cursor is at the top block's round, which is not written while it is the top; at the floor if there is none.
pub(super) struct ArrayTop {
    top: *mut u8,
    cursor: *mut Round,
    stock: Stock,
}

impl Bin for ArrayTop {
    fn new(mut stock: Stock) -> ArrayTop {
        ArrayTop { top: ptr::null_mut(), cursor: stock.take_empty(), stock }
    }

    #[inline(always)]
    fn pop(&mut self) -> *mut u8 {
        let block = self.top;
        if block.is_null() {
            return self.pop_slow();
        }
        self.cursor = self.cursor.wrapping_sub(1);
        // SAFETY: there was a top, so the cursor was above the floor; it is now at the floor or a round.
        self.top = unsafe { self.cursor.read() };
        block
    }

    #[inline(always)]
    fn push(&mut self, block: *mut u8) {
        let above = self.cursor.wrapping_add(1);
        if is_edge(above) {
            return self.push_slow(block);
        }
        // SAFETY: the cursor is at a round, or at the floor, which gets the null of an empty bin.
        unsafe { self.cursor.write(self.top) };
        self.cursor = above;
        self.top = block;
    }
}

impl ArrayTop {
    #[cold]
    #[inline(never)]
    fn pop_slow(&mut self) -> *mut u8 {
        self.stock.empty.push(self.cursor);
        self.cursor = self.stock.take_full().wrapping_add(ROUNDS);
        // SAFETY: the cursor is at the last round of a full magazine.
        self.top = unsafe { self.cursor.read() };
        self.pop()
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&mut self, block: *mut u8) {
        // SAFETY: the bin is full, so the cursor is at the last round.
        unsafe { self.cursor.write(self.top) };
        self.stock.full.push(self.cursor.wrapping_sub(ROUNDS));
        self.cursor = self.stock.take_empty();
        self.top = ptr::null_mut();
        self.push(block);
    }
}

/// A free block's first word is the next one.
pub(super) struct Intrusive {
    first: *mut Round,
    count: usize,
    stock: Stock,
}

impl Bin for Intrusive {
    fn new(mut stock: Stock) -> Intrusive {
        let magazines = std::mem::take(&mut stock.full);
        let lists = magazines.into_iter().map(|floor| {
            let chain = |next: *mut Round, index| {
                // SAFETY: the index is of a round of a full magazine.
                let block = unsafe { floor.wrapping_add(index).read() }.cast::<Round>();
                // SAFETY: the block is free and has room for a word.
                unsafe { block.write(next.cast()) };
                block
            };
            (1..=ROUNDS).fold(ptr::null_mut(), chain)
        });
        stock.full = lists.collect();
        Intrusive { first: ptr::null_mut(), count: 0, stock }
    }

    #[inline(always)]
    fn pop(&mut self) -> *mut u8 {
        let block = self.first;
        if block.is_null() {
            return self.pop_slow();
        }
        // SAFETY: the block is free, and `push` or `new` wrote its first word.
        self.first = unsafe { block.read() }.cast();
        self.count -= 1;
        block.cast()
    }

    #[inline(always)]
    fn push(&mut self, block: *mut u8) {
        if self.count == ROUNDS {
            return self.push_slow(block);
        }
        let block = block.cast::<Round>();
        // SAFETY: the block is free and has room for a word.
        unsafe { block.write(self.first.cast()) };
        self.first = block;
        self.count += 1;
    }
}

impl Intrusive {
    #[cold]
    #[inline(never)]
    fn pop_slow(&mut self) -> *mut u8 {
        self.first = self.stock.take_full();
        self.count = ROUNDS;
        self.pop()
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&mut self, block: *mut u8) {
        self.stock.full.push(self.first);
        self.first = ptr::null_mut();
        self.count = 0;
        self.push(block);
    }
}

/// `take` is at the next block, or at the floor; `give` at the next place, or at the end.
pub(super) struct TwoMagazines {
    take: *mut Round,
    give: *mut Round,
    stock: Stock,
}

impl Bin for TwoMagazines {
    fn new(mut stock: Stock) -> TwoMagazines {
        let give = stock.take_empty().wrapping_add(1);
        TwoMagazines { take: stock.take_empty(), give, stock }
    }

    #[inline(always)]
    fn pop(&mut self) -> *mut u8 {
        // SAFETY: the taking cursor is at a round or at the floor.
        let block = unsafe { self.take.read() };
        if block.is_null() {
            return self.pop_slow();
        }
        self.take = self.take.wrapping_sub(1);
        block
    }

    #[inline(always)]
    fn push(&mut self, block: *mut u8) {
        if is_edge(self.give) {
            return self.push_slow(block);
        }
        // SAFETY: a giving cursor that is not at the end is at a round.
        unsafe { self.give.write(block) };
        self.give = self.give.wrapping_add(1);
    }
}

impl TwoMagazines {
    #[cold]
    #[inline(never)]
    fn pop_slow(&mut self) -> *mut u8 {
        if is_edge(self.give.wrapping_sub(1)) {
            self.stock.empty.push(self.take);
            self.take = self.stock.take_full().wrapping_add(ROUNDS);
        } else {
            self.exchange();
        }
        self.pop()
    }

    #[cold]
    #[inline(never)]
    fn push_slow(&mut self, block: *mut u8) {
        if is_edge(self.take) {
            self.exchange();
        } else {
            self.stock.full.push(self.give.wrapping_sub(ROUNDS + 1));
            self.give = self.stock.take_empty().wrapping_add(1);
        }
        self.push(block);
    }

    /// Exchanges the magazines when the taking one is empty.
    fn exchange(&mut self) {
        let first = self.take.wrapping_add(1);
        self.take = self.give.wrapping_sub(1);
        self.give = first;
    }
}
