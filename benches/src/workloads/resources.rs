//! `resources`: what `&dyn MemoryResource` costs, and the ready-made resources beside what they stand in for.
//!
//! | case | an operation is |
//! |---|---|
//! | `pair N` | allocate N bytes, write the first, free |
//! | `churn N` | free one of 1000 blocks of up to N bytes, and put another in its place |
//! | `bulk N` | a block of N bytes, of 1000 allocated and then all freed |
//! | `vec N` | a number pushed to a vector that grows to N and is dropped |
//! | `value N` | a block of N bytes in an arena that is kept and reset every 48 KiB |
//! | `cycle N` | a block of 64 bytes in an arena made for N of them and dropped |
//! | `push N` | a number pushed to a vector that grows to N in an arena that is kept and reset after it |
//!
//! `heap` is `&Heap`, `pool` is `&Pool` over a heap, `monotonic` is `&Monotonic` over a heap; with `-dyn` they are behind a
//! `&dyn MemoryResource` of which the compiler knows nothing. `bumpalo` is `&Bump`.

use super::Workload;
use crate::context::Context;
use crate::measure::time_loop;
use crate::opaque::{opaque, opaque_pointer};
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::task::{Field, Task};
use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::vec::Vec as VecIn;
use bumpalo::Bump;
use polyheap::Heap;
use polyheap::resource::{MemoryResource, Monotonic, Pool};
use std::hint::black_box;
use std::ptr::NonNull;

pub(crate) const RESOURCES: Workload =
    Workload { name: "resources", about: "memory resources, behind &dyn and not", tasks, run };

/// The resources that free blocks.
pub(crate) const FREEING: &[&str] = &["heap", "heap-dyn", "pool", "pool-dyn"];

/// Those that free all at once, and their peer.
pub(crate) const BUMPING: &[&str] = &["monotonic", "monotonic-dyn", "bumpalo"];

/// Blocks live at once in `churn` and `bulk`.
const BLOCKS: usize = 1000;

/// Bytes after which an arena is reset: less than a first-level data cache.
const ROUND_BYTES: usize = 48 << 10;

static HEAP: Heap = Heap::new();

fn tasks(options: &Options) -> Vec<Task> {
    let freeing: &[&str] = match options.quick {
        true => &["pair 64", "churn 512", "vec 1000"],
        false => &[
            "pair 16",
            "pair 64",
            "pair 1024",
            "churn 512",
            "bulk 64",
            "vec 10",
            "vec 1000",
            "vec 100000",
        ],
    };
    let bumping: &[&str] = match options.quick {
        true => &["value 64", "cycle 10", "push 1000"],
        false => {
            &["value 8", "value 64", "value 1024", "cycle 1", "cycle 10", "cycle 1000", "push 1000"]
        }
    };
    let task = |field| move |case: &&str| Task::new("resources", *case, field);
    let freeing = freeing.iter().map(task(Field::Resources));
    freeing.chain(bumping.iter().map(task(Field::Bumps))).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    let reading = match context.allocator.as_str() {
        "heap" => freeing(context, &HEAP),
        "heap-dyn" => freeing(context, unknown(&HEAP)),
        "pool" => freeing(context, &Pool::new(&HEAP)),
        "pool-dyn" => freeing(context, unknown(&Pool::new(&HEAP))),
        "monotonic" => bumping::<Monotonic<'static, &Heap>>(context),
        "monotonic-dyn" => bumping::<Unknown>(context),
        _ => bumping::<Bump>(context),
    };
    vec![reading]
}

/// Hides from the compiler which resource it is.
fn unknown<R: MemoryResource>(resource: &R) -> &dyn MemoryResource {
    black_box(resource as &dyn MemoryResource)
}

fn freeing<A: Allocator + Copy>(context: &Context, alloc: A) -> Reading {
    let size = context.size();
    match context.case.split(' ').next().unwrap_or_default() {
        "pair" => time_loop(context, |pairs| pair(alloc, size, pairs)),
        "churn" => churn(context, alloc, size),
        "bulk" => time_loop(context, |blocks| bulk(alloc, size, blocks)),
        _ => time_loop(context, |pushes| push(alloc, size, pushes)),
    }
}

/// Allocates a block and writes its first byte.
#[inline(always)]
fn take<A: Allocator>(alloc: A, layout: Layout) -> NonNull<u8> {
    let block = alloc.allocate(layout).expect("memory").cast::<u8>();
    // SAFETY: just allocated, and not empty.
    unsafe { block.write(1) };
    opaque_pointer(block.as_ptr());
    block
}

#[inline(always)]
fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a valid layout")
}

#[inline(never)]
fn pair<A: Allocator + Copy>(alloc: A, size: usize, pairs: u64) {
    for _ in 0..pairs {
        let layout = layout(opaque(size));
        let block = take(alloc, layout);
        // SAFETY: just allocated like this.
        unsafe { alloc.deallocate(block, layout) };
    }
}

