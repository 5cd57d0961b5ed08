//! What the blanket impl can say of the allocators that can say more than `Allocator` asks.
//!
//! A blanket impl is the same for all types, so a heap's `owns` and the answers of a resource behind
//! `&dyn` would be lost in it. Here the type is compared with the few that have answers. Lifetimes
//! are no part of the comparison, so what comes out of it lives as long as the borrow it came in by
//! and no longer. The compiler folds the comparisons away.
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: stands on `heap` and `buffer`; `memory_resource` asks it. Comparing types without their lifetimes
//! is from the crate `typeid`.

use core::any::TypeId;
use core::marker::PhantomData;
use core::mem::transmute;
use core::ptr::NonNull;

use super::MemoryResource;
use crate::buffer::BufferHeap;
#[cfg(feature = "std")]
use crate::heap::{Heap, SharedHeap};

/// Returns whether `block` is `allocator`'s, if it is of a type that can tell.
#[inline]
pub(super) fn owns<A>(allocator: &A, block: NonNull<u8>) -> Option<bool> {
    #[cfg(feature = "std")]
    if let Some(heap) = heap(allocator) {
        return Some(heap.owns(block));
    }
    if let Some(heap) = buffer_heap(allocator) {
        return Some(heap.owns(block));
    }
    resource(allocator)?.owns(block)
}

/// Returns what `allocator` stands on, if it is a reference to a resource that stands on something.
#[inline]
pub(super) fn upstream<A>(allocator: &A) -> Option<&dyn MemoryResource> {
    resource(allocator)?.upstream()
}

/// Returns the heap that `allocator` is a handle of or a reference to.
#[cfg(feature = "std")]
#[inline]
fn heap<'a, A>(allocator: &'a A) -> Option<&'a Heap> {
    // SAFETY: the type has no lifetimes.
    if let Some(heap) = unsafe { view::<A, Heap>(allocator) } {
        return Some(heap);
    }
    // SAFETY: the type has no lifetimes.
    if let Some(heap) = unsafe { view::<A, SharedHeap>(allocator) } {
        return Some(heap);
    }
    // SAFETY: the reference seen has the lifetime of the borrow, which its own outlives.
    if let Some(heap) = unsafe { view::<A, &'a Heap>(allocator) } {
        return Some(heap);
    }
    // SAFETY: as above.
    unsafe { view::<A, &'a SharedHeap>(allocator) }.map(|shared| &***shared)
}

/// Returns the heap in a buffer that `allocator` is or is a reference to.
#[inline]
fn buffer_heap<'a, A>(allocator: &'a A) -> Option<&'a BufferHeap<'a>> {
    // SAFETY: the heap seen, and its buffer, have the lifetime of the borrow, which their own outlive;
    // a shared reference to the heap gives no access to the buffer's lifetime but to end sooner.
    if let Some(heap) = unsafe { view::<A, BufferHeap<'a>>(allocator) } {
        return Some(heap);
    }
    // SAFETY: as above.
    unsafe { view::<A, &'a BufferHeap<'a>>(allocator) }.copied()
}

/// Returns the resource that `allocator` is a reference to.
#[inline]
fn resource<'a, A>(allocator: &'a A) -> Option<&'a dyn MemoryResource> {
    macro_rules! look_for {
        ($($target:ty),+) => {
            $(
                // SAFETY: the reference seen, and what the trait object borrows, have the lifetime
                // of the borrow, which their own outlive.
                if let Some(resource) = unsafe { view::<A, &'a ($target)>(allocator) } {
                    return Some(*resource);
                }
            )+
        };
    }
    look_for!(
        dyn MemoryResource + 'a,
        dyn MemoryResource + Send + 'a,
        dyn MemoryResource + Sync + 'a,
        dyn MemoryResource + Send + Sync + 'a
    );
    None
}

/// Returns `value` as a `T` if it is one but for lifetimes.
///
/// # Safety
/// 1. If `A` is `T` but for lifetimes, those of `A` outlive those of `T`, and `T` is covariant in them.
#[inline]
unsafe fn view<A, T>(value: &A) -> Option<&T> {
    // SAFETY: the same type, and (1).
    (type_of::<A>() == type_of::<T>()).then(|| unsafe { NonNull::from(value).cast().as_ref() })
}

/// Returns the id of a type without its lifetimes.
#[inline]
fn type_of<T>() -> TypeId {
    trait Named {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T> Named for PhantomData<T> {
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let phantom = PhantomData::<T>;
    let named: &dyn Named = &phantom;
    // SAFETY: only the lifetime bound changes, and the function called looks at no value.
    let named = unsafe { transmute::<&dyn Named, &(dyn Named + 'static)>(named) };
    named.id()
}
