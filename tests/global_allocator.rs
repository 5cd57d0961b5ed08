//! A heap beneath the whole standard library: threads, locks, formatting, panics, backtraces.
//!
//! The wrapper counts how deep calls nest. The heap may never need the global allocator itself, so
//! the depth never exceeds one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, RefCell};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use std::backtrace::Backtrace;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::Allocator;

#[global_allocator]
static GLOBAL: Counted = Counted { heap: Heap::builder().name("global").build() };

/// The heap as a global allocator.
struct Counted {
    heap: Heap,
}

thread_local! {
    // Constant and without a destructor, so it is usable whenever anything allocates.
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

fn start_of(block: Result<NonNull<[u8]>, polyheap::allocator_api2::alloc::AllocError>) -> *mut u8 {
    block.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
}

// SAFETY: the heap keeps `Allocator`'s contract, which is `GlobalAlloc`'s and more; the wrapper
// adds a counter that does not allocate.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted(|| start_of(self.heap.allocate(layout)))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counted(|| start_of(self.heap.allocate_zeroed(layout)))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        // SAFETY: the caller's block and layout are those of an allocation here.
        counted(|| unsafe { self.heap.deallocate(block, layout) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(block) = NonNull::new(block) else { return ptr::null_mut() };
        let Ok(to) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        counted(|| {
            start_of(match size >= layout.size() {
                // SAFETY: the block fits `layout`, and the new size is not smaller.
                true => unsafe { self.heap.grow(block, layout, to) },
                // SAFETY: the block fits `layout`, and the new size is not larger.
                false => unsafe { self.heap.shrink(block, layout, to) },
            })
        })
    }
}

#[test]
fn everything_allocated_is_the_heaps() {
    let text = String::from("in the heap");
    assert!(GLOBAL.heap.owns(NonNull::from(text.as_bytes()).cast()));
    let list: Vec<u64> = (0..100_000).collect();
    let zeroed = vec![0u8; 5_000_000];
    assert!(GLOBAL.heap.owns(NonNull::from(&list[0]).cast()));
    assert!(GLOBAL.heap.owns(NonNull::from(&zeroed[0])));
    assert!(GLOBAL.heap.stats().live_blocks > 3);
    assert!(zeroed.iter().all(|&byte| byte == 0));
}

/// Allocates while it is made and while it is dropped.
struct Noisy {
    words: Vec<String>,
}

impl Drop for Noisy {
    fn drop(&mut self) {
        self.words.extend((0..20).map(|number| format!("last word {number}")));
    }
}

thread_local! {
    static FIRST: RefCell<Noisy> =
        RefCell::new(Noisy { words: vec![format!("first word of {:?}", thread::current().id())] });
    static SECOND: RefCell<HashMap<String, usize>> = RefCell::new(HashMap::new());
}

#[test]
fn named_threads_with_thread_local_state_come_and_go() {
    for wave in 0..5 {
        let threads: Vec<_> = (0..20)
            .map(|number| {
                let builder = thread::Builder::new().name(format!("thread {wave}.{number}"));
                let live = move || {
                    FIRST.with_borrow_mut(|noisy| noisy.words.push("more".repeat(number)));
                    SECOND.with_borrow_mut(|map| {
                        map.insert(thread::current().name().unwrap().to_string(), number)
                    });
                    eprintln!("{number} of {wave}");
                    number
                };
                builder.spawn(live).unwrap()
            })
            .collect();
        let sum: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 190);
    }
    assert_shallow();
}

#[test]
fn backtraces_panics_and_parking_work() {
    let trace = Backtrace::force_capture().to_string();
    assert!(trace.lines().count() > 2);
    let caught = thread::spawn(|| {
        std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(format!("a {}", "panic"))))
    });
    let payload = caught.join().unwrap().unwrap_err();
    assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some("a panic"));
    let parked = thread::spawn(thread::park);
    thread::sleep(Duration::from_millis(5));
    parked.thread().unpark();
    parked.join().unwrap();
    assert_shallow();
}

#[test]
fn locks_channels_and_maps_work_across_threads() {
    let (sender, receiver) = mpsc::channel::<(usize, Vec<u8>)>();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            thread::spawn(move || {
                let (lock, open) = &*gate;
                drop(open.wait_while(lock.lock().unwrap(), |is_open| !*is_open).unwrap());
                for size in 0..500 {
                    sender.send((number, vec![number as u8; size])).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let mut sums = BTreeMap::new();
    for (number, bytes) in receiver {
        assert!(bytes.iter().all(|&byte| usize::from(byte) == number));
        *sums.entry(number).or_insert(0) += bytes.len();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(sums.len() == 8 && sums.values().all(|&sum| sum == 499 * 500 / 2));
    assert_shallow();
}

fn assert_shallow() {
    assert_eq!(DEEPEST.load(Ordering::Relaxed), 1, "the heap came back by the front door");
}
