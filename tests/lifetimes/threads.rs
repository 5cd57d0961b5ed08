//! Threads that come, use heaps, and go: what they leave, and what their last actions find.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr;
use std::sync::mpsc;
use std::sync::{Barrier, Mutex, OnceLock};
use std::thread;

use polyheap::allocator_api2::alloc::Allocator;
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec as HeapVec;
use polyheap::{Heap, SharedHeap};

use crate::support::{
    Held, Random, alone, current_resident_bytes, mapping_count, run_to_the_end, scaled,
    size_from_env,
};
use crate::{LIMIT, NOISE_BYTES, WARM_BYTES, bytes};

static HEAP: Heap = Heap::builder().name("threads").build();

/// Owns a block of the heap and uses it as its thread ends.
struct LastWord {
    block: Option<Box<[u64; 50], &'static Heap>>,
    list: HeapVec<u32, &'static Heap>,
}

impl LastWord {
    /// Made by the thread's very first action: its first allocation comes in here.
    fn new() -> LastWord {
        LastWord { block: Some(HEAP.boxed([7; 50])), list: HeapVec::new_in(&HEAP) }
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        assert_eq!(self.block.take().map(|block| block[49]), Some(7));
        self.list.extend(0..2_000);
        assert_eq!(*HEAP.boxed(5u8), 5);
    }
}

thread_local! {
    static LAST_WORD: RefCell<LastWord> = RefCell::new(LastWord::new());
}

fn live_a_short_life() {
    LAST_WORD.with_borrow_mut(|word| word.list.push(1));
    let blocks: Vec<Held> = (0..20).map(|id| Held::new(&&HEAP, bytes(700), id).unwrap()).collect();
    blocks.into_iter().for_each(|held| held.free(&&HEAP));
}

#[test]
fn thread_local_destructors_use_the_heap_and_leave_nothing() {
    alone("threads::thread_local_destructors_use_the_heap_and_leave_nothing", LIMIT, || {
        for _ in 0..200 {
            thread::spawn(live_a_short_life).join().unwrap();
        }
        run_to_the_end((0..64).map(|_| live_a_short_life));
        let (resident, thread_heaps) = (current_resident_bytes(), HEAP.stats().thread_heaps);
        assert!(thread_heaps <= 64 + 2, "{thread_heaps} thread heaps for 64 threads at once");
        for _ in 0..scaled(20_000) {
            thread::spawn(live_a_short_life).join().unwrap();
        }
        assert!(current_resident_bytes() <= resident + NOISE_BYTES);
        let stats = HEAP.stats();
        assert_eq!((stats.thread_heaps, stats.live_blocks, stats.threads), (thread_heaps, 0, 0));
    });
}

/// A block that a destructor of a thread-specific key frees, after the heap's own hook has run:
/// keys made later are destroyed later.
static LATE_KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

unsafe extern "C" fn free_late(block: *mut c_void) {
    let block = ptr::NonNull::new(block.cast::<u8>()).unwrap();
    // SAFETY: the block was allocated with this layout for this key, and is freed once.
    unsafe { HEAP.deallocate(block, bytes(100)) };
    for size in [16, 100, 10_000, 100_000, 3_000_000] {
        let held = Held::new(&&HEAP, bytes(size), 1).unwrap();
        Held::zeroed(&&HEAP, bytes(size), 2).unwrap().free(&&HEAP);
        held.free(&&HEAP);
    }
}

fn make_late_key() -> libc::pthread_key_t {
    // The heap's own key comes first.
    drop(HEAP.boxed(1));
    let mut key = 0;
    // SAFETY: `key` is valid for a write and the destructor is a function.
    let outcome = unsafe { libc::pthread_key_create(&raw mut key, Some(free_late)) };
    assert_eq!(outcome, 0);
    key
}

fn live_and_free_late() {
    let key = *LATE_KEY.get_or_init(make_late_key);
    let blocks: Vec<Held> =
        (0..100).map(|id| Held::new(&&HEAP, bytes(10 * 1024), id).unwrap()).collect();
    blocks.into_iter().for_each(|held| held.free(&&HEAP));
    let block = HEAP.allocate(bytes(100)).unwrap();
    // SAFETY: the key exists; its destructor takes charge of the block.
    let outcome = unsafe { libc::pthread_setspecific(key, block.as_ptr().cast()) };
    assert_eq!(outcome, 0);
}

