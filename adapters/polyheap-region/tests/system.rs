//! What the system sees: locked, undumped and wiped pages, no system calls once warm, and regions
//! when memory runs out.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::env;
use std::fs;
use std::process::{Command, Output};
use std::ptr::NonNull;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::{Allocator, Layout};
use polyheap_region::{self as region, Region, RegionBuilder, SecretRegion};

use support::assert_empty;

const SCENARIO: &str = "POLYHEAP_REGION_SCENARIO";

/// Runs one test of this program as a child, under `wrapper`, a shell command that ends in `exec`.
fn child(wrapper: &str, test: &str) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{wrapper} \"$0\" --exact {test} --nocapture --test-threads=1")])
        .arg(env::current_exe().unwrap())
        .env(SCENARIO, test)
        .output()
        .unwrap()
}

fn is_child() -> bool {
    env::var(SCENARIO).is_ok()
}

/// Returns the kernel's flags of the mapping that has `address`; none if there is none.
fn flags(address: usize) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_here = false;
    for line in maps.lines() {
        let first = line.split(' ').next().unwrap();
        if let Some((from, to)) = first.split_once('-') {
            let bound = |text| usize::from_str_radix(text, 16);
            if let (Ok(from), Ok(to)) = (bound(from), bound(to)) {
                is_here = (from..to).contains(&address);
            }
        } else if let Some(flags) = line.strip_prefix("VmFlags: ")
            && is_here
        {
            return flags.split(' ').map(String::from).collect();
        }
    }
    Vec::new()
}

fn has(address: usize, flag: &str) -> bool {
    flags(address).iter().any(|known| known == flag)
}

#[test]
fn options_protect_every_chunk_and_large_block_and_are_undone() {
    let mut heap = Heap::new();
    let cases: [(RegionBuilder, &str); 3] = [
        (SecretRegion::builder().locked(), "lo"),
        (SecretRegion::builder().undumped(), "dd"),
        (SecretRegion::builder().wiped_on_fork(), "wf"),
    ];
    for (builder, flag) in cases {
        // A region of a single chunk, and one with several and a large block.
        for is_big in [false, true] {
            let region = builder.build_in(&heap);
            let mut places = vec![region.alloc([1u8; 9000]).as_ptr() as usize];
            if is_big {
                places.extend((0..40).map(|_| region.alloc([1u8; 9000]).as_ptr() as usize));
                places.push(region.alloc_slice_fill_with(3_000_000, |_| 1u8).as_ptr() as usize);
                let stats = region.stats();
                assert!(stats.chunks >= 3 && stats.large_blocks == 1, "{stats}");
            }
            places.iter().for_each(|&place| assert!(has(place, flag), "{flag} is not set"));
            drop(region);
            places.iter().for_each(|&place| assert!(!has(place, flag), "{flag} is still set"));
            assert_empty(&mut heap);
        }
    }
}

#[test]
fn a_forked_process_reads_zeros_and_can_still_end_the_region() {
    let heap = Heap::new();
    let region = SecretRegion::builder().wiped_on_fork().build_secret_in(&heap);
    let plain = Region::new_in(&heap);
    let (secret, public) = (region.alloc([7u8; 64]), plain.alloc([7u8; 64]));
    // SAFETY: the child reads memory, gives memory back and exits; it takes no lock of the parent's.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let is_right = *secret == [0; 64] && *public == [7; 64];
        drop(region);
        // SAFETY: no precondition.
        unsafe { libc::_exit(if is_right { 17 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 17));
    assert_eq!(*secret, [7; 64]);
}

#[test]
fn a_chunk_that_cannot_be_locked_is_refused_and_given_back() {
    if !is_child() {
        // As root, `mlock` knows no limit; an unprivileged user has one.
        let unprivileged =
            "ulimit -l 64; exec setpriv --reuid=65534 --clear-groups --bounding-set=-all";
        let output = child(unprivileged, "a_chunk_that_cannot_be_locked_is_refused_and_given_back");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && text.contains("1 passed") {
            return;
        }
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("setpriv") || error.contains("ermission"), "{text}{error}");
        eprintln!("skipped: cannot run unprivileged here: {error}");
        return;
    }
    let mut heap = Heap::new();
    let region = Region::builder().locked().build_in(&heap);
    let mut chunks = 0;
    for _ in 0..100 {
        if region.try_alloc([0u8; 9000]).is_ok() {
            chunks = region.stats().chunks;
        }
    }
    assert!(chunks <= 1);
    assert!(region.try_alloc_slice_fill_with(200_000, |_| 0u8).is_err());
    assert!(region.stats().large_blocks == 0);
    drop(region);
    assert_empty(&mut heap);
}

/// Takes regions with nearly a whole chunk each, and returns them with their blocks.
fn whole_chunks(heap: &Heap, count: usize) -> Vec<(Region<'_>, NonNull<u8>)> {
    let take = |_| {
        let region = Region::with_capacity_in(60_000, heap);
        let block = region.alloc_layout(Layout::from_size_align(60_000, 8).unwrap());
        (region, block)
    };
    (0..count).map(take).collect()
}

