//! Statistics as JSON.
//!
//! *Concurrency*: pure functions.
//!
//! *Neighbours*: stands on `polyheap`; `stats` writes with it.

use core::fmt::{self, Write};

use polyheap::HeapStats;

/// Writes one object: the heap's name and number, its sums, and its size classes that have something.
pub(crate) fn write(
    out: &mut impl Write,
    name: &str,
    number: u64,
    stats: &HeapStats,
) -> fmt::Result {
    out.write_str("{\"name\":")?;
    write_string(out, name)?;
    write!(out, ",\"number\":{number}")?;
    let sums = [
        ("live_bytes", stats.live_bytes as u64),
        ("live_blocks", stats.live_blocks as u64),
        ("peak_live_bytes", stats.peak_live_bytes as u64),
        ("held_bytes", stats.held_bytes as u64),
        ("cached_bytes", stats.cached_bytes as u64),
        ("kept_large_bytes", stats.kept_large_bytes as u64),
        ("dirty_bytes", stats.dirty_bytes as u64),
        ("regions", stats.regions as u64),
        ("mappings", stats.mappings as u64),
        ("threads", stats.threads as u64),
        ("denied_by_limit", stats.denied_by_limit),
        ("denied_by_system", stats.denied_by_system),
    ];
    for (key, value) in sums {
        write!(out, ",\"{key}\":{value}")?;
    }
    out.write_str(",\"classes\":[")?;
    let mut comma = "";
    for class in stats.classes.iter().filter(|class| class.slabs != 0) {
        write!(
            out,
            "{comma}{{\"block_bytes\":{},\"live_blocks\":{},\"cached_blocks\":{},\"slabs\":{}}}",
            class.block_bytes, class.live_blocks, class.cached_blocks, class.slabs
        )?;
        comma = ",";
    }
    out.write_str("]}")
}

/// Writes a string in quotes.
fn write_string(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(character))?,
            _ => out.write_char(character)?,
        }
    }
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let mut text = String::new();
        assert_eq!(write_string(&mut text, "a \"b\" \\ \n é"), Ok(()));
        assert_eq!(text, r#""a \"b\" \\ \u000a é""#);
    }
}
