//! What the process holds of the machine's memory.

use std::fs::{read_to_string, write};
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Resident memory at the start of a task, to tell what has come on top.
#[derive(Debug)]
pub(crate) struct Baseline {
    resident_bytes: u64,
}

impl Baseline {
    /// Starts here, the highest resident set too.
    pub(crate) fn take() -> Baseline {
        // Sets the highest resident set to the present one. Where that is refused, an earlier peak may show.
        _ = write("/proc/self/clear_refs", "5");
        Baseline { resident_bytes: resident_bytes() }
    }

    /// Resident bytes on top now.
    pub(crate) fn beyond(&self) -> u64 {
        resident_bytes().saturating_sub(self.resident_bytes)
    }

    /// Most resident bytes on top so far, pages of files left out: these only become more, so what there is of them now
    /// comes off. The kernel's estimate, off by some hundred KiB.
    pub(crate) fn peak_beyond(&self) -> u64 {
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let files = kib_of(&status, "RssFile:").unwrap_or(0) * 1024;
        peak_rss_bytes().saturating_sub(files).saturating_sub(self.resident_bytes)
    }
}

/// A list with room for `capacity` values, its pages touched: they are not to be counted as the allocator's, and filling it
/// meets no page fault.
pub(crate) fn touched_list<T>(capacity: usize) -> Vec<T> {
    let mut list: Vec<T> = Vec::with_capacity(capacity);
    // Else the compiler may ask for zeroed memory instead, which touches nothing.
    black_box(list.as_mut_ptr());
    list.spare_capacity_mut().iter_mut().for_each(|place| *place = MaybeUninit::zeroed());
    black_box(list.as_mut_ptr());
    list
}

/// Highest resident set so far, in bytes, of every kind of memory.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    kib_of(&status, "VmHWM:").unwrap_or(0) * 1024
}

/// Resident memory now, in bytes, private and shared: the exact sum over all mappings, not the kernel's running
/// estimate, and without pages of files, so that program text first run meanwhile does not show.
pub(crate) fn resident_bytes() -> u64 {
    let rollup = read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let anonymous = kib_of(&rollup, "Anonymous:");
    let shared = kib_of(&rollup, "Pss_Shmem:").unwrap_or(0);
    let kib =
        anonymous.map_or_else(|| kib_of(&rollup, "Rss:").unwrap_or(0), |private| private + shared);
    kib * 1024
}

fn kib_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
