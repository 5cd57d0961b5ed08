//! Budgets: what a subsystem may hold, and who is told when it holds more.
//!
//! Both limits are the heap's, which keeps them while it allocates. Here they are kept a second time
//! to be shown, together with the callbacks. Nothing here runs in an allocation: a budget is checked
//! by whoever calls for it, a recorder for instance, and the callbacks run on that thread with no lock
//! held.
//!
//! ```text
//! check ─ within: the next excess is a new one
//!       └ above:  is it new, or grown by a step since the callbacks were last called?
//!                 ├ no: that is known
//!                 └ yes: give back what has no live owner; still above: call
//! ```
//!
//! Callbacks that free blocks need not bring the subsystem within: what they free may lie among live
//! blocks, and be used again rather than given back. So what counts after a call is growth.
//!
//! *Concurrency*: any thread. One lock a budget, which only settings and checks take; parking_lot is
//! allowed here because no allocation waits for it.
//!
//! *Neighbours*: stands on `subsystem`; `recorder` calls it, `report` shows it.

use core::fmt;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use polyheap::HeapError;
use smallvec::SmallVec;

use crate::bytes::Bytes;
use crate::{Subsystem, registry};

/// No limit.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// Stands for the bytes reported while the callbacks run, so that no other check calls them.
const CALLING: usize = usize::MAX;

/// The same, when a new soft limit has been set meanwhile.
const CALLING_ANEW: usize = CALLING - 1;

/// The part of a soft limit by which an excess has to grow to be reported again.
const STEP_DIVISOR: usize = 16;

/// Callbacks that are called without asking the global allocator.
const CALLBACKS_INLINE: usize = 4;

type Callback = Arc<dyn Fn(&SoftExcess) + Send + Sync>;

/// The limits of a subsystem and its callbacks.
pub(crate) struct Budget {
    settings: Mutex<Settings>,
    /// Bytes held when the callbacks had last been called; 0 when the subsystem was within since or
    /// has a new soft limit; one of the two marks above while they run, which only the thread that
    /// runs them takes away. Relaxed: it decides who calls, and publishes nothing.
    reported_bytes: AtomicUsize,
}

struct Settings {
    max_bytes: usize,
    soft_max_bytes: usize,
    callbacks: Vec<Callback>,
}

impl Budget {
    pub(crate) const fn new(max_bytes: usize, soft_max_bytes: usize) -> Budget {
        let settings = Settings { max_bytes, soft_max_bytes, callbacks: Vec::new() };
        Budget { settings: Mutex::new(settings), reported_bytes: AtomicUsize::new(0) }
    }

    /// Exchanges the bytes reported for what `next` makes of them; returns whether it made anything.
    fn note(&self, next: impl FnMut(usize) -> Option<usize>) -> bool {
        self.reported_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// Says that a subsystem holds more than its soft limit, as callbacks and [`Subsystem::check`] are told.
///
/// # Examples
/// ```
/// use polyheap_subsystem::subsystem;
///
/// subsystem! { static CACHE: "cache", soft_max = 1 << 20; }
///
/// let mut entries = CACHE.vec();
/// entries.resize(2 << 20, 0u8);
/// let excess = CACHE.check().unwrap();
/// assert_eq!((excess.subsystem.name(), excess.soft_max_bytes), ("cache", 1 << 20));
/// assert!(excess.excess_bytes() >= 1 << 20);
/// println!("{excess}");
/// # drop(entries);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SoftExcess {
    /// The subsystem.
    pub subsystem: &'static Subsystem,
    /// Bytes it holds of the system, after it gave back what had no live owner.
    pub held_bytes: usize,
    /// Bytes of live blocks among them.
    pub live_bytes: usize,
    /// The soft limit in bytes.
    pub soft_max_bytes: usize,
}

impl SoftExcess {
    /// Returns by how many bytes the subsystem is above its soft limit.
    pub fn excess_bytes(&self) -> usize {
        self.held_bytes.saturating_sub(self.soft_max_bytes)
    }

    /// Returns whether callbacks that were last called when so much was held should hear of it.
    fn is_news(&self, known_bytes: usize) -> bool {
        let step_bytes = self.soft_max_bytes / STEP_DIVISOR;
        match known_bytes {
            0 => true,
            CALLING | CALLING_ANEW => false,
            known_bytes => self.held_bytes > known_bytes.saturating_add(step_bytes),
        }
    }
}

impl fmt::Display for SoftExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, live) = (Bytes(self.held_bytes), Bytes(self.live_bytes));
        let (name, soft) = (self.subsystem.name(), Bytes(self.soft_max_bytes));
        write!(f, "{name} holds {held} ({live} live), above its soft limit of {soft}")
    }
}

/// Checks the budgets of all subsystems, as [`Subsystem::check`] does for one; returns how many are
/// above their soft limits.
///
/// # Panics
/// When a callback does; the subsystems behind it are left unchecked.
///
/// # Examples
/// ```standalone_crate
/// polyheap_subsystem::subsystem! { static CACHE: "cache", soft_max = 1 << 20; }
///
/// let mut entries = CACHE.vec();
/// entries.resize(2 << 20, 0u8);
/// assert_eq!(polyheap_subsystem::check_budgets(), 1);
/// # drop(entries);
/// ```
pub fn check_budgets() -> usize {
    registry().iter().filter(|subsystem| subsystem.check().is_some()).count()
}

impl Subsystem {
    /// Returns the most bytes the subsystem may hold, if there is such a limit.
    pub fn max_bytes(&self) -> Option<usize> {
        limit(self.budget.settings.lock().max_bytes)
    }

