//! The control word of a chunk, a bit-packed word with named parts.
//!
//! ```text
//! { live : 16 | state : 4 | class : 8 | run : 6 | epoch : 30 }
//! ```
//!
//! `live` counts the blocks taken and not yet settled. `run` is the length of the run in chunks.
//! In the chunks behind a run's first, the state is Tail and `live` is the distance to the first.
//! The epoch grows whenever a run is freed, so that an exchange prepared for one slab fails on
//! its successor in the same chunks (`[control-epoch]`).
//!
//! *Invariants held here*: `[control-epoch]`.
//!
//! *Concurrency*: a plain value; the protocol moves it.
//!
//! *Neighbours*: stands on nothing; protocol, slab and span interpret the word.

const LIVE_BITS: u32 = 16;
const STATE_SHIFT: u32 = LIVE_BITS;
const STATE_BITS: u32 = 4;
const CLASS_SHIFT: u32 = STATE_SHIFT + STATE_BITS;
const CLASS_BITS: u32 = 8;
const RUN_SHIFT: u32 = CLASS_SHIFT + CLASS_BITS;
const RUN_BITS: u32 = 6;
const EPOCH_SHIFT: u32 = RUN_SHIFT + RUN_BITS;

/// What a chunk is in use for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum State {
    /// In no run.
    Free = 0,
    /// A slab one thread takes blocks from.
    Active = 1,
    /// A slab with room in the partial set, or about to be.
    Partial = 2,
    /// A slab without room.
    Full = 3,
    /// Handed out whole.
    Span = 4,
    /// Behind the first chunk of a run.
    Tail = 5,
}

/// A control word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Control(pub(crate) u64);

impl Control {
    /// Returns a word of these parts; the epoch is that of `previous`.
    pub(crate) fn new(state: State, class: usize, run: usize, previous: Control) -> Control {
        let epoch = previous.0 >> EPOCH_SHIFT << EPOCH_SHIFT;
        Control(
            epoch
                | (state as u64) << STATE_SHIFT
                | (class as u64) << CLASS_SHIFT
                | (run as u64) << RUN_SHIFT,
        )
    }

    /// Returns the word of a chunk `distance` chunks behind its run's first.
    pub(crate) fn tail(distance: usize, previous: Control) -> Control {
        let word = Control::new(State::Tail, 0, 0, previous);
        Control(word.0 | distance as u64)
    }

    /// Returns the word of a freed chunk, in the next epoch.
    pub(crate) fn freed(self) -> Control {
        Control((self.0 >> EPOCH_SHIFT).wrapping_add(1) << EPOCH_SHIFT)
    }

    /// Returns the blocks taken, or a tail's distance.
    #[inline]
    pub(crate) fn live(self) -> usize {
        (self.0 & ((1 << LIVE_BITS) - 1)) as usize
    }

    /// Returns the state.
    #[inline]
    pub(crate) fn state(self) -> State {
        match (self.0 >> STATE_SHIFT) & ((1 << STATE_BITS) - 1) {
            0 => State::Free,
            1 => State::Active,
            2 => State::Partial,
            3 => State::Full,
            4 => State::Span,
            _ => State::Tail,
        }
    }

    /// Returns the class of the slab.
    #[inline]
    pub(crate) fn class(self) -> usize {
        (self.0 >> CLASS_SHIFT) as usize & ((1 << CLASS_BITS) - 1)
    }

    /// Returns the chunks of the run.
    #[inline]
    pub(crate) fn run(self) -> usize {
        (self.0 >> RUN_SHIFT) as usize & ((1 << RUN_BITS) - 1)
    }

    /// Returns whether the word is that of a slab's first chunk.
    #[inline]
    pub(crate) fn is_slab(self) -> bool {
        matches!(self.state(), State::Active | State::Partial | State::Full)
    }

    /// Returns whether both words are of one run, not of one and its successor.
    pub(crate) fn is_of_run(self, other: Control) -> bool {
        self.0 >> EPOCH_SHIFT == other.0 >> EPOCH_SHIFT
    }

    /// Returns the same word in another state.
    pub(crate) fn with_state(self, state: State) -> Control {
        let mask = ((1u64 << STATE_BITS) - 1) << STATE_SHIFT;
        Control(self.0 & !mask | (state as u64) << STATE_SHIFT)
    }

    /// Returns what to add to a word, wrapping, to turn state `from` into state `to`.
    pub(crate) const fn step(from: State, to: State) -> u64 {
        ((to as u64).wrapping_sub(from as u64)) << STATE_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let word = Control::new(State::Full, 39, 8, Control(0));
        assert_eq!((word.state(), word.class(), word.run(), word.live()), (State::Full, 39, 8, 0));
        let moved = Control(word.0.wrapping_add(Control::step(State::Full, State::Active)) + 4096);
        assert_eq!((moved.state(), moved.class(), moved.live()), (State::Active, 39, 4096));
        assert_eq!(moved.with_state(State::Partial).state(), State::Partial);
        assert_eq!(Control::tail(5, word).live(), 5);
    }

    #[test]
    fn a_freed_word_never_equals_its_predecessor() {
        let word = Control::new(State::Full, 3, 1, Control(0));
        let again = Control::new(State::Full, 3, 1, word.freed());
        assert_ne!(word, again);
        assert_eq!(word.freed().state(), State::Free);
    }
}
