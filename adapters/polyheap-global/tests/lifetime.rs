//! The global heap from before `main` to after it, and from a thread's first act to its last.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../tests/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use polyheap_global::GlobalHeap;
use support::{Child, SIZES, scaled, scenario};

#[global_allocator]
static GLOBAL: Counted = Counted { heap: GlobalHeap::new() };

/// Counts how deep calls nest: the heap may never need the global allocator itself.
struct Counted {
    heap: GlobalHeap,
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

static DEEPEST: AtomicU32 = AtomicU32::new(0);

fn counted<R>(call: impl FnOnce() -> R) -> R {
    let depth = DEPTH.get() + 1;
    DEPTH.set(depth);
    DEEPEST.fetch_max(depth, Ordering::Relaxed);
    let result = call();
    DEPTH.set(depth - 1);
    result
}

// SAFETY: the inner allocator keeps the contract; the counter allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        counted(|| unsafe { self.heap.alloc(layout) })
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        counted(|| unsafe { self.heap.alloc_zeroed(layout) })
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        counted(|| unsafe { self.heap.dealloc(block, layout) });
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        counted(|| unsafe { self.heap.realloc(block, layout, size) })
    }
}

fn assert_shallow() {
    assert_eq!(DEEPEST.load(Ordering::Relaxed), 1);
}

/// What the constructor below allocated.
static BEFORE_MAIN: AtomicPtr<Vec<String>> = AtomicPtr::new(ptr::null_mut());

extern "C" fn before_main() {
    let words: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    BEFORE_MAIN.store(Box::into_raw(Box::new(words)), Ordering::Release);
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
static CONSTRUCTOR: extern "C" fn() = before_main;

#[cfg(target_os = "linux")]
#[test]
fn blocks_from_before_main_are_freed_in_it() {
    let words = BEFORE_MAIN.swap(ptr::null_mut(), Ordering::Acquire);
    // SAFETY: made by the constructor, and taken once.
    let words = unsafe { Box::from_raw(words) };
    assert!(words.len() == 100 && words[99] == "99");
}

#[test]
fn every_size_and_alignment_works_through_the_face() {
    for size in SIZES {
        for align in [1, 16, 64, 4_096, 65_536, 1 << 21] {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: the layout has a size.
            let block = unsafe { GLOBAL.alloc_zeroed(layout) };
            assert_eq!(block.addr() % align, 0, "{layout:?}");
            // SAFETY: the block is live and zeroed.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
            assert!(bytes.iter().step_by(509).chain(bytes.last()).all(|&byte| byte == 0));
            (bytes[0], bytes[size - 1]) = (7, 7);
            // SAFETY: the block is live and fits.
            let block = unsafe { GLOBAL.realloc(block, layout, size * 2) };
            // SAFETY: the block is live, and its first half was written.
            let kept = unsafe { std::slice::from_raw_parts(block, size) };
            let is_kept = kept[0] == 7 && kept[size - 1] == 7;
            assert!(block.addr() % align == 0 && is_kept, "{layout:?}");
            let grown = Layout::from_size_align(size * 2, align).unwrap();
            // SAFETY: the block is live and fits.
            unsafe { GLOBAL.dealloc(block, grown) };
        }
    }
    let nothing = Layout::from_size_align(0, 4_096).unwrap();
    // SAFETY: the heap answers a request of no bytes too.
    let block = unsafe { GLOBAL.alloc(nothing) };
    assert!(!block.is_null() && block.addr() % 4_096 == 0);
    // SAFETY: allocated just now.
    unsafe { GLOBAL.dealloc(block, nothing) };
}

#[test]
fn impossible_requests_are_refused_and_lose_nothing() {
    let most = Layout::from_size_align(isize::MAX as usize - 4_096, 8).unwrap();
    // SAFETY: the layout has a size.
    assert!(unsafe { GLOBAL.alloc(most) }.is_null());
    let layout = Layout::from_size_align(100, 8).unwrap();
    // SAFETY: the layout has a size.
    let block = unsafe { GLOBAL.alloc_zeroed(layout) };
    for size in [usize::MAX, isize::MAX as usize + 1, isize::MAX as usize - 4_096] {
        // SAFETY: the block is live and fits; sizes that are too large are refused.
        assert!(unsafe { GLOBAL.realloc(block, layout, size) }.is_null());
    }
    // SAFETY: the block is still live.
    unsafe { GLOBAL.dealloc(block, layout) };
}

#[test]
fn collections_keep_what_is_put_into_them() {
    let map: HashMap<String, usize> = (0..5_000).map(|n| (format!("key {n}"), n)).collect();
    let tree: BTreeMap<usize, String> = map.iter().map(|(key, &n)| (n, key.clone())).collect();
    let mut queue: VecDeque<Arc<str>> = tree.values().map(|key| Arc::from(key.as_str())).collect();
    queue.rotate_left(77);
    assert!(queue.iter().all(|key| tree[&map[&**key]] == **key));
    assert_shallow();
}

#[test]
fn blocks_wander_through_many_threads() {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    thread::scope(|scope| {
        for seed in 0..8usize {
            let sender = sender.clone();
            scope.spawn(move || {
                for round in 0..scaled(20_000) {
                    let size = SIZES[(round * 31 + seed) % 31];
                    sender.send(vec![size as u8; size]).unwrap();
                }
            });
        }
        drop(sender);
        for bytes in receiver {
            assert!(bytes.iter().step_by(251).all(|&byte| byte == bytes.len() as u8));
        }
    });
    assert_shallow();
}

/// Allocates while it is made and while it is dropped.
struct Noisy(Vec<String>);

impl Drop for Noisy {
    fn drop(&mut self) {
        self.0.extend((0..20).map(|number| format!("last word {number}")));
    }
}

thread_local! {
    static NOISY: RefCell<Noisy> = RefCell::new(Noisy(vec!["first word".repeat(10)]));
}

/// Calls of `late`.
static LATE: AtomicUsize = AtomicUsize::new(0);

/// Runs at a thread's end, in a later round than the heap's own hook each time it rearms itself.
unsafe extern "C" fn late(key: *mut c_void) {
    // SAFETY: `key` points to two words of the test below.
    let (key, rounds) = unsafe { *Box::from_raw(key.cast::<(libc::pthread_key_t, u32)>()) };
    black_box(vec![1u8; 10_000]);
    LATE.fetch_add(1, Ordering::Relaxed);
    if rounds > 0 {
        let again = Box::into_raw(Box::new((key, rounds - 1)));
        // SAFETY: the key is the test's.
        unsafe { libc::pthread_setspecific(key, again.cast()) };
    }
}

#[test]
fn threads_allocate_from_their_first_act_to_after_their_locals() {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `key` is valid for a write.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(late)) }, 0);
    let live = move || {
        NOISY.with_borrow_mut(|noisy| noisy.0.push("more".repeat(50)));
        let value = Box::into_raw(Box::new((key, 2)));
        // SAFETY: the key was just made.
        unsafe { libc::pthread_setspecific(key, value.cast()) };
    };
    let run = |threads| (0..threads).for_each(|_| thread::spawn(live).join().unwrap());
    run(20);
    let before = GLOBAL.heap.stats();
    let threads = scaled(4_000);
    run(threads);
    assert_eq!(LATE.load(Ordering::Relaxed), 3 * (20 + threads));
    let after = GLOBAL.heap.stats();
    // Other tests of this program run at the same time: a few threads each.
    assert!(after.thread_heaps <= before.thread_heaps + 40, "{before}\n{after}");
    assert_shallow();
}

