//! Models of the summary and of the depot: no region worth a look is forgotten, no magazine is
//! lost or has two owners.
//!
//! *Invariants held here*: `[summary-never-misses]` and `[magazine-one-owner]` are what they are
//! about.
//!
//! *Concurrency*: loom runs the real `summary` and `depot`; [`Contents`] stands for a magazine's
//! rounds.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::depot::Depot;
use super::summary::{Look, Summary};
use crate::base::{address, at_address};
use crate::sync::{AtomicU64, Contents, Ordering, beside, explore};

/// The region that may be worth a look; it shares its bit with region 0, which never is.
const REGION: usize = 64;

/// A summary over a region with at most one thing to find.
struct Regions {
    summary: Summary,
    /// Set while there is something to find.
    work: AtomicU64,
}

impl Regions {
    /// Returns a region without work that is marked in vain.
    fn new() -> Arc<Regions> {
        let summary = Summary::new();
        summary.mark(REGION);
        Arc::new(Regions { summary, work: AtomicU64::new(0) })
    }

    /// Makes the region worth a look, in the order of the slab protocol's publisher.
    fn publish(&self) -> usize {
        self.work.fetch_or(1, Ordering::AcqRel);
        self.summary.mark(REGION);
        0
    }

    /// Searches and takes what there is, as a claim of a partial slab does; returns how much.
    fn search(&self) -> usize {
        let found = self.summary.search(REGION + 1, |index| {
            if index != REGION || self.work.load(Ordering::Relaxed) == 0 {
                return Look::Nothing;
            }
            match self.work.swap(0, Ordering::AcqRel) {
                0 => Look::Nothing,
                _ => Look::Found(()),
            }
        });
        usize::from(found.is_some())
    }
}

/// Two searchers clear the mark while the region becomes worth a look.
#[test]
fn summary_publisher_versus_two_searchers() {
    explore("summary_versus_searchers", &["found at the end", "found at once"], || {
        let regions = Regions::new();
        let [_, first, second] = beside(
            &regions,
            [|regions| regions.publish(), |regions| regions.search(), |regions| regions.search()],
        );
        let last = regions.search();
        assert_eq!(first + second + last, 1, "work was lost or found twice");
        if last == 1 { "found at the end" } else { "found at once" }
    });
}

/// A depot and the rounds of two magazines; magazine `n` has the address `n`.
struct Magazines {
    depot: Depot<u8>,
    rounds: [Contents; 2],
}

impl Magazines {
    fn new() -> Arc<Magazines> {
        let rounds = std::array::from_fn(|_| Contents::new(0));
        Arc::new(Magazines { depot: Depot::new(), rounds })
    }

    /// Fills a magazine the caller owns and stores it; returns its number if it stays here.
    fn store(&self, number: usize, places: usize) -> usize {
        self.rounds[number - 1].write(number as u64);
        if self.depot.store(at_address(number), places) { 0 } else { number }
    }

    /// Loads a magazine and uses its rounds; returns its number, 0 for none.
    fn load(&self) -> usize {
        let Some(magazine) = self.depot.load() else { return 0 };
        let number = address(magazine);
        assert_eq!(self.rounds[number - 1].write(0), number as u64, "rounds of a full magazine");
        number
    }

    /// Checks that the magazines with threads and those in the depot are both, each once.
    fn account(&self, held: impl IntoIterator<Item = usize>) {
        let rest = std::iter::from_fn(|| self.depot.load()).map(|magazine| address(magazine));
        let mut all: Vec<usize> =
            held.into_iter().filter(|&number| number != 0).chain(rest).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2], "a magazine was lost or doubled");
    }
}

/// Two storers and two loaders at a single place.
#[test]
fn depot_storers_versus_loaders() {
    explore("depot_storers_versus_loaders", &["both", "none", "one"], || {
        let magazines = Magazines::new();
        let held = beside(
            &magazines,
            [
                |magazines| magazines.store(1, 1),
                |magazines| magazines.store(2, 1),
                |magazines| magazines.load(),
                |magazines| magazines.load(),
            ],
        );
        magazines.account(held);
        match held[2..].iter().filter(|&&number| number != 0).count() {
            0 => "none",
            1 => "one",
            _ => "both",
        }
    });
}
