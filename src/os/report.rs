//! Faults: what only a bug in a caller's unsafe code, or our own, can cause.
//!
//! A fault is reported once, without allocating: to the handler of the process when one is set,
//! else as one line on standard error, built on the stack and written with one call. Then the process
//! aborts. Without a system the line is the message of a panic.
//!
//! *Concurrency*: any thread; the handler is one atomic word.
//!
//! *Neighbours*: stands on the system's file; called from every room that checks a caller.

use core::fmt;

#[cfg(not(feature = "std"))]
use super::bare::{abort, report};
#[cfg(feature = "std")]
use super::line::{abort, report};
use crate::sync::{AtomicPtr, Ordering};

/// Which rule a caller broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// The block was free already.
    DoubleFree,
    /// The layout given at free names another size class than the block has.
    WrongLayout,
    /// The block belongs to another heap.
    WrongHeap,
    /// No heap ever handed out this address.
    ForeignBlock,
    /// The address points into a block, not at its start.
    InteriorPointer,
    /// An invariant of polyheap itself does not hold.
    BrokenInvariant,
}

impl FaultKind {
    /// Returns the fault's name as it stands in the report.
    pub const fn as_str(self) -> &'static str {
        match self {
            FaultKind::DoubleFree => "double free",
            FaultKind::WrongLayout => "free with a wrong layout",
            FaultKind::WrongHeap => "free into a heap that does not own the block",
            FaultKind::ForeignBlock => "free of a foreign pointer",
            FaultKind::InteriorPointer => "free of an interior pointer",
            FaultKind::BrokenInvariant => "broken invariant",
        }
    }
}

/// A caller's mistake, as handed to a [`FaultHandler`].
///
/// # Examples
/// ```
/// fn handler(fault: &polyheap::Fault<'_>) {
///     // Runs instead of the line on standard error; the process aborts when it returns.
///     eprintln!("{fault}");
/// }
/// polyheap::set_fault_handler(Some(handler));
/// # polyheap::set_fault_handler(None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fault<'a> {
    kind: FaultKind,
    site: FaultSite<'a>,
}

/// The facts of a fault: which heap noticed it, at which address, and the sizes that disagree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultSite<'a> {
    /// Name of the heap, or of the invariant.
    pub(crate) name: &'a str,
    /// Number of the heap.
    pub(crate) heap: u64,
    /// Address given.
    pub(crate) address: usize,
    /// Bytes of the class the caller's layout named; 0 when unknown.
    pub(crate) given_bytes: usize,
    /// Bytes the block really has; 0 when unknown.
    pub(crate) block_bytes: usize,
}

impl Fault<'_> {
    /// Returns which rule was broken.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Returns the address the caller gave.
    pub fn address(&self) -> usize {
        self.site.address
    }

    /// Returns the name of the heap that noticed, empty for a heap without one.
    pub fn heap_name(&self) -> &str {
        self.site.name
    }
}

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = &self.site;
        if self.kind == FaultKind::BrokenInvariant {
            return write!(f, "{} [{}]", self.kind.as_str(), site.name);
        }
        write!(
            f,
            "{}: {:#x} in heap \"{}\" #{}",
            self.kind.as_str(),
            site.address,
            site.name,
            site.heap
        )?;
        if site.given_bytes != 0 {
            write!(f, " (given a class of {} bytes", site.given_bytes)?;
            if site.block_bytes != 0 {
                write!(f, ", the block has {}", site.block_bytes)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// What runs when a fault is found. The process aborts when it returns or unwinds. It may be
/// called from any thread, in the middle of a free, so it should not use the heap concerned.
pub type FaultHandler = fn(&Fault<'_>);

/// The handler of the process, null for the default. Written by [`set_fault_handler`] (Release),
/// read by a fault (Acquire); the value is a function and publishes nothing else.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets what runs when a fault is found, for the whole process; `None` brings the default back:
/// one line on standard error.
///
/// # Concurrency
/// Any thread, lock-free.
pub fn set_fault_handler(handler: Option<FaultHandler>) {
    let word = handler.map_or(core::ptr::null_mut(), |function| function as *mut ());
    HANDLER.store(word, Ordering::Release);
}

/// Reports a fault and aborts.
#[cold]
#[inline(never)]
pub(crate) fn fault(kind: FaultKind, site: FaultSite<'_>) -> ! {
    let fault = Fault { kind, site };
    let word = HANDLER.load(Ordering::Acquire);
    let guard = AbortOnUnwind;
    if word.is_null() {
        report(&fault);
    } else {
        // SAFETY: a non-null word was a `FaultHandler` when `set_fault_handler` stored it.
        let handler = unsafe { core::mem::transmute::<*mut (), FaultHandler>(word) };
        handler(&fault);
    }
    drop(guard);
    abort()
}

/// Reports that an invariant of ours does not hold and aborts.
#[cold]
#[inline(never)]
pub(crate) fn broken_invariant(name: &'static str) -> ! {
    fault(FaultKind::BrokenInvariant, FaultSite { name, ..FaultSite::default() })
}

/// Aborts when a handler unwinds, before the unwinding can leave an allocator call.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        abort();
    }
}
