//! `regions`: bump arenas for the length of a scope.
//!
//! | case | an operation is |
//! |---|---|
//! | `value N` | a value of N bytes, its first word written; the arena is reset every 48 KiB |
//! | `slice` | a copy of 0 to 99 numbers of 4 bytes |
//! | `text` | a copy of 1 to 24 bytes of text |
//! | `cycle N` | open a scope, allocate N values of 8 bytes, close it; also with two threads |
//! | `blocks N` | the same with values of 64 bytes, for which a fresh arena's first chunk may be too short |
//! | `nested D` | open D scopes inside each other, a number in each, close them |
//! | `parse N` | parse N KiB of nested lists into vectors of the arena, and give them up |

use super::Workload;
use crate::arena_subject::{AllocatorJob, ArenaJob, ArenaSubject, with_arena};
use crate::context::Context;
use crate::measure::{time_loop, time_threads};
use crate::opaque::opaque;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::task::{Field, Task};
use allocator_api2::alloc::{Allocator, Global};
use allocator_api2::vec::Vec as VecIn;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::thread;
use std::time::Instant;

pub(crate) const REGIONS: Workload =
    Workload { name: "regions", about: "bump arenas for the length of a scope", tasks, run };

/// Bytes after which an arena is reset: less than a chunk, and than a first-level data cache.
const ROUND_BYTES: usize = 48 << 10;

/// Cycles between two looks at the clock.
const CYCLES_A_LOOK: u64 = 64;

/// The name of the global allocator in the `parse` cases.
pub(crate) const GLOBAL: &str = "global";

fn tasks(options: &Options) -> Vec<Task> {
    let parse = if options.quick { "parse 1024" } else { "parse 51200" };
    let cases = [
        "value 8",
        "value 16",
        "value 64",
        "value 256",
        "value 1024",
        "slice",
        "text",
        "cycle 1",
        "cycle 10",
        "cycle 1000",
        "blocks 1",
        "blocks 10",
        "blocks 1000",
        "nested 1",
        "nested 4",
        "nested 16",
    ];
    let threads = options.threads_or(&[2], &[2]);
    let one = cases.into_iter().map(|case| Task::new("regions", case, Field::Arenas));
    let many = threads
        .into_iter()
        .map(|threads| Task::new("regions", "cycle 10", Field::Arenas).with_threads(threads));
    one.chain(many).chain([Task::new("regions", parse, Field::Parsers)]).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    let name = &context.allocator;
    vec![match context.case.split_once(' ') {
        Some(("parse", _)) if name == GLOBAL => parse_with_global(context),
        Some(("parse", _)) => with_arena(name, Parsing(context)),
        Some(("cycle", _)) if context.threads > 1 => with_arena(name, Threads(context)),
        _ => with_arena(name, Single(context)),
    }]
}

struct Single<'a>(&'a Context);

impl ArenaJob for Single<'_> {
    type Output = Reading;

    fn run<A: ArenaSubject>(self) -> Reading {
        let mut arena = A::create();
        let kind = self.0.case.split(' ').next().unwrap_or_default();
        let number = || self.0.size();
        match kind {
            "value" => values(self.0, &mut arena, number()),
            "slice" => slices(self.0, &mut arena),
            "text" => texts(self.0, &mut arena),
            "cycle" => cycles::<A, 1>(self.0, &mut arena),
            "blocks" => cycles::<A, 8>(self.0, &mut arena),
            _ => {
                let depth = number();
                time_loop(self.0, |nests| (0..nests).for_each(|_| arena.nest(opaque(depth))))
            }
        }
    }
}

fn cycles<A: ArenaSubject, const WORDS: usize>(context: &Context, arena: &mut A) -> Reading {
    let count = context.size();
    time_loop(context, |cycles| cycle::<A, WORDS>(arena, cycles, count))
}

#[inline(never)]
fn cycle<A: ArenaSubject, const WORDS: usize>(arena: &mut A, cycles: u64, count: usize) {
    for _ in 0..cycles {
        arena.cycle::<WORDS>(opaque(count));
    }
}

fn values<A: ArenaSubject>(context: &Context, arena: &mut A, bytes: usize) -> Reading {
    let pass = match bytes {
        8 => value_rounds::<A, 1>,
        16 => value_rounds::<A, 2>,
        64 => value_rounds::<A, 8>,
        256 => value_rounds::<A, 32>,
        _ => value_rounds::<A, 128>,
    };
    time_loop(context, |values| pass(arena, values as usize))
}

