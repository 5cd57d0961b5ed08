//! What is printed and written: lists, a table a cell, geometric means, JSON.

use crate::reading::Unit;
use crate::summary::{Cell, Entry, Figures, Ratio, mean};
use crate::task::Rank;
use crate::workloads;
use serde::Serialize;
use std::path::Path;

/// Lists the workloads and the allocators.
pub(crate) fn list(allocators: &[&str]) {
    println!("workloads");
    for workload in workloads::ALL {
        println!("  {:<14} {}", workload.name, workload.about);
    }
    println!("allocators\n  {}", allocators.join("\n  "));
}

/// Prints a table of all allocators in the cell, best median first, and the ratios.
pub(crate) fn print_cell(cell: &Cell) {
    let threads = if cell.threads == 1 { String::new() } else { format!(" {}T", cell.threads) };
    println!("{} {}{threads}", cell.workload, cell.case);
    println!(
        "  {:<18}{:>10}{:>10}{:>10}{:>8}{:>10}  runs",
        "", "best", "median", "worst", "spread", "peak RSS"
    );
    let mut entries: Vec<&Entry> = cell.entries.iter().collect();
    let median = |entry: &Entry| entry.figures.as_ref().map_or(f64::NAN, |figures| figures.median);
    entries.sort_by(|left, right| median(left).total_cmp(&median(right)));
    if cell.unit.is_better(2.0, 1.0) {
        let measured = entries.iter().filter(|entry| entry.figures.is_some()).count();
        entries[..measured].reverse();
    }
    entries.iter().for_each(|entry| print_entry(cell.unit, entry));
    for (rank, name) in [(Rank::Peer, "best peer"), (Rank::Arena, "best arena")] {
        cell.ratios(rank).iter().for_each(|ratio| print_ratio(ratio, name));
    }
    println!();
}

fn print_entry(unit: Unit, entry: &Entry) {
    let failed = match &entry.failed {
        Some((count, how)) => format!("  FAILED {count}x: {how}"),
        None => String::new(),
    };
    let Some(figures) = &entry.figures else {
        println!("  {:<18}{:>10}{failed}", entry.allocator, "-");
        return;
    };
    let Figures { best, median, worst, .. } = *figures;
    println!(
        "  {:<18}{:>10}{:>10}{:>10}{:>8}{:>10}  {}{}  {}{failed}",
        entry.allocator,
        shown(unit, best),
        shown(unit, median),
        shown(unit, worst),
        spread(best, worst),
        shown(Unit::Bytes, figures.peak_rss_bytes),
        figures.runs,
        if figures.is_quiet { "" } else { "~ (machine busy)" },
        figures.note,
    );
}

fn print_ratio(ratio: &Ratio, rival: &str) {
    println!(
        "  {:<18}/ {rival}: {:.2}x by best ({}), {:.2}x by median ({})",
        ratio.ours, ratio.by_best, ratio.best_rival, ratio.by_median, ratio.median_rival
    );
}

fn spread(best: f64, worst: f64) -> String {
    let ratio = (worst / best).max(best / worst);
    if ratio.is_finite() { format!("{ratio:.2}x") } else { "-".into() }
}

/// A value with its unit, three digits.
fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::NsPerOp if value >= 1e6 => format!("{} ms", digits(value / 1e6)),
        Unit::NsPerOp if value >= 1e4 => format!("{} us", digits(value / 1e3)),
        Unit::NsPerOp => format!("{} ns", digits(value)),
        Unit::OpsPerSecond => format!("{} M/s", digits(value / 1e6)),
        Unit::Bytes if value >= 1_048_576.0 => format!("{} MiB", digits(value / 1_048_576.0)),
        Unit::Bytes => format!("{} KiB", digits(value / 1024.0)),
        Unit::Multiple | Unit::Share => format!("{}x", digits(value)),
    }
}

fn digits(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Prints the geometric means of polyheap's ratios, a workload a line.
pub(crate) fn print_means(cells: &[Cell]) {
    let mut ours: Vec<&str> = Vec::new();
    for entry in
        cells.iter().flat_map(|cell| &cell.entries).filter(|entry| entry.rank == Rank::Ours)
    {
        if !ours.contains(&entry.allocator) {
            ours.push(entry.allocator);
        }
    }
    println!("geometric means of the ratios to the best peer (above 1: polyheap is better)");
    for name in ours {
        for workload in workloads::ALL {
            let cells: Vec<&Cell> =
                cells.iter().filter(|cell| cell.workload == workload.name).collect();
            let (memory, time): (Vec<&Cell>, Vec<&Cell>) =
                cells.iter().partition(|cell| cell.unit.is_memory());
            print_mean(name, workload.name, &time, Rank::Peer);
            print_mean(name, &format!("{}, arenas", workload.name), &time, Rank::Arena);
            print_mean(name, &format!("{}, memory", workload.name), &memory, Rank::Peer);
        }
        let time: Vec<&Cell> = cells.iter().filter(|cell| !cell.unit.is_memory()).collect();
        print_mean(name, "all but memory", &time, Rank::Peer);
    }
}

fn print_mean(name: &str, what: &str, cells: &[&Cell], rivals: Rank) {
    if let Some((by_best, by_median, count)) = mean(cells, name, rivals) {
        println!(
            "  {name:<18}{what:<24}{by_best:>6.2}x by best {by_median:>6.2}x by median  ({count} cells)"
        );
    }
}

/// One allocator's part of a cell, as written to a file; the figures are missing if every run failed.
#[derive(Serialize)]
struct JsonCell<'a> {
    workload: &'a str,
    case: &'a str,
    threads: usize,
    allocator: &'a str,
    unit: Unit,
    median: Option<f64>,
    best: Option<f64>,
    worst: Option<f64>,
    peak_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
}

/// Writes all cells to `file`.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_json(file: &Path, cells: &[Cell]) -> std::io::Result<()> {
    let all: Vec<JsonCell<'_>> = cells
        .iter()
        .flat_map(|cell| cell.entries.iter().map(move |entry| json_cell(cell, entry)))
        .collect();
    std::fs::write(file, serde_json::to_string_pretty(&all)? + "\n")
}

fn json_cell<'a>(cell: &'a Cell, entry: &'a Entry) -> JsonCell<'a> {
    let figures = entry.figures.as_ref();
    JsonCell {
        workload: cell.workload,
        case: &cell.case,
        threads: cell.threads,
        allocator: entry.allocator,
        unit: cell.unit,
        median: figures.map(|figures| figures.median),
        best: figures.map(|figures| figures.best),
        worst: figures.map(|figures| figures.worst),
        peak_rss_bytes: figures.map(|figures| figures.peak_rss_bytes as u64),
        note: figures.map(|figures| figures.note.as_str()).filter(|note| !note.is_empty()),
        failed: entry.failed.as_ref().map(|(_, how)| how.as_str()),
    }
}
