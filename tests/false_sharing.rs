//! Small blocks of different threads never lie on one cache line because of the allocator.
//!
//! A thread that is *given* a small block shares its line with the block's neighbours: that is the
//! giver's choice. But what a thread frees and allocates again must come from lines of its own,
//! although the block it freed would be the nearest at hand.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::thread;

use polyheap::Heap;
use polyheap::allocator_api2::alloc::Layout;

use support::Held;

const LINE_BYTES: usize = 64;
const THREADS: usize = 4;
/// Times each thread frees what it has and allocates it again.
const ROUNDS: usize = 6;
/// Who the blocks of the main thread belong to in the map of lines.
const MAIN: usize = usize::MAX;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

fn allocate(heap: &Heap, size: usize, count: usize) -> Vec<Held> {
    (0..count).map(|id| Held::new(&heap, layout(size), id as u64).unwrap()).collect()
}

fn free(heap: &Heap, held: impl IntoIterator<Item = Held>) {
    held.into_iter().for_each(|held| held.free(&heap));
}

/// What a thread does before it frees the blocks it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    /// Nothing: it has never used the heap.
    Nothing,
    /// It allocates blocks of the class and keeps them.
    HasBlocks,
    /// It has free blocks of the class in its caches too.
    HasCachedBlocks,
}

/// Blocks that lie side by side are dealt out to all threads in turn, main included, which keeps
/// its own. Then every thread frees and allocates, and nobody may share a line.
fn deal_out(size: usize, given_each: usize, before: Before) {
    let heap = Heap::new();
    let mut kept = Vec::new();
    let mut hands: Vec<Vec<Held>> = (0..THREADS).map(|_| Vec::new()).collect();
    for (number, held) in allocate(&heap, size, given_each * (THREADS + 1)).into_iter().enumerate()
    {
        match number % (THREADS + 1) {
            0 => kept.push(held),
            thread => hands[thread - 1].push(held),
        }
    }
    let table = Mutex::new(BTreeMap::new());
    // Reported at the end: a panic at the gathering would leave the others waiting there.
    let mut faults = Vec::new();
    let gathering = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for (id, given) in hands.into_iter().enumerate() {
            let (heap, table, gathering) = (&heap, &table, &gathering);
            scope.spawn(move || {
                let mut own = prepare(heap, size, before);
                free(heap, given);
                for _ in 0..ROUNDS {
                    own.extend(allocate(heap, size, given_each));
                    gathering.wait();
                    note_lines(table, id, &own);
                    gathering.wait();
                    // Freed and allocated again, so that old blocks come back into use.
                    free(heap, own.drain(..given_each));
                }
                free(heap, own);
            });
        }
        for round in 0..ROUNDS {
            gathering.wait();
            note_lines(&table, MAIN, &kept);
            gathering.wait();
            let shared = take_shared_lines(&table);
            if !shared.is_empty() {
                faults.push(format!("{size} B, {before:?}, round {round}: {shared:x?}"));
            }
        }
    });
    free(&heap, kept);
    assert!(faults.is_empty(), "lines of several threads: {faults:#?}");
}

fn prepare(heap: &Heap, size: usize, before: Before) -> Vec<Held> {
    match before {
        Before::Nothing => Vec::new(),
        Before::HasBlocks => allocate(heap, size, 5),
        Before::HasCachedBlocks => {
            let mut own = allocate(heap, size, 200);
            free(heap, own.drain(..150));
            own
        }
    }
}

type Lines = BTreeMap<usize, Vec<usize>>;

/// Enters the lines of `blocks` as written by thread `id`.
fn note_lines(table: &Mutex<Lines>, id: usize, blocks: &[Held]) {
    let mut table = table.lock().unwrap();
    for held in blocks {
        let region = held.region();
        for line in region.start / LINE_BYTES..=(region.end - 1) / LINE_BYTES {
            let writers = table.entry(line).or_default();
            if !writers.contains(&id) {
                writers.push(id);
            }
        }
    }
}

/// Returns the lines that are some thread's and another's, with both; forgets all lines.
fn take_shared_lines(table: &Mutex<Lines>) -> Vec<(usize, Vec<usize>)> {
    let lines = core::mem::take(&mut *table.lock().unwrap());
    lines.into_iter().filter(|(_, writers)| writers.len() > 1).collect()
}

fn deal_out_all(before: Before) {
    for size in [8, 16, 32, 48, 64, 80, 112, 128, 160, 224] {
        for given_each in [1, 3, 100] {
            deal_out(size, given_each, before);
        }
    }
}

#[test]
fn a_thread_given_blocks_allocates_on_lines_of_its_own() {
    deal_out_all(Before::Nothing);
}

#[test]
fn a_thread_with_blocks_of_the_class_keeps_strange_ones_apart() {
    deal_out_all(Before::HasBlocks);
}

#[test]
fn a_thread_with_cached_blocks_of_the_class_keeps_strange_ones_apart() {
    deal_out_all(Before::HasCachedBlocks);
}

/// The threads come first, main frees what they made: the same in the other direction.
#[test]
fn blocks_freed_by_their_giver_do_not_come_back_to_it_while_neighbours_live() {
    for size in [16, 48, 80] {
        let heap = Heap::new();
        let mut main_blocks = allocate(&heap, size, 10);
        let gathering = Barrier::new(2);
        let handed = Mutex::new(Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut own = allocate(&heap, size, 200);
                // Every second one goes to main.
                let mut number = 0;
                handed.lock().unwrap().extend(own.extract_if(.., |_| {
                    number += 1;
                    number % 2 == 0
                }));
                gathering.wait();
                gathering.wait();
                let table = Mutex::new(Lines::new());
                note_lines(&table, 1, &own);
                note_lines(&table, MAIN, &handed.lock().unwrap());
                let shared = take_shared_lines(&table);
                assert!(shared.is_empty(), "{size} B: {shared:x?}");
                free(&heap, own);
            });
            gathering.wait();
            let given = core::mem::take(&mut *handed.lock().unwrap());
            let count = given.len();
            free(&heap, given);
            *handed.lock().unwrap() = allocate(&heap, size, count);
            gathering.wait();
        });
        main_blocks.append(&mut handed.into_inner().unwrap());
        free(&heap, main_blocks);
    }
}
