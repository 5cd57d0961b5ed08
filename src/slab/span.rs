//! Spans: runs of chunks handed out whole.
//!
//! A span's run carries state Span in its first control word and Tail behind it, as a slab's does,
//! so a free with a wrong layout is noticed at once.
//!
//! *Invariants held here*: `[chunk-one-owner]`.
//!
//! *Concurrency*: any thread, lock-free; the claim of the chunks is the only shared step.
//!
//! *Neighbours*: stands on `region`; `heap::large` hands spans out.

use super::control::{Control, State};
use super::slab_ref::{Misuse, free_run};
use crate::config::CHUNK_BYTES;
use crate::region::RegionRef;
use crate::sync::Ordering;

/// Takes a span of `chunks` chunks of `region`, aligned to `step` chunks; returns its address.
pub(crate) fn allocate_span(region: RegionRef, chunks: usize, step: usize) -> Option<usize> {
    let first = region.claim(chunks, step)?;
    let controls = &region.controls[first..first + chunks];
    for (distance, control) in controls.iter().enumerate() {
        let previous = Control(control.load(Ordering::Relaxed));
        let word = match distance {
            0 => Control::new(State::Span, 0, chunks, previous),
            _ => Control::tail(distance, previous),
        };
        control.store(word.0, Ordering::Release);
    }
    region.reach(first, chunks * CHUNK_BYTES);
    Some(region.chunk_base(first))
}

/// Frees the span at `address`, which must have `chunks` chunks.
///
/// Two threads that free the same span at once: one exchange wins, the other sees it free.
pub(crate) fn free_span(region: RegionRef, address: usize, chunks: usize) -> Result<(), Misuse> {
    let offset_bytes = address - region.base();
    let first = offset_bytes / CHUNK_BYTES;
    let control = &region.controls[first];
    let now = Control(control.load(Ordering::Acquire));
    match now.state() {
        State::Span if !offset_bytes.is_multiple_of(CHUNK_BYTES) => Err(Misuse::Interior),
        State::Span if now.run() != chunks => Err(Misuse::OtherClass(now.run() * CHUNK_BYTES)),
        State::Span => {
            // Active: owned by the winner until `free_run` frees it.
            let won = now.with_state(State::Active).0;
            match control.compare_exchange(now.0, won, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    free_run(region, first);
                    Ok(())
                }
                Err(_) => Err(Misuse::Free),
            }
        }
        State::Free => Err(Misuse::Free),
        State::Tail => Err(Misuse::Interior),
        State::Active | State::Partial | State::Full => {
            Err(Misuse::OtherClass(crate::base::slab_block_bytes(now.class())))
        }
    }
}

/// Returns the first chunk and the length of the span that `address` lies in.
pub(crate) fn span_chunks(region: RegionRef, address: usize) -> Option<(usize, usize)> {
    let mut chunk = (address - region.base()) / CHUNK_BYTES;
    let mut control = Control(region.controls[chunk].load(Ordering::Acquire));
    if control.state() == State::Tail {
        chunk -= control.live().min(chunk);
        control = Control(region.controls[chunk].load(Ordering::Acquire));
    }
    (control.state() == State::Span).then(|| (chunk, control.run()))
}
