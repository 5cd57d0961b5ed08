//! `churn KxS`: K blocks are live; a random one is freed and its replacement allocated. An operation is one replacement,
//! generator included.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_loop;
use crate::opaque::opaque;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::mem::replace;

pub(crate) const CHURN: Workload =
    Workload { name: "churn", about: "K live blocks, a random one freed and replaced", tasks, run };

const LIVE: &[usize] = &[256, 65536];
const SIZES: &[&str] = &["16", "64", "256", "1024", "8..1024", "8..16000"];
const QUICK_SIZES: &[&str] = &["64", "8..1024"];

fn tasks(options: &Options) -> Vec<Task> {
    let sizes = if options.quick && options.sizes.is_empty() { QUICK_SIZES } else { SIZES };
    let wanted = sizes.iter().filter(|size| options.wants_size(size));
    let sized = |size: &&str| {
        let field = if size.contains("..") { Field::MixedLoops } else { Field::Loops };
        (size.to_string(), field)
    };
    let sizes: Vec<_> = wanted.map(sized).collect();
    let case = |live, (size, field): &(String, Field)| {
        Task::new("churn", format!("{live}x{size}"), *field)
    };
    LIVE.iter().flat_map(|live| sizes.iter().map(move |sized| case(live, sized))).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Churn(context))
}

pub(super) struct Churn<'a>(pub(super) &'a Context);

impl Job for Churn<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let (live, low, high) = parse(&self.0.case).expect("a case KxS or KxS..S");
        let mut rng = Rng::new(0);
        let mut blocks: Vec<Block> =
            (0..live).map(|_| Block::new(subject, rng.between(low, high))).collect();
        let reading = if low == high {
            time_loop(self.0, |replacements| {
                fixed(subject, &mut blocks, &mut rng, low, replacements)
            })
        } else {
            time_loop(self.0, |replacements| {
                mixed(subject, &mut blocks, &mut rng, (low, high), replacements)
            })
        };
        blocks.into_iter().for_each(|block| block.free(subject));
        vec![reading]
    }
}

/// Reads `256x64` or `256x8..1024` as the number of live blocks, the smallest and the largest size.
pub(super) fn parse(case: &str) -> Option<(usize, usize, usize)> {
    let (live, sizes) = case.split_once('x')?;
    let (low, high) = sizes.split_once("..").unwrap_or((sizes, sizes));
    Some((live.parse().ok()?, low.parse().ok()?, high.parse().ok()?))
}

#[inline(never)]
fn fixed<S: Subject>(
    subject: &S,
    blocks: &mut [Block],
    rng: &mut Rng,
    size: usize,
    replacements: u64,
) {
    for _ in 0..replacements {
        let place = rng.below(blocks.len());
        exchange(subject, &mut blocks[place], opaque(size));
    }
}

#[inline(never)]
fn mixed<S: Subject>(
    subject: &S,
    blocks: &mut [Block],
    rng: &mut Rng,
    (low, high): (usize, usize),
    replacements: u64,
) {
    for _ in 0..replacements {
        let place = rng.below(blocks.len());
        exchange(subject, &mut blocks[place], rng.between(low, high));
    }
}

/// Frees the block in a place, then allocates the next one there.
#[inline(always)]
fn exchange<S: Subject>(subject: &S, place: &mut Block, size: usize) {
    replace(place, Block::nothing()).free(subject);
    *place = Block::new(subject, size);
}
