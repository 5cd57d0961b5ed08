//! The owning handle that lives as long as it is needed anywhere.
//!
//! *Invariants held here*: `[last-handle-drops]`.
//!
//! *Concurrency*: `Clone`, `Send`, `Sync`, `'static`; a counter in the heap's core, as in `Arc`.
//!
//! *Neighbours*: stands on `handle` and `core`.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::Heap;
use super::core::HeapCore;
use crate::error::HeapError;
use crate::sync::{Ordering, fence};

/// An owning handle of a heap: clones share it, and it lives until the last of them goes.
///
/// For threads and structs that cannot borrow. It is an allocator itself, as `&Heap` is, and
/// dereferences to [`Heap`].
///
/// # Examples
/// ```
/// use polyheap::{Heap, SharedHeap};
/// use polyheap::allocator_api2::vec::Vec;
///
/// let shared: SharedHeap = Heap::new().share();
/// let worker = std::thread::spawn({
///     let heap = shared.clone();
///     move || {
///         let mut list = Vec::new_in(heap);
///         list.extend(0..100);
///         list
///     }
/// });
/// assert_eq!(worker.join().unwrap().len(), 100);
/// ```
pub struct SharedHeap {
    /// Never dropped: the last handle takes the core out.
    heap: ManuallyDrop<Heap>,
}

impl Heap {
    /// Turns the heap into a shared one.
    ///
    /// # Panics
    /// When the heap was not used before and the system grants no memory for its first region;
    /// [`try_share`](Heap::try_share) returns it instead.
    pub fn share(self) -> SharedHeap {
        match self.try_share() {
            Ok(shared) => shared,
            Err((_, error)) => refuse(error),
        }
    }

    /// Turns the heap into a shared one.
    ///
    /// # Errors
    /// The heap itself and the reason, when it was not used before and cannot be bound.
    #[expect(
        clippy::result_large_err,
        reason = "the heap itself comes back; nothing is boxed here"
    )]
    pub fn try_share(self) -> Result<SharedHeap, (Heap, HeapError)> {
        match self.bind() {
            Ok(()) => Ok(SharedHeap { heap: ManuallyDrop::new(self) }),
            Err(error) => Err((self, error)),
        }
    }
}

impl SharedHeap {
    /// Returns the number of handles of this heap, a snapshot.
    pub fn handle_count(&self) -> usize {
        self.core().map_or(0, |core| core.handles.load(Ordering::Relaxed))
    }

    /// Returns the heap itself if this is its only handle, else the handle.
    ///
    /// # Errors
    /// The handle, when others exist.
    #[expect(clippy::result_large_err, reason = "the handle itself comes back")]
    pub fn try_unshare(self) -> Result<Heap, SharedHeap> {
        let is_last = self.core().is_some_and(|core| {
            // Acquire: what the other handles' threads did is seen.
            core.handles.load(Ordering::Acquire) == 1
        });
        if !is_last {
            return Err(self);
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again and its own drop does not run.
        Ok(unsafe { ManuallyDrop::take(&mut this.heap) })
    }
}

/// Ends a call that has no way to return an error.
#[cold]
#[expect(clippy::panic, reason = "documented; `try_share` is the way without")]
fn refuse(error: HeapError) -> ! {
    panic!("cannot share the heap: {error}")
}

impl Deref for SharedHeap {
    type Target = Heap;

    #[inline]
    fn deref(&self) -> &Heap {
        &self.heap
    }
}

impl Clone for SharedHeap {
    fn clone(&self) -> SharedHeap {
        if let Some(core) = self.core() {
            // Relaxed: a handle exists, so the heap cannot go meanwhile.
            core.handles.fetch_add(1, Ordering::Relaxed);
        }
        SharedHeap { heap: ManuallyDrop::new(self.heap.second_handle()) }
    }
}

impl Drop for SharedHeap {
    fn drop(&mut self) {
        let Some(core) = self.heap.take_core() else { return };
        // SAFETY: [last-handle-drops] this handle is counted, so the core is still there.
        let handles = unsafe { &core.as_ref().handles };
        // Release: what this handle's thread did with the heap is seen by the last.
        if handles.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: (1) the counter says that no other handle exists.
            unsafe { HeapCore::destroy(core) };
        }
    }
}

impl fmt::Debug for SharedHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.heap.fmt(f)
    }
}
