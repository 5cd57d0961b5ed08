//! Misuse ends the process with one line that names the fault, the heap and the address.
//!
//! Every case runs in a child process: this test program again, for the test
//! [`child_commits_one_fault`] with the case's name as its scenario. The child prints the address
//! it is going to misuse, so that the report can be compared with it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap::{Fault, FaultKind, Heap, set_fault_handler};

use support::{Child, Ending, Held, Random, assert_disjoint, scaled, scenario};

const CHILD: &str = "child_commits_one_fault";
const HEAP_NAME: &str = "culprit";

/// A size of each tier, and of each way slabs are cut: blocks that share cache lines, blocks that
/// do not, slabs of several chunks, spans, mappings, mappings without a class.
const TIERS: [(&str, usize); 7] = [
    ("line-sharing", 48),
    ("small", 128),
    ("page", 4096),
    ("largest-slab", 32_768),
    ("span", 200_000),
    ("mapping", 3_000_000),
    ("huge", 70_000_000),
];

/// A fault, as children are told to commit it: `kind/tier/cache`.
struct Case {
    name: String,
    size: usize,
    is_cached: bool,
}

impl Case {
    /// Returns the case `what` in every tier, with and without thread caches.
    fn in_every_tier(what: &str) -> Vec<Case> {
        let cached = [("cached", true), ("direct", false)];
        let all = TIERS.iter().flat_map(|tier| cached.iter().map(move |cached| (tier, cached)));
        all.map(|(&(tier, size), &(cache, is_cached))| Case {
            name: format!("{what}/{tier}/{cache}"),
            size,
            is_cached,
        })
        .collect()
    }

    /// Returns the case a child was started for.
    fn parse(name: &str) -> Option<Case> {
        let what = name.split('/').next()?;
        Case::in_every_tier(what).into_iter().find(|case| case.name == name)
    }

    fn what(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Returns a heap without a default on its cache, bound.
    fn heap(&self) -> Heap {
        Heap::builder().name(HEAP_NAME).thread_cache(self.is_cached).build()
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.size, 8).unwrap()
    }
}

/// Runs each case in a child and compares the report with what is `expected`.
fn assert_reported(cases: &[Case], expected: FaultKind) {
    assert!(!cases.is_empty());
    for case in cases {
        let ending = Child::new(CHILD, &case.name).run().unwrap();
        assert_one_line(&case.name, &ending, expected);
    }
}

