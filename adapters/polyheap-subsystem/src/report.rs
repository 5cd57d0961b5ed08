//! The report: what each subsystem holds, and how that adds up to what the process holds.
//!
//! ```text
//! subsystems + other heaps + kept of dropped heaps = held by the process
//! ```
//!
//! The parts are looked at one after the other while the program goes on, so they are of moments a
//! little apart.
//!
//! *Concurrency*: any thread, lock-free but for the budgets' locks.
//!
//! *Neighbours*: stands on `registry` and the core's statistics; `table` and `page` show it.

use polyheap::{HeapId, HeapStats, HeapSummary, heaps, process_stats};
use serde_json::{Value, json};

use crate::{Subsystem, registry};

/// What the subsystems and the process hold, as of one moment. `Display` prints a table.
///
/// # Examples
/// ```standalone_crate
/// use polyheap_subsystem::{report, subsystem};
///
/// subsystem! {
///     static PARSER: "parser", max = 64 << 20;
///     static CACHE: "cache";
/// }
///
/// let tokens = PARSER.vec_from([0u8; 5000]);
/// let report = report();
/// assert!(report.to_string().contains("64 MiB"));
/// assert_eq!(report.get("cache").unwrap().held_bytes, 0);
/// assert!(report.held_bytes() >= report.get("parser").unwrap().held_bytes);
/// # drop(tokens);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The subsystems, in the registry's order.
    pub subsystems: Vec<SubsystemReport>,
    /// Heaps of the process that are no subsystems.
    pub other_heaps: usize,
    /// Bytes the system may have to hold for those.
    pub other_held_bytes: usize,
    /// Bytes kept of dropped heaps for the next ones.
    pub kept_bytes: usize,
}

/// One subsystem of a [`Report`].
///
/// # Examples
/// ```standalone_crate
/// use polyheap_subsystem::{report, subsystem};
///
/// subsystem! { static PARSER: "parser", soft_max = 1 << 20; }
///
/// let tokens = PARSER.vec_from([0u8; 5000]);
/// let parser = report().get("parser").cloned().unwrap();
/// assert_eq!((parser.live_blocks, parser.soft_max_bytes), (1, Some(1 << 20)));
/// assert!(parser.live_bytes <= parser.peak_live_bytes);
/// # drop(tokens);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubsystemReport {
    /// Name of the subsystem.
    pub name: &'static str,
    /// The most bytes it may hold.
    pub max_bytes: Option<usize>,
    /// Its soft limit in bytes.
    pub soft_max_bytes: Option<usize>,
    /// Whether its memory is never handed from or to another heap.
    pub is_isolated: bool,
    /// Bytes of live blocks, rounded up to their classes.
    pub live_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// The most bytes that were live, or cached with live ones, at once.
    pub peak_live_bytes: usize,
    /// Bytes the system may have to hold for it, headers included.
    pub held_bytes: usize,
    /// Bytes of free blocks that its threads and its stores keep.
    pub cached_bytes: usize,
    /// Requests refused by its limit.
    pub denied_by_limit: u64,
    /// Requests refused by the system.
    pub denied_by_system: u64,
    /// Threads that use it.
    pub threads: usize,
}

/// Returns a report on all subsystems and the process.
///
/// # Cost
/// O(subsystems × (regions + threads)) and a little memory of the global allocator.
///
/// # Examples
/// ```
/// println!("{}", polyheap_subsystem::report());
/// ```
pub fn report() -> Report {
    // Before the subsystems: one that is first used meanwhile is counted next time, not among others.
    let all: Vec<HeapSummary> = heaps().collect();
    let mut listed = Vec::new();
    let mut subsystems = Vec::new();
    for subsystem in registry().iter() {
        let stats = subsystem.stats();
        listed.extend(bound_id(subsystem, &stats));
        subsystems.push(SubsystemReport::of(subsystem, &stats));
    }
    let others = all.iter().filter(|heap| !listed.contains(&heap.id));
    let (other_heaps, other_held_bytes) =
        others.fold((0, 0), |(count, bytes), heap| (count + 1, bytes + heap.held_bytes));
    let kept = process_stats();
    let kept_bytes = kept.warm_region_bytes + kept.mapping_bytes;
    Report { subsystems, other_heaps, other_held_bytes, kept_bytes }
}

