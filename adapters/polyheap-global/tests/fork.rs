//! Fork from one thread while others are anywhere inside the heaps: the child can do everything.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use polyheap_global::polyheap::trim_all;
use polyheap_global::{Decay, Heap, RedirectingGlobalHeap};

#[global_allocator]
static GLOBAL: RedirectingGlobalHeap =
    RedirectingGlobalHeap::from_builder(Heap::builder().name("global").decay(Decay::Eager));

/// One size in every tier, in bytes.
const SIZES: [usize; 9] = [1, 16, 100, 1_000, 10_000, 32_768, 70_000, 300_000, 2_500_000];
/// Seconds after which the alarm ends a child.
const CHILD_SECONDS: u32 = 10;
/// Forks under load; fewer where they are slow.
const FORKS: usize = if cfg!(debug_assertions) { 50 } else { 200 };
/// Exit code of a child that did all of its script.
const WELL: c_int = 7;

/// Runs `script` in a forked child and returns how it ended, as `waitpid` tells.
fn fork_and_wait(script: impl FnOnce()) -> c_int {
    // SAFETY: the child does what the script says and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the system grants no process");
    if child == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::alarm(CHILD_SECONDS) };
        script();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(WELL) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for a write.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

fn assert_well(status: c_int, round: usize) {
    let is_well = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == WELL;
    assert!(is_well, "child {round} ended with status {status:#x}");
}

/// Allocates, resizes and frees in all tiers of the program's heap.
fn use_all_tiers() {
    for size in SIZES {
        let mut blocks: Vec<Vec<u8>> = (0..2).map(|_| vec![size as u8; size]).collect();
        for block in &mut blocks {
            block.resize(size + size / 2 + 1, 1);
            assert!(block[..size].iter().step_by(4_093).all(|&byte| byte == size as u8));
        }
        assert!(black_box(vec![0u8; size]).iter().step_by(4_093).all(|&byte| byte == 0));
    }
}

/// Uses a heap of its own and one that is dropped.
fn use_heaps() {
    let heap = Heap::new();
    for size in SIZES {
        let mut bytes = heap.vec();
        bytes.resize(size, 3u8);
        assert_eq!(bytes[size - 1], 3);
    }
    assert_eq!(heap.stats().live_blocks, 0);
}

/// Does what a thread may be stopped in: all tiers, frees of other threads' blocks, heaps that come
/// and go, threads that leave, trims, sweeps.
fn churn(shared: &Heap, rounds: &AtomicUsize, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
        thread::scope(|scope| {
            scope.spawn(move || receiver.into_iter().for_each(drop));
            for number in 0..200 {
                let _ = sender.send(vec![1; SIZES[number % 7]]);
                let mut bytes = shared.vec();
                bytes.resize(SIZES[number % SIZES.len()] / 8 + 1, 1u8);
            }
            drop(sender);
            scope.spawn(|| drop(shared.boxed([0u8; 100])));
        });
        drop(Heap::new().boxed(1));
        black_box(shared.stats());
        trim_all();
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn children_of_a_busy_process_can_do_everything() {
    let mut shared = Heap::builder().name("shared").decay(Decay::Eager).build();
    let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| churn(&shared, &rounds, &is_over));
        }
        for round in 0..FORKS {
            let script = || {
                use_all_tiers();
                use_heaps();
                // SAFETY: nobody else is in this process, and this one ends without dropping it.
                let mut mine = unsafe { std::ptr::read(&raw const shared) };
                // Both wait for whoever is inside.
                mine.visit_blocks(|_| ());
                drop(mine);
                thread::spawn(use_all_tiers).join().unwrap();
                assert!(GLOBAL.stats().live_blocks != 0);
                GLOBAL.trim();
                if round % 4 == 0 {
                    // SAFETY: ends the child by way of its exit handlers.
                    unsafe { libc::exit(WELL) };
                }
            };
            assert_well(fork_and_wait(script), round);
            use_all_tiers();
        }
        let before = rounds.load(Ordering::Relaxed);
        while rounds.load(Ordering::Relaxed) < before + 3 {
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(shared.verify(), Ok(()));
}

#[test]
fn child_of_a_redirected_thread_is_redirected_too() {
    static TARGET: Heap = Heap::builder().name("target").build();
    GLOBAL.with_heap(&TARGET, || {
        let from_parent = "made by the parent".repeat(100);
        let status = fork_and_wait(|| {
            let blocks = TARGET.stats().live_blocks;
            let kept = black_box(vec![1u8; 500]);
            assert_eq!(TARGET.stats().live_blocks, blocks + 1);
            drop(kept);
            drop(from_parent.clone());
            use_all_tiers();
        });
        assert_well(status, 0);
        assert!(from_parent.starts_with("made"));
    });
}

#[test]
fn grandchildren_work_and_gone_threads_caches_come_back() {
    let layout = Layout::from_size_align(1_000, 8).unwrap();
    let heap: &'static Heap = Box::leak(Box::default());
    let (is_warm, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            drop((0..500).map(|_| heap.boxed([1u8; 1_000])).collect::<Vec<_>>());
            is_warm.store(true, Ordering::Release);
            while !is_over.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        while !is_warm.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert!(heap.stats().cached_bytes >= 8_000, "the other thread caches nothing");
        let status = fork_and_wait(|| {
            let stats = heap.stats();
            assert!(stats.cached_bytes == 0 && stats.threads == 0, "{stats}");
            assert_well(fork_and_wait(use_all_tiers), 1);
            // SAFETY: the layout has a size.
            assert!(!unsafe { GLOBAL.alloc(layout) }.is_null());
        });
        is_over.store(true, Ordering::Release);
        assert_well(status, 0);
    });
}

/// Registrations of fork handlers by anyone in this process.
static REGISTRATIONS: AtomicUsize = AtomicUsize::new(0);

/// Stands before the C library's own, to which the linker would bind `pthread_atfork` otherwise.
#[cfg(target_env = "gnu")]
#[unsafe(no_mangle)]
extern "C" fn __register_atfork(
    prepare: *mut libc::c_void,
    parent: *mut libc::c_void,
    child: *mut libc::c_void,
    library: *mut libc::c_void,
) -> c_int {
    type Register = extern "C" fn(
        *mut libc::c_void,
        *mut libc::c_void,
        *mut libc::c_void,
        *mut libc::c_void,
    ) -> c_int;
    REGISTRATIONS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the name ends with a zero byte.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__register_atfork".as_ptr()) };
    // SAFETY: the C library's function has this signature.
    let next = unsafe { std::mem::transmute::<*mut libc::c_void, Register>(next) };
    next(prepare, parent, child, library)
}

#[cfg(target_env = "gnu")]
#[test]
fn one_handler_serves_the_process() {
    assert_eq!(REGISTRATIONS.load(Ordering::Relaxed), 1);
    for _ in 0..2_000 {
        drop(Heap::new().boxed(1));
    }
    let others = [RedirectingGlobalHeap::new(), RedirectingGlobalHeap::new()];
    assert_eq!(others.len(), 2);
    assert_eq!(REGISTRATIONS.load(Ordering::Relaxed), 1);
}