fn assert_one_line(name: &str, ending: &Ending, expected: FaultKind) {
    assert!(!ending.is_late, "{name} did not end: {ending:#?}");
    assert_eq!(ending.signal, Some(libc::SIGABRT), "{name}: {ending:#?}");
    let lines: Vec<&str> = ending.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{name} wrote {lines:#?}");
    let address = printed_address(ending);
    for part in ["polyheap: ", expected.as_str(), HEAP_NAME, &address] {
        assert!(lines[0].contains(part), "{name} does not say {part:?}: {}", lines[0]);
    }
}

fn printed_address(ending: &Ending) -> String {
    let line = ending.stdout.lines().find_map(|line| line.split_once("address="));
    line.expect("the child printed an address").1.trim().to_string()
}

/// Tells the parent what is going to be misused.
fn announce(address: usize) {
    let mut stdout = io::stdout();
    writeln!(stdout, "\naddress={address:#x}").and_then(|()| stdout.flush()).unwrap();
}

fn address_of(block: NonNull<u8>) -> usize {
    block.as_ptr() as usize
}

fn allocate(heap: &Heap, layout: Layout) -> NonNull<u8> {
    heap.allocate(layout).unwrap().cast()
}

/// Frees, rightly or wrongly.
fn free(heap: &Heap, block: NonNull<u8>, layout: Layout) {
    // SAFETY: where the contract is broken, that is what the test is about: it happens in a child
    // process whose heap reports it and aborts.
    unsafe { heap.deallocate(block, layout) };
}

/// A pointer to hand to another thread.
#[derive(Clone, Copy)]
struct Sent(NonNull<u8>);

// SAFETY: only the address travels; threads free what it points to one after the other.
unsafe impl Send for Sent {}
// SAFETY: as above; nothing is read or written through it.
unsafe impl Sync for Sent {}

impl Sent {
    fn block(self) -> NonNull<u8> {
        self.0
    }
}

/// Brings the blocks that wait in caches of this thread to where they are checked.
fn flush(heap: &Heap) {
    heap.trim();
}

#[test]
fn child_commits_one_fault() {
    let Some(name) = scenario() else { return };
    match name.as_str() {
        "handler" => commit_with_handler(record_fault),
        "panicking-handler" => commit_with_handler(panicking_handler),
        "handler-taken-back" => {
            set_fault_handler(Some(panicking_handler));
            set_fault_handler(None);
            free_twice(&Case::parse("at-once/small/cached").unwrap());
        }
        "many-threads-at-once" => commit_from_many_threads(),
        "unused-heap" => free_into_unused_heap(),
        "overlap" => double_free_large_then_allocate(),
        "mis-sized-within" => mis_size_within_classes(),
        name => commit(&Case::parse(name).expect("a known case")),
    }
}

fn commit(case: &Case) {
    match case.what() {
        "at-once" => free_twice(case),
        "delayed" => free_twice_with_others_between(case),
        "other-thread" => free_twice_from_two_threads(case),
        "thread-exit" => free_twice_and_end_the_thread(case),
        "reused-cache" => free_twice_and_fill_the_caches(case),
        "smaller" => free_with_size(case, case.size / 3),
        "larger" => free_with_size(case, case.size * 3),
        "alignment" => free_with_alignment(case),
        "stack" => free_a_local(case),
        "global" => free_a_block_of_the_global_allocator(case),
        "nowhere" => free_address(case, 0x1230_0000_0000),
        "low" => free_address(case, 4096),
        "high" => free_address(case, usize::MAX - 65_535),
        "other-heap" => free_into_another_heap(case),
        "dropped-heap" => free_a_block_of_a_dropped_heap(case),
        "interior" => free_inside(case, 16),
        "middle" => free_inside(case, (case.size / 2) & !15),
        other => panic!("no fault is called {other}"),
    }
}

fn free_twice(case: &Case) {
    let heap = case.heap();
    let block = allocate(&heap, case.layout());
    announce(address_of(block));
    free(&heap, block, case.layout());
    free(&heap, block, case.layout());
}

fn free_twice_with_others_between(case: &Case) {
    let heap = case.heap();
    let blocks: Vec<NonNull<u8>> = (0..5).map(|_| allocate(&heap, case.layout())).collect();
    announce(address_of(blocks[2]));
    for block in [blocks[2], blocks[0], blocks[4], blocks[2]] {
        free(&heap, block, case.layout());
    }
    flush(&heap);
}

fn free_twice_from_two_threads(case: &Case) {
    let heap = case.heap();
    let block = allocate(&heap, case.layout());
    announce(address_of(block));
    free(&heap, block, case.layout());
    let (sent, layout) = (Sent(block), case.layout());
    thread::scope(|scope| {
        scope.spawn(|| {
            free(&heap, sent.block(), layout);
            flush(&heap);
        });
    });
    flush(&heap);
}

fn free_twice_and_end_the_thread(case: &Case) {
    let heap = case.heap();
    let blocks: Vec<Sent> = (0..40).map(|_| Sent(allocate(&heap, case.layout()))).collect();
    announce(address_of(blocks[0].block()));
    let layout = case.layout();
    thread::scope(|scope| {
        scope.spawn(|| {
            free(&heap, blocks[0].block(), layout);
            blocks.iter().for_each(|sent| free(&heap, sent.block(), layout));
        });
    });
    // What the thread left warm for its successor is flushed by a trim.
    flush(&heap);
}

fn free_twice_and_fill_the_caches(case: &Case) {
    // No trim: enough frees push the second entry out of the magazines by themselves.
    let heap = Heap::builder().name(HEAP_NAME).thread_cache_bytes(0).build();
    let layout = case.layout();
    let count = if case.size > 100_000 { 4 } else { 2_000 };
    let blocks: Vec<NonNull<u8>> = (0..count).map(|_| allocate(&heap, layout)).collect();
    announce(address_of(blocks[0]));
    free(&heap, blocks[0], layout);
    blocks.iter().for_each(|&block| free(&heap, block, layout));
}

fn free_with_size(case: &Case, size: usize) {
    let heap = case.heap();
    let block = allocate(&heap, case.layout());
    announce(address_of(block));
    free(&heap, block, Layout::from_size_align(size, 8).unwrap());
    flush(&heap);
}

fn free_with_alignment(case: &Case) {
    let heap = case.heap();
    let aligned = Layout::from_size_align(case.size + 1, 64 << 20).unwrap();
    let block = allocate(&heap, aligned);
    announce(address_of(block));
    free(&heap, block, Layout::from_size_align(case.size + 1, 8).unwrap());
    flush(&heap);
}

fn free_address(case: &Case, address: usize) {
    let heap = case.heap();
    let used = allocate(&heap, case.layout());
    announce(address);
    let pointer = NonNull::new(core::ptr::without_provenance_mut(address)).unwrap();
    free(&heap, pointer, case.layout());
    flush(&heap);
    free(&heap, used, case.layout());
}

fn free_a_local(case: &Case) {
    let mut local = [0u64; 512];
    free_address(case, (&raw mut local[64]) as usize);
}

fn free_a_block_of_the_global_allocator(case: &Case) {
    let block = vec![0u8; case.size];
    free_address(case, block.as_ptr() as usize);
}

fn free_into_another_heap(case: &Case) {
    let owner = Heap::builder().name("owner").build();
    let block = allocate(&owner, case.layout());
    let heap = case.heap();
    heap.bind().unwrap();
    announce(address_of(block));
    free(&heap, block, case.layout());
    flush(&heap);
}

fn free_a_block_of_a_dropped_heap(case: &Case) {
    let heap = case.heap();
    heap.bind().unwrap();
    let owner = Heap::builder().name("owner").build();
    let block = allocate(&owner, case.layout());
    drop(owner);
    announce(address_of(block));
    free(&heap, block, case.layout());
    flush(&heap);
}

fn free_inside(case: &Case, distance: usize) {
    let heap = case.heap();
    let blocks: Vec<NonNull<u8>> = (0..3).map(|_| allocate(&heap, case.layout())).collect();
    // SAFETY: the distance is inside the block.
    let inside = unsafe { blocks[1].add(distance) };
    announce(address_of(inside));
    free(&heap, inside, case.layout());
    flush(&heap);
}

#[test]
fn a_block_freed_twice_in_a_row_is_reported_at_once() {
    assert_reported(&Case::in_every_tier("at-once"), FaultKind::DoubleFree);
}

#[test]
fn a_block_freed_again_later_is_reported() {
    assert_reported(&Case::in_every_tier("delayed"), FaultKind::DoubleFree);
}

#[test]
fn a_block_freed_again_by_another_thread_is_reported() {
    assert_reported(&Case::in_every_tier("other-thread"), FaultKind::DoubleFree);
}

#[test]
fn a_double_free_of_a_thread_that_ended_is_reported() {
    assert_reported(&Case::in_every_tier("thread-exit"), FaultKind::DoubleFree);
}

#[test]
fn a_double_free_is_reported_when_magazines_overflow() {
    let cases = Case::in_every_tier("reused-cache");
    assert_reported(&without(cases, "direct"), FaultKind::DoubleFree);
}

fn without(cases: Vec<Case>, part: &str) -> Vec<Case> {
    cases.into_iter().filter(|case| !case.name.contains(part)).collect()
}

#[test]
fn a_layout_of_another_class_is_reported() {
    assert_reported(&Case::in_every_tier("smaller"), FaultKind::WrongLayout);
    assert_reported(&Case::in_every_tier("larger"), FaultKind::WrongLayout);
    // An alignment that names another class is a wrong layout too.
    assert_reported(&Case::in_every_tier("alignment"), FaultKind::WrongLayout);
}

#[test]
fn a_pointer_no_heap_handed_out_is_reported() {
    for what in ["stack", "global", "nowhere", "low", "high"] {
        assert_reported(&Case::in_every_tier(what), FaultKind::ForeignBlock);
    }
}

#[test]
fn a_block_of_another_heap_is_reported() {
    assert_reported(&Case::in_every_tier("other-heap"), FaultKind::WrongHeap);
}

#[test]
fn a_block_of_a_dropped_heap_is_reported() {
    assert_reported(&Case::in_every_tier("dropped-heap"), FaultKind::ForeignBlock);
}

#[test]
fn a_pointer_into_a_block_is_reported() {
    assert_reported(&Case::in_every_tier("interior"), FaultKind::InteriorPointer);
    // Half-way into a block of several chunks it is another chunk that is looked at.
    assert_reported(&Case::in_every_tier("middle"), FaultKind::InteriorPointer);
}

#[test]
fn a_free_into_a_heap_that_was_never_used_is_reported() {
    let ending = Child::new(CHILD, "unused-heap").run().unwrap();
    assert_one_line("unused-heap", &ending, FaultKind::ForeignBlock);
}

fn free_into_unused_heap() {
    let heap = Heap::builder().name(HEAP_NAME).build();
    let mut local = 0u64;
    announce((&raw mut local) as usize);
    free(&heap, NonNull::from(&mut local).cast(), Layout::new::<u64>());
}

static HANDLER_CALLS: AtomicUsize = AtomicUsize::new(0);

fn record_fault(fault: &Fault<'_>) {
    let calls = HANDLER_CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    eprintln!("{calls} {:?} {} {:#x} | {fault}", fault.kind(), fault.heap_name(), fault.address());
}

fn panicking_handler(_: &Fault<'_>) {
    panic!("the handler gives up");
}

fn commit_with_handler(handler: polyheap::FaultHandler) {
    set_fault_handler(Some(handler));
    let case = Case::parse("delayed/line-sharing/cached").unwrap();
    free_twice_with_others_between(&case);
}

#[test]
fn the_handler_is_called_once_with_the_facts_and_the_process_aborts() {
    let ending = Child::new(CHILD, "handler").run().unwrap();
    assert_eq!(ending.signal, Some(libc::SIGABRT), "{ending:#?}");
    let expected = format!("1 DoubleFree {HEAP_NAME} {} | ", printed_address(&ending));
    assert!(ending.stderr.starts_with(&expected), "{ending:#?}");
    assert_eq!(ending.stderr.lines().count(), 1, "{ending:#?}");
}

#[test]
fn a_handler_that_panics_does_not_keep_the_process_alive() {
    let ending = Child::new(CHILD, "panicking-handler").run().unwrap();
    assert_eq!(ending.signal, Some(libc::SIGABRT), "{ending:#?}");
    assert!(ending.stderr.contains("the handler gives up"), "{ending:#?}");
    assert!(!ending.stdout.contains("test result"), "it unwound out of a free: {ending:#?}");
}

#[test]
fn the_default_report_comes_back_when_the_handler_is_taken_back() {
    let ending = Child::new(CHILD, "handler-taken-back").run().unwrap();
    assert_one_line("handler-taken-back", &ending, FaultKind::DoubleFree);
}

fn commit_from_many_threads() {
    let heap = Heap::builder().name(HEAP_NAME).thread_cache(false).build();
    let layout = Layout::from_size_align(64, 8).unwrap();
    let block = Sent(allocate(&heap, layout));
    let _others: Vec<NonNull<u8>> = (0..10).map(|_| allocate(&heap, layout)).collect();
    announce(address_of(block.block()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| free(&heap, block.block(), layout));
        }
    });
}

