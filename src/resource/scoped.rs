//! The current resource of a thread, for the length of a scope.
//!
//! It is whatever the caller has at hand, and must not be used after its scope: it is only ever lent to
//! a closure that can take nothing of its lifetime out.
//!
//! *Concurrency*: each thread has its own.
//!
//! *Neighbours*: stands on `default`.

use core::cell::Cell;
use core::mem::transmute;
use core::ptr::NonNull;

use super::{MemoryResource, default_resource};

std::thread_local! {
    /// The resource of the innermost scope the thread is in.
    static SCOPED: Cell<Option<NonNull<dyn MemoryResource>>> = const { Cell::new(None) };
}

/// Calls `run` with `resource` as the calling thread's current resource.
///
/// Scopes may lie inside each other; the innermost counts. A scope ends however `run` ends.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap::allocator_api2::vec::Vec;
/// use polyheap::resource::{Monotonic, with_current_resource, with_resource};
///
/// /// Takes no allocator, and allocates where the caller says all the same.
/// fn sum(count: u32) -> u32 {
///     with_current_resource(|resource| {
///         let mut list = Vec::new_in(resource);
///         list.extend(0..count);
///         list.iter().sum()
///     })
/// }
///
/// let heap = Heap::new();
/// let scratch = Monotonic::new(&heap);
/// assert_eq!(with_resource(&scratch, || sum(1000)), sum(1000));
/// ```
pub fn with_resource<R>(resource: &dyn MemoryResource, run: impl FnOnce() -> R) -> R {
    /// Puts back what was there, also when `run` unwinds.
    struct Restore(Option<NonNull<dyn MemoryResource>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPED.set(self.0);
        }
    }
    // SAFETY: only the lifetime bound of the trait object changes, in a pointer that is used
    // during this call alone: the guard takes it away again.
    let scoped = unsafe {
        transmute::<NonNull<dyn MemoryResource + '_>, NonNull<dyn MemoryResource + 'static>>(
            NonNull::from(resource),
        )
    };
    let _restore = Restore(SCOPED.replace(Some(scoped)));
    run()
}

/// Lends the calling thread's current resource to `run`: that of the innermost [`with_resource`], else
/// the [process's](default_resource).
///
/// What `run` returns cannot hold on to it:
///
/// ```compile_fail
/// use polyheap::{allocator_api2::boxed::Box, resource::with_current_resource};
/// let escaped = with_current_resource(|resource| Box::new_in(1, resource));
/// ```
pub fn with_current_resource<R>(run: impl FnOnce(&dyn MemoryResource) -> R) -> R {
    match SCOPED.get() {
        // SAFETY: the scope that set it is open on this thread, so the resource is borrowed; `run`
        // takes any lifetime, so nothing of it outlives this call, and the scope does.
        Some(scoped) => run(unsafe { scoped.as_ref() }),
        None => run(default_resource()),
    }
}
