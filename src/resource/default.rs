//! The default resource of the process, set at most once.
//!
//! It must be `'static` and shared, so a reference to it can be handed out. Where there is no system,
//! and so no heap without a buffer, it has no memory until it is set.
//!
//! *Concurrency*: any thread. Setting it is one exchange; who reads meanwhile gets what is there from
//! the start.
//!
//! *Neighbours*: stands on `heap`; `scoped` falls back on it.

use core::cell::UnsafeCell;
use core::error::Error;
use core::fmt;

use super::MemoryResource;
#[cfg(feature = "std")]
use crate::heap::Heap;
use crate::sync::{AtomicUsize, Ordering};

/// A resource that can be the process's default.
type Shared = &'static (dyn MemoryResource + Send + Sync);

const UNSET: usize = 0;
const SETTING: usize = 1;
const SET: usize = 2;

/// What the process's default is when nobody sets another.
#[cfg(feature = "std")]
static FIRST: Heap = Heap::builder().name("default resource").build();

/// What the process's default is when nobody sets another.
#[cfg(not(feature = "std"))]
static FIRST: super::Null = super::Null;

static DEFAULT: Default =
    Default { state: AtomicUsize::new(UNSET), resource: UnsafeCell::new(&FIRST) };

/// The process's default resource.
struct Default {
    /// `UNSET`, then `SETTING`, then `SET` for ever. The one who sets `SETTING` writes `resource` and
    /// then `SET` (Release), which publishes it; readers load it with Acquire.
    state: AtomicUsize,
    /// Read when the state is `SET`, written by the one who made it `SETTING`.
    resource: UnsafeCell<Shared>,
}

// SAFETY: `resource` is written by one thread, before `SET` is published, and read after that; what
// it refers to is `Sync`.
unsafe impl Sync for Default {}

/// Says that the process's default resource was set before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultAlreadySet;

impl fmt::Display for DefaultAlreadySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the default resource of the process was set before")
    }
}

impl Error for DefaultAlreadySet {}

/// Returns the process's default resource: the one that was [set](set_default_resource), else a heap
/// of its own.
///
/// It knows nothing of the thread's scopes: what `with_resource` has set is lent by
/// `with_current_resource`. Without the feature `std`, the heap of its own is a [`Null`](super::Null).
///
/// # Examples
/// ```
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::default_resource;
///
/// let mut list = Vec::new_in(default_resource());
/// list.extend(0..10);
/// assert_eq!(std::thread::spawn(move || list.len()).join().unwrap(), 10);
/// ```
pub fn default_resource() -> &'static (dyn MemoryResource + Send + Sync) {
    if DEFAULT.state.load(Ordering::Acquire) != SET {
        return &FIRST;
    }
    // SAFETY: `SET`: written before, and never again.
    unsafe { *DEFAULT.resource.get() }
}

/// Sets the process's default resource, for good. Containers made before keep the one they have.
///
/// # Errors
/// [`DefaultAlreadySet`] when it was set before.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::resource::{Counting, set_default_resource};
///
/// static HEAP: Heap = Heap::new();
/// static ALL: Counting<&Heap> = Counting::new(&HEAP);
/// assert!(set_default_resource(&ALL).is_ok());
/// assert!(set_default_resource(&HEAP).is_err());
/// ```
pub fn set_default_resource(
    resource: &'static (dyn MemoryResource + Send + Sync),
) -> Result<(), DefaultAlreadySet> {
    let state = &DEFAULT.state;
    let claimed = state.compare_exchange(UNSET, SETTING, Ordering::Relaxed, Ordering::Relaxed);
    claimed.or(Err(DefaultAlreadySet))?;
    // SAFETY: whoever made the exchange writes alone, and nobody reads before `SET`.
    unsafe { *DEFAULT.resource.get() = resource };
    state.store(SET, Ordering::Release);
    Ok(())
}
