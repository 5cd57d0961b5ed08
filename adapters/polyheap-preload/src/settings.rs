//! The settings of the environment, `POLYHEAP_*`.
//!
//! They are read from the block of strings the process was started with, when the first request
//! comes; the C library's own functions may not be ready then. What is not understood is named on
//! standard error, and passed over.
//!
//! | variable | values | meaning |
//! |---|---|---|
//! | `POLYHEAP_LIMIT` | bytes; `K`, `M`, `G` behind | most bytes the heap may hold |
//! | `POLYHEAP_DECAY_MS` | milliseconds; `never` | when idle memory goes back to the system |
//! | `POLYHEAP_HUGE_PAGES` | `system`, `always`, `never` | whether memory may lie in huge pages |
//! | `POLYHEAP_STATISTICS` | `0`, `1` | statistics on standard error at exit |
//! | `POLYHEAP_VERBOSE` | `0`, `1` | a line on standard error at start, with what is set |
//!
//! *Concurrency*: read by the one thread that makes the heap.
//!
//! *Neighbours*: stands on `polyheap` and `output`; `heap` asks it.

use core::ffi::{CStr, c_char};
use core::fmt::Write;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use polyheap::{Decay, Heap, HeapBuilder, HugePages};

use crate::output::Output;

/// What the names of all settings begin with.
const PREFIX: &[u8] = b"POLYHEAP_";

/// Whether statistics are wanted at exit. Written once, by whoever makes the heap.
static HAS_STATISTICS: AtomicBool = AtomicBool::new(false);

/// The settings as far as they are read.
struct Settings {
    limit_bytes: Option<usize>,
    decay: Decay,
    huge_pages: HugePages,
    has_statistics: bool,
    is_verbose: bool,
}

/// Why a setting is passed over.
enum Refusal {
    Unknown,
    Malformed,
}

unsafe extern "C" {
    /// The C library's list of the strings of the environment, with null behind the last.
    #[link_name = "environ"]
    static ENVIRON: *const *const c_char;
}

/// Reads the settings and returns the heap to be made.
pub(crate) fn read() -> HeapBuilder {
    let mut settings = Settings {
        limit_bytes: None,
        decay: Decay::default(),
        huge_pages: HugePages::default(),
        has_statistics: false,
        is_verbose: false,
    };
    for_each_variable(|name, value| match settings.set(name, value) {
        Ok(()) => (),
        Err(Refusal::Unknown) => complain("unknown setting", name, b""),
        Err(Refusal::Malformed) => complain("malformed value in", name, value),
    });
    HAS_STATISTICS.store(settings.has_statistics, Ordering::Relaxed);
    if settings.is_verbose {
        settings.tell();
    }
    settings.builder()
}

/// Returns whether statistics are wanted at exit.
pub(crate) fn has_statistics() -> bool {
    HAS_STATISTICS.load(Ordering::Relaxed)
}

impl Settings {
    /// Takes a setting in, its name given without the prefix.
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match name {
            b"LIMIT" => self.limit_bytes = Some(bytes_of(value).ok_or(Refusal::Malformed)?),
            b"DECAY_MS" => self.decay = decay_of(value).ok_or(Refusal::Malformed)?,
            b"HUGE_PAGES" => self.huge_pages = huge_pages_of(value).ok_or(Refusal::Malformed)?,
            b"STATISTICS" => self.has_statistics = switch_of(value).ok_or(Refusal::Malformed)?,
            b"VERBOSE" => self.is_verbose = switch_of(value).ok_or(Refusal::Malformed)?,
            _ => return Err(Refusal::Unknown),
        }
        Ok(())
    }

    fn builder(&self) -> HeapBuilder {
        let builder = Heap::builder().name("preload").decay(self.decay);
        let builder = builder.huge_pages(self.huge_pages);
        match self.limit_bytes {
            Some(bytes) => builder.max_bytes(bytes),
            None => builder,
        }
    }

    fn tell(&self) {
        let mut output = Output::to_stderr();
        // What cannot be written is lost.
        _ = write!(output, "polyheap {}: limit ", env!("CARGO_PKG_VERSION"));
        _ = match self.limit_bytes {
            Some(bytes) => write!(output, "{bytes} B"),
            None => write!(output, "none"),
        };
        _ = match self.decay {
            Decay::After(time) => write!(output, ", decay {} ms", time.as_millis()),
            Decay::Eager => write!(output, ", decay at once"),
            _ => write!(output, ", decay never"),
        };
        _ = writeln!(output, ", huge pages {}", name_of(self.huge_pages));
    }
}

/// Calls `act` with name, without the prefix, and value of every variable that is a setting.
fn for_each_variable(mut act: impl FnMut(&[u8], &[u8])) {
    // SAFETY: the C library's word is there from the beginning. It is read as `getenv` reads it, by
    // the loader's thread before the program's begin; where the library is opened later, by the
    // thread that allocates first.
    let mut place = unsafe { ptr::read(&raw const ENVIRON) };
    if place.is_null() {
        return;
    }
    loop {
        // SAFETY: the list goes on to its null.
        let string = unsafe { *place };
        if string.is_null() {
            return;
        }
        // SAFETY: the strings of the environment end with a zero byte.
        let string = unsafe { CStr::from_ptr(string) }.to_bytes();
        if let Some(rest) = string.strip_prefix(PREFIX)
            && let Some(end) = rest.iter().position(|&byte| byte == b'=')
        {
            act(&rest[..end], &rest[end + 1..]);
        }
        // SAFETY: this one was not the null.
        place = unsafe { place.add(1) };
    }
}

/// Names a setting that is passed over.
#[cold]
fn complain(why: &str, name: &[u8], value: &[u8]) {
    let mut output = Output::to_stderr();
    output.add(b"polyheap: ");
    output.add(why.as_bytes());
    output.add(b" ");
    output.add(PREFIX);
    output.add(name);
    if !value.is_empty() {
        output.add(b"=");
        output.add(value);
    }
    output.add(b"\n");
}

/// Returns the number a text of digits is.
fn number_of(text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0usize, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let digit = if digit < 10 { Some(usize::from(digit)) } else { None };
        number.checked_mul(10)?.checked_add(digit?)
    })
}

/// Returns the bytes a number with or without a unit stands for; no limit can be 0.
fn bytes_of(text: &[u8]) -> Option<usize> {
    let (digits, unit) = match text {
        [digits @ .., b'k' | b'K'] => (digits, 1 << 10),
        [digits @ .., b'm' | b'M'] => (digits, 1 << 20),
        [digits @ .., b'g' | b'G'] => (digits, 1 << 30),
        digits => (digits, 1),
    };
    number_of(digits)?.checked_mul(unit).filter(|&bytes| bytes != 0)
}

fn decay_of(text: &[u8]) -> Option<Decay> {
    match text {
        b"never" => Some(Decay::Never),
        _ => Some(match number_of(text)? {
            0 => Decay::Eager,
            milliseconds => Decay::After(Duration::from_millis(milliseconds as u64)),
        }),
    }
}

fn huge_pages_of(text: &[u8]) -> Option<HugePages> {
    let all = [HugePages::System, HugePages::Always, HugePages::Never];
    all.into_iter().find(|&policy| name_of(policy).as_bytes() == text)
}

fn name_of(policy: HugePages) -> &'static str {
    match policy {
        HugePages::Always => "always",
        HugePages::Never => "never",
        _ => "system",
    }
}

fn switch_of(text: &[u8]) -> Option<bool> {
    match text {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}
