//! What `polyheap_new_with` is told.
//!
//! The struct begins with its own size, so that it can grow: a program compiled with an older
//! header gives a shorter one, whose missing members count as zero; one compiled with a newer header
//! gives a longer one, which is accepted as long as what this library does not know is zero.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `polyheap`; `lifetime` makes heaps of it.

use core::ffi::{CStr, c_char};
use core::time::Duration;

use polyheap::{Decay, HeapBuilder, HugePages};

/// Flag: threads keep no caches in the heap.
pub const NO_THREAD_CACHE: u32 = 1;
/// Flag: the heap's memory never was and never will be another heap's.
pub const ISOLATED: u32 = 2;

/// Bytes of a name that count; the core keeps fewer.
const NAME_BYTES_READ: usize = 64;

/// `polyheap_options_t`. A member that is zero stands for the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of the struct as the program knows it.
    pub size: usize,
    /// The heap's name, up to 32 bytes of UTF-8; null for none.
    pub name: *const c_char,
    /// Bytes the heap may hold; 0 for no limit.
    pub max_bytes: usize,
    /// Bytes above which it gives back before it takes; 0 for no such limit.
    pub soft_max_bytes: usize,
    /// Bytes of spare magazines each thread keeps; 0 for the default.
    pub thread_cache_bytes: usize,
    /// Bytes of blocks above 32 KiB each thread keeps; 0 for the default.
    pub thread_large_bytes: usize,
    /// Bytes of blocks above 1.75 MiB the heap keeps; 0 for the default.
    pub heap_large_bytes: usize,
    /// When idle memory goes back: 0 default, 1 at once, 2 never, 3 after `decay_ms`.
    pub decay: u32,
    /// Milliseconds, for `decay` 3.
    pub decay_ms: u32,
    /// Huge pages: 0 as the system is set, 1 always, 2 never.
    pub huge_pages: u32,
    /// Flags: [`NO_THREAD_CACHE`], [`ISOLATED`].
    pub flags: u32,
}

impl Options {
    /// All defaults.
    const DEFAULT: Options = Options {
        size: size_of::<Options>(),
        name: core::ptr::null(),
        max_bytes: 0,
        soft_max_bytes: 0,
        thread_cache_bytes: 0,
        thread_large_bytes: 0,
        heap_large_bytes: 0,
        decay: 0,
        decay_ms: 0,
        huge_pages: 0,
        flags: 0,
    };

    /// Returns what the program's struct says; `None` when this library does not know all of it.
    ///
    /// # Safety
    /// 1. `given` is null, or valid for reads of as many bytes as its first member says.
    pub(crate) unsafe fn read(given: *const Options) -> Option<Options> {
        let mut options = Options::DEFAULT;
        if given.is_null() {
            return Some(options);
        }
        // SAFETY: (1) of this function's contract: the first member is there.
        let size = unsafe { (*given).size };
        if size < size_of::<usize>() {
            return None;
        }
        let known = size.min(size_of::<Options>());
        let (source, target): (*const u8, *mut u8) = (given.cast(), (&raw mut options).cast());
        // SAFETY: both have that many bytes, by (1) and by the minimum; any bytes are a value of
        // these members.
        unsafe { target.copy_from_nonoverlapping(source, known) };
        options.size = size_of::<Options>();
        // SAFETY: inside the struct or at its end.
        let rest = unsafe { source.add(known) };
        // SAFETY: (1) of this function's contract: what follows is there to be read.
        let rest = unsafe { core::slice::from_raw_parts(rest, size - known) };
        rest.iter().all(|&byte| byte == 0).then_some(options)
    }

    /// Returns the builder of such a heap; `None` when a member has a value that is not known.
    ///
    /// # Safety
    /// 1. `name` is null or a C string.
    pub(crate) unsafe fn builder(&self) -> Option<HeapBuilder> {
        let mut builder = polyheap::Heap::builder();
        // SAFETY: (1) is this function's contract.
        builder = builder.name(unsafe { name(self.name)? });
        builder = match self.decay {
            0 => builder,
            1 => builder.decay(Decay::Eager),
            2 => builder.decay(Decay::Never),
            3 => builder.decay(Decay::After(Duration::from_millis(self.decay_ms.into()))),
            _ => return None,
        };
        builder = match self.huge_pages {
            0 => builder,
            1 => builder.huge_pages(HugePages::Always),
            2 => builder.huge_pages(HugePages::Never),
            _ => return None,
        };
        if self.flags & !(NO_THREAD_CACHE | ISOLATED) != 0 {
            return None;
        }
        builder = builder.thread_cache(self.flags & NO_THREAD_CACHE == 0);
        builder = builder.isolated(self.flags & ISOLATED != 0);
        builder = unless_zero(builder, self.max_bytes, HeapBuilder::max_bytes);
        builder = unless_zero(builder, self.soft_max_bytes, HeapBuilder::soft_max_bytes);
        builder = unless_zero(builder, self.thread_cache_bytes, HeapBuilder::thread_cache_bytes);
        builder = unless_zero(builder, self.thread_large_bytes, HeapBuilder::thread_large_bytes);
        Some(unless_zero(builder, self.heap_large_bytes, HeapBuilder::heap_large_bytes))
    }
}

/// Sets an option, unless it has the value that stands for the default.
fn unless_zero(
    builder: HeapBuilder,
    bytes: usize,
    set: fn(HeapBuilder, usize) -> HeapBuilder,
) -> HeapBuilder {
    if bytes == 0 { builder } else { set(builder, bytes) }
}

/// Returns a C string's beginning, cut at a whole character; `None` when it is not UTF-8.
///
/// # Safety
/// 1. `text` is null, or a C string that lives as long as the result.
unsafe fn name<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return Some("");
    }
    // SAFETY: (1) of this function's contract.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    let bytes = &bytes[..bytes.len().min(NAME_BYTES_READ)];
    match core::str::from_utf8(bytes) {
        Ok(name) => Some(name),
        // The cut fell into a character.
        Err(error) if error.error_len().is_none() && bytes.len() == NAME_BYTES_READ => {
            core::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}
