//! The report as a table: its rows and columns as text, for terminals and for the page.
//!
//! ```text
//! subsystem   budget  soft limit  live  peak  held  cached  blocks  denied
//! parser      64 MiB           -  …
//! other heaps (2)                              …
//! kept for next heaps                          …
//! process                         …            …
//! ```
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `report` and `bytes`; `page` draws the same rows.

use core::fmt;

use crate::bytes::Bytes;
use crate::{Report, SubsystemReport};

/// What stands above the columns, the name's first.
pub(crate) const HEADS: [&str; 9] =
    ["subsystem", "budget", "soft limit", "live", "peak", "held", "cached", "blocks", "denied"];

/// What stands for a control character in a name, so that it breaks no row.
const CONTROL: &str = "\u{fffd}";

/// What stands where there is no limit.
const NONE: &str = "-";

/// A line of the table: one text a column, empty where there is nothing to say.
pub(crate) type Row = [String; HEADS.len()];

/// Returns the rows of the subsystems.
pub(crate) fn subsystem_rows(report: &Report) -> Vec<Row> {
    report.subsystems.iter().map(subsystem_row).collect()
}

/// Returns the rows below them: the rest of the process, and the sum.
pub(crate) fn process_rows(report: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    if report.other_heaps != 0 {
        rows.push(held_row(
            format!("other heaps ({})", report.other_heaps),
            report.other_held_bytes,
        ));
    }
    if report.kept_bytes != 0 {
        rows.push(held_row("kept for next heaps".to_string(), report.kept_bytes));
    }
    let mut process = held_row("process".to_string(), report.held_bytes());
    process[3] = Bytes(report.live_bytes()).to_string();
    process[6] = Bytes(report.sum(|subsystem| subsystem.cached_bytes)).to_string();
    process[7] = report.sum(|subsystem| subsystem.live_blocks).to_string();
    process[8] = report.subsystems.iter().map(SubsystemReport::denied).sum::<u64>().to_string();
    rows.push(process);
    rows
}

fn subsystem_row(subsystem: &SubsystemReport) -> Row {
    let limit = |bytes: Option<usize>| {
        bytes.map_or_else(|| NONE.to_string(), |bytes| Bytes(bytes).to_string())
    };
    [
        subsystem.name.replace(char::is_control, CONTROL),
        limit(subsystem.max_bytes),
        limit(subsystem.soft_max_bytes),
        Bytes(subsystem.live_bytes).to_string(),
        Bytes(subsystem.peak_live_bytes).to_string(),
        Bytes(subsystem.held_bytes).to_string(),
        Bytes(subsystem.cached_bytes).to_string(),
        subsystem.live_blocks.to_string(),
        subsystem.denied().to_string(),
    ]
}

fn held_row(name: String, held_bytes: usize) -> Row {
    let mut row = Row::default();
    row[0] = name;
    row[5] = Bytes(held_bytes).to_string();
    row
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = HEADS.map(str::to_string);
        let (rows, sums) = (subsystem_rows(self), process_rows(self));
        let mut widths = [0; HEADS.len()];
        for row in [&heads].into_iter().chain(&rows).chain(&sums) {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        write_row(f, &heads, &widths)?;
        for row in rows.iter().chain(&sums) {
            f.write_str("\n")?;
            write_row(f, row, &widths)?;
        }
        Ok(())
    }
}

/// Writes the name to the left and the numbers to the right of their columns.
fn write_row(f: &mut fmt::Formatter<'_>, row: &Row, widths: &[usize]) -> fmt::Result {
    write!(f, "{:<1$}", row[0], widths[0])?;
    for (text, width) in row.iter().zip(widths).skip(1) {
        write!(f, "  {text:>width$}")?;
    }
    Ok(())
}