#[test]
fn destructors_that_run_after_unbinding_use_the_heap_and_leave_nothing() {
    let name = "threads::destructors_that_run_after_unbinding_use_the_heap_and_leave_nothing";
    alone(name, LIMIT, || {
        let few = scaled(4_000);
        let sample = |count: usize| {
            for _ in 0..count {
                thread::spawn(live_and_free_late).join().unwrap();
            }
            HEAP.trim();
            let stats = HEAP.stats();
            assert_eq!((stats.live_blocks, stats.threads), (0, 0), "{stats}");
            (current_resident_bytes(), stats.thread_heaps)
        };
        let (resident, thread_heaps) = sample(few);
        let (resident_after, thread_heaps_after) = sample(few * 4);
        assert!(resident_after <= resident + NOISE_BYTES, "{resident} -> {resident_after}");
        assert_eq!(thread_heaps_after, thread_heaps);
        assert!(thread_heaps <= 3, "{thread_heaps} thread heaps for one thread at a time");
    });
}

/// Many short threads over a few heaps, several at a time.
fn churn_threads(threads: usize) {
    let heaps: Vec<Heap> = (0..8).map(|_| Heap::new()).collect();
    let visit = |mut random: Random| {
        for id in 0..10 {
            let heap = &heaps[random.below(heaps.len())];
            // Few classes, so that what thread heaps keep warm for their next thread is soon there.
            let held = Held::new(&heap, bytes(random.size(400)), id).unwrap();
            held.free(&heap);
        }
    };
    let mut random = Random::for_test("churn_threads");
    let mut wave = |count: usize| {
        for _ in 0..count / 4 {
            let seeds: [Random; 4] = core::array::from_fn(|_| random.fork());
            run_to_the_end(seeds.map(|random| || visit(random)));
        }
        let thread_heaps: usize = heaps.iter().map(|heap| heap.stats().thread_heaps).sum();
        (current_resident_bytes(), mapping_count(), thread_heaps)
    };
    let (resident, mappings, thread_heaps) = wave(threads / 10);
    let (resident_after, mappings_after, thread_heaps_after) = wave(threads);
    eprintln!(
        "{resident} -> {resident_after} bytes, {mappings} -> {mappings_after} mappings, \
         {thread_heaps} -> {thread_heaps_after} thread heaps"
    );
    assert!(resident_after <= resident + NOISE_BYTES);
    assert!(mappings_after <= mappings + 16);
    // As many as there were threads at once, in each heap.
    assert!(thread_heaps_after <= 8 * 4, "{thread_heaps_after} thread heaps");
    for heap in &heaps {
        assert_eq!((heap.stats().live_blocks, heap.stats().threads), (0, 0));
    }
}

#[test]
fn short_threads_over_eight_heaps_leave_memory_flat() {
    let name = "threads::short_threads_over_eight_heaps_leave_memory_flat";
    alone(name, LIMIT, || churn_threads(scaled(40_000)));
}

#[test]
#[ignore = "a minute; POLYHEAP_THREADS sets how many"]
fn a_hundred_thousand_threads_over_eight_heaps_leave_memory_flat() {
    let name = "threads::a_hundred_thousand_threads_over_eight_heaps_leave_memory_flat";
    alone(name, LIMIT * 4, || churn_threads(size_from_env("POLYHEAP_THREADS", 100_000)));
}

#[test]
fn a_thread_that_only_frees_binds_and_leaves_like_others() {
    let mut heap = Heap::new();
    let made: Vec<Held> = (0..5_000).map(|id| Held::new(&&heap, bytes(48), id).unwrap()).collect();
    let free_all = || made.into_iter().for_each(|held| held.free(&&heap));
    run_to_the_end([free_all]);
    assert_eq!(heap.stats().live_blocks, 0);
    assert_eq!(heap.verify(), Ok(()));
}

#[test]
fn a_thread_that_never_allocates_may_ask_and_trim() {
    let heap = Heap::new();
    let held = Held::new(&&heap, bytes(300), 1).unwrap();
    let ask = |held: &Held| {
        assert!(heap.owns(held.block));
        assert_eq!(heap.usable_size(held.block), Some(held.usable));
        assert_eq!(polyheap::heap_of(held.block), heap.id().ok());
        assert_eq!(heap.stats().live_blocks, 1);
        let held_bytes = heap.stats().held_bytes;
        assert!(heap.trim() <= held_bytes);
    };
    // Only the address is needed there.
    let held = Mutex::new(held);
    run_to_the_end([|| ask(&held.lock().unwrap())]);
    assert_eq!(heap.stats().threads, 1);
    held.into_inner().unwrap().free(&&heap);
}

