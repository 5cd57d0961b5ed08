//! What happens to one subsystem stays there: exhaustion, leaks, and misuse of its blocks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::env;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::process::{Command, Output};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use polyheap_subsystem::polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap_subsystem::polyheap::{
    Fault, FaultKind, HeapStats, heaps, process_stats, set_fault_handler, trim_all,
};
use polyheap_subsystem::{Box, Subsystem, Vec, subsystem};

const MIB: usize = 1 << 20;

/// Subsystem whose name a child is to misuse a block of.
const SCENARIO: &str = "POLYHEAP_TEST_SUBSYSTEM";

subsystem! {
    static WRONGED: "wronged", max = 8 << 20;
    static OTHER: "other", max = 16 << 20, soft_max = 12 << 20;
    static APART: "apart", max = 16 << 20, isolated;
}

/// Blocks of every kind with a pattern, and what their subsystem looked like with them.
struct Witness {
    subsystem: &'static Subsystem,
    small: Vec<Box<[usize; 6]>>,
    span: Vec<u8>,
    mapping: Vec<u8>,
    stats: HeapStats,
    limits: [Option<usize>; 2],
}

impl Witness {
    fn new(subsystem: &'static Subsystem) -> Witness {
        // Other tests have left cached memory behind.
        subsystem.trim();
        let mut small = subsystem.vec();
        small.extend((0..1000).map(|number| subsystem.boxed([number; 6])));
        let bytes = |count: usize| {
            let mut list = subsystem.vec();
            list.extend((0..count).map(|place| place as u8));
            list
        };
        let (span, mapping) = (bytes(100_000), bytes(3 * MIB));
        let limits = [subsystem.max_bytes(), subsystem.soft_max_bytes()];
        Witness { subsystem, small, span, mapping, stats: subsystem.stats(), limits }
    }

    /// Returns whether blocks, limits and statistics are as they were. Allocates nothing.
    fn is_unharmed(&self) -> bool {
        let stats = self.subsystem.stats();
        let figures = |stats: &HeapStats| {
            [
                stats.live_bytes,
                stats.live_blocks,
                stats.peak_live_bytes,
                stats.held_bytes,
                stats.cached_bytes,
                stats.regions,
                stats.mappings,
                stats.denied_by_limit as usize,
                stats.denied_by_system as usize,
            ]
        };
        let is_counted =
            |bytes: &Vec<u8>| bytes.iter().enumerate().all(|(place, &byte)| byte == place as u8);
        figures(&stats) == figures(&self.stats)
            && stats.classes == self.stats.classes
            && [self.subsystem.max_bytes(), self.subsystem.soft_max_bytes()] == self.limits
            && self.small.iter().enumerate().all(|(number, block)| **block == [number; 6])
            && is_counted(&self.span)
            && is_counted(&self.mapping)
    }

    /// Fails unless everything is as it was and the subsystem still serves up to its limit.
    fn assert_unharmed(&self) {
        assert!(self.is_unharmed(), "{}\nwas {}", self.subsystem.stats(), self.stats);
        let room = self.limits[0].unwrap() - self.stats.held_bytes - MIB;
        let mut rest = self.subsystem.vec::<u8>();
        rest.try_reserve_exact(room).unwrap();
        assert!(rest.try_reserve_exact(self.limits[0].unwrap()).is_err());
    }
}

/// One test at a time: each compares statistics of the same subsystems.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn exhaustion_of_one_leaves_the_others_as_they_were() {
    let _alone = alone();
    let witnesses = [&OTHER, &APART].map(Witness::new);
    let layouts =
        [16, 600, 30_000, 200_000, 3 * MIB].map(|size| Layout::from_size_align(size, 8).unwrap());
    let mut taken = std::vec::Vec::new();
    for layout in layouts {
        while let Ok(block) = WRONGED.allocate(layout) {
            taken.push((block.cast::<u8>(), layout));
        }
    }
    assert!(WRONGED.stats().denied_by_limit >= 5 && WRONGED.stats().held_bytes <= 8 * MIB);
    witnesses.iter().for_each(Witness::assert_unharmed);
    for (block, layout) in taken {
        // SAFETY: (1) allocated above and not freed since (2) with this layout.
        unsafe { WRONGED.deallocate(block, layout) };
    }
    assert!(WRONGED.leaks().is_clean());
}

#[test]
fn a_leak_in_one_leaves_the_others_as_they_were() {
    let _alone = alone();
    let witnesses = [&OTHER, &APART].map(Witness::new);
    let mut leaked = std::vec::Vec::new();
    for number in 0..10_000u64 {
        leaked.push(Box::into_raw(WRONGED.boxed([number; 10])));
    }
    let leaks = WRONGED.leaks();
    assert_eq!((leaks.blocks, leaks.bytes), (10_000, 10_000 * 80), "{leaks}");
    assert!(
        witnesses
            .iter()
            .all(|witness| { witness.subsystem.leaks().blocks == witness.stats.live_blocks })
    );
    witnesses.iter().for_each(Witness::assert_unharmed);
    for block in leaked {
        // SAFETY: the box was taken apart above, in this subsystem.
        drop(unsafe { Box::from_raw_in(block, &WRONGED) });
    }
    assert!(WRONGED.leaks().is_clean());
}