extern "C" fn at_exit() {
    let words: Vec<String> = (0..1_000).map(|number| format!("{number} at exit")).collect();
    eprintln!("{} words, depth {}", words.len(), DEEPEST.load(Ordering::Relaxed));
}

#[test]
fn exit_handlers_and_panic_hooks_allocate() {
    if scenario().as_deref() == Some("exit") {
        // SAFETY: the handler is a function.
        unsafe { libc::atexit(at_exit) };
        std::panic::set_hook(Box::new(|info| {
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            eprintln!("hook: {info} {}", trace.lines().count() > 1);
        }));
        let panicking = thread::spawn(|| panic!("{}", "on purpose ".repeat(3)));
        assert!(panicking.join().is_err());
        std::process::exit(0);
    }
    let test = "exit_handlers_and_panic_hooks_allocate";
    let ending = Child::new(test, "exit").limit(Duration::from_secs(20)).run().unwrap();
    ending.assert_success();
    assert!(ending.stderr.contains("1000 words, depth 1"), "{ending:#?}");
    let hook = ending.stderr.split_once("hook: ").map_or("", |(_, said)| said);
    assert!(hook.contains("on purpose on purpose on purpose  true"), "{ending:#?}");
}

#[cfg(target_os = "linux")]
#[test]
fn warm_threads_make_no_system_call() {
    if scenario().as_deref() == Some("quiet") {
        let pass = || {
            for size in [16, 100, 1_000, 10_000, 32_768, 70_000, 1_000_000, 4_000_000] {
                let mut bytes = black_box(vec![1u8; size]);
                bytes.truncate(size / 3);
                drop(black_box(bytes));
            }
        };
        (0..3).for_each(|_| pass());
        // SAFETY: from here on read, write and exit are all the system does for this thread.
        let strict = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
        assert_eq!(strict, 0);
        (0..50).for_each(|_| pass());
        // SAFETY: writes to standard error.
        unsafe { libc::write(2, c"quiet".as_ptr().cast(), 5) };
        // SAFETY: ends the thread, the one that strict mode allows.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    let ending = Child::new("warm_threads_make_no_system_call", "quiet")
        .limit(Duration::from_secs(5))
        .run()
        .unwrap();
    // The harness waits for the thread that is gone without a word, so that the child is stopped.
    assert!(ending.stderr.contains("quiet"), "{ending:#?}");
}
