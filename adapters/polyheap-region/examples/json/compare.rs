//! The same parser with its tree elsewhere, and a race of them.

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::time::{Duration, Instant};

use bumpalo::Bump;
use polyheap::Heap;
use polyheap_region as region;

use super::{Place, count, generate, parse};

/// Documents each place parses.
const ROUNDS: usize = 7;

impl<'r> Place<'r> for &'r Bump {
    fn text(self, text: &str) -> &'r str {
        self.alloc_str(text)
    }

    fn items<T: Copy>(self, items: &[T]) -> &'r [T] {
        self.alloc_slice_copy(items)
    }
}

/// Pieces of the global allocator, freed one by one in the end. The list of them is what the types
/// of a tree that owns its pieces would know; it costs two stores a piece.
#[derive(Default)]
pub(super) struct Pieces(RefCell<Vec<(*mut u8, Layout)>>);

impl<'r> Place<'r> for &'r Pieces {
    fn text(self, text: &str) -> &'r str {
        str::from_utf8(self.items(text.as_bytes())).unwrap_or_default()
    }

    fn items<T: Copy>(self, items: &[T]) -> &'r [T] {
        let layout = Layout::for_value(items);
        if layout.size() == 0 {
            return &[];
        }
        // SAFETY: not of no size.
        let piece = unsafe { alloc::alloc(layout) };
        assert!(!piece.is_null());
        self.0.borrow_mut().push((piece, layout));
        // SAFETY: as long and aligned as the items; new.
        unsafe { piece.cast::<T>().copy_from_nonoverlapping(items.as_ptr(), items.len()) };
        // SAFETY: just written; lives as long as the list.
        unsafe { std::slice::from_raw_parts(piece.cast(), items.len()) }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        for (piece, layout) in self.0.get_mut().drain(..) {
            // SAFETY: allocated with this layout; what was borrowed from the list is gone.
            unsafe { alloc::dealloc(piece, layout) };
        }
    }
}

/// Parses once in each place, the tree's end included; returns the names and times.
pub(super) fn race(document: &str, heap: &Heap) -> [(&'static str, Duration); 3] {
    let values = |place: Result<super::Value<'_>, super::Error>| place.map_or(0, |v| count(&v));
    let timed = |run: &dyn Fn() -> usize| {
        let start = Instant::now();
        let values = run();
        assert!(values > 0, "the document is JSON");
        start.elapsed()
    };
    let in_scope = || region::scope(heap, |r| values(parse(document, &*r, heap)));
    let in_bumpalo = || values(parse(document, &Bump::new(), heap));
    let in_pieces = || values(parse(document, &Pieces::default(), heap));
    [("scope", timed(&in_scope)), ("bumpalo", timed(&in_bumpalo)), ("global", timed(&in_pieces))]
}

/// Prints for each place the first, the best and the median time.
pub(super) fn compare(bytes: usize) {
    let (heap, document) = (Heap::new(), generate(bytes));
    let races: Vec<_> = (0..ROUNDS).map(|_| race(&document, &heap)).collect();
    for place in 0..3 {
        let name = races[0][place].0;
        let mut times: Vec<Duration> = races.iter().map(|race| race[place].1).collect();
        let first = times[0];
        times.sort_unstable();
        let (best, median) = (times[0], times[ROUNDS / 2]);
        eprintln!("{name:<8} first {first:8.1?}  best {best:8.1?}  median {median:8.1?}");
    }
}
