//! Sources: where a heap's regions and mappings come from, when not from the system.
//!
//! *Concurrency*: a source is called by any thread of its heaps, at the same time.
//!
//! *Neighbours*: stands on `os`; the region cache, mappings and rosters ask an [`Origin`].

use core::alloc::Layout;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::{self, NonNull};

use crate::os;

/// Where a heap takes its memory from and gives it back to.
///
/// A heap asks for regions of 4 MiB, for longer pieces for blocks above 1.75 MiB, both aligned to 4 MiB,
/// and for some kilobytes of lists, aligned to an OS page, once it has several regions. It never resizes
/// what it got, and refuses blocks with an alignment above 4 MiB. The process's own indexes, one word for 4 MiB of addresses and a table
/// for each thread, come from the system.
///
/// # Safety
/// 1. Memory that `map` returned is this caller's alone until it is given to `unmap`, and reads as
///    zero at first.
/// 2. It fits the layout asked for.
/// 3. No method unwinds, or uses a heap that takes its memory from this source.
///
/// # Examples
/// ```
/// use core::{alloc::Layout, ptr::NonNull};
/// use polyheap::{Heap, Source, SystemSource};
///
/// /// Takes from the system and says so.
/// struct Loud;
///
/// // SAFETY: the system's source keeps the promises, and the heap does not use standard error.
/// unsafe impl Source for Loud {
///     fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
///         eprintln!("{} bytes", layout.size());
///         SystemSource.map(layout)
///     }
///     unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout) {
///         // SAFETY: the caller's promise is the callee's.
///         unsafe { SystemSource.unmap(start, layout) }
///     }
/// }
///
/// static LOUD: Loud = Loud;
/// let heap = Heap::builder().build_in(&LOUD).unwrap();
/// assert_eq!(heap.vec_from([1, 2, 3]).len(), 3);
/// ```
pub unsafe trait Source: Send + Sync {
    /// Returns memory that fits `layout` and reads as zero; `None` when there is none. Size and
    /// alignment are multiples of the OS page.
    fn map(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes memory back.
    ///
    /// # Safety
    /// 1. `map` returned `start` for this layout, and nobody uses it any more.
    unsafe fn unmap(&self, start: NonNull<u8>, layout: Layout);

    /// Lets the contents of whole OS pages go, which stay mapped; returns whether they read as zero
    /// now. A source that cannot do that says `false` and leaves them as they are.
    ///
    /// # Safety
    /// 1. The pages lie in memory that `map` returned, and nobody needs what is on them.
    unsafe fn purge(&self, start: NonNull<u8>, bytes: usize) -> bool {
        let _ = (start, bytes);
        false
    }
}

/// Where one heap's memory comes from.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// The system, by way of what the process keeps.
    System,
    /// A source.
    Source(&'static dyn Source),
}

impl Origin {
    /// Returns whether it is the system.
    pub(crate) const fn is_system(self) -> bool {
        matches!(self, Origin::System)
    }

    /// Returns whether both are the same.
    pub(crate) fn is_same(self, other: Origin) -> bool {
        match (self, other) {
            (Origin::System, Origin::System) => true,
            (Origin::Source(one), Origin::Source(another)) => ptr::addr_eq(one, another),
            _ => false,
        }
    }

    /// Maps memory that reads as zero.
    pub(super) fn map(self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        match self {
            Origin::System => os::map_aligned(bytes, align),
            Origin::Source(source) => source.map(Layout::from_size_align(bytes, align).ok()?),
        }
    }

    /// Gives memory back that nobody needs to find again.
    ///
    /// # Safety
    /// 1. It was mapped from here with this length and alignment. 2. Nobody uses it.
    pub(super) unsafe fn discard(self, start: NonNull<u8>, bytes: usize, align: usize) {
        match self {
            // SAFETY: (1) and (2) by this function's contract.
            Origin::System => unsafe { os::discard(start, bytes) },
            // SAFETY: (1) and (2) by this function's contract.
            Origin::Source(_) => _ = unsafe { self.unmap(start, bytes, align) },
        }
    }

    /// Gives memory back; returns whether it is gone. A source takes everything.
    ///
    /// # Safety
    /// 1. It was mapped from here with this length; from a source, with this alignment too. 2. Nobody
    ///    uses it.
    pub(super) unsafe fn unmap(self, start: NonNull<u8>, bytes: usize, align: usize) -> bool {
        match self {
            // SAFETY: (1) and (2) by this function's contract.
            Origin::System => unsafe { os::unmap(start, bytes) },
            Origin::Source(source) => {
                if let Ok(layout) = Layout::from_size_align(bytes, align) {
                    // SAFETY: (1) by this function's contract.
                    unsafe { source.unmap(start, layout) };
                }
                true
            }
        }
    }

    /// Lets the contents of whole OS pages go; returns whether they read as zero now.
    ///
    /// # Safety
    /// 1. They lie in memory mapped from here. 2. Nobody needs what is on them.
    pub(super) unsafe fn purge(self, start: NonNull<u8>, bytes: usize) -> bool {
        match self {
            // SAFETY: (1) and (2) by this function's contract.
            Origin::System => unsafe { os::purge(start, bytes) },
            // SAFETY: (1) by this function's contract.
            Origin::Source(source) => unsafe { source.purge(start, bytes) },
        }
    }
}

// No method of a source unwinds, so nobody sees one in the middle of something.
impl UnwindSafe for Origin {}
impl RefUnwindSafe for Origin {}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_system() { "System" } else { "Source" })
    }
}