fn churn<A: Allocator + Copy>(context: &Context, alloc: A, most: usize) -> Reading {
    let mut rng = Rng::new(0);
    let one = |rng: &mut Rng| {
        let layout = layout(rng.between(1, most));
        (take(alloc, layout), layout)
    };
    let mut blocks: Vec<_> = (0..BLOCKS).map(|_| one(&mut rng)).collect();
    let reading = time_loop(context, |rounds| {
        for _ in 0..rounds {
            let place = &mut blocks[rng.below(BLOCKS)];
            // SAFETY: the block is live and was allocated like this.
            unsafe { alloc.deallocate(place.0, place.1) };
            *place = one(&mut rng);
        }
    });
    for (block, layout) in blocks {
        // SAFETY: the block is live and was allocated like this.
        unsafe { alloc.deallocate(block, layout) };
    }
    reading
}

#[inline(never)]
fn bulk<A: Allocator + Copy>(alloc: A, size: usize, blocks: u64) {
    let layout = layout(opaque(size));
    let mut live = Vec::with_capacity(BLOCKS);
    let mut left = blocks as usize;
    while left > 0 {
        let count = left.min(BLOCKS);
        live.extend((0..count).map(|_| take(alloc, layout)));
        for block in live.drain(..) {
            // SAFETY: the block is live and was allocated like this.
            unsafe { alloc.deallocate(block, layout) };
        }
        left -= count;
    }
}

#[inline(never)]
fn push<A: Allocator + Copy>(alloc: A, length: usize, pushes: u64) {
    let mut left = pushes as usize;
    while left > 0 {
        let count = left.min(length);
        let mut list = VecIn::new_in(alloc);
        for number in 0..count {
            list.push(number as u64);
        }
        black_box(&list);
        left -= count;
    }
}

/// An arena that is an allocator by reference.
trait Arena {
    fn create() -> Self;
    fn reset(&mut self);
    fn alloc(&self) -> impl Allocator + Copy;
}

impl Arena for Bump {
    #[inline(always)]
    fn create() -> Bump {
        Bump::new()
    }

    #[inline(always)]
    fn reset(&mut self) {
        Bump::reset(self);
    }

    #[inline(always)]
    fn alloc(&self) -> impl Allocator + Copy {
        self
    }
}

impl Arena for Monotonic<'static, &Heap> {
    #[inline(always)]
    fn create() -> Monotonic<'static, &'static Heap> {
        Monotonic::new(&HEAP)
    }

    #[inline(always)]
    fn reset(&mut self) {
        Monotonic::reset(self);
    }

    #[inline(always)]
    fn alloc(&self) -> impl Allocator + Copy {
        self
    }
}

/// A monotonic resource of which the compiler knows nothing.
struct Unknown(Monotonic<'static, &'static Heap>);

impl Arena for Unknown {
    fn create() -> Unknown {
        Unknown(Monotonic::new(&HEAP))
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn alloc(&self) -> impl Allocator + Copy {
        unknown(&self.0)
    }
}

fn bumping<A: Arena>(context: &Context) -> Reading {
    let size = context.size();
    match context.case.split(' ').next().unwrap_or_default() {
        "value" => {
            let mut arena = A::create();
            match size {
                8 => time_loop(context, |values| value_rounds::<A, 8>(&mut arena, values)),
                64 => time_loop(context, |values| value_rounds::<A, 64>(&mut arena, values)),
                _ => time_loop(context, |values| value_rounds::<A, 1024>(&mut arena, values)),
            }
        }
        "cycle" => time_loop(context, |values| cycles::<A>(size, values)),
        _ => {
            let mut arena = A::create();
            time_loop(context, |pushes| push_rounds(&mut arena, size, pushes))
        }
    }
}

#[inline(never)]
fn value_rounds<A: Arena, const BYTES: usize>(arena: &mut A, values: u64) {
    let mut left = values as usize;
    while left > 0 {
        let count = left.min(ROUND_BYTES / BYTES);
        let alloc = arena.alloc();
        for _ in 0..count {
            take(alloc, layout(BYTES));
        }
        arena.reset();
        left -= count;
    }
}

#[inline(never)]
fn cycles<A: Arena>(count: usize, values: u64) {
    let mut left = values as usize;
    while left > 0 {
        let arena = A::create();
        let count = left.min(count);
        let alloc = arena.alloc();
        for _ in 0..count {
            take(alloc, layout(64));
        }
        left -= count;
    }
}

#[inline(never)]
fn push_rounds<A: Arena>(arena: &mut A, length: usize, pushes: u64) {
    let mut left = pushes as usize;
    while left > 0 {
        let count = left.min(length);
        push(arena.alloc(), length, count as u64);
        arena.reset();
        left -= count;
    }
}
