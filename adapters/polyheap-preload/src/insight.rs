//! What a program can ask about its memory: `mallinfo` and its kin, and the statistics at exit.
//!
//! glibc's fields are filled where there is something like them. `malloc_trim` gives back what it
//! can, whatever number it is given.
//!
//! *Concurrency*: any thread; snapshots of a moving thing.
//!
//! *Neighbours*: stands on `heap` and `output`; programs call it, and the loader at exit.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use polyheap::HeapStats;

use crate::heap::{heap, set_errno};
use crate::output::Output;
use crate::settings::has_statistics;

/// glibc's `struct mallinfo` and `struct mallinfo2`; the fields differ in width only.
#[repr(C)]
struct Info<N> {
    /// Bytes held from the system in regions.
    arena: N,
    /// Free blocks cached.
    ordblks: N,
    smblks: N,
    /// Blocks with a mapping of their own, live ones, and kept bytes of free ones.
    hblks: N,
    hblkhd: N,
    usmblks: N,
    fsmblks: N,
    /// Bytes in live blocks.
    uordblks: N,
    /// Bytes held and not in live blocks.
    fordblks: N,
    /// Bytes that `malloc_trim` would give back at least.
    keepcost: N,
}

impl<N> Info<N> {
    /// Returns the fields, each made of a number of bytes or blocks by `of`.
    fn new(of: impl Fn(usize) -> N) -> Info<N> {
        let stats = heap().stats();
        let free_blocks = stats.classes.iter().map(|class| class.cached_blocks).sum();
        Info {
            arena: of(stats.held_bytes),
            ordblks: of(free_blocks),
            smblks: of(0),
            hblks: of(stats.mappings),
            hblkhd: of(stats.depot_large_bytes),
            usmblks: of(0),
            fsmblks: of(0),
            uordblks: of(stats.live_bytes),
            fordblks: of(stats.held_bytes.saturating_sub(stats.live_bytes)),
            keepcost: of(stats.dirty_bytes),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn mallinfo() -> Info<c_int> {
    Info::new(|number| c_int::try_from(number).unwrap_or(c_int::MAX))
}

#[unsafe(no_mangle)]
extern "C" fn mallinfo2() -> Info<usize> {
    Info::new(|number| number)
}

#[unsafe(no_mangle)]
extern "C" fn malloc_trim(_pad_bytes: usize) -> c_int {
    c_int::from(heap().trim() != 0)
}

#[unsafe(no_mangle)]
extern "C" fn malloc_stats() {
    print_statistics();
}

/// Writes the statistics as an XML document, as glibc does, with other elements.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 || stream.is_null() {
        set_errno(libc::EINVAL);
        return -1;
    }
    let write = |bytes: &[u8]| {
        // SAFETY: the caller's stream is open, and the bytes are there to be read.
        unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream.cast()) };
    };
    // What the stream does not take is the stream's to tell.
    _ = write_document(&mut Output::to(&write), &heap().stats());
    0
}

fn write_document(output: &mut Output<'_>, stats: &HeapStats) -> fmt::Result {
    writeln!(output, "<malloc version=\"polyheap-{}\">", env!("CARGO_PKG_VERSION"))?;
    writeln!(output, "<live bytes=\"{}\" blocks=\"{}\"/>", stats.live_bytes, stats.live_blocks)?;
    writeln!(output, "<held bytes=\"{}\"/>", stats.held_bytes)?;
    writeln!(output, "<cached bytes=\"{}\"/>", stats.cached_bytes)?;
    writeln!(output, "<threads count=\"{}\"/>", stats.threads)?;
    for class in stats.classes.iter().filter(|class| class.slabs != 0) {
        writeln!(
            output,
            "<class bytes=\"{}\" live=\"{}\" cached=\"{}\"/>",
            class.block_bytes, class.live_blocks, class.cached_blocks
        )?;
    }
    writeln!(output, "</malloc>")
}

fn print_statistics() {
    let mut output = Output::to_stderr();
    // What cannot be written is lost.
    _ = writeln!(output, "polyheap: {}", heap().stats());
}

/// The loader's entry for the end of the process.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = end;

extern "C" fn end() {
    if has_statistics() {
        print_statistics();
    }
}
