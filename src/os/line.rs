//! The line a fault leaves on standard error, and the end of the process.
//!
//! *Concurrency*: any thread; one call writes the whole line.
//!
//! *Neighbours*: stands on `libc`; `report` ends here.

use core::fmt::{self, Write};

use super::Fault;

const LINE_BYTES: usize = 256;

/// Writes the report to standard error with one call, cutting it at the buffer's end.
pub(super) fn report(fault: &Fault<'_>) {
    let mut line = Line { bytes: [0; LINE_BYTES], used: 0 };
    // Formatting into the fixed buffer never fails: it cuts.
    let _ = write!(line, "polyheap: {fault}");
    let end = line.used.min(LINE_BYTES - 1);
    line.bytes[end] = b'\n';
    // SAFETY: the buffer is initialised up to and including `end`.
    unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), end + 1) };
}

pub(super) fn abort() -> ! {
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES - 1 - self.used;
        let take = text.len().min(room);
        self.bytes[self.used..self.used + take].copy_from_slice(&text.as_bytes()[..take]);
        self.used += take;
        Ok(())
    }
}
