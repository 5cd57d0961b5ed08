//! What the process holds of the machine's memory.

use std::fs::read_to_string;

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
