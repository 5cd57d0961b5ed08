//! Models of the summary, of the depot and of the account: no region worth a look is forgotten, no
//! magazine is lost or has two owners, and no charge passes the limit.
//!
//! *Invariants held here*: `[summary-never-misses]`, `[magazine-one-owner]` and
//! `[limit-never-passed]` are what they are about.
//!
//! Scenes of three and four threads are explored up to a number of preemptions: without a bound
//! they take many minutes.
//!
//! *Concurrency*: loom runs the real `summary`, `depot` and `account`; [`Contents`] stands for a magazine's
//! rounds.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;

use super::account::Account;
use super::depot::Depot;
use super::summary::{Look, Summary};
use crate::base::{address, at_address};
use crate::sync::{AtomicU64, Contents, Ordering, beside, explore, explore_within};

/// The region that may be worth a look; it shares its bit with region 0, which never is.
const REGION: usize = 64;

/// A summary over a region with at most one thing to find.
struct Regions {
    summary: Summary,
    /// Set while there is something to find.
    work: AtomicU64,
    /// One past the number of the last region listed.
    end: AtomicU64,
}

impl Regions {
    /// Returns a region without work that is marked in vain.
    fn new() -> Arc<Regions> {
        Regions::listed_to(REGION + 1)
    }

    /// Returns a summary whose regions are listed up to `end`, all of them marked in vain.
    fn listed_to(end: usize) -> Arc<Regions> {
        let summary = Summary::new();
        summary.mark(REGION);
        let (work, end) = (AtomicU64::new(0), AtomicU64::new(end as u64));
        Arc::new(Regions { summary, work, end })
    }

    fn end(&self) -> usize {
        self.end.load(Ordering::Acquire) as usize
    }

    /// Lists the region and makes it worth a look, in the order of `Store::adopt_region`.
    fn list(&self) -> usize {
        self.end.fetch_max(REGION as u64 + 1, Ordering::AcqRel);
        self.publish()
    }

    /// Makes the region worth a look, in the order of the slab protocol's publisher.
    fn publish(&self) -> usize {
        self.work.fetch_or(1, Ordering::AcqRel);
        self.summary.mark(REGION);
        0
    }

    /// Searches for more than there ever is: what is there stays, and so does the mark.
    fn search_in_vain(&self) -> usize {
        let end = || self.end();
        let found = self.summary.search(end, |index| match index {
            REGION if self.work.load(Ordering::Relaxed) != 0 => Look::<()>::NotForMe,
            _ => Look::Nothing,
        });
        usize::from(found.is_some())
    }

