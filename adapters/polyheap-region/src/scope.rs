//! Scopes: what is allocated in one goes when it ends, and what is outside stays usable.
//!
//! A scope's values have the lifetime `'r`, which no caller can name outside the closure, so none
//! gets out. They do not borrow the `Scope` itself: an inner scope takes `&mut` of the outer one,
//! which shuts it for the time being and leaves its values be. `'env` is the time around the scope;
//! that it outlives `'r` lets values in the scope refer to what is outside, as with
//! `std::thread::scope`.
//!
//! *Concurrency*: neither `Send` nor `Sync`.
//!
//! *Neighbours*: stands on `arena`; `region` opens them.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::AllocError;

use crate::arena::Arena;
use crate::boxed::RegionBox;
use crate::builder::RegionBuilder;
use crate::error::{AllocOrInitError, init_or_panic, or_panic};
use crate::methods::allocation_methods;
use crate::rewind::Mark;
use crate::stats::RegionStats;

/// An open scope of a region. Values allocated in it live until it ends.
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// let heap = Heap::new();
/// let longest = polyheap_region::scope(&heap, |r| {
///     let words = r.alloc_slice_from_iter("a bb ccc".split(' '));
///     // An inner scope: the words stay usable, `r` itself is shut until it ends.
///     r.scope(|inner| {
///         let lengths = inner.alloc_slice_from_iter(words.iter().map(|word| word.len()));
///         lengths.iter().copied().max()
///     })
/// });
/// assert_eq!(longest, Some(3));
/// ```
pub struct Scope<'r, 'env: 'r> {
    arena: &'r Arena<'r>,
    /// Neither lifetime may be stretched or shrunk.
    lifetimes: PhantomData<(&'r mut &'r (), &'env mut &'env ())>,
}

impl<'r> Scope<'r, '_> {
    /// Opens an inner scope. This one cannot be used until it ends; its values can.
    ///
    /// Where both must be usable, open one beside it: `scope(r.heap(), |inner| …)`.
    #[inline]
    pub fn scope<'e, R>(&'e mut self, body: impl for<'i> FnOnce(&mut Scope<'i, 'e>) -> R) -> R {
        open(self.arena, body)
    }

    #[inline(always)]
    pub(crate) fn arena(&self) -> &'r Arena<'r> {
        self.arena
    }
}

/// Allocating. The values live as long as the scope.
impl<'r> Scope<'r, '_> {
    allocation_methods!([] 'r);
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// Opens a scope with a region of its own on `heap`.
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// let heap = Heap::new();
/// let sum = polyheap_region::scope(&heap, |r| {
///     let numbers = r.alloc_slice_fill_with(10, |place| place * place);
///     numbers.iter().sum::<usize>()
/// });
/// assert_eq!(sum, 285);
/// assert_eq!(heap.stats().live_blocks, 0);
/// ```
#[inline]
pub fn scope<'env, R>(heap: &'env Heap, body: impl for<'r> FnOnce(&mut Scope<'r, 'env>) -> R) -> R {
    with_arena(&Arena::new(heap, RegionBuilder::new().policy()), body)
}

/// Opens a scope with a region of its own on `heap`, whose memory is cleared when it ends.
///
/// # Examples
/// ```
/// use polyheap::Heap;
///
/// let heap = Heap::new();
/// let tag = polyheap_region::secret_scope(&heap, |r| {
///     let key = r.alloc_slice_fill_with(32, |place| place as u8);
///     key.iter().map(|&byte| u64::from(byte)).sum::<u64>()
/// }); // the key is cleared here
/// assert_ne!(tag, 0);
/// ```
#[inline]
pub fn secret_scope<'env, R>(
    heap: &'env Heap,
    body: impl for<'r> FnOnce(&mut Scope<'r, 'env>) -> R,
) -> R {
    with_arena(&Arena::new(heap, RegionBuilder::new().secret().policy()), body)
}

/// Runs `body` in a scope that ends with the arena.
#[inline]
pub(crate) fn with_arena<'a, 'env: 'a, R>(
    arena: &'a Arena<'a>,
    body: impl for<'r> FnOnce(&mut Scope<'r, 'env>) -> R,
) -> R {
    body(&mut Scope { arena, lifetimes: PhantomData })
}

/// Runs `body` in a scope that ends when it returns or unwinds.
#[inline]
pub(crate) fn open<'e, R>(
    arena: &'e Arena<'e>,
    body: impl for<'r> FnOnce(&mut Scope<'r, 'e>) -> R,
) -> R {
    let _rewound_last = Rewinder { arena, mark: arena.mark() };
    body(&mut Scope { arena, lifetimes: PhantomData })
}

struct Rewinder<'a> {
    arena: &'a Arena<'a>,
    mark: Mark,
}

impl Drop for Rewinder<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: (1) since the mark was made the arena was only used through the scope, which
        // frees nothing older: blocks outside can be freed only through the outer scope or region,
        // which was borrowed. (2) the scope's values have a lifetime that ended with the body.
        unsafe { self.arena.rewind(self.mark) };
    }
}
