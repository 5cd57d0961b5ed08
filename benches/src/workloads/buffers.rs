//! `buffers`: allocators inside one buffer, as firmware and fixed budgets have them.
//!
//! | case | what |
//! |---|---|
//! | `fill B small` | random allocations and frees, two to one, in B bytes until the first request fails: the share of the buffer that was asked for and is live then |
//! | `churn B small` | a random one of the live blocks is freed and replaced, with half of B bytes live |
//! | `pair 64` | allocate 64 bytes, write the first, free |
//!
//! `small` is up to 128 B, `mixed` up to 2 KiB, most of them short, `wide` up to 16 KiB. Each allocator can be used by several
//! threads at once here: talc by its own lock type around a spin lock, rlsf, which has none, behind the same one.

use super::Workload;
use crate::context::Context;
use crate::measure::time_loop;
use crate::opaque::{opaque, opaque_pointer};
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::task::{Field, Task};
use allocator_api2::alloc::{Allocator, Layout};
use polyheap::BufferHeap;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

pub(crate) const BUFFERS: Workload =
    Workload { name: "buffers", about: "allocators inside one buffer", tasks, run };

/// Who takes part.
pub(crate) const ALLOCATORS: &[&str] = &["polyheap-buffer", "talc", "rlsf"];

const MIB: usize = 1 << 20;

const CASES: &[(usize, &str)] =
    &[(16 << 10, "small"), (64 << 10, "mixed"), (MIB, "small"), (MIB, "mixed"), (16 * MIB, "wide")];

/// Buffers filled for one reading.
const FILLS: u64 = 8;

fn tasks(options: &Options) -> Vec<Task> {
    let cases = if options.quick { &CASES[1..3] } else { CASES };
    let named = |what: &'static str| {
        move |(bytes, kind): &(usize, &str)| {
            Task::new("buffers", format!("{what} {bytes} {kind}"), Field::Buffers)
        }
    };
    let pair = Task::new("buffers", "pair 64", Field::Buffers);
    cases.iter().map(named("fill")).chain(cases.iter().map(named("churn"))).chain([pair]).collect()
}

/// An allocator inside a buffer.
trait Inside: Sized {
    fn make(buffer: &'static mut [MaybeUninit<u8>]) -> Self;

    /// Allocates, or returns null.
    fn alloc(&self, layout: Layout) -> *mut u8;

    /// # Safety
    /// 1. The block is live and was allocated here with this layout.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout);
}

impl Inside for BufferHeap<'static> {
    fn make(buffer: &'static mut [MaybeUninit<u8>]) -> Self {
        BufferHeap::new(buffer).expect("the buffer is long enough")
    }

    #[inline(always)]
    fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocate(layout).map_or(ptr::null_mut(), |block| block.as_ptr().cast())
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a live block's address is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.deallocate(block, layout) };
    }
}

type Talc = talc::sync::TalcLock<
    spin::Mutex<()>,
    talc::source::Manual,
    talc::base::binning::DefaultBinning,
>;

impl Inside for Talc {
    fn make(buffer: &'static mut [MaybeUninit<u8>]) -> Self {
        let talc = Talc::new(talc::source::Manual);
        // SAFETY: the buffer is this allocator's alone from now on.
        let claimed = unsafe { talc.lock().claim(buffer.as_mut_ptr().cast(), buffer.len()) };
        claimed.expect("the buffer is long enough");
        talc
    }

    #[inline(always)]
    fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty.
        let block = unsafe { self.lock().allocate(layout) };
        block.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.lock().deallocate(block, layout) };
    }
}

type Rlsf = spin::Mutex<rlsf::Tlsf<'static, u32, u32, 28, 32>>;

impl Inside for Rlsf {
    fn make(buffer: &'static mut [MaybeUninit<u8>]) -> Self {
        let mut tlsf = rlsf::Tlsf::new();
        tlsf.insert_free_block(buffer);
        spin::Mutex::new(tlsf)
    }

