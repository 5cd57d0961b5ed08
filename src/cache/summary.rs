//! Which regions of a heap are worth a look: one bit for every region number modulo 64.
//!
//! A bit may be set in vain, but is never missing for long: whoever makes a region worth a look
//! marks it *after* doing so, and whoever clears a bit looks *again* after clearing
//! (`[summary-never-misses]`).
//!
//! *Invariants held here*: `[summary-never-misses]`.
//!
//! *Concurrency*: any thread, lock-free. Both sides use read-modify-writes, so one of them comes
//! second and sees the other.
//!
//! *Neighbours*: stands on `sync`; the store keeps one per class and two more.

use crate::sync::{AtomicU64, Ordering};

/// A word of hints about a heap's regions.
#[derive(Debug)]
pub(crate) struct Summary {
    /// Bit = region number modulo 64. Set by `mark`, cleared by `search`.
    word: AtomicU64,
}

/// What a look at a region found.
#[derive(Debug)]
pub(crate) enum Look<T> {
    /// What was searched for.
    Found(T),
    /// Something, but not for this search: the mark stays.
    NotForMe,
    /// Nothing that anyone could want.
    Nothing,
}

impl Summary {
    /// Returns a summary without marks.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Summary {
        Summary { word: AtomicU64::new(0) }
    }

    /// Returns a summary without marks.
    #[cfg(loom)]
    pub(crate) fn new() -> Summary {
        Summary { word: AtomicU64::new(0) }
    }

    /// Records that the region numbered `index` is worth a look.
    pub(crate) fn mark(&self, index: usize) {
        // Release: what makes the region worth a look was done before.
        self.word.fetch_or(1 << (index % 64), Ordering::AcqRel);
    }

    /// Returns whether the region numbered `index` is marked, a snapshot.
    #[cfg(not(loom))]
    pub(crate) fn is_marked(&self, index: usize) -> bool {
        self.word.load(Ordering::Relaxed) >> (index % 64) & 1 == 1
    }

    /// Tries `look` on marked regions numbered below `end` until it finds something.
    ///
    /// `end` is asked again for every look: a bit is cleared only after looking at every region
    /// there was when it was marked.
    pub(crate) fn search<T>(
        &self,
        end: impl Fn() -> usize,
        mut look: impl FnMut(usize) -> Look<T>,
    ) -> Option<T> {
        let mut word = self.word.load(Ordering::Acquire);
        while word != 0 {
            let bit = word.trailing_zeros() as usize;
            let numbers = || (bit..end()).step_by(64);
            match look_at_all(numbers(), &mut look) {
                Look::Found(found) => return Some(found),
                Look::NotForMe => {}
                Look::Nothing => {
                    // AcqRel: a mark that came before this is seen by the second look.
                    self.word.fetch_and(!(1 << bit), Ordering::AcqRel);
                    match look_at_all(numbers(), &mut look) {
                        Look::Nothing => {}
                        Look::NotForMe => self.mark(bit),
                        Look::Found(found) => {
                            self.mark(bit);
                            return Some(found);
                        }
                    }
                }
            }
            word &= word - 1;
        }
        None
    }
}

fn look_at_all<T>(
    numbers: impl Iterator<Item = usize>,
    look: &mut impl FnMut(usize) -> Look<T>,
) -> Look<T> {
    let mut best = Look::Nothing;
    for number in numbers {
        match look(number) {
            Look::Found(found) => return Look::Found(found),
            Look::NotForMe => best = Look::NotForMe,
            Look::Nothing => {}
        }
    }
    best
}
