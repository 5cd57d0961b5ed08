//! What a recorder has seen: samples of all subsystems, oldest first.
//!
//! A sample has a point for each subsystem, at its place in the registry. That place stays, so samples
//! from before a subsystem was entered are merely shorter.
//!
//! *Concurrency*: plain values.
//!
//! *Neighbours*: stands on `registry`; `recorder` fills it, `chart` draws it.

use core::time::Duration;

use serde_json::{Value, json};
use smallvec::SmallVec;

use crate::registry;

/// Subsystems of which a sample keeps the points in itself.
const POINTS_INLINE: usize = 8;

/// Samples a recorder took, as [`Recorder::history`](crate::Recorder::history) returns them.
///
/// # Examples
/// ```standalone_crate
/// use polyheap_subsystem::{Recorder, subsystem};
///
/// subsystem! { static CACHE: "cache"; }
///
/// let recorder = Recorder::new();
/// recorder.sample();
/// let entries = CACHE.vec_from([0u8; 5000]);
/// recorder.sample();
///
/// let history = recorder.history();
/// let live: Vec<usize> = history.samples.iter().map(|sample| sample.point(0).live_bytes).collect();
/// assert!(live[0] == 0 && live[1] >= 5000);
/// assert_eq!(history.names, ["cache"]);
/// # drop(entries);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct History {
    /// Names of the subsystems, in the order of the points.
    pub names: Vec<&'static str>,
    /// The samples, oldest first.
    pub samples: Vec<Sample>,
}

/// All subsystems as of one moment.
///
/// # Examples
/// ```standalone_crate
/// polyheap_subsystem::subsystem! { static CACHE: "cache"; }
///
/// let recorder = polyheap_subsystem::Recorder::new();
/// recorder.sample();
/// let sample = &recorder.history().samples[0];
/// assert_eq!((sample.points().len(), sample.point(0).held_bytes), (1, 0));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// Time since the recorder was made.
    pub at: Duration,
    points: SmallVec<[SamplePoint; POINTS_INLINE]>,
}

/// One subsystem in a [`Sample`].
///
/// # Examples
/// ```
/// let nothing = polyheap_subsystem::SamplePoint::default();
/// assert_eq!((nothing.live_bytes, nothing.held_bytes), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SamplePoint {
    /// Bytes of live blocks.
    pub live_bytes: usize,
    /// Bytes the system may have to hold for the subsystem.
    pub held_bytes: usize,
}

impl Sample {
    /// Looks at all subsystems.
    pub(crate) fn take(at: Duration) -> Sample {
        let points = registry().iter().map(|subsystem| {
            let stats = subsystem.stats();
            SamplePoint { live_bytes: stats.live_bytes, held_bytes: stats.held_bytes }
        });
        Sample { at, points: points.collect() }
    }

    /// Returns the points, one a subsystem that was in the registry then, in its order.
    pub fn points(&self) -> &[SamplePoint] {
        &self.points
    }

    /// Returns the point of the subsystem at this place in the registry; zeros if it was not there.
    pub fn point(&self, place: usize) -> SamplePoint {
        self.points.get(place).copied().unwrap_or_default()
    }
}

impl History {
    /// Returns the samples with the names of all subsystems there are.
    pub(crate) fn of(samples: Vec<Sample>) -> History {
        History { names: registry().iter().map(|subsystem| subsystem.name()).collect(), samples }
    }

    /// Returns the history as JSON text: `names`, and `samples` with `at_ms` and the arrays
    /// `live_bytes` and `held_bytes`.
    ///
    /// # Examples
    /// ```
    /// let recorder = polyheap_subsystem::Recorder::new();
    /// recorder.sample();
    /// let text = recorder.history().to_json();
    /// let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    /// assert_eq!(value["samples"].as_array().unwrap().len(), 1);
    /// ```
    pub fn to_json(&self) -> String {
        let samples: Vec<Value> = self.samples.iter().map(Sample::to_value).collect();
        json!({ "names": self.names, "samples": samples }).to_string()
    }
}

impl Sample {
    fn to_value(&self) -> Value {
        let bytes = |part: fn(&SamplePoint) -> usize| -> Vec<usize> {
            self.points.iter().map(part).collect()
        };
        json!({
            "at_ms": self.at.as_millis() as u64,
            "live_bytes": bytes(|point| point.live_bytes),
            "held_bytes": bytes(|point| point.held_bytes),
        })
    }
}