#[test]
fn threads_that_free_one_block_at_the_same_time_are_reported_in_whole_lines() {
    let ending = Child::new(CHILD, "many-threads-at-once").run().unwrap();
    assert_eq!(ending.signal, Some(libc::SIGABRT), "{ending:#?}");
    let address = printed_address(&ending);
    for line in ending.stderr.lines() {
        let is_whole = line.starts_with("polyheap: double free") && line.contains(&address);
        assert!(is_whole, "{ending:#?}");
    }
    assert!(!ending.stderr.is_empty());
}

/// Three large blocks, the last freed twice, a slightly larger request: whatever happens, no two
/// live blocks may overlap. In every tier, and whether or not caches are flushed in between.
fn double_free_large_then_allocate() {
    let sizes = [620_000, 655_000, 786_000, 790_000];
    let heap = Heap::builder().name(HEAP_NAME).build();
    let layout = |size| Layout::from_size_align(size, 16).unwrap();
    let live: Vec<Held> =
        (0..2).map(|id| Held::new(&&heap, layout(sizes[id]), id as u64).unwrap()).collect();
    let third = allocate(&heap, layout(sizes[2]));
    announce(address_of(third));
    free(&heap, third, layout(sizes[2]));
    free(&heap, third, layout(sizes[2]));
    let fourth = Held::new(&&heap, layout(sizes[3]), 4).unwrap();
    assert_disjoint(live.iter().chain([&fourth]).map(Held::region));
}

