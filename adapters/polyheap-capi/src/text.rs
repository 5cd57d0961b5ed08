//! Text without allocation: a line on the stack, and a caller's buffer filled as `snprintf` does.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on nothing; `policy`, `json` and `lifetime` write with it.

use core::ffi::c_char;
use core::fmt;

/// Bytes of a line, its final zero included.
const LINE_BYTES: usize = 256;

/// A line of limited length that ends with a zero byte.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Line {
    /// Returns an empty line.
    pub(crate) const fn new() -> Line {
        Line { bytes: [0; LINE_BYTES], used: 0 }
    }

    /// Returns the line as C reads it.
    pub(crate) fn as_c_str(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES - 1 - self.used;
        let taken = text.len().min(room);
        let (target, source) = (self.bytes.get_mut(self.used..), text.as_bytes().get(..taken));
        if let (Some(target), Some(source)) = (target, source) {
            target.iter_mut().zip(source).for_each(|(target, source)| *target = *source);
        }
        self.used += taken;
        Ok(())
    }
}

/// A caller's buffer: what does not fit is counted and dropped.
pub(crate) struct Buffer {
    start: *mut u8,
    /// Bytes that may be written, without the final zero.
    room: usize,
    /// Bytes of the whole text so far.
    needed: usize,
}

impl Buffer {
    /// Returns a buffer of `bytes` bytes at `start`, where a null one has none.
    ///
    /// # Safety
    /// 1. `start` is null or valid for writes of `bytes` bytes while the buffer lives.
    pub(crate) unsafe fn new(start: *mut c_char, bytes: usize) -> Buffer {
        let start: *mut u8 = start.cast();
        let bytes = if start.is_null() { 0 } else { bytes };
        let buffer = Buffer { start, room: bytes.saturating_sub(1), needed: 0 };
        if bytes != 0 {
            // SAFETY: (1) of this function's contract, and there is at least one byte.
            unsafe { *start = 0 };
        }
        buffer
    }

    /// Returns the bytes of the whole text, without a final zero.
    pub(crate) fn needed_bytes(&self) -> usize {
        self.needed
    }
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let taken = text.len().min(self.room.saturating_sub(self.needed));
        if taken != 0 {
            // SAFETY: `needed` is below `room`, so this is inside the buffer.
            let target = unsafe { self.start.add(self.needed) };
            // SAFETY: `taken` bytes of room follow, and a text does not overlap the caller's buffer.
            unsafe { target.copy_from_nonoverlapping(text.as_ptr(), taken) };
            // SAFETY: one byte more than the room belongs to the buffer.
            let end = unsafe { target.add(taken) };
            // SAFETY: as above.
            unsafe { *end = 0 };
        }
        self.needed += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    #[test]
    fn a_buffer_is_filled_as_snprintf_does() {
        for bytes in 0..12 {
            let mut memory = [b'#'; 16];
            // SAFETY: (1) the array has more bytes than that.
            let mut buffer = unsafe { Buffer::new(memory.as_mut_ptr().cast(), bytes) };
            assert_eq!(write!(buffer, "{}-{}", "abc", 12345), Ok(()));
            assert_eq!(buffer.needed_bytes(), 9);
            let fitting = bytes.saturating_sub(1).min(9);
            assert_eq!(&memory[..fitting], &b"abc-12345"[..fitting]);
            if bytes > 0 {
                assert_eq!(memory[fitting], 0);
            }
            assert!(memory[bytes..].iter().all(|&byte| byte == b'#'), "{bytes}: {memory:?}");
        }
    }

    #[test]
    fn a_line_is_cut_and_ends_with_a_zero() {
        let mut line = Line::new();
        for _ in 0..100 {
            assert_eq!(line.write_str("0123456789"), Ok(()));
        }
        assert_eq!(line.used, LINE_BYTES - 1);
        assert_eq!(line.bytes[LINE_BYTES - 1], 0);
    }
}
