//! `bins`: representations of a thread's bin for one size class, apart from any allocator, in the loops of other workloads.
//!
//! The representations are in `bins_kinds`. A bin is behind an opaque pointer, so its words are in memory and each call
//! reads and writes them. Bins exchange whole batches of 63 blocks with the same stock, which has every block touched
//! beforehand and hands them out in order of their addresses. None of the bins looks for double frees.

use super::Workload;
use super::bins_kinds::{Array, ArrayTop, Intrusive, TwoMagazines};
use super::bulk::{BLOCKS, Bulk};
use super::churn::{self, Churn};
use super::hot::Hot;
use crate::context::Context;
use crate::opaque::opaque_pointer;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr;

pub(super) const BINS: Workload =
    Workload { name: "bins", about: "representations of a thread's bin", tasks, run };

/// Names of the representations.
pub(crate) const REPRESENTATIONS: &[&str] = &["array", "array-top", "intrusive", "two-magazines"];

/// A loop, and the case of the workload it is from.
const CASES: &[&str] = &[
    "hot 16",
    "hot 64",
    "hot 1024",
    "hot 16384",
    "bulk LIFO 16",
    "bulk LIFO 64",
    "bulk LIFO 1024",
    "bulk FIFO 16",
    "bulk FIFO 64",
    "bulk FIFO 1024",
    "churn 256x64",
    "churn 65536x64",
];

const PAGE_BYTES: usize = 4096;
/// Blocks of a batch: what a magazine of 64 words holds above its floor.
pub(super) const ROUNDS: usize = 63;
/// Batches beyond the live blocks, so that no bin ever finds the stock empty.
const SPARE_BATCHES: usize = 4;
/// Empty magazines beyond those of the full batches: the two a bin starts with, and one on the way.
const SPARE_MAGAZINES: usize = 3;

fn tasks(options: &Options) -> Vec<Task> {
    let size = |case: &str| case.rsplit([' ', 'x']).next().unwrap_or_default().to_string();
    let is_wanted = |case: &&&str| match options.quick && options.sizes.is_empty() {
        true => size(case) == "64",
        false => options.wants_size(&size(case)),
    };
    CASES.iter().filter(is_wanted).map(|&case| Task::new("bins", case, Field::Bins)).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    let (shape, case) = context.case.split_once(' ').expect("a loop and its case");
    let context = &Context { case: case.into(), ..context.clone() };
    match shape {
        "hot" => with_bin(context, 1, context.size(), Hot(context)),
        "bulk" => with_bin(context, BLOCKS, context.size(), Bulk(context)),
        _ => {
            let (live, size, _) = churn::parse(case).expect("a case KxS");
            with_bin(context, live, size, Churn(context))
        }
    }
}

/// Does `job`, which keeps `live` blocks at most, with the representation that `context` names.
fn with_bin<J: Job>(context: &Context, live: usize, block_bytes: usize, job: J) -> J::Output {
    let stock = || Stock::new(live.div_ceil(ROUNDS) + SPARE_BATCHES, block_bytes);
    match context.allocator.as_str() {
        "array" => job.run(&Held::<Array>::new(stock())),
        "array-top" => job.run(&Held::<ArrayTop>::new(stock())),
        "intrusive" => job.run(&Held::<Intrusive>::new(stock())),
        "two-magazines" => job.run(&Held::<TwoMagazines>::new(stock())),
        name => with_subject(name, job),
    }
}

/// A bin for blocks of one size.
pub(super) trait Bin {
    fn new(stock: Stock) -> Self;
    fn pop(&mut self) -> *mut u8;
    /// Takes a block back that `pop` returned.
    fn push(&mut self, block: *mut u8);
}

/// A bin in memory, as a subject.
struct Held<B>(Box<UnsafeCell<B>>);

impl<B: Bin> Held<B> {
    fn new(stock: Stock) -> Held<B> {
        Held(Box::new(UnsafeCell::new(B::new(stock))))
    }

    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the loops are single-threaded, and calls do not nest")]
    fn bin(&self) -> &mut B {
        let bin = opaque_pointer(self.0.get().cast()).cast::<B>();
        // SAFETY: the bin is live, and nothing else refers to it: one thread, and no call within a call.
        unsafe { &mut *bin }
    }
}

// SAFETY: used by single-threaded loops only.
unsafe impl<B> Sync for Held<B> {}

// SAFETY: the stock's blocks are disjoint, of the one size the loop asks for, and in the bin or live, not both.
unsafe impl<B: Bin> Subject for Held<B> {
    #[inline(always)]
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        self.bin().pop()
    }

    #[inline(always)]
    unsafe fn dealloc(&self, start: *mut u8, _: Layout) {
        self.bin().push(start);
    }

    /// None of the loops resizes.
    unsafe fn realloc(&self, _: *mut u8, _: Layout, _: usize) -> *mut u8 {
        ptr::null_mut()
    }
}

/// Place for a block, in a magazine or in a free block.
pub(super) type Round = *mut u8;

/// A null floor and the rounds above it.
#[repr(align(512))]
#[derive(Clone)]
struct Magazine([Round; ROUNDS + 1]);

/// Whether `round` is the floor of a magazine, or its end.
#[inline(always)]
pub(super) fn is_edge(round: *mut Round) -> bool {
    round.cast::<Magazine>().is_aligned()
}

#[derive(Clone)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "read and written as blocks")] [u8; PAGE_BYTES]);

/// What the bins are refilled from, and spill to.
pub(super) struct Stock {
    /// Floors of full magazines, or first blocks of lists.
    pub(super) full: Vec<*mut Round>,
    /// Floors of empty magazines.
    pub(super) empty: Vec<*mut Round>,
    #[expect(dead_code, reason = "owns what the others point to")]
    memory: (Vec<Magazine>, Vec<Page>),
}

impl Stock {
    fn new(batches: usize, block_bytes: usize) -> Stock {
        let pages = (batches * ROUNDS * block_bytes).div_ceil(PAGE_BYTES);
        let mut blocks = vec![Page([0; PAGE_BYTES]); pages];
        let count = batches + SPARE_MAGAZINES;
        let mut magazines = vec![Magazine([ptr::null_mut(); ROUNDS + 1]); count];
        let start = blocks.as_mut_ptr().cast::<u8>();
        let mut next = (0..).map(|index| start.wrapping_add(index * block_bytes));
        for magazine in &mut magazines[..batches] {
            magazine.0[1..]
                .iter_mut()
                .rev()
                .zip(&mut next)
                .for_each(|(round, block)| *round = block);
        }
        let first = magazines.as_mut_ptr();
        let floor = |index| first.wrapping_add(index).cast::<Round>();
        let mut empty = Vec::with_capacity(count);
        empty.extend((batches..count).map(floor));
        Stock { full: (0..batches).rev().map(floor).collect(), empty, memory: (magazines, blocks) }
    }

    pub(super) fn take_full(&mut self) -> *mut Round {
        self.full.pop().expect("spare batches")
    }

    pub(super) fn take_empty(&mut self) -> *mut Round {
        self.empty.pop().expect("spare magazines")
    }
}
