//! A subsystem: a heap with a name, a budget and a place in the registry.
//!
//! The heap comes first in the struct, so the address of a subsystem is that of its heap, and
//! allocating through either is the same instructions.
//!
//! *Concurrency*: `Send` and `Sync`, as the heap; the rest is behind the budget's lock or set once.
//!
//! *Neighbours*: stands on `builder`, `budget` and `registry`; everything else stands on it.

use core::fmt;
use core::ops::Deref;

use polyheap::Heap;

use crate::budget::Budget;
use crate::builder::SubsystemBuilder;
use crate::registry::Link;

/// A named heap of a part of the program; a static, made by [`subsystem!`](crate::subsystem).
///
/// Dereferences to [`Heap`]: statistics, trim, `owns` and all else that takes `&self` is there. As
/// `&'static Subsystem` it is an allocator, and has the containers of this crate as methods.
///
/// # Concurrency
/// Any thread, as [`Heap`]: allocating and freeing on a warm thread takes no lock.
///
/// # Examples
/// ```
/// polyheap_subsystem::subsystem! { static NET: "net", max = 8 << 20; }
///
/// let mut packet = NET.vec();
/// packet.extend([0u8; 1500]);
/// assert_eq!(NET.stats().live_blocks, 1);
///
/// // At its limit only this subsystem is refused.
/// assert!(packet.try_reserve(16 << 20).is_err());
/// assert_eq!(NET.stats().denied_by_limit, 1);
/// ```
#[repr(C)]
pub struct Subsystem {
    heap: Heap,
    name: &'static str,
    is_isolated: bool,
    pub(crate) budget: Budget,
    pub(crate) link: Link,
}

impl Subsystem {
    /// Returns a builder, for a subsystem declared without the macro.
    pub const fn builder(name: &'static str) -> SubsystemBuilder {
        SubsystemBuilder::new(name)
    }

    pub(crate) const fn with_options(options: SubsystemBuilder) -> Subsystem {
        Subsystem {
            heap: options.heap.build(),
            name: options.name,
            is_isolated: options.is_isolated,
            budget: Budget::new(options.max_bytes, options.soft_max_bytes),
            link: Link::new(),
        }
    }

    /// Returns the name, uncut.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the heap.
    #[inline]
    pub const fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Returns whether memory is never handed from or to another heap.
    pub const fn is_isolated(&self) -> bool {
        self.is_isolated
    }
}

impl Deref for Subsystem {
    type Target = Heap;

    #[inline]
    fn deref(&self) -> &Heap {
        &self.heap
    }
}

impl fmt::Debug for Subsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subsystem")
            .field("name", &self.name)
            .field("max_bytes", &self.max_bytes())
            .field("soft_max_bytes", &self.soft_max_bytes())
            .field("is_isolated", &self.is_isolated)
            .finish_non_exhaustive()
    }
}
