//! No system at all: what heaps in buffers need of one.
//!
//! *Concurrency*: any core.
//!
//! *Neighbours*: stands on nothing; `report` ends here without the feature `std`.

use super::Fault;

/// Waits a little.
pub(crate) fn spin_wait(_round: &mut u32) {
    core::hint::spin_loop();
}

/// Reports a fault by a panic, for the program's panic handler to show. Nothing unwinds out of here:
/// where panics unwind, this one stops at the edge of the function.
pub(super) extern "C" fn report(fault: &Fault<'_>) {
    panic!("polyheap: {fault}");
}

/// Stops for good, after a handler has seen the fault.
pub(super) extern "C" fn abort() -> ! {
    panic!("polyheap: stopped after a fault");
}
