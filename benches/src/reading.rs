//! A reading: what one process measured of one quantity.

use serde::{Deserialize, Serialize};

/// Below this, resident sets are called equal.
const RESIDENT_FLOOR_BYTES: f64 = 65536.0;

/// Below this, multiples of a size are called equal.
const MULTIPLE_FLOOR: f64 = 0.1;

/// Unit of a reading, and with it which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    #[serde(rename = "ns/op")]
    NsPerOp,
    #[serde(rename = "ops/s")]
    OpsPerSecond,
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes as a multiple of those asked for.
    #[serde(rename = "multiple")]
    Multiple,
    /// An allocator's rate as a share of another rate of its own.
    #[serde(rename = "share")]
    Share,
}

/// Samples of one quantity in one process, condensed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// Which quantity, where a task has several; empty where it has one.
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) best: f64,
    pub(crate) median: f64,
    pub(crate) worst: f64,
    /// Values below this are called equal; zero but for memory.
    pub(crate) floor: f64,
    /// Whether other processes left the machine alone meanwhile.
    pub(crate) is_quiet: bool,
    pub(crate) note: Option<String>,
}

/// What a child prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) readings: Vec<Reading>,
    pub(crate) peak_rss_bytes: u64,
}

impl Unit {
    pub(crate) fn is_better(self, left: f64, right: f64) -> bool {
        match self {
            Unit::OpsPerSecond | Unit::Share => left > right,
            Unit::NsPerOp | Unit::Bytes | Unit::Multiple => left < right,
        }
    }

    pub(crate) fn is_memory(self) -> bool {
        matches!(self, Unit::Bytes | Unit::Multiple)
    }

    /// The better of `values`, or NaN if there are none.
    pub(crate) fn best(self, values: impl IntoIterator<Item = f64>) -> f64 {
        let pick = |best, value| if self.is_better(value, best) { value } else { best };
        values.into_iter().reduce(pick).unwrap_or(f64::NAN)
    }

    /// The worse of `values`, or NaN if there are none.
    pub(crate) fn worst(self, values: impl IntoIterator<Item = f64>) -> f64 {
        let pick = |worst, value| if self.is_better(worst, value) { value } else { worst };
        values.into_iter().reduce(pick).unwrap_or(f64::NAN)
    }
}

impl Reading {
    /// Condenses samples.
    pub(crate) fn of(unit: Unit, samples: Vec<f64>) -> Reading {
        Reading {
            label: String::new(),
            unit,
            best: unit.best(samples.iter().copied()),
            worst: unit.worst(samples.iter().copied()),
            median: median(samples),
            floor: 0.0,
            is_quiet: true,
            note: None,
        }
    }

    /// One time, taken once a process.
    pub(crate) fn time(label: &str, ns: f64) -> Reading {
        Reading { label: label.into(), ..Reading::of(Unit::NsPerOp, vec![ns]) }
    }

    /// Resident bytes in all.
    pub(crate) fn resident(label: &str, bytes: u64) -> Reading {
        let floor = RESIDENT_FLOOR_BYTES;
        Reading { label: label.into(), floor, ..Reading::of(Unit::Bytes, vec![bytes as f64]) }
    }

    /// Bytes as a multiple of `of_bytes`.
    pub(crate) fn multiple(label: &str, bytes: u64, of_bytes: usize) -> Reading {
        let value = bytes as f64 / of_bytes as f64;
        let floor = MULTIPLE_FLOOR;
        Reading { label: label.into(), floor, ..Reading::of(Unit::Multiple, vec![value]) }
    }

    /// A share of another rate.
    pub(crate) fn share(label: &str, value: f64) -> Reading {
        Reading { label: label.into(), ..Reading::of(Unit::Share, vec![value]) }
    }

    /// Resident bytes, divided among `count` things.
    pub(crate) fn resident_each(label: &str, bytes: u64, count: usize) -> Reading {
        let all = Reading::resident(label, bytes);
        let each = |value| value / count as f64;
        Reading {
            best: each(all.best),
            median: each(all.median),
            worst: each(all.worst),
            floor: each(all.floor),
            ..all
        }
    }
}

/// Middle value; the mean of the two middle ones of an even number; NaN of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
