//! Declaring subsystems, and the registry that lists them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use polyheap_subsystem::polyheap::HeapBuilder;
use polyheap_subsystem::polyheap::allocator_api2::alloc::Allocator;
use polyheap_subsystem::{
    Decay, Heap, HugePages, Subsystem, SubsystemBuilder, Vec, registry, subsystem,
};

/// The system's allocator, which counts the calling thread's requests.
struct Counted;

thread_local! {
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is the system allocator's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        REQUESTS.set(REQUESTS.get() + 1);
        // SAFETY: the trait's contract is this function's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the trait's contract is this function's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counted = Counted;

mod parts {
    polyheap_subsystem::subsystem! {
        /// Declared in a module, with everything there is to set.
        #[allow(dead_code, reason = "only the registry names it")]
        pub(crate) static EVERYTHING: "everything", max = 64 << 20, soft_max = 32 << 20, isolated,
            thread_cache = true, thread_cache_bytes = 4096, thread_large_bytes = 1 << 20,
            heap_large_bytes = 1 << 20, decay = super::Decay::Eager,
            huge_pages = super::HugePages::Never,;
        static BARE: "bare";
    }

    pub(crate) fn bare() -> &'static super::Subsystem {
        &BARE
    }
}

subsystem! {
    static LAST: "without a semicolon", max = 1 << 20
}

const SOFT: usize = 3 << 20;

subsystem! {
    static PLAIN: "plain";
    /// With all there is to a declaration.
    #[allow(dead_code, reason = "only the registry names it")]
    pub(crate) static UNITS: "units", isolated, max = 64 MiB, soft_max = SOFT, decay = Decay::Eager,
        thread_cache_bytes = 16 KiB, ;
    static HUGE: "huge", max = 0x2 GiB;
    static MEANT: "meant", thread_cache = false, soft_max = 10_000 KiB
}

#[test]
fn declared_subsystems_are_listed_before_their_first_use() {
    let everything = registry().get("everything").unwrap();
    assert_eq!(everything.max_bytes(), Some(64 << 20));
    assert_eq!(everything.soft_max_bytes(), Some(32 << 20));
    assert!(everything.is_isolated());
    let bare = registry().get("bare").unwrap();
    assert!(std::ptr::eq(bare, parts::bare()));
    assert_eq!((bare.max_bytes(), bare.soft_max_bytes(), bare.is_isolated()), (None, None, false));
    assert_eq!(registry().get("without a semicolon").unwrap().max_bytes(), LAST.max_bytes());
    assert!(registry().get("absent").is_none() && !registry().is_empty());
}

#[test]
fn bytes_may_have_units() {
    let limits = [
        (&UNITS, Some(64 << 20), Some(SOFT)),
        (&HUGE, Some(2 << 30), None),
        (&MEANT, None, Some(10_000 << 10)),
        (&PLAIN, None, None),
    ];
    for (subsystem, max_bytes, soft_max_bytes) in limits {
        assert_eq!(subsystem.max_bytes(), max_bytes, "{}", subsystem.name());
        assert_eq!(subsystem.soft_max_bytes(), soft_max_bytes, "{}", subsystem.name());
        assert!(registry().get(subsystem.name()).is_some());
    }
    assert!(UNITS.is_isolated() && !MEANT.is_isolated());
}

/// Fails unless a subsystem's heap has the option that the heap's own builder sets.
fn assert_reaches_the_heap(subsystem: &SubsystemBuilder, heap: &HeapBuilder) {
    // No getters: what a builder has is in what it shows for debugging.
    let [shown, meant] = [format!("{subsystem:?}"), format!("{heap:?}")];
    assert!(shown.contains(&meant), "{shown}\n{meant}");
    assert_ne!(meant, format!("{:?}", Heap::builder().name("all")), "the option is the default");
}

#[test]
fn options_are_those_of_the_heap() {
    let (subsystem, heap) = (|| Subsystem::builder("all"), || Heap::builder().name("all"));
    let assert = assert_reaches_the_heap;
    assert(&subsystem().max_bytes(1 << 20), &heap().max_bytes(1 << 20));
    assert(&subsystem().soft_max_bytes(1 << 20), &heap().soft_max_bytes(1 << 20));
    assert(&subsystem().isolated(true), &heap().isolated(true));
    assert(&subsystem().thread_cache(false), &heap().thread_cache(false));
    assert(&subsystem().thread_cache_bytes(4096), &heap().thread_cache_bytes(4096));
    assert(&subsystem().thread_large_bytes(4096), &heap().thread_large_bytes(4096));
    assert(&subsystem().heap_large_bytes(4096), &heap().heap_large_bytes(4096));
    assert(&subsystem().decay(Decay::Eager), &heap().decay(Decay::Eager));
    assert(&subsystem().huge_pages(HugePages::Never), &heap().huge_pages(HugePages::Never));
}

#[test]
fn each_is_listed_once_and_its_place_stays() {
    static LATE: Subsystem = Subsystem::builder("late").build();
    let before: std::vec::Vec<_> = registry().iter().map(Subsystem::name).collect();
    assert!(!before.contains(&"late"));
    for _ in 0..3 {
        LATE.register();
        parts::bare().register();
    }
    let after: std::vec::Vec<_> = registry().iter().map(Subsystem::name).collect();
    // Other tests may have entered theirs meanwhile, behind those that were there.
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.iter().filter(|&&name| name == "late").count(), 1);
    assert_eq!(after.iter().filter(|&&name| name == "bare").count(), 1);
}

