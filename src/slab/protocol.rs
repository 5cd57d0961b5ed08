//! The state protocol of a slab: who may take, who publishes, who frees.
//!
//! Terms: a *taker* claimed the slab (state Active) and clears bits; a *giver* sets bits and then
//! *settles*, subtracting from `live`. Because a giver sets its bits before it settles and a taker
//! counts its blocks before it leaves, `capacity - live` bits are set whenever nobody is between
//! the two steps, and never fewer as seen by the taker (`[live-covers-bits]`). So the taker leaves
//! by one exchange that succeeds only when `live` equals the capacity; there is no second scan.
//!
//! The giver that settles a Full slab makes it Partial and publishes its bit. Whoever brings
//! `live` to 0 in Partial claims the slab like a taker and then leaves it, which frees the run if
//! it is still empty: between the look and the claim another taker may have come and gone. A
//! publisher looks again after publishing, because the last giver may have come before the bit
//! was there.
//!
//! *Invariants held here*: `[slab-one-taker]`, `[live-covers-bits]`, `[partial-bit-published]`.
//!
//! *Concurrency*: any thread, lock-free. Orderings are explained at each site; the models in
//! `models.rs` fail when one of them is weakened or the second look is removed.
//!
//! *Neighbours*: stands on `control`; `slab_ref` binds it to the header of a region.

use super::control::{Control, State};
use crate::base::first_bits;
use crate::sync::{AtomicU64, Ordering};

/// The shared words of one slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabWords<'a> {
    /// The control word of the run's first chunk.
    pub(crate) control: &'a AtomicU64,
    /// Set bit = free block. Set by givers (Release), cleared by the taker (Acquire).
    pub(crate) bits: &'a [AtomicU64],
    /// The partial set of the slab's class in its region.
    pub(crate) partial: &'a AtomicU64,
    /// The slab's bit in `partial`.
    pub(crate) bit: u64,
}

/// What became of a slab when blocks were settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// It goes on as it is.
    Kept,
    /// It was published in the partial set: the caller marks the heap's summary.
    Published,
    /// It is empty and the caller owns it: the caller frees the run.
    Emptied,
}

/// What became of a slab its taker wanted to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// It is Full now.
    Full,
    /// Blocks came back meanwhile: it is still the caller's, and bits are set.
    HasRoom,
}

impl SlabWords<'_> {
    /// Takes up to `count` blocks from word `word`, those from bit `start` on first; returns their
    /// bits. Taker only.
    pub(crate) fn take(&self, word: usize, start: usize, count: usize) -> u64 {
        let bits = &self.bits[word];
        let chosen = first_bits(bits.load(Ordering::Relaxed), start, count);
        if chosen != 0 {
            // Acquire: the blocks' last users wrote their last before the Release in `give`.
            bits.fetch_and(!chosen, Ordering::Acquire);
        }
        chosen
    }

    /// Counts `count` blocks taken, before any of them is handed out. Taker only.
    pub(crate) fn count_taken(&self, count: usize) {
        // Relaxed: only the taker's own later exchanges on this word depend on it.
        self.control.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Gives blocks of one word back; returns the bits that were free already, 0 when all is well.
    pub(crate) fn give(&self, word: usize, blocks: u64) -> u64 {
        // Release: pairs with the Acquire of the next `take`.
        self.bits[word].fetch_or(blocks, Ordering::Release) & blocks
    }

    /// Settles `count` blocks whose bits have been given.
    pub(crate) fn settle(&self, count: usize, capacity: usize) -> Settled {
        // AcqRel: Release publishes the bits given to the taker that reads this `live` before it
        // leaves; Acquire sees the slab as its last taker left it.
        let before = Control(self.control.fetch_sub(count as u64, Ordering::AcqRel));
        let mut now = Control(before.0 - count as u64);
        loop {
            match now.state() {
                // Freed meanwhile by who settled the last block: another slab may lie there now.
                _ if !now.is_of_run(before) => return Settled::Kept,
                State::Full if now.live() == 0 => {
                    // Nobody can publish or claim a slab that leaves Full by this exchange.
                    match self.exchange(now, now.with_state(State::Active)) {
                        Ok(()) => return Settled::Emptied,
                        Err(other) => now = other,
                    }
                }
                State::Full => match self.exchange(now, now.with_state(State::Partial)) {
                    Ok(()) if self.publish() => return Settled::Published,
                    Ok(()) => return self.leave(capacity),
                    Err(other) => now = other,
                },
                // Claimed before it is judged: a taker may have come and gone since the look.
                State::Partial if now.live() == 0 && self.claim() => return self.leave(capacity),
                _ => return Settled::Kept,
            }
        }
    }

    /// Sets the partial bit of a slab just made Partial, and looks again. Returns false when the
    /// slab was found empty and claimed: the caller is its taker and leaves it.
    fn publish(&self) -> bool {
        // AcqRel: Release publishes the slab to the claimer; Acquire orders the second look after
        // a `claim` that came too early.
        self.partial.fetch_or(self.bit, Ordering::AcqRel);
        let now = Control(self.control.load(Ordering::Acquire));
        let is_empty = now.state() == State::Partial && now.live() == 0;
        !(is_empty && self.claim())
    }

    /// Claims a slab out of the partial set; on success the caller is its taker.
    pub(crate) fn claim(&self) -> bool {
        if !self.claim_bit() {
            return false;
        }
        // Acquire: the slab as its last taker and givers left it.
        self.control.fetch_add(Control::step(State::Partial, State::Active), Ordering::Acquire);
        true
    }

    /// Clears the partial bit; whoever saw it set owns the slab (`[slab-one-taker]`).
    fn claim_bit(&self) -> bool {
        self.partial.fetch_and(!self.bit, Ordering::AcqRel) & self.bit != 0
    }

    /// Leaves a slab of which the taker found nothing more to take.
    pub(crate) fn leave_empty_handed(&self, capacity: usize) -> Left {
        // Acquire: a `live` below the capacity was settled after its bits were set.
        let mut now = Control(self.control.load(Ordering::Acquire));
        loop {
            if now.live() < capacity {
                return Left::HasRoom;
            }
            match self.exchange(now, now.with_state(State::Full)) {
                Ok(()) => return Left::Full,
                Err(other) => now = other,
            }
        }
    }

    /// Leaves a slab that may still have room: it becomes Full, Partial, or the caller's to free.
    pub(crate) fn leave(&self, capacity: usize) -> Settled {
        let mut now = Control(self.control.load(Ordering::Acquire));
        loop {
            if now.live() == 0 {
                // Nobody holds a block, so nobody is between giving and settling.
                return Settled::Emptied;
            }
            let is_full = now.live() >= capacity;
            let state = if is_full { State::Full } else { State::Partial };
            match self.exchange(now, now.with_state(state)) {
                Ok(()) if is_full => return Settled::Kept,
                Ok(()) if self.publish() => return Settled::Published,
                // Found empty and claimed again: judge it anew.
                Ok(()) => now = Control(self.control.load(Ordering::Acquire)),
                Err(other) => now = other,
            }
        }
    }

    fn exchange(&self, from: Control, to: Control) -> Result<(), Control> {
        // AcqRel: Release hands the slab on as we leave it; Acquire sees what givers settled.
        self.control
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Control)
    }
}
