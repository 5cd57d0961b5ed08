//! Summaries: the runs of all allocators in a task, condensed into cells.

use crate::parent::Runs;
use crate::reading::{Reading, Unit, median};
use crate::task::{Rank, Task};

/// One quantity of one task, for all allocators.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) workload: &'static str,
    pub(crate) case: String,
    pub(crate) threads: usize,
    pub(crate) unit: Unit,
    /// Values below this are called equal.
    pub(crate) floor: f64,
    pub(crate) entries: Vec<Entry>,
}

/// One allocator's part of a cell.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) allocator: &'static str,
    pub(crate) rank: Rank,
    pub(crate) figures: Option<Figures>,
    /// How many runs failed, and how the first did.
    pub(crate) failed: Option<(usize, String)>,
}

/// An allocator's figures in a cell.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The best sample of all processes.
    pub(crate) best: f64,
    /// The median of the processes' medians.
    pub(crate) median: f64,
    pub(crate) worst: f64,
    pub(crate) peak_rss_bytes: f64,
    pub(crate) runs: usize,
    /// Whether the runs kept were undisturbed by other processes.
    pub(crate) is_quiet: bool,
    pub(crate) note: String,
}

/// polyheap beside the best of its rivals; above one, polyheap is better.
#[derive(Debug)]
pub(crate) struct Ratio {
    pub(crate) ours: &'static str,
    pub(crate) by_best: f64,
    pub(crate) best_rival: &'static str,
    pub(crate) by_median: f64,
    pub(crate) median_rival: &'static str,
}

/// Condenses the runs of `task`, one cell a quantity.
pub(crate) fn cells(task: &Task, runs: &[Runs]) -> Vec<Cell> {
    // Not every allocator gives every quantity.
    let firsts = runs.iter().filter_map(|runs| runs.outcomes.first());
    let Some(model) = firsts.max_by_key(|outcome| outcome.readings.len()) else {
        return vec![cell(task, runs, &Reading::of(Unit::NsPerOp, Vec::new()))];
    };
    model.readings.iter().map(|model| cell(task, runs, model)).collect()
}

/// The cell of the quantity that `model` is a reading of.
fn cell(task: &Task, runs: &[Runs], model: &Reading) -> Cell {
    let case = match model.label.as_str() {
        "" => task.case.clone(),
        label => format!("{}: {label}", task.case),
    };
    Cell {
        workload: task.workload,
        case,
        threads: task.threads,
        unit: model.unit,
        floor: model.floor,
        entries: runs.iter().map(|runs| entry(runs, &model.label)).collect(),
    }
}

fn entry(runs: &Runs, label: &str) -> Entry {
    let failed = runs.failures.first().map(|first| (runs.failures.len(), first.to_string()));
    Entry { allocator: runs.allocator, rank: runs.rank, figures: figures(runs, label), failed }
}

/// Keeps the undisturbed runs, if there are any.
fn figures(runs: &Runs, label: &str) -> Option<Figures> {
    let labelled =
        |readings: &'_ [Reading]| readings.iter().find(|reading| reading.label == label).cloned();
    let all: Vec<Reading> =
        runs.outcomes.iter().filter_map(|outcome| labelled(&outcome.readings)).collect();
    let is_quiet = all.iter().any(|reading| reading.is_quiet);
    let kept: Vec<Reading> =
        all.into_iter().filter(|reading| reading.is_quiet == is_quiet).collect();
    let unit = kept.first()?.unit;
    let peaks = runs.outcomes.iter().map(|outcome| outcome.peak_rss_bytes as f64).collect();
    Some(Figures {
        best: unit.best(kept.iter().map(|reading| reading.best)),
        median: median(kept.iter().map(|reading| reading.median).collect()),
        worst: unit.worst(kept.iter().map(|reading| reading.worst)),
        peak_rss_bytes: median(peaks),
        runs: kept.len(),
        is_quiet,
        note: notes(&kept),
    })
}

/// Every note once, with the number of processes that made it.
fn notes(readings: &[Reading]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for note in readings.iter().filter_map(|reading| reading.note.as_deref()) {
        match counts.iter_mut().find(|(known, _)| *known == note) {
            Some((_, count)) => *count += 1,
            None => counts.push((note, 1)),
        }
    }
    counts.iter().map(|(note, count)| format!("{note} {count}x")).collect::<Vec<_>>().join(", ")
}

impl Cell {
    /// Every form of polyheap beside the best of the rivals of this rank. None of shares: they compare an allocator with
    /// itself.
    pub(crate) fn ratios(&self, rivals: Rank) -> Vec<Ratio> {
        if self.unit == Unit::Share {
            return Vec::new();
        }
        let Some((best, best_rival)) = self.leader(rivals, |figures| figures.best) else {
            return Vec::new();
        };
        let Some((median, median_rival)) = self.leader(rivals, |figures| figures.median) else {
            return Vec::new();
        };
        let ours = self.entries.iter().filter(|entry| entry.rank == Rank::Ours);
        ours.filter_map(|entry| {
            let figures = entry.figures.as_ref()?;
            Some(Ratio {
                ours: entry.allocator,
                by_best: self.ratio(figures.best, best),
                best_rival,
                by_median: self.ratio(figures.median, median),
                median_rival,
            })
        })
        .collect()
    }

    fn leader(&self, rank: Rank, value: impl Fn(&Figures) -> f64) -> Option<(f64, &'static str)> {
        let rivals = self.entries.iter().filter(|entry| entry.rank == rank);
        let values =
            rivals.filter_map(|entry| Some((value(entry.figures.as_ref()?), entry.allocator)));
        values.reduce(|best, next| if self.unit.is_better(next.0, best.0) { next } else { best })
    }

    fn ratio(&self, ours: f64, rival: f64) -> f64 {
        match self.unit {
            Unit::OpsPerSecond | Unit::Share => ours / rival,
            Unit::NsPerOp => rival / ours,
            Unit::Bytes | Unit::Multiple => rival.max(self.floor) / ours.max(self.floor),
        }
    }
}

/// Geometric mean of the ratios of `ours` against `rivals` over the cells of a workload: by best sample, by median, and
/// of how many cells. `None` if there are none.
pub(crate) fn mean(cells: &[&Cell], ours: &str, rivals: Rank) -> Option<(f64, f64, usize)> {
    let ratios: Vec<Ratio> = cells
        .iter()
        .flat_map(|cell| cell.ratios(rivals))
        .filter(|ratio| ratio.ours == ours)
        .collect();
    let count = ratios.len();
    let mean = |sum: f64| (sum / count as f64).exp();
    let by_best = mean(ratios.iter().map(|ratio| ratio.by_best.ln()).sum());
    let by_median = mean(ratios.iter().map(|ratio| ratio.by_median.ln()).sum());
    (count > 0).then_some((by_best, by_median, count))
}
