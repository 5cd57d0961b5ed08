//! The account: what a heap holds, as its limits count it, and the limits.
//!
//! A heap is charged for pages when a hand-out first reaches them: those of its slabs and spans by
//! the regions' `reached`, mappings by their length, headers by the parts in use. Address space
//! that is reserved and untouched is not charged. A charge is taken back when the system has the
//! memory again. So the sum is what the heap has of the system, whoever uses it: live blocks, cached
//! ones, free chunks that are still dirty (`[charged-is-held]`).
//!
//! *Invariants held here*: `[charged-is-held]`, `[limit-never-passed]`.
//!
//! *Concurrency*: any thread, lock-free. Charging compares and adds in one exchange, so the sum is
//! at no moment above the limit. The counters publish nothing.
//!
//! *Neighbours*: stands on `config`; the store has one.

use crate::config::CHUNK_BYTES;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// No limit.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// What a heap holds and may hold.
#[derive(Debug)]
pub(crate) struct Account {
    /// Bytes the heap is charged for.
    charged_bytes: AtomicUsize,
    /// Bytes it may never be charged beyond.
    max_bytes: AtomicUsize,
    /// Bytes beyond which it gives back what it can before it takes more.
    soft_max_bytes: AtomicUsize,
    /// Bytes charged when the heap last gave back what it could, for the soft limit's sake.
    relieved_bytes: AtomicUsize,
    /// Charges refused.
    refusals: AtomicU64,
    /// Requests refused for the limit's sake.
    pub(crate) denied_by_limit: AtomicU64,
    /// Requests refused because the system did.
    pub(crate) denied_by_system: AtomicU64,
}

impl Account {
    /// Returns an account that holds nothing and has no limits.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Account {
        Account {
            charged_bytes: AtomicUsize::new(0),
            max_bytes: AtomicUsize::new(UNLIMITED),
            soft_max_bytes: AtomicUsize::new(UNLIMITED),
            relieved_bytes: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
            denied_by_limit: AtomicU64::new(0),
            denied_by_system: AtomicU64::new(0),
        }
    }

    /// Returns an account that holds nothing and has no limits.
    #[cfg(loom)]
    pub(super) fn new() -> Account {
        let none = || AtomicUsize::new(0);
        let unlimited = || AtomicUsize::new(UNLIMITED);
        Account {
            charged_bytes: none(),
            max_bytes: unlimited(),
            soft_max_bytes: unlimited(),
            relieved_bytes: none(),
            refusals: AtomicU64::new(0),
            denied_by_limit: AtomicU64::new(0),
            denied_by_system: AtomicU64::new(0),
        }
    }

    /// Charges `bytes` unless that passes the limit; returns whether it did.
    pub(crate) fn charge(&self, bytes: usize) -> bool {
        let max_bytes = self.max_bytes.load(Ordering::Relaxed);
        let within = |now: usize| now.checked_add(bytes).filter(|&sum| sum <= max_bytes);
        let charged = self.charged_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        if charged.is_err() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        charged.is_ok()
    }

    /// Charges `bytes` whatever the limit: for memory the heap is given, as another's remains.
    pub(crate) fn charge_anyway(&self, bytes: usize) {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back a charge.
    pub(crate) fn uncharge(&self, bytes: usize) {
        self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes charged.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    /// Returns the charges refused so far: when the number is another one after a request than
    /// before, a limit stood in its way.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Returns whether there is a hard limit.
    pub(crate) fn has_limit(&self) -> bool {
        self.max_bytes.load(Ordering::Relaxed) != UNLIMITED
    }

    /// Returns whether the heap should give back what it can before it takes more: it is above the
    /// soft limit and holds a chunk more than the last time it did so.
    #[inline]
    pub(crate) fn should_relieve(&self) -> bool {
        let charged_bytes = self.charged_bytes();
        charged_bytes > self.soft_max_bytes.load(Ordering::Relaxed)
            && charged_bytes >= self.relieved_bytes.load(Ordering::Relaxed) + CHUNK_BYTES
    }

    /// Notes that the heap gave back what it could.
    pub(crate) fn note_relieved(&self) {
        self.relieved_bytes.store(self.charged_bytes(), Ordering::Relaxed);
    }

    /// Sets the hard limit.
    pub(crate) fn set_max_bytes(&self, bytes: usize) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets the soft limit.
    pub(crate) fn set_soft_max_bytes(&self, bytes: usize) {
        self.relieved_bytes.store(0, Ordering::Relaxed);
        self.soft_max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of slab blocks that one refill may bring in: little where the limit is
    /// low, so that twenty classes find room in 256 KiB.
    pub(crate) fn refill_bytes_max(&self) -> usize {
        self.max_bytes.load(Ordering::Relaxed) / 64
    }
}