#[inline(never)]
fn value_rounds<A: ArenaSubject, const WORDS: usize>(arena: &mut A, values: usize) {
    let a_round = ROUND_BYTES / (8 * WORDS);
    let mut left = values;
    while left > 0 {
        let count = left.min(a_round);
        for number in 0..count {
            arena.value::<WORDS>(number);
        }
        arena.reset();
        left -= count;
    }
}

fn slices<A: ArenaSubject>(context: &Context, arena: &mut A) -> Reading {
    let mut rng = Rng::new(0);
    let items: Vec<u32> = (0..100).collect();
    let lengths: Vec<usize> = (0..200).map(|_| rng.below(100)).collect();
    rounds(context, arena, &lengths, |arena, &length| arena.slice(&items[..length]))
}

fn texts<A: ArenaSubject>(context: &Context, arena: &mut A) -> Reading {
    let mut rng = Rng::new(0);
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let texts: Vec<&str> = (0..1000).map(|_| &letters[..rng.between(1, 24)]).collect();
    rounds(context, arena, &texts, |arena, text| arena.text(text))
}

/// Allocates a copy of each of `items`, resets, and again.
fn rounds<A: ArenaSubject, T>(
    context: &Context,
    arena: &mut A,
    items: &[T],
    allocate: impl Fn(&A, &T),
) -> Reading {
    time_loop(context, |copies| {
        let mut left = copies as usize;
        while left > 0 {
            let count = left.min(items.len());
            items[..count].iter().for_each(|item| allocate(arena, item));
            arena.reset();
            left -= count;
        }
    })
}

struct Threads<'a>(&'a Context);

impl ArenaJob for Threads<'_> {
    type Output = Reading;

    fn run<A: ArenaSubject>(self) -> Reading {
        let count = self.0.size();
        let work = |until: Instant| {
            let mut arena = A::create();
            let mut cycles = 0;
            while Instant::now() < until {
                cycle::<A, 1>(&mut arena, CYCLES_A_LOOK, count);
                cycles += CYCLES_A_LOOK;
            }
            cycles
        };
        time_threads(self.0, |until| {
            thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..self.0.threads).map(|_| scope.spawn(move || work(until))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
            })
        })
    }
}

struct Parsing<'a>(&'a Context);

impl ArenaJob for Parsing<'_> {
    type Output = Reading;

    fn run<A: ArenaSubject>(self) -> Reading {
        let document = document(self.0.size() << 10);
        time_loop(self.0, |documents| {
            for _ in 0..documents {
                // As a scope would: an arena a document, and nothing is dropped in it.
                let arena = A::create();
                arena.with_allocator(ParseOnce(&document));
            }
        })
    }
}

struct ParseOnce<'a>(&'a [u8]);

impl AllocatorJob for ParseOnce<'_> {
    fn run<A: Allocator + Copy>(self, alloc: A) {
        black_box(ManuallyDrop::new(parse(&mut { self.0 }, alloc)));
    }
}

fn parse_with_global(context: &Context) -> Reading {
    let document = document(context.size() << 10);
    time_loop(context, |documents| {
        for _ in 0..documents {
            black_box(parse(&mut &*document, Global));
        }
    })
}

/// A word or a list; the fields are what a tree is made of.
enum Node<A: Allocator> {
    Word { _text: VecIn<u8, A> },
    List { _items: VecIn<Node<A>, A> },
}

/// Parses the items up to the end of the list.
fn parse<A: Allocator + Copy>(rest: &mut &[u8], alloc: A) -> Node<A> {
    let mut items = VecIn::new_in(alloc);
    while let Some((&first, behind)) = rest.split_first() {
        match first {
            b')' => {
                *rest = behind;
                break;
            }
            b'(' => {
                *rest = behind;
                items.push(parse(rest, alloc));
            }
            b' ' => *rest = behind,
            _ => {
                let is_end = |byte: &u8| matches!(byte, b' ' | b'(' | b')');
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                let mut text = VecIn::with_capacity_in(length, alloc);
                text.extend_from_slice(&rest[..length]);
                *rest = &rest[length..];
                items.push(Node::Word { _text: text });
            }
        }
    }
    Node::List { _items: items }
}

/// Nested lists of words, the same in every process.
fn document(bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(0);
    let mut text = Vec::with_capacity(bytes + 64);
    let mut depth = 0;
    while text.len() < bytes {
        match rng.below(8) {
            0 if depth < 20 => {
                text.push(b'(');
                depth += 1;
            }
            1 if depth > 0 => {
                text.push(b')');
                depth -= 1;
            }
            _ => {
                let letters = (0..rng.between(2, 10)).map(|_| b'a' + rng.below(26) as u8);
                text.extend(letters);
                text.push(b' ');
            }
        }
    }
    text.extend((0..depth).map(|_| b')'));
    text
}