    /// Searches and takes what there is, as a claim of a partial slab does; returns how much.
    fn search(&self) -> usize {
        let end = || self.end();
        let found = self.summary.search(end, |index| {
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

/// A searcher clears the mark while the region becomes worth a look.
#[test]
fn summary_publisher_versus_searcher() {
    explore("summary_publisher_versus_searcher", &["found at once", "found later"], || {
        let regions = Regions::new();
        let [_, found] =
            beside(&regions, [|regions| regions.publish(), |regions| regions.search()]);
        assert_eq!(found + regions.search(), 1, "work was lost or found twice");
        if found == 1 { "found at once" } else { "found later" }
    });
}

/// As before, with a searcher that clears the mark and cannot use what it finds.
#[test]
fn summary_publisher_versus_searcher_in_vain() {
    explore("summary_publisher_versus_searcher_in_vain", &["found later"], || {
        let regions = Regions::new();
        beside(&regions, [|regions| regions.publish(), |regions| regions.search_in_vain()]);
        assert_eq!(regions.search(), 1, "work was lost");
        "found later"
    });
}

/// Two searchers clear the mark while the region becomes worth a look.
#[test]
fn summary_publisher_versus_two_searchers() {
    let outcomes = ["found at once", "found later"];
    explore_within(Some(4), "summary_publisher_versus_two_searchers", &outcomes, || {
        let regions = Regions::new();
        let [_, first, second] = beside(
            &regions,
            [|regions| regions.publish(), |regions| regions.search(), |regions| regions.search()],
        );
        assert_eq!(first + second + regions.search(), 1, "work was lost or found twice");
        if first + second == 1 { "found at once" } else { "found later" }
    });
}

/// A searcher that saw too few regions clears the mark of the one just listed.
#[test]
fn summary_lister_versus_searcher() {
    explore("summary_lister_versus_searcher", &["found at once", "found later"], || {
        let regions = Regions::listed_to(REGION);
        let [_, found] = beside(&regions, [|regions| regions.list(), |regions| regions.search()]);
        assert_eq!(found + regions.search(), 1, "work was lost or found twice");
        if found == 1 { "found at once" } else { "found later" }
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

/// A storer and a loader of two magazines.
#[test]
fn depot_storer_versus_loader() {
    explore("depot_storer_versus_loader", &["0", "1", "2"], || {
        let magazines = Magazines::new();
        let [stored, loaded] = beside(
            &magazines,
            [
                |magazines| [magazines.store(1, 2), magazines.store(2, 2)],
                |magazines| [magazines.load(), magazines.load()],
            ],
        );
        magazines.account(stored.into_iter().chain(loaded));
        ["0", "1", "2"][loaded.iter().filter(|&&number| number != 0).count()]
    });
}

/// Two loaders and one magazine: one of them gets it.
#[test]
fn depot_two_loaders() {
    explore("depot_two_loaders", &["first", "second"], || {
        let magazines = Magazines::new();
        magazines.store(1, 1);
        let loaded =
            beside(&magazines, [|magazines| magazines.load(), |magazines| magazines.load()]);
        magazines.account(loaded.into_iter().chain([2]));
        if loaded[0] == 1 { "first" } else { "second" }
    });
}

/// Two storers and two loaders at a single place.
#[test]
fn depot_storers_versus_loaders() {
    explore_within(Some(3), "depot_storers_versus_loaders", &["0", "1", "2"], || {
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
        ["0", "1", "2"][held[2..].iter().filter(|&&number| number != 0).count()]
    });
}

/// The limit of the account in the models.
const LIMIT_BYTES: usize = 3;

/// Returns an account that is charged for `bytes`.
fn charged(bytes: usize) -> Arc<Account> {
    let account = Account::new();
    account.set_max_bytes(LIMIT_BYTES);
    account.charge_anyway(bytes);
    Arc::new(account)
}

/// Charges `bytes` if they fit; returns what it charged. The sum is within the limit at any moment.
fn charge(account: &Account, bytes: usize) -> usize {
    let is_granted = account.charge(bytes);
    look(account);
    if is_granted { bytes } else { 0 }
}

/// Takes back a charge; returns nothing charged.
fn uncharge(account: &Account, bytes: usize) -> usize {
    account.uncharge(bytes);
    look(account)
}

/// Looks at the sum, as whoever compares it with the limit does.
fn look(account: &Account) -> usize {
    assert!(account.charged_bytes() <= LIMIT_BYTES, "the sum passed the limit");
    0
}

/// Checks the sum and how many charges were refused.
fn settle(account: &Account, bytes: usize, refusals: u64) {
    assert_eq!(account.charged_bytes(), bytes, "a charge was lost or doubled");
    assert_eq!(account.refusals(), refusals, "a refusal was lost or doubled");
    assert!(!account.charge(usize::MAX), "the sum went round");
}

/// Three charges where two fit: two are granted whatever the order, and the third changes nothing.
#[test]
fn account_charges_at_the_edge() {
    let outcomes = ["all but first", "all but second", "all but third"];
    explore_within(Some(3), "account_charges_at_the_edge", &outcomes, || {
        let account = charged(1);
        let granted = beside(
            &account,
            [
                |account| charge(account, 1),
                |account| charge(account, 1),
                |account| charge(account, 1),
            ],
        );
        assert_eq!(granted.iter().sum::<usize>(), 2, "not as many as fit");
        settle(&account, LIMIT_BYTES, 1);
        match granted {
            [0, ..] => "all but first",
            [_, 0, _] => "all but second",
            _ => "all but third",
        }
    });
}

/// Charges of different size: a larger one that is refused is not in the smaller ones' way.
#[test]
fn account_charges_of_different_size() {
    explore("account_charges_of_different_size", &["large", "small"], || {
        let account = charged(1);
        let granted = beside(
            &account,
            [|account| charge(account, 1) + charge(account, 1), |account| charge(account, 2)],
        );
        match granted {
            [2, 0] => settle(&account, LIMIT_BYTES, 1),
            [0, 2] => settle(&account, LIMIT_BYTES, 2),
            [1, 0] => panic!("a refused charge was in the way"),
            _ => panic!("not as many as fit: {granted:?}"),
        }
        if granted[0] == 0 { "large" } else { "small" }
    });
}

/// One too large for the account is never in the way of one that fits, whoever looks.
#[test]
fn account_charge_beside_one_too_large() {
    explore("account_charge_beside_one_too_large", &["small"], || {
        let account = charged(2);
        let granted = beside(
            &account,
            [|account| charge(account, 1), |account| charge(account, 2), |account| look(account)],
        );
        assert_eq!(granted, [1, 0, 0], "not as many as fit");
        settle(&account, LIMIT_BYTES, 1);
        "small"
    });
}

/// A full account: two charges want what is taken back meanwhile.
#[test]
fn account_charges_versus_uncharge() {
    let outcomes = ["first", "neither", "second"];
    explore_within(Some(3), "account_charges_versus_uncharge", &outcomes, || {
        let account = charged(LIMIT_BYTES);
        let granted = beside(
            &account,
            [
                |account| charge(account, 1),
                |account| charge(account, 1),
                |account| uncharge(account, 1),
            ],
        );
        let bytes = granted.iter().sum::<usize>();
        settle(&account, LIMIT_BYTES - 1 + bytes, 2 - bytes as u64);
        match granted {
            [1, 0, 0] => "first",
            [0, 1, 0] => "second",
            _ => "neither",
        }
    });
}

/// Room for one: of two charges the second is granted if what is taken back comes in time.
#[test]
fn account_charges_overtake_an_uncharge() {
    explore_within(Some(3), "account_charges_overtake", &["both", "one"], || {
        let account = charged(LIMIT_BYTES - 1);
        let granted = beside(
            &account,
            [
                |account| charge(account, 1),
                |account| charge(account, 1),
                |account| uncharge(account, 1),
            ],
        );
        let bytes = granted.iter().sum::<usize>();
        settle(&account, LIMIT_BYTES - 2 + bytes, 2 - bytes as u64);
        match bytes {
            1 => "one",
            2 => "both",
            _ => panic!("one has room"),
        }
    });
}
