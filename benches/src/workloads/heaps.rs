//! `heaps`: heap instances, made, used and dropped as a whole.
//!
//! | case | an operation is |
//! |---|---|
//! | `turn H` | one pair of allocate and free of 64 B, in each of H live heaps in turn |
//! | `cycle N` | make a heap, allocate N blocks of 8-1 024 B, drop it; the sizes are drawn beforehand |
//! | `cycle 1000x8..128` | the same with small blocks |
//! | `many H` | see `heaps_many` |
//!
//! In the cycles global allocators free every block; they are shown for comparison and no ratio is taken with them.

use super::{Workload, heaps_many};
use crate::block::layout;
use crate::context::Context;
use crate::heap_subject::{HeapJob, HeapSubject, with_heap};
use crate::measure::time_loop;
use crate::opaque::{opaque, opaque_pointer};
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use bumpalo::Bump;
use std::alloc::Layout;
use std::mem::MaybeUninit;

pub(crate) const HEAPS: Workload =
    Workload { name: "heaps", about: "heap instances: in turn, cycles, many", tasks, run };

const TURN_BYTES: usize = 64;
const SMALL_CYCLE: &str = "1000x8..128";

fn tasks(options: &Options) -> Vec<Task> {
    let turns: &[usize] = if options.quick { &[1, 64] } else { &[1, 2, 8, 64, 1000] };
    let cycles: &[&str] = if options.quick {
        &["0", "10", "1000"]
    } else {
        &["0", "1", "10", "100", "1000", "10000", SMALL_CYCLE]
    };
    let turns = turns.iter().map(|heaps| Task::new("heaps", format!("turn {heaps}"), Field::Heaps));
    let cycles =
        cycles.iter().map(|blocks| Task::new("heaps", format!("cycle {blocks}"), Field::Cycles));
    let many = Task::new("heaps", "many 1000", Field::Heaps);
    turns.chain(cycles).chain([many]).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    let name = &context.allocator;
    match context.case.split_once(' ') {
        Some(("turn", _)) => with_heap(name, Turns(context)).expect("the parent checks the names"),
        Some(("many", heaps)) => heaps_many::run(name, heaps.parse().expect("a number of heaps")),
        _ => vec![cycles(context)],
    }
}

struct Turns<'a>(&'a Context);

impl HeapJob for Turns<'_> {
    type Output = Vec<Reading>;

    fn run<H: HeapSubject>(self) -> Vec<Reading> {
        let mut heaps: Vec<H> = (0..self.0.size()).map(|_| H::create()).collect();
        vec![time_loop(self.0, |pairs| {
            let mut left = pairs as usize;
            while left > 0 {
                let count = left.min(heaps.len());
                turn(&mut heaps[..count]);
                left -= count;
            }
        })]
    }
}

#[inline(never)]
fn turn<H: HeapSubject>(heaps: &mut [H]) {
    for heap in heaps {
        let layout = layout(opaque(TURN_BYTES));
        let block = write_first(heap.alloc(layout));
        // SAFETY: the heap has just allocated the block with this layout.
        unsafe { heap.dealloc(block, layout) };
    }
}

/// Writes a new block's first byte.
#[inline(always)]
fn write_first(block: *mut u8) -> *mut u8 {
    // SAFETY: the block is new and not empty; null faults, and the parent reports it.
    unsafe { block.write(1) };
    opaque_pointer(block)
}

fn cycles(context: &Context) -> Reading {
    let blocks = context.case.trim_start_matches("cycle ");
    let (count, largest) = if blocks == SMALL_CYCLE { (1000, 128) } else { (context.size(), 1024) };
    let mut rng = Rng::new(0);
    let layouts: Vec<Layout> = (0..count).map(|_| layout(rng.between(8, largest))).collect();
    let name = &context.allocator;
    if name == "bumpalo-reset" {
        return time_cycles(context, &layouts, Reset(Bump::new()));
    }
    with_heap(name, Cycles { context, layouts: &layouts })
        .unwrap_or_else(|| with_subject(name, Cycles { context, layouts: &layouts }))
}

struct Cycles<'a> {
    context: &'a Context,
    layouts: &'a [Layout],
}

impl HeapJob for Cycles<'_> {
    type Output = Reading;

    fn run<H: HeapSubject>(self) -> Reading {
        time_cycles(self.context, self.layouts, Fresh::<H>(MaybeUninit::uninit()))
    }
}

impl Job for Cycles<'_> {
    type Output = Reading;

    fn run<S: Subject>(self, subject: &S) -> Reading {
        let blocks = Vec::with_capacity(self.layouts.len());
        time_cycles(self.context, self.layouts, Each { subject, blocks })
    }
}

fn time_cycles<C: Cycle>(context: &Context, layouts: &[Layout], mut ground: C) -> Reading {
    time_loop(context, |cycles| (0..cycles).for_each(|_| one_cycle(&mut ground, layouts)))
}

#[inline(never)]
fn one_cycle<C: Cycle>(ground: &mut C, layouts: &[Layout]) {
    ground.begin();
    for &layout in layouts {
        write_first(ground.alloc(layout));
    }
    ground.end();
}

/// Something that is filled and emptied as a whole; `begin`, any number of `alloc`, `end`, and again.
trait Cycle {
    fn begin(&mut self);
    fn alloc(&mut self, layout: Layout) -> *mut u8;
    fn end(&mut self);
}

/// A new heap every cycle.
struct Fresh<H>(MaybeUninit<H>);

impl<H: HeapSubject> Cycle for Fresh<H> {
    #[inline(always)]
    fn begin(&mut self) {
        self.0.write(H::create());
    }

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: `begin` made the heap.
        unsafe { self.0.assume_init_mut() }.alloc(layout)
    }

    #[inline(always)]
    fn end(&mut self) {
        // SAFETY: `begin` made the heap, and it is not used again before the next.
        unsafe { self.0.assume_init_drop() };
    }
}

/// One bump arena, reset every cycle.
struct Reset(Bump);

impl Cycle for Reset {
    #[inline(always)]
    fn begin(&mut self) {}

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        self.0.alloc_layout(layout).as_ptr()
    }

    #[inline(always)]
    fn end(&mut self) {
        self.0.reset();
    }
}

/// A global allocator that frees every block.
struct Each<'a, S> {
    subject: &'a S,
    blocks: Vec<(*mut u8, Layout)>,
}

impl<S: Subject> Cycle for Each<'_, S> {
    #[inline(always)]
    fn begin(&mut self) {}

    #[inline(always)]
    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: no size is zero.
        let block = unsafe { self.subject.alloc(layout) };
        self.blocks.push((block, layout));
        block
    }

    #[inline(always)]
    fn end(&mut self) {
        for (block, layout) in self.blocks.drain(..) {
            // SAFETY: the subject allocated the block with this layout, and it leaves the list.
            unsafe { self.subject.dealloc(block, layout) };
        }
    }
}
