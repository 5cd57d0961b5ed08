//! The registry: a list of all subsystems, linked through the subsystems themselves.
//!
//! ```text
//! FIRST ─→ parser ─→ cache ─→ log ─→ nothing yet
//! ```
//!
//! Entering one fills the first empty place at the end of the list. Nothing is ever taken out, so the
//! place in the list is a number that stays, and reading needs no lock. Nothing is allocated, so
//! constructors may enter subsystems before the program has started.
//!
//! *Concurrency*: any thread. Each place is filled once, and publishes the subsystem it names.
//!
//! *Neighbours*: stands on `subsystem`; `report`, `history` and `budget` go through it.

use core::iter;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use crate::Subsystem;

/// A place in the list: empty at its end.
type Place = OnceLock<&'static Subsystem>;

static FIRST: Place = Place::new();

/// A subsystem's part of the list.
#[derive(Debug)]
pub(crate) struct Link {
    /// Set by the first to enter the subsystem (Relaxed: it publishes nothing, the place does).
    is_entered: AtomicBool,
    next: Place,
}

impl Link {
    pub(crate) const fn new() -> Link {
        Link { is_entered: AtomicBool::new(false), next: Place::new() }
    }
}

/// All subsystems of the process, as [`registry`] returns it.
///
/// # Concurrency
/// Any thread, without a lock. The order stays as it is, later ones come behind.
///
/// # Examples
/// ```standalone_crate
/// use polyheap_subsystem::{registry, subsystem};
///
/// subsystem! {
///     static PARSER: "parser";
///     static CACHE: "cache", max = 1 << 20;
/// }
///
/// let limited = registry().iter().filter(|subsystem| subsystem.max_bytes().is_some());
/// assert_eq!(limited.map(|subsystem| subsystem.name()).collect::<Vec<_>>(), ["cache"]);
/// assert_eq!(registry().len(), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    _made_here: (),
}

/// Returns the registry of the process.
///
/// # Examples
/// ```
/// for subsystem in polyheap_subsystem::registry().iter() {
///     println!("{} holds {} bytes", subsystem.name(), subsystem.stats().held_bytes);
/// }
/// ```
pub fn registry() -> Registry {
    Registry { _made_here: () }
}

impl Registry {
    /// Iterates over the subsystems, in the order in which they were entered. For those the loader
    /// enters, that is the linker's order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Subsystem> + use<> {
        iter::successors(FIRST.get().copied(), |last| last.link.next.get().copied())
    }

    /// Returns the first subsystem with this name.
    pub fn get(&self, name: &str) -> Option<&'static Subsystem> {
        self.iter().find(|subsystem| subsystem.name() == name)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        FIRST.get().is_none()
    }
}

impl Subsystem {
    /// Enters the subsystem into the registry, unless it is there. What [`subsystem!`](crate::subsystem)
    /// declares is there from the start on Linux and macOS.
    ///
    /// # Cost
    /// O(subsystems) the first time, then one load. Never allocates.
    ///
    /// # Examples
    /// ```
    /// use polyheap_subsystem::{Subsystem, registry};
    ///
    /// static PLUGIN: Subsystem = Subsystem::builder("plugin").build();
    /// assert!(registry().get("plugin").is_none());
    /// PLUGIN.register();
    /// assert!(registry().get("plugin").is_some());
    /// ```
    #[inline]
    pub fn register(&'static self) {
        if !self.link.is_entered.load(Ordering::Relaxed) {
            self.enter_registry();
        }
    }

    #[cold]
    fn enter_registry(&'static self) {
        if self.link.is_entered.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut place = &FIRST;
        while place.set(self).is_err() {
            // Full: some subsystem is there, and the list goes on with it.
            if let Some(taken) = place.get() {
                place = &taken.link.next;
            }
        }
    }
}
