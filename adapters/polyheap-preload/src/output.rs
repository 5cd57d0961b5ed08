//! Text out of the library: formatted on the stack, written by system calls.
//!
//! *Concurrency*: each output is one thread's.
//!
//! *Neighbours*: stands on `libc`; settings and statistics are written through it.

use core::fmt;

/// Bytes gathered before they are written: a line, mostly.
const BUFFER_BYTES: usize = 512;

/// A text on its way to a destination; what is gathered is written when it is dropped.
pub(crate) struct Output<'a> {
    buffer: [u8; BUFFER_BYTES],
    used: usize,
    destination: Destination<'a>,
}

/// Takes the bytes, all of them or as many as can be.
type Destination<'a> = &'a dyn Fn(&[u8]);

impl Output<'static> {
    /// Returns an output to standard error.
    pub(crate) fn to_stderr() -> Output<'static> {
        Output::to(&write_to_stderr)
    }
}

impl<'a> Output<'a> {
    /// Returns an output to `destination`.
    pub(crate) fn to(destination: Destination<'a>) -> Output<'a> {
        Output { buffer: [0; BUFFER_BYTES], used: 0, destination }
    }

    /// Adds bytes as they are.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.used == BUFFER_BYTES {
                self.flush();
            }
            let taken = bytes.len().min(BUFFER_BYTES - self.used);
            self.buffer[self.used..self.used + taken].copy_from_slice(&bytes[..taken]);
            self.used += taken;
            bytes = &bytes[taken..];
        }
    }

    fn flush(&mut self) {
        (self.destination)(&self.buffer[..self.used]);
        self.used = 0;
    }
}

impl fmt::Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Writes by the system call itself: a program's `write` may be one of its own, that allocates.
fn write_to_stderr(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (start, length) = (bytes.as_ptr(), bytes.len());
        // SAFETY: the bytes are there to be read.
        let written = unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, start, length) };
        match usize::try_from(written) {
            Ok(written) if written != 0 && written <= length => bytes = &bytes[written..],
            // Nobody is there to be told.
            _ => return,
        }
    }
}
