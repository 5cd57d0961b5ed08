//! What the process holds of the machine's memory.

use std::fs::read_to_string;

/// Highest resident set so far, in bytes.
pub(crate) fn peak_rss_bytes() -> u64 {
    kib_of(&read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:") * 1024
}

/// Resident set now, in bytes: the exact sum over all mappings, not the kernel's running estimate.
pub(crate) fn rss_bytes() -> u64 {
    kib_of(&read_to_string("/proc/self/smaps_rollup").unwrap_or_default(), "Rss:") * 1024
}

fn kib_of(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