#[test]
fn what_takes_a_subsystem_for_good_enters_it() {
    static BY_VEC: Subsystem = Subsystem::builder("by vec").build();
    static BY_ENTER: Subsystem = Subsystem::builder("by enter").build();
    static BY_CHECK: Subsystem = Subsystem::builder("by check").build();
    static BY_CALLBACK: Subsystem = Subsystem::builder("by callback").build();
    drop(BY_VEC.vec::<u8>());
    polyheap_subsystem::enter(&BY_ENTER, || ());
    BY_CHECK.check();
    BY_CALLBACK.on_soft_limit(|_| ());
    for name in ["by vec", "by enter", "by check", "by callback"] {
        assert!(registry().get(name).is_some(), "{name}");
    }
}

#[test]
fn entering_from_many_threads_loses_none() {
    const THREADS: usize = 8;
    const EACH: usize = 50;
    let names = |thread: usize| (0..EACH).map(move |part| format!("{thread}/{part}"));
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let start = &start;
            scope.spawn(move || {
                let made: std::vec::Vec<&'static Subsystem> = names(thread)
                    .map(|name| &*Box::leak(Box::new(Subsystem::builder(name.leak()).build())))
                    .collect();
                start.wait();
                made.iter().for_each(|subsystem| subsystem.register());
            });
        }
    });
    let listed: std::vec::Vec<_> = registry().iter().map(Subsystem::name).collect();
    for name in (0..THREADS).flat_map(names) {
        assert_eq!(listed.iter().filter(|&&other| other == name).count(), 1, "{name}");
    }
}

#[test]
fn one_entered_by_two_threads_at_once_is_listed_once() {
    const ROUNDS: usize = 1_000;
    let shared: std::vec::Vec<Subsystem> =
        (0..ROUNDS).map(|_| Subsystem::builder("at once").build()).collect();
    let shared: &'static [Subsystem] = shared.leak();
    // Each waits in a loop for the other, so that both come within a few nanoseconds.
    let arrived = AtomicUsize::new(0);
    let enter_all = || {
        for (round, subsystem) in shared.iter().enumerate() {
            arrived.fetch_add(1, Ordering::Relaxed);
            let mut turns = 0;
            while arrived.load(Ordering::Relaxed) < 2 * (round + 1) {
                turns += 1;
                if turns % 5_000 == 0 { thread::yield_now() } else { spin_loop() }
            }
            subsystem.register();
        }
    };
    thread::scope(|scope| {
        scope.spawn(enter_all);
        enter_all();
    });
    // Entered twice, one would be its own successor, and the list without an end.
    let listed = registry().iter().take(10 * ROUNDS).filter(|other| other.name() == "at once");
    assert_eq!(listed.count(), ROUNDS);
}

#[test]
fn registry_and_allocations_ask_the_global_allocator_for_nothing() {
    static QUIET: Subsystem = Subsystem::builder("quiet").soft_max_bytes(1 << 30).build();
    let before = REQUESTS.get();
    QUIET.register();
    assert!(registry().get("quiet").is_some());
    let mut list = Vec::new_in(&QUIET);
    list.resize(1 << 20, 0u8);
    assert!(QUIET.check().is_none() && QUIET.leaks().blocks == 1);
    drop(list);
    assert_eq!(REQUESTS.get(), before);
    drop(Box::new(1));
    assert_eq!(REQUESTS.get(), before + 1, "the counter counts");
}

#[test]
fn a_subsystem_is_its_heap() {
    static NAME: &str = "a name that is longer than the thirty-two bytes a heap keeps of it";
    static WHOLE: Subsystem = Subsystem::builder(NAME).build();
    let heap: &Heap = &WHOLE;
    assert!(std::ptr::eq(heap, WHOLE.heap()));
    assert_eq!(WHOLE.name(), NAME);
    assert!(heap.name().len() == 32 && NAME.starts_with(heap.name()));
    // What is allocated through the one is freed through the other.
    let layout = Layout::from_size_align(100, 8).unwrap();
    let block = WHOLE.allocate(layout).unwrap().cast();
    assert!(heap.owns(block) && heap.stats().live_blocks == 1);
    // SAFETY: (1) allocated from this heap just now (2) with this layout.
    unsafe { heap.deallocate(block, layout) };
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn containers_live_in_their_subsystem() {
    static HOME: Subsystem = Subsystem::builder("home").build();
    let mut words = HOME.map();
    let mut seen = HOME.set();
    for number in 0..1000u32 {
        let mut word = HOME.string();
        word.push_str(&number.to_string());
        words.insert(word, HOME.boxed(number));
        seen.insert(number);
    }
    assert_eq!(**words.get("77").unwrap(), 77);
    assert!(seen.contains(&999) && seen.allocator().name() == "home");
    assert_eq!(HOME.vec_from([1, 2, 3]).allocator().name(), "home");
    // A thousand words, a thousand boxes, and the two tables.
    assert_eq!(HOME.stats().live_blocks, 2002);
    drop((words, seen));
    assert!(HOME.leaks().is_clean());
}
