//! Errors: small, without strings or allocation; and the one way to panic.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on nothing.

use core::fmt;

use polyheap::allocator_api2::alloc::AllocError;

/// Why a value made by a fallible closure is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocOrInitError<E> {
    /// There was no memory, or the region's limit is reached; the closure was not called.
    Alloc(AllocError),
    /// The closure failed.
    Init(E),
}

impl<E> From<AllocError> for AllocOrInitError<E> {
    fn from(error: AllocError) -> Self {
        AllocOrInitError::Alloc(error)
    }
}

impl<E: fmt::Display> fmt::Display for AllocOrInitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocOrInitError::Alloc(_) => f.write_str("no memory for the value"),
            AllocOrInitError::Init(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for AllocOrInitError<E> {}

/// Says that a checkpoint is of no use: of another region, or from behind the present position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaleCheckpoint;

impl fmt::Display for StaleCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the checkpoint is of another region or from behind the present position")
    }
}

impl core::error::Error for StaleCheckpoint {}

/// Returns the value, or panics as the methods that are not `try_` ones are documented to.
#[inline(always)]
pub(crate) fn or_panic<T>(result: Result<T, AllocError>) -> T {
    match result {
        Ok(value) => value,
        Err(AllocError) => refuse(),
    }
}

#[cold]
#[inline(never)]
#[allow(clippy::panic, reason = "documented; the `try_` methods are the way without")]
fn refuse() -> ! {
    panic!("the region has no memory, or its limit is reached")
}

/// Returns the value or the closure's error, or panics as [`or_panic`] does.
#[inline(always)]
pub(crate) fn init_or_panic<T, E>(result: Result<T, AllocOrInitError<E>>) -> Result<T, E> {
    match result {
        Ok(value) => Ok(value),
        Err(AllocOrInitError::Init(error)) => Err(error),
        Err(AllocOrInitError::Alloc(AllocError)) => refuse(),
    }
}
