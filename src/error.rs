//! Errors a caller can meet: small, `Copy`, without strings or allocation.
//!
//! The `Allocator` faces turn them into `AllocError` at the edge.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on nothing.

use core::fmt;

/// Why a heap could not be made or grown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeapError {
    /// The system granted no memory.
    OutOfMemory {
        /// Bytes asked of the system.
        requested_bytes: usize,
    },
    /// The heap's limit does not allow so much more.
    LimitExceeded {
        /// Bytes the heap would have held more.
        requested_bytes: usize,
    },
    /// All 65 536 heap slots are in use.
    TooManyHeaps,
    /// A buffer has no place for a heap.
    BufferTooSmall {
        /// Bytes of the buffer.
        given_bytes: usize,
        /// Bytes that a buffer at its address needs.
        needed_bytes: usize,
    },
    /// The alignment is above [`Heap::ALIGN_BYTES_MAX`](crate::Heap::ALIGN_BYTES_MAX).
    AlignmentTooLarge {
        /// Alignment asked for, in bytes.
        requested_bytes: usize,
    },
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            HeapError::OutOfMemory { requested_bytes } => {
                write!(f, "the system granted no memory ({requested_bytes} bytes asked)")
            }
            HeapError::LimitExceeded { requested_bytes } => {
                write!(f, "the heap's limit does not allow {requested_bytes} bytes more")
            }
            HeapError::BufferTooSmall { given_bytes, needed_bytes } => {
                write!(f, "a buffer of {given_bytes} bytes is too small, {needed_bytes} are needed")
            }
            HeapError::TooManyHeaps => f.write_str("65536 heaps are alive, the most there can be"),
            HeapError::AlignmentTooLarge { requested_bytes } => {
                write!(f, "alignment of {requested_bytes} bytes is above the largest served")
            }
        }
    }
}

impl core::error::Error for HeapError {}

/// An invariant that does not hold, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// Id of the invariant, as in the guide's list.
    pub invariant: &'static str,
    /// Address of the block, slab or region concerned.
    pub address: usize,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant [{}] does not hold at {:#x}", self.invariant, self.address)
    }
}

impl core::error::Error for Violation {}