#[test]
fn a_double_free_of_a_large_block_never_makes_blocks_overlap() {
    let ending = Child::new(CHILD, "overlap").run().unwrap();
    assert_one_line("overlap", &ending, FaultKind::DoubleFree);
}

/// Sizes that are wrong but of the right class do no harm: the class is what a free goes by.
fn mis_size_within_classes() {
    let mut random = Random::for_test("mis_size_within_classes");
    let heap = Heap::builder().name(HEAP_NAME).build();
    let mut live: Vec<Held> = Vec::new();
    for id in 0..scaled(100_000) {
        let size = random.size(300_000);
        live.push(Held::new(&&heap, Layout::from_size_align(size, 1).unwrap(), id as u64).unwrap());
        if live.len() > 100 {
            let held = live.swap_remove(random.below(live.len()));
            let slack = held.usable - held.layout.size();
            let length = held.layout.size() + random.below(slack + 1);
            held.free_as(&&heap, length);
        }
    }
    live.into_iter().for_each(|held| held.free(&&heap));
    flush(&heap);
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn sizes_that_are_wrong_within_the_class_do_no_harm() {
    let ending = Child::new(CHILD, "mis-sized-within").run().unwrap();
    ending.assert_success();
}

#[test]
fn a_report_arrives_soon() {
    // A fault must not hang: from start to end of the process within the limit.
    let ending = Child::new(CHILD, "at-once/small/cached").limit(Duration::from_secs(10)).run();
    assert_one_line("at-once", &ending.unwrap(), FaultKind::DoubleFree);
}