    #[inline(always)]
    fn alloc(&self, layout: Layout) -> *mut u8 {
        self.lock().allocate(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: a live block's address is not null.
        let block = unsafe { NonNull::new_unchecked(block) };
        // SAFETY: the caller's promise is the callee's.
        unsafe { self.lock().deallocate(block, layout.align()) };
    }
}

fn run(context: &Context) -> Vec<Reading> {
    match context.allocator.as_str() {
        "talc" => run_in::<Talc>(context),
        "rlsf" => run_in::<Rlsf>(context),
        _ => run_in::<BufferHeap<'static>>(context),
    }
}

fn run_in<A: Inside>(context: &Context) -> Vec<Reading> {
    let mut words = context.case.split(' ');
    let what = words.next().unwrap_or_default();
    let bytes: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(64);
    let kind = words.next().unwrap_or_default();
    vec![match what {
        "fill" => fill::<A>(bytes, kind),
        "churn" => churn::<A>(context, bytes, kind),
        _ => pairs(context, &A::make(buffer(MIB)), bytes),
    }]
}

fn buffer(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(vec![MaybeUninit::new(0); bytes].into_boxed_slice())
}

fn layout(rng: &mut Rng, kind: &str) -> Layout {
    let most = match kind {
        "small" => 128,
        "mixed" => 1 << rng.between(4, 11),
        _ => 1 << rng.between(4, 14),
    };
    Layout::from_size_align(rng.between(1, most), 8).expect("a valid layout")
}

fn fill<A: Inside>(bytes: usize, kind: &str) -> Reading {
    let mut live_bytes = 0;
    for seed in 0..FILLS {
        let (inside, mut rng) = (A::make(buffer(bytes)), Rng::new(seed));
        let mut live: Vec<(*mut u8, Layout)> = Vec::new();
        loop {
            if rng.below(3) == 0 && !live.is_empty() {
                let (block, layout) = live.swap_remove(rng.below(live.len()));
                // SAFETY: the block is live and was allocated like this.
                unsafe { inside.dealloc(block, layout) };
                continue;
            }
            let layout = layout(&mut rng, kind);
            let block = inside.alloc(layout);
            if block.is_null() {
                break;
            }
            live.push((block, layout));
        }
        live_bytes += live.iter().map(|(_, layout)| layout.size()).sum::<usize>();
    }
    Reading::share(
        "live share at the first failure",
        live_bytes as f64 / (FILLS as usize * bytes) as f64,
    )
}

fn churn<A: Inside>(context: &Context, bytes: usize, kind: &str) -> Reading {
    let (inside, mut rng) = (A::make(buffer(bytes)), Rng::new(0));
    let mut live: Vec<(*mut u8, Layout)> = Vec::new();
    let mut sum = 0;
    while sum < bytes / 2 {
        let layout = layout(&mut rng, kind);
        sum += layout.size();
        live.push((inside.alloc(layout), layout));
    }
    time_loop(context, |rounds| {
        for _ in 0..rounds {
            let place = rng.below(live.len());
            let (old, old_layout) = live[place];
            // SAFETY: the block is live and was allocated like this.
            unsafe { inside.dealloc(old, old_layout) };
            let mut wanted = layout(&mut rng, kind);
            let mut block = inside.alloc(wanted);
            if block.is_null() {
                // There is place for what was there before.
                wanted = old_layout;
                block = inside.alloc(wanted);
            }
            assert!(!block.is_null(), "a block fits where it was");
            live[place] = (block, wanted);
        }
    })
}

fn pairs<A: Inside>(context: &Context, inside: &A, size: usize) -> Reading {
    time_loop(context, |pairs| {
        for _ in 0..pairs {
            let layout = Layout::from_size_align(opaque(size), 8).expect("a valid layout");
            let block = opaque_pointer(inside.alloc(layout));
            // SAFETY: just allocated, and not empty.
            unsafe { block.write(1) };
            // SAFETY: the block is live and was allocated like this.
            unsafe { inside.dealloc(block, layout) };
        }
    })
}
