//! A reading: what one process measured of one quantity.

use serde::{Deserialize, Serialize};

/// Unit of a reading, and with it which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    #[serde(rename = "ns/op")]
    NsPerOp,
    #[serde(rename = "ops/s")]
    OpsPerSecond,
    #[serde(rename = "bytes")]
    Bytes,
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
            Unit::OpsPerSecond => left > right,
            Unit::NsPerOp | Unit::Bytes => left < right,
        }
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
            is_quiet: true,
            note: None,
        }
    }

    pub(crate) fn single(label: &str, unit: Unit, value: f64) -> Reading {
        Reading { label: label.into(), ..Reading::of(unit, vec![value]) }
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