    /// Returns the soft limit in bytes, if there is one.
    pub fn soft_max_bytes(&self) -> Option<usize> {
        limit(self.budget.settings.lock().soft_max_bytes)
    }

    /// Sets the most bytes the subsystem may hold; see [`Heap::set_limit`](polyheap::Heap::set_limit).
    ///
    /// # Errors
    /// As [`Heap::bind`](polyheap::Heap::bind): the limit is kept in the heap's memory.
    pub fn set_limit(&self, max_bytes: Option<NonZeroUsize>) -> Result<(), HeapError> {
        let mut settings = self.budget.settings.lock();
        self.heap().set_limit(max_bytes)?;
        settings.max_bytes = max_bytes.map_or(UNLIMITED, NonZeroUsize::get);
        Ok(())
    }

    /// Sets the bytes above which the subsystem gives back before it takes more, and above which the
    /// callbacks are called; see [`Heap::set_soft_limit`](polyheap::Heap::set_soft_limit). The next
    /// check calls them again if the subsystem is above the new limit.
    ///
    /// # Errors
    /// As [`set_limit`](Subsystem::set_limit).
    pub fn set_soft_limit(&self, max_bytes: Option<NonZeroUsize>) -> Result<(), HeapError> {
        let mut settings = self.budget.settings.lock();
        self.heap().set_soft_limit(max_bytes)?;
        settings.soft_max_bytes = max_bytes.map_or(UNLIMITED, NonZeroUsize::get);
        self.budget.note(|known| Some(if is_calling(known) { CALLING_ANEW } else { 0 }));
        Ok(())
    }

    /// Has `callback` called when a check finds the subsystem above its soft limit; and again when one
    /// finds it above after it was within, or grown since by a sixteenth of the limit. Callbacks are
    /// called in the order in which they were given, and stay for the life of the process.
    ///
    /// They run on the thread that checks, outside any allocation and with no lock held. They may
    /// allocate, free, trim, set limits and check; no check calls them again before they are through.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Mutex;
    /// use polyheap_subsystem::{Vec, subsystem};
    ///
    /// subsystem! { static CACHE: "cache", soft_max = 1 << 20; }
    /// static ENTRIES: Mutex<Vec<[u8; 1024]>> = Mutex::new(Vec::new_in(&CACHE));
    ///
    /// CACHE.on_soft_limit(|excess| {
    ///     let mut entries = ENTRIES.lock().unwrap();
    ///     entries.clear();
    ///     entries.shrink_to_fit();
    ///     excess.subsystem.trim();
    /// });
    /// ENTRIES.lock().unwrap().resize(2048, [0; 1024]);
    /// assert!(CACHE.stats().held_bytes > 2 << 20);
    /// assert!(CACHE.check().is_none());
    /// ```
    pub fn on_soft_limit(&'static self, callback: impl Fn(&SoftExcess) + Send + Sync + 'static) {
        self.register();
        self.budget.settings.lock().callbacks.push(Arc::new(callback));
    }

    /// Returns by how much the subsystem is above its soft limit, if it is. When that is news, the
    /// subsystem first gives back what has no live owner, and the callbacks are called if that is not
    /// enough; what they freed is then taken into account.
    ///
    /// A program calls this now and then, where it is in no allocation; a running
    /// [`Recorder`](crate::Recorder) does it with every sample.
    ///
    /// # Panics
    /// When a callback does; those behind it are not called then.
    ///
    /// # Cost
    /// O(regions + threads), as [`Heap::stats`](polyheap::Heap::stats); nothing without a soft limit.
    pub fn check(&'static self) -> Option<SoftExcess> {
        self.register();
        let Some(excess) = self.excess() else {
            // Makes the next excess a new one, unless the callbacks run just now.
            self.budget.note(|known| (!is_calling(known)).then_some(0));
            return None;
        };
        if !self.budget.note(|known| excess.is_news(known).then_some(CALLING)) {
            return Some(excess);
        }
        let _end = EndOfCall(self);
        self.trim();
        self.call(&self.excess()?);
        self.excess()
    }

    fn excess(&'static self) -> Option<SoftExcess> {
        let soft_max_bytes = self.soft_max_bytes()?;
        let stats = self.stats();
        let (held_bytes, live_bytes) = (stats.held_bytes, stats.live_bytes);
        let excess = SoftExcess { subsystem: self, held_bytes, live_bytes, soft_max_bytes };
        (held_bytes > soft_max_bytes).then_some(excess)
    }

    fn call(&self, excess: &SoftExcess) {
        // Copied out, so that no lock is held while they run.
        let callbacks: SmallVec<[Callback; CALLBACKS_INLINE]> =
            self.budget.settings.lock().callbacks.iter().cloned().collect();
        callbacks.iter().for_each(|callback| callback(excess));
    }
}

/// Ends a call of the callbacks when dropped, also by unwinding: notes what is held now.
struct EndOfCall(&'static Subsystem);

impl Drop for EndOfCall {
    fn drop(&mut self) {
        let held_bytes = self.0.excess().map_or(0, |excess| excess.held_bytes);
        self.0.budget.note(|known| Some(if known == CALLING { held_bytes } else { 0 }));
    }
}

/// Returns whether the callbacks run.
fn is_calling(known_bytes: usize) -> bool {
    matches!(known_bytes, CALLING | CALLING_ANEW)
}

/// Returns the limit as it is shown.
fn limit(bytes: usize) -> Option<usize> {
    (bytes != UNLIMITED).then_some(bytes)
}