/// Returns the heap's number if it has one; a heap that was never used gets none by being looked at.
fn bound_id(subsystem: &Subsystem, stats: &HeapStats) -> Option<HeapId> {
    // A heap has its first region from its first use on.
    if stats.regions == 0 { None } else { subsystem.id().ok() }
}

impl Report {
    /// Returns the report on the first subsystem with this name.
    pub fn get(&self, name: &str) -> Option<&SubsystemReport> {
        self.subsystems.iter().find(|subsystem| subsystem.name == name)
    }

    /// Returns the bytes the system may have to hold for all heaps of the process, and those kept of
    /// dropped ones.
    pub fn held_bytes(&self) -> usize {
        self.sum(|subsystem| subsystem.held_bytes) + self.other_held_bytes + self.kept_bytes
    }

    /// Returns the bytes of live blocks of all subsystems.
    pub fn live_bytes(&self) -> usize {
        self.sum(|subsystem| subsystem.live_bytes)
    }

    /// Returns the report as JSON text: `subsystems`, an array of objects with the fields of
    /// [`SubsystemReport`], and the sums.
    ///
    /// # Examples
    /// ```standalone_crate
    /// polyheap_subsystem::subsystem! { static PARSER: "parser"; }
    ///
    /// let text = polyheap_subsystem::report().to_json();
    /// let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    /// assert_eq!(value["subsystems"][0]["name"], "parser");
    /// ```
    pub fn to_json(&self) -> String {
        let rows: Vec<Value> = self.subsystems.iter().map(SubsystemReport::to_value).collect();
        let value = json!({
            "subsystems": rows,
            "other_heaps": self.other_heaps,
            "other_held_bytes": self.other_held_bytes,
            "kept_bytes": self.kept_bytes,
            "live_bytes": self.live_bytes(),
            "held_bytes": self.held_bytes(),
        });
        format!("{value:#}")
    }

    pub(crate) fn sum(&self, part: impl Fn(&SubsystemReport) -> usize) -> usize {
        self.subsystems.iter().map(part).sum()
    }
}

impl SubsystemReport {
    fn of(subsystem: &Subsystem, stats: &HeapStats) -> SubsystemReport {
        SubsystemReport {
            name: subsystem.name(),
            max_bytes: subsystem.max_bytes(),
            soft_max_bytes: subsystem.soft_max_bytes(),
            is_isolated: subsystem.is_isolated(),
            live_bytes: stats.live_bytes,
            live_blocks: stats.live_blocks,
            peak_live_bytes: stats.peak_live_bytes,
            held_bytes: stats.held_bytes,
            cached_bytes: stats.cached_bytes + stats.kept_large_bytes,
            denied_by_limit: stats.denied_by_limit,
            denied_by_system: stats.denied_by_system,
            threads: stats.threads,
        }
    }

    /// Returns the requests refused, by whomever.
    pub fn denied(&self) -> u64 {
        self.denied_by_limit + self.denied_by_system
    }

    fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "max_bytes": self.max_bytes,
            "soft_max_bytes": self.soft_max_bytes,
            "is_isolated": self.is_isolated,
            "live_bytes": self.live_bytes,
            "live_blocks": self.live_blocks,
            "peak_live_bytes": self.peak_live_bytes,
            "held_bytes": self.held_bytes,
            "cached_bytes": self.cached_bytes,
            "denied_by_limit": self.denied_by_limit,
            "denied_by_system": self.denied_by_system,
            "threads": self.threads,
        })
    }
}