#[test]
fn gaps_are_cleared_and_bytes_never_handed_out_are_not() {
    let heap = Heap::new();
    // Many, as the heap may hand out any of the chunks it was given back.
    let dirty = whole_chunks(&heap, 60);
    for (_, block) in &dirty {
        // SAFETY: the block is as long.
        unsafe { block.write_bytes(0x77, 60_000) };
    }
    let known: Vec<usize> = dirty.iter().map(|(_, block)| block.as_ptr() as usize).collect();
    drop(dirty);
    let secret = SecretRegion::new_in(&heap);
    let first = secret.alloc_slice_fill_with(100, |place| place as u64).as_ptr() as usize;
    // A gap for alignment, which counts as used.
    let aligned = secret.alloc_layout(Layout::from_size_align(1, 4096).unwrap());
    let used_bytes = secret.stats().used_bytes;
    assert!(used_bytes > 4096 - 64 && aligned.as_ptr() as usize - first < used_bytes);
    drop(secret);
    assert!(known.contains(&first), "the test needs one of the same chunks");
    let again = whole_chunks(&heap, 60);
    let found = again.iter().find(|(_, block)| block.as_ptr() as usize == first);
    let (_, found) = found.expect("the test needs the same chunk again");
    let byte = |place: usize| {
        // SAFETY: inside the block.
        let byte: NonNull<u8> = unsafe { found.add(place) };
        // SAFETY: memory that was written, in this very chunk.
        unsafe { byte.read_volatile() }
    };
    assert!((0..used_bytes).all(|place| byte(place) == 0));
    assert!((used_bytes..60_000).all(|place| byte(place) == 0x77));
}

#[test]
fn nested_scopes_make_no_system_call_once_warm() {
    let rounds = |heap: &Heap, count: usize| {
        for round in 0..count {
            region::scope(heap, |outer| {
                let kept = outer.alloc(round);
                region::secret_scope(outer.heap(), |middle| {
                    middle.alloc([round; 100]);
                    region::scope(middle.heap(), |inner| inner.alloc_str("innermost").len())
                });
                assert_eq!(*kept, round);
            });
        }
    };
    let heap = Heap::new();
    if is_child() {
        return rounds(&heap, env::var("ROUNDS").unwrap().parse().unwrap());
    }
    rounds(&heap, 20_000);
    assert!(heap.stats().peak_live_bytes <= 4 * Region::CHUNK_BYTES_FIRST, "{}", heap.stats());
    let calls = |count: usize| {
        let test = "nested_scopes_make_no_system_call_once_warm";
        let strace = format!("ROUNDS={count} exec strace -f -qq -e trace=%memory");
        let output = child(&strace, test);
        let is_traced = output.status.success();
        is_traced.then(|| String::from_utf8_lossy(&output.stderr).lines().count())
    };
    let (Some(few), Some(many)) = (calls(1), calls(20_000)) else {
        eprintln!("skipped: no strace");
        return;
    };
    assert!(few > 3, "the trace shows the process's start");
    assert!(many <= few + 16, "{few} memory calls for a round, {many} for 20 000");
}

#[test]
fn a_smaller_chunk_is_taken_when_the_heap_refuses_a_whole_one() {
    if !is_child() {
        let test = "a_smaller_chunk_is_taken_when_the_heap_refuses_a_whole_one";
        let output = child("ulimit -v 400000; exec", test);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    let mut heap = Heap::new();
    let chunk = Layout::from_size_align(Region::CHUNK_BYTES_FIRST, 8).unwrap();
    let small = Layout::from_size_align(4096, 8).unwrap();
    // A slab with room for small blocks, then nothing else.
    let kept = heap.allocate(small).unwrap();
    let mut chunks = Vec::new();
    while let Ok(taken) = heap.allocate(chunk) {
        chunks.push(taken);
    }
    let region = Region::new_in(&heap);
    assert!(region.try_alloc([0u8; 10_000]).is_err());
    assert_eq!(region.stats().held_bytes, 0, "a chunk too small for the request was taken");
    assert!(region.try_alloc([0u64; 10]).is_ok(), "a smaller chunk was to be had");
    let stats = region.stats();
    assert!(stats.held_bytes < Region::CHUNK_BYTES_FIRST, "{stats}");
    assert!(region.try_alloc_slice_fill_with(70_000, |_| 0u8).is_err());
    // Until the very end; nothing is lost, and it goes on when there is memory again.
    while region.try_alloc([0u64; 10]).is_ok() {}
    let refused = region.stats();
    assert!(region.try_alloc([0u64; 10]).is_err());
    assert_eq!(region.stats(), refused);
    // SAFETY: allocated above with this layout.
    chunks.into_iter().for_each(|taken| unsafe { heap.deallocate(taken.cast(), chunk) });
    assert!(region.try_alloc([0u64; 1000]).is_ok());
    drop(region);
    // SAFETY: allocated above with this layout.
    unsafe { heap.deallocate(kept.cast(), small) };
    assert_empty(&mut heap);
}
