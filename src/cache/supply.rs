//! Supply: where the next slab or span of a heap comes from.
//!
//! ```text
//! slab   partial of the lease → partial of any region (classes that own their lines)
//!        → new in the lease → new in any roomy region, or a further lease
//!        → new region → whatever partial slab there is
//! span   lease → any roomy region → new region
//! ```
//!
//! A lease keeps a thread's small blocks in regions of its own so that frees can tell at a glance
//! whether a block is at home. It is a preference: when memory is short, anyone takes anything.
//!
//! *Concurrency*: any thread, lock-free.
//!
//! *Neighbours*: stands on `store`; refill, the direct path and `heap::large` call it.

use super::store::Store;
use super::summary::Look;
use crate::base::{shares_lines, slab_run_chunks};
use crate::config::SPAN_CHUNKS_MAX;
use crate::region::RegionRef;
use crate::slab::{Settled, Slab, Span};
use crate::sync::Ordering;

/// The regions a thread prefers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    /// The lessee's mark, 0 for none.
    pub(crate) mark: u32,
    /// The region to cut new slabs from.
    pub(crate) region: Option<RegionRef>,
}

impl Store {
    /// Finds a slab of `class`, claimed for the caller. The lease may move to another region.
    pub(crate) fn acquire_slab(&self, class: usize, lease: &mut Lease) -> Option<Slab> {
        self.slab_at_hand(class, lease)
            .or_else(|| self.new_slab(class, lease))
            .or_else(|| self.partial_slab(class, |_| true))
    }

    /// Finds a slab without asking for memory: for classes that share cache lines only in regions
    /// of the lessee.
    fn slab_at_hand(&self, class: usize, lease: &Lease) -> Option<Slab> {
        let at_home = lease.region.and_then(|region| Slab::claim_partial(region, class));
        let is_bound_home = lease.mark != 0 && shares_lines(class);
        at_home.or_else(|| {
            self.partial_slab(class, |region| !is_bound_home || region.lessee() == lease.mark)
        })
    }

    /// Claims a partial slab of any region that `may` be used.
    fn partial_slab(&self, class: usize, may: impl Fn(RegionRef) -> bool) -> Option<Slab> {
        let end = || self.regions.end();
        self.partial[class].search(end, |index| match self.region(index) {
            Some(region) if may(region) => {
                Slab::claim_partial(region, class).map_or(Look::Nothing, Look::Found)
            }
            Some(region) if region.partial[class].load(Ordering::Relaxed) != 0 => Look::NotForMe,
            _ => Look::Nothing,
        })
    }

    /// Cuts a new slab.
    fn new_slab(&self, class: usize, lease: &mut Lease) -> Option<Slab> {
        if let Some(slab) = lease.region.and_then(|region| self.cut_slab(region, class)) {
            return Some(slab);
        }
        if lease.mark != 0 && shares_lines(class) {
            let slab = self.lease_further(lease, class);
            if slab.is_some() {
                return slab;
            }
        }
        let run = slab_run_chunks(class);
        let roomy = self.find_roomy(|region| {
            if region.free_chunks().count_ones() < run as u32 {
                return None;
            }
            self.cut_slab(region, class)
        });
        roomy.or_else(|| self.slab_of_new_region(lease, class))
    }

    /// Moves the lease to another region of the lessee with room, to one nobody leases, or to a new
    /// one, and cuts a slab there.
    fn lease_further(&self, lease: &mut Lease, class: usize) -> Option<Slab> {
        let mark = lease.mark;
        let run = slab_run_chunks(class) as u32;
        let roomy = self.find_roomy(|region| {
            let has_room = region.free_chunks().count_ones() >= run;
            let is_own = || region.lessee() == mark || (region.lessee() == 0 && region.lease(mark));
            if has_room && is_own() { Some(region) } else { None }
        });
        if let Some(region) = roomy {
            lease.region = Some(region);
            if let Some(slab) = self.cut_slab(region, class) {
                return Some(slab);
            }
        }
        self.slab_of_new_region(lease, class)
    }

    fn slab_of_new_region(&self, lease: &mut Lease, class: usize) -> Option<Slab> {
        let region = self.add_region(lease.mark)?;
        if lease.mark != 0 {
            lease.region = Some(region);
        }
        self.cut_slab(region, class)
    }

    fn cut_slab(&self, region: RegionRef, class: usize) -> Option<Slab> {
        let slab = Slab::create(region, class, |bytes| self.charge(bytes));
        self.mark_again(region, slab.is_none());
        slab
    }

    /// Marks a region whose chunks were claimed and given back by someone who could not use them: a
    /// search that came meanwhile may have cleared the mark.
    pub(crate) fn mark_again(&self, region: RegionRef, was_in_vain: bool) {
        if was_in_vain && region.free_chunks() != 0 {
            self.roomy.mark(region.index());
        }
    }

    /// Takes a span of `chunks` chunks aligned to `step`; returns it and whether it is all zero.
    pub(crate) fn take_span(&self, chunks: usize, step: usize) -> Option<(Span, bool)> {
        let before = self.account.refusals();
        let create = |region| {
            let span = Span::create(region, chunks, step, |bytes| self.charge(bytes));
            self.mark_again(region, span.is_none());
            span
        };
        let found = self.find_roomy(create);
        // A further region does not help against a limit.
        if found.is_some() || self.account.refusals() != before {
            return found;
        }
        create(self.add_region(0)?)
    }

    /// Takes a span of `chunks` chunks for a block that grows: where it has room for as long as it is a span,
    /// in a new region if need be. A block that grows by small steps would move from pocket to pocket
    /// otherwise, and leave as many dirty pages behind as it has in the end.
    pub(crate) fn take_growing_span(&self, chunks: usize) -> Option<(Span, bool)> {
        let room = SPAN_CHUNKS_MAX;
        let create = |region| {
            let span = Span::create_with_room(region, chunks, room, |bytes| self.charge(bytes));
            self.mark_again(region, span.is_none());
            span
        };
        let before = self.account.refusals();
        let roomy = self.find_roomy(create);
        if roomy.is_some() || self.account.refusals() != before {
            return roomy;
        }
        self.add_region(0).and_then(create).or_else(|| self.take_span(chunks, 1))
    }

    /// Acts on what became of a slab that was settled or left.
    pub(crate) fn follow_up(&self, slab: Slab, settled: Settled) {
        match settled {
            Settled::Kept => {}
            Settled::Published => self.partial[slab.class()].mark(slab.region().index()),
            Settled::Emptied => self.chunks_freed(slab.region()),
        }
    }

    /// Tries `look` on regions with free chunks.
    fn find_roomy<T>(&self, mut look: impl FnMut(RegionRef) -> Option<T>) -> Option<T> {
        let end = || self.regions.end();
        self.roomy.search(end, |index| match self.region(index) {
            Some(region) if region.free_chunks() != 0 => {
                look(region).map_or(Look::NotForMe, Look::Found)
            }
            _ => Look::Nothing,
        })
    }
}