#[test]
fn limits_and_trims_of_one_leave_the_others_as_they_were() {
    let _alone = alone();
    let witnesses = [&OTHER, &APART].map(Witness::new);
    drop(WRONGED.vec_from([1u8; 100_000]));
    WRONGED.set_limit(NonZeroUsize::new(64 * 1024)).unwrap();
    WRONGED.set_soft_limit(NonZeroUsize::new(1)).unwrap();
    WRONGED.check();
    WRONGED.trim();
    witnesses.iter().for_each(Witness::assert_unharmed);
    WRONGED.set_limit(NonZeroUsize::new(8 * MIB)).unwrap();
    WRONGED.set_soft_limit(None).unwrap();
}

/// In a child: what the fault handler looks at.
static WITNESS: OnceLock<[Witness; 2]> = OnceLock::new();

/// Runs in the child when the heap has noticed; the process aborts when it returns.
fn look_at_the_others(fault: &Fault<'_>) {
    let is_right = fault.kind() == FaultKind::DoubleFree && fault.heap_name() == WRONGED.name();
    let is_unharmed = WITNESS.get().is_some_and(|all| all.iter().all(Witness::is_unharmed));
    let verdict: &[u8] = match (is_right, is_unharmed) {
        (true, true) => b"others unharmed\n",
        (true, false) => b"others harmed\n",
        (false, _) => b"another fault\n",
    };
    let _ = std::io::stderr().write_all(verdict);
}

fn run_child(scenario: &str) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "child_frees_twice", "--nocapture"])
        .env(SCENARIO, scenario)
        .output()
        .unwrap()
}

#[test]
fn child_frees_twice() {
    let Ok(scenario) = env::var(SCENARIO) else { return };
    let size = scenario.parse().unwrap();
    let witnesses = [&OTHER, &APART].map(Witness::new);
    assert!(WITNESS.set(witnesses).is_ok());
    set_fault_handler(Some(look_at_the_others));
    let layout = Layout::from_size_align(size, 8).unwrap();
    let block: NonNull<u8> = WRONGED.allocate(layout).unwrap().cast();
    // SAFETY: (1) allocated just now (2) with this layout.
    unsafe { WRONGED.deallocate(block, layout) };
    // SAFETY: none; freeing twice is what the test is about, in a process that the heap aborts.
    unsafe { WRONGED.deallocate(block, layout) };
    // Where the repeat is not noticed at once, it is when the thread's cache is given back.
    WRONGED.trim();
}

#[test]
#[cfg(unix)]
fn a_double_free_in_one_leaves_the_others_as_they_were() {
    use std::os::unix::process::ExitStatusExt;
    for size in ["48", "2000", "20000", "100000", "3000000"] {
        let ending = run_child(size);
        let stderr = String::from_utf8_lossy(&ending.stderr);
        assert_eq!(ending.status.signal(), Some(libc::SIGABRT), "{size}: {stderr}");
        assert_eq!(stderr, "others unharmed\n", "{size}");
    }
}

/// Returns what the process keeps of heaps for other heaps: regions and bytes.
fn kept() -> usize {
    let kept = process_stats();
    kept.warm_region_bytes + kept.mapping_bytes + kept.cold_regions
}

/// Allocates from a subsystem until it has a second region and a mapping, and frees everything;
/// returns what the process keeps for other heaps before, meanwhile and after.
fn kept_around(subsystem: &'static Subsystem) -> [usize; 3] {
    trim_all();
    // A warm region with its contents, for whoever may have it.
    drop(polyheap_subsystem::Heap::new().vec_from([7u8; 60_000]));
    let before = kept();
    let mut lists = std::vec::Vec::new();
    for bytes in [MIB, MIB, MIB, MIB, MIB, 3 * MIB] {
        let mut list = subsystem.vec();
        list.resize(bytes, 1u8);
        lists.push(list);
    }
    assert!(subsystem.stats().regions >= 2 && subsystem.stats().mappings >= 1);
    let meanwhile = kept();
    drop(lists);
    [before, meanwhile, kept()]
}

#[test]
fn memory_of_an_isolated_subsystem_was_and_will_be_nobody_elses() {
    let _alone = alone();
    subsystem! {
        // Without stores of their own, freed mappings leave them at once.
        static SHARING: "sharing", thread_large_bytes = 0, heap_large_bytes = 0;
        static ISOLATED: "isolated", thread_large_bytes = 0, heap_large_bytes = 0, isolated;
    }
    assert!(ISOLATED.is_isolated() && !SHARING.is_isolated());
    let [before, meanwhile, after] = kept_around(&SHARING);
    assert!(before > meanwhile && meanwhile < after, "{before} {meanwhile} {after}");
    let [before, meanwhile, after] = kept_around(&ISOLATED);
    assert_eq!((before, before), (meanwhile, after));
    assert!(heaps().any(|heap| heap.name() == "isolated"));
}
