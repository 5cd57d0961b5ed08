//! A region whose type says that it clears what it gives up.
//!
//! *Concurrency*: as the region's.
//!
//! *Neighbours*: wraps `region`; the clearing itself is `arena`'s.

use core::fmt;
use core::ops::{Deref, DerefMut};

use polyheap::Heap;

use crate::builder::RegionBuilder;
use crate::region::Region;

/// A region for secrets: every byte it handed out is overwritten with zeros before anybody else can
/// have it.
///
/// That holds on every way out: when the region or a scope in it ends, by return, `?` or panic; when
/// it is rewound or reset; when a block is freed or shrunk at the cursor; when an initialiser fails.
/// Gaps for alignment are cleared too, memory never handed out is not touched. The optimiser cannot
/// remove it.
///
/// What it cannot know of: copies of the secret in registers, on the stack, or in memory of other
/// allocators; build values in place ([`alloc_slice_fill_with`](Region::alloc_slice_fill_with)) and
/// keep containers in the region. A region that is leaked (`mem::forget`) or outlived by an abort
/// is not cleared.
///
/// [`locked`](RegionBuilder::locked), [`undumped`](RegionBuilder::undumped) and
/// [`wiped_on_fork`](RegionBuilder::wiped_on_fork) keep the memory out of swap, core dumps and
/// child processes; do not leak such a region, as its memory would keep these properties.
///
/// # Examples
/// ```
/// use polyheap::Heap;
/// use polyheap_region::SecretRegion;
///
/// let heap = Heap::new();
/// let keys = SecretRegion::new_in(&heap);
/// let key = keys.alloc_slice_fill_with(32, |place| place as u8 ^ 0x5a);
/// assert_eq!(key[0], 0x5a);
/// drop(keys); // cleared
/// ```
pub struct SecretRegion<'h> {
    region: Region<'h>,
}

impl<'h> SecretRegion<'h> {
    /// Returns an empty secret region on `heap`; it takes no memory yet.
    #[inline]
    pub const fn new_in(heap: &'h Heap) -> SecretRegion<'h> {
        SecretRegion::from_secret(Region::with_policy(heap, RegionBuilder::new().secret().policy()))
    }

    /// Returns a builder; end it with [`build_secret_in`](RegionBuilder::build_secret_in).
    pub const fn builder() -> RegionBuilder {
        RegionBuilder::new().secret()
    }

    /// Wraps a region that was built as a secret one.
    pub(crate) const fn from_secret(region: Region<'h>) -> SecretRegion<'h> {
        SecretRegion { region }
    }
}

impl<'h> Deref for SecretRegion<'h> {
    type Target = Region<'h>;

    #[inline(always)]
    fn deref(&self) -> &Region<'h> {
        &self.region
    }
}

// A region put in its place keeps its own policy, and the one taken out stays secret.
impl DerefMut for SecretRegion<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.region
    }
}

impl fmt::Debug for SecretRegion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.region.fmt(f)
    }
}
