//! That an optimised build clears what a `Zeroizing` resource gives back.
//!
//! Right before the global allocator's free, a write to the block is a dead store, and the compiler
//! removes it: the function that frees is known to it. So a secret that was cleared by ordinary writes
//! is still in the freed memory, and one cleared by the resource is not. The memory is looked at through
//! the system, since a program may not read what it has freed. In an unoptimised build nothing is
//! removed; `cargo test --release` is what this file is for.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use core::hint::black_box;
use std::fs::File;
use std::os::unix::fs::FileExt;

use polyheap::allocator_api2::alloc::{Allocator, Global};
use polyheap::allocator_api2::boxed::Box;
use polyheap::allocator_api2::vec::Vec;
use polyheap::resource::Zeroizing;

const SECRET: u8 = 0xb3;
const SECRET_BYTES: usize = 777;

/// Returns the bytes of the secret that are at the block's place after `free` has freed it.
///
/// The first bytes of a freed block are the system allocator's.
fn found_after(block: *const u8, free: impl FnOnce()) -> usize {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut seen = [0u8; SECRET_BYTES];
    let place = black_box(block) as u64;
    free();
    memory.read_exact_at(&mut seen, place).unwrap();
    seen.iter().filter(|&&byte| byte == SECRET).count()
}

fn found_of_a_box<A: Allocator>(alloc: A) -> usize {
    let secret = Box::new_in([SECRET; SECRET_BYTES], alloc);
    found_after(secret.as_ptr(), || drop(secret))
}

#[test]
fn nothing_of_a_freed_block_is_left() {
    assert_eq!(found_of_a_box(&Zeroizing::new(Global)), 0);
}

#[test]
fn nothing_of_the_block_a_vector_grew_out_of_is_left() {
    let secrets = Zeroizing::new(Global);
    let mut list = Vec::with_capacity_in(SECRET_BYTES, &secrets);
    list.resize(SECRET_BYTES, SECRET);
    assert_eq!(found_after(list.as_ptr(), || list.reserve_exact(10_000)), 0);
    assert_eq!(list[..SECRET_BYTES], [SECRET; SECRET_BYTES]);
    assert_eq!(found_after(list.as_ptr(), || list.shrink_to_fit()), 0);
}

/// Without the resource the secret is there: the test sees what it is there to see.
#[test]
fn a_block_of_the_global_allocator_keeps_its_secret() {
    assert!(found_of_a_box(Global) > SECRET_BYTES / 2);
}
