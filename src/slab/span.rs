//! Spans: runs of chunks handed out whole.
//!
//! A span's run carries state Span in its first control word and Tail behind it, as a slab's does,
//! so a free with a wrong layout is noticed when the run is freed.
//!
//! A span whose class is longer than the request starts some cache lines into its run, another
//! number in neighbouring runs: equal buffers would otherwise fall into the same cache sets. The
//! offset stands in the region's header.
//!
//! *Invariants held here*: `[chunk-one-owner]`.
//!
//! *Concurrency*: any thread, lock-free; the claim of the chunks and the exchange that frees a run
//! are the shared steps.
//!
//! *Neighbours*: stands on `region`; `cache::large` hands spans out.

use super::control::{Control, State};
use super::slab_ref::{Misuse, free_run};
use crate::base::{Colour, slab_block_bytes};
use crate::config::{CHUNK_BYTES, REGION_CHUNKS};
use crate::region::RegionRef;
use crate::sync::Ordering;

/// A span, by its region and the first chunk of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    region: RegionRef,
    chunk: usize,
    chunks: usize,
}

impl Span {
    /// Takes a run of `chunks` chunks of `region`, aligned to `step` chunks, if the heap may be
    /// charged for it. Returns it and whether all of it reads as zero.
    pub(crate) fn create(
        region: RegionRef,
        chunks: usize,
        step: usize,
        charge: impl Fn(usize) -> bool,
    ) -> Option<(Span, bool)> {
        Span::create_at(region, region.claim(chunks, step)?, chunks, charge)
    }

    /// [`create`](Span::create) at the start of `room` free chunks.
    pub(crate) fn create_with_room(
        region: RegionRef,
        chunks: usize,
        room: usize,
        charge: impl Fn(usize) -> bool,
    ) -> Option<(Span, bool)> {
        Span::create_at(region, region.claim_with_room(chunks, room, 1)?, chunks, charge)
    }

    /// Makes a span of chunks that the caller took.
    fn create_at(
        region: RegionRef,
        first: usize,
        chunks: usize,
        charge: impl Fn(usize) -> bool,
    ) -> Option<(Span, bool)> {
        let bytes = chunks * CHUNK_BYTES;
        let new_bytes = region.newly_reached_bytes(first, bytes);
        if new_bytes != 0 && !charge(new_bytes) {
            region.give(first, chunks);
            return None;
        }
        region.reach(first, bytes);
        let span = Span { region, chunk: first, chunks };
        span.set_tails(1);
        span.set_head(chunks);
        span.set_colour(Colour::NONE);
        Some((span, new_bytes == bytes))
    }

    /// Finds the span of `chunks` chunks that the block at `address` is.
    #[inline]
    pub(crate) fn locate(region: RegionRef, address: usize, chunks: usize) -> Result<Span, Misuse> {
        let offset_bytes = address - region.base();
        let chunk = offset_bytes / CHUNK_BYTES;
        let now = Control(region.controls[chunk].load(Ordering::Acquire));
        if now.state() != State::Span {
            return Err(misuse(now));
        }
        if offset_bytes % CHUNK_BYTES != region.colour_of(chunk).offset_bytes() {
            return Err(Misuse::Interior);
        }
        if now.run() != chunks {
            return Err(Misuse::OtherClass(now.run() * CHUNK_BYTES));
        }
        Ok(Span { region, chunk, chunks })
    }

    /// Records where the block starts that is about to be handed out.
    #[inline]
    pub(crate) fn set_colour(self, colour: Colour) {
        self.region.set_colour(self.chunk, colour);
    }