#[test]
fn a_handed_on_heap_never_meets_what_a_thread_remembers_of_the_last_one() {
    let name = "threads::a_handed_on_heap_never_meets_what_a_thread_remembers_of_the_last_one";
    // One thread makes and ends the heaps, others use each for a while and stay.
    alone(name, LIMIT, || {
        for users in [1, 2, 8] {
            hand_on(users, scaled(2_000).max(150) / users);
        }
    });
}

fn hand_on(users: usize, rounds: usize) {
    let (done, all_done) = mpsc::channel();
    let mut random = Random::for_test("hand_on");
    let inboxes: Vec<mpsc::Sender<SharedHeap>> = (0..users)
        .map(|_| {
            let (inbox, heaps) = mpsc::channel::<SharedHeap>();
            let (done, mut random) = (done.clone(), random.fork());
            thread::spawn(move || {
                for heap in heaps {
                    use_for_a_while(&heap, &mut random);
                    drop(heap);
                    done.send(()).unwrap();
                }
            });
            inbox
        })
        .collect();
    let mut resident = 0;
    for round in 0..rounds {
        let shared = Heap::new().share();
        inboxes.iter().for_each(|inbox| inbox.send(shared.clone()).unwrap());
        (0..users).for_each(|_| all_done.recv().unwrap());
        let mut heap = shared.try_unshare().expect("the users let go");
        assert_eq!(heap.verify(), Ok(()), "round {round}");
        // What is left is what the users did not free; their caches are full of dead blocks.
        drop(heap);
        if round == rounds / 4 {
            resident = current_resident_bytes();
        }
    }
    let growth = current_resident_bytes().saturating_sub(resident);
    assert!(growth <= WARM_BYTES + NOISE_BYTES, "{growth} bytes more with {users} users");
}

fn use_for_a_while(heap: &Heap, random: &mut Random) {
    let mut live: Vec<Held> = Vec::new();
    for id in 0..300 {
        if random.one_in(2) || live.is_empty() {
            live.push(Held::new(&heap, bytes(random.size(40_000)), id).unwrap());
        } else {
            live.swap_remove(random.below(live.len())).free(&heap);
        }
    }
    live.iter().for_each(Held::check);
    // Half is freed, so that caches hold blocks; the rest dies with the heap.
    live.drain(..live.len() / 2).for_each(|held| held.free(&heap));
}

#[test]
fn a_heap_may_be_replaced_between_the_rounds_of_its_workers() {
    let name = "threads::a_heap_may_be_replaced_between_the_rounds_of_its_workers";
    alone(name, LIMIT, || {
        let (workers, rounds) = (16, scaled(5_000));
        let heap = std::sync::RwLock::new(Heap::new());
        let gathering = Barrier::new(workers + 1);
        let work = |id: u64| {
            for _ in 0..rounds {
                gathering.wait();
                let heap = heap.read().unwrap();
                for number in 0..100 {
                    let held = Held::new(&&*heap, bytes(16 + number * 8), id).unwrap();
                    held.check();
                }
                drop(heap);
                gathering.wait();
            }
        };
        let replace = || {
            let mut resident = 0;
            for round in 0..rounds {
                gathering.wait();
                gathering.wait();
                let mut heap = heap.write().unwrap();
                assert_eq!(heap.stats().live_blocks, workers * 100);
                *heap = Heap::new();
                if round == rounds / 4 {
                    resident = current_resident_bytes();
                }
            }
            assert!(current_resident_bytes() <= resident + NOISE_BYTES);
        };
        thread::scope(|scope| {
            (0..workers).for_each(|id| {
                scope.spawn(move || work(id as u64));
            });
            replace();
        });
    });
}

/// Binding, trimming and leaving at the same time, in regions that other heaps used before.
#[test]
fn threads_may_bind_while_others_trim_and_leave() {
    let name = "threads::threads_may_bind_while_others_trim_and_leave";
    alone(name, LIMIT, || {
        for round in 0..scaled(4_000) {
            let mut heap = Heap::new();
            let come_and_go = || {
                for id in 0..5 {
                    Held::new(&&heap, bytes(40 + id as usize), id).unwrap().free(&&heap);
                    heap.trim();
                }
            };
            run_to_the_end([come_and_go, come_and_go, come_and_go]);
            assert_eq!(heap.stats().live_blocks, 0, "round {round}");
            assert_eq!(heap.verify(), Ok(()), "round {round}");
        }
    });
}