    /// Frees the run; returns whether it was still the caller's: of two threads that free the same
    /// span at once, one is told so.
    pub(crate) fn free(self) -> bool {
        let control = &self.region.controls[self.chunk];
        let now = Control(control.load(Ordering::Relaxed));
        // Active: owned by the winner until the run is free.
        let won = now.with_state(State::Active).0;
        let is_won = now.state() == State::Span
            && control.compare_exchange(now.0, won, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_won {
            free_run(self.region, self.chunk);
        }
        is_won
    }

    /// Makes the span `chunks` chunks long where it lies: gives the rest back, or takes free chunks
    /// behind it if the heap may be charged for them. Returns whether it did.
    pub(crate) fn resize(
        self,
        chunks: usize,
        colour: Colour,
        charge: impl Fn(usize) -> bool,
    ) -> bool {
        if chunks < self.chunks {
            self.set_head(chunks);
            self.set_colour(colour);
            super::slab_ref::free_chunks(self.region, self.chunk + chunks, self.chunks - chunks);
            return true;
        }
        let (first, more) = (self.chunk + self.chunks, chunks - self.chunks);
        if more == 0 {
            self.set_colour(colour);
            return true;
        }
        if first + more > REGION_CHUNKS || !self.region.claim_at(first, more) {
            return false;
        }
        let new_bytes = self.region.newly_reached_bytes(first, more * CHUNK_BYTES);
        if new_bytes != 0 && !charge(new_bytes) {
            self.region.give(first, more);
            return false;
        }
        self.region.reach(first, more * CHUNK_BYTES);
        Span { chunks, ..self }.set_tails(self.chunks);
        self.set_head(chunks);
        self.set_colour(colour);
        true
    }

    /// Returns the address of the run.
    #[inline]
    pub(crate) fn base(self) -> usize {
        self.region.chunk_base(self.chunk)
    }

    /// Returns the region.
    pub(crate) fn region(self) -> RegionRef {
        self.region
    }

    /// Returns the bytes of the run.
    pub(crate) fn bytes(self) -> usize {
        self.chunks * CHUNK_BYTES
    }

    #[inline]
    fn set_head(self, chunks: usize) {
        let control = &self.region.controls[self.chunk];
        let previous = Control(control.load(Ordering::Relaxed));
        let word = Control::new(State::Span, 0, chunks, previous);
        control.store(word.0, Ordering::Release);
    }

    /// Marks the chunks from number `from` of the run on as behind its first.
    fn set_tails(self, from: usize) {
        let controls = &self.region.controls[self.chunk..self.chunk + self.chunks];
        for (distance, control) in controls.iter().enumerate().skip(from) {
            let previous = Control(control.load(Ordering::Relaxed));
            control.store(Control::tail(distance, previous).0, Ordering::Release);
        }
    }
}

#[cold]
fn misuse(now: Control) -> Misuse {
    match now.state() {
        State::Free => Misuse::Free,
        State::Tail | State::Span => Misuse::Interior,
        State::Active | State::Partial | State::Full => {
            Misuse::OtherClass(slab_block_bytes(now.class()))
        }
    }
}

/// A live span, as walks see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveSpan {
    /// First chunk of the run.
    pub(crate) chunk: usize,
    /// Chunks of the run.
    pub(crate) chunks: usize,
    /// Address of the block.
    pub(crate) block: usize,
    /// Bytes the block may have.
    pub(crate) bytes: usize,
}

/// Returns the live span that `address` lies in.
pub(crate) fn span_around(region: RegionRef, address: usize) -> Option<LiveSpan> {
    let (chunk, control) = run_around(region, address);
    let colour = region.colour_of(chunk);
    (control.state() == State::Span).then(|| LiveSpan {
        chunk,
        chunks: control.run(),
        block: region.chunk_base(chunk) + colour.offset_bytes(),
        bytes: colour.usable_bytes(control.run() * CHUNK_BYTES),
    })
}

/// Returns the first chunk of the run that `address` lies in, and its control word.
fn run_around(region: RegionRef, address: usize) -> (usize, Control) {
    let mut chunk = (address - region.base()) / CHUNK_BYTES;
    let mut control = Control(region.controls[chunk].load(Ordering::Acquire));
    if control.state() == State::Tail {
        chunk -= control.live().min(chunk);
        control = Control(region.controls[chunk].load(Ordering::Acquire));
    }
    (chunk, control)
}
