//! The workbench of all loom models, and the models of the tagged stack and the baton.
//!
//! A model is a small scene: some shared state, a few threads that act on it with the real code,
//! and a check of what they leave behind. Loom runs it in every order the memory model allows.
//! Each model says what became of the scene; [`explore`] counts these outcomes, prints them, and
//! fails when they are not exactly the ones the model lists, so that no model is idle.
//!
//! *Invariants held here*: `[stack-tag]` is what the models of the stack are about.
//!
//! *Concurrency*: an execution runs one thread at a time, chosen by loom. [`Contents`] stands for
//! memory that is not atomic; two accesses without an order between them are a data race, which
//! loom reports.
//!
//! *Neighbours*: the `models.rs` of every room above builds its scenes from these, and `sync` hands
//! out the [`Gated`] atomics in place of loom's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use loom::cell::UnsafeCell;

use super::{Baton, Links, Ordering, TaggedStack};

/// The pointer of the models.
pub(crate) type AtomicPtr<T> = Gated<loom::sync::atomic::AtomicPtr<T>>;

/// Runs `model` in every order and checks that its outcomes are those in `expected`.
pub(crate) fn explore(
    name: &str,
    expected: &[&'static str],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    explore_within(None, name, expected, model);
}

/// [`explore`] with at most `preemptions` switches away from a thread that could go on.
pub(crate) fn explore_within(
    preemptions: Option<usize>,
    name: &str,
    expected: &[&'static str],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    let counts = Arc::new(Mutex::new(BTreeMap::<&'static str, usize>::new()));
    let mut explorer = loom::model::Builder::new();
    if preemptions.is_some() {
        explorer.preemption_bound = preemptions;
    }
    let tally = Arc::clone(&counts);
    explorer.check(move || {
        let outcome = model();
        *tally.lock().unwrap().entry(outcome).or_default() += 1;
    });
    let counts = counts.lock().unwrap();
    let bound = preemptions.map_or(String::new(), |most| format!(", at most {most} preemptions"));
    let total: usize = counts.values().sum();
    eprintln!("model {name}: {total} executions{bound} {counts:?}");
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert!(counts.keys().eq(expected.iter()), "model {name}: outcomes are not {expected:?}");
}

/// Runs `threads` beside each other on `scene` and returns what each returned.
pub(crate) fn beside<S, R, const N: usize>(scene: &Arc<S>, threads: [fn(&S) -> R; N]) -> [R; N]
where
    S: Send + Sync + 'static,
    R: 'static,
{
    let (last, others) = threads.split_last().unwrap();
    let running: Vec<_> = others
        .iter()
        .map(|&act| {
            let scene = Arc::clone(scene);
            loom::thread::spawn(move || act(&scene))
        })
        .collect();
    let own = last(scene);
    let joined = running.into_iter().map(|thread| thread.join().unwrap());
    let results: Vec<R> = joined.chain([own]).collect();
    results.try_into().ok().unwrap()
}

/// An atomic of loom's whose loads are told apart from each other.
///
/// Loom 0.7 keeps only the last access of an atomic when it looks for orders to try. So a thread's
/// own load hides that its exchange could have come before an earlier load of another thread, and
/// those orders are never run. Here each load first passes a gate, an exchange that orders nothing
/// in memory, and the two loads are tried in both orders.
#[derive(Debug)]
pub(crate) struct Gated<A> {
    atomic: A,
    gate: loom::sync::atomic::AtomicU64,
}

impl<A> Gated<A> {
    fn of(atomic: A) -> Gated<A> {
        Gated { atomic, gate: loom::sync::atomic::AtomicU64::new(0) }
    }

    fn pass(&self) -> &A {
        self.gate.fetch_add(0, Ordering::Relaxed);
        &self.atomic
    }
}

/// Makes gated atomics of loom's atomics of plain values.
macro_rules! gated {
    ($($atomic:ident of $value:ty),*) => {$(
        #[doc = concat!("The `", stringify!($value), "` of the models.")]
        pub(crate) type $atomic = Gated<loom::sync::atomic::$atomic>;

        impl $atomic {
            pub(crate) fn new(value: $value) -> $atomic {
                Gated::of(loom::sync::atomic::$atomic::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.pass().load(order)
            }

            /// As loom does it, but with the first load gated.
            pub(crate) fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.pass().fetch_update(set_order, fetch_order, change)
            }
        }
    )*};
}

gated!(AtomicBool of bool, AtomicU8 of u8, AtomicU64 of u64, AtomicUsize of usize);

impl<T> AtomicPtr<T> {
    pub(crate) fn new(value: *mut T) -> AtomicPtr<T> {
        Gated::of(loom::sync::atomic::AtomicPtr::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.pass().load(order)
    }
}

/// Everything but loads, as loom does it.
impl<A> std::ops::Deref for Gated<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.atomic
    }
}

/// Memory that is not atomic: what a block, a chunk, a magazine or a heap consists of.
#[derive(Debug)]
pub(crate) struct Contents(UnsafeCell<u64>);

// SAFETY: loom runs one thread at a time, and its cell stops the model at an access that is not
// ordered after every conflicting one.
unsafe impl Sync for Contents {}

impl Contents {
    /// Returns memory that holds `value`.
    pub(crate) fn new(value: u64) -> Contents {
        Contents(UnsafeCell::new(value))
    }

    /// Returns the value.
    pub(crate) fn read(&self) -> u64 {
        // SAFETY: the cell has just checked that no write is beside this read.
        self.0.with(|place| unsafe { *place })
    }

    /// Writes `value`; returns the one before.
    pub(crate) fn write(&self, value: u64) -> u64 {
        // SAFETY: the cell has just checked that no other access is beside this one.
        self.0.with_mut(|place| unsafe { place.replace(value) })
    }
}

const ITEMS: usize = 3;

/// A stack of items with contents; item `n` has `contents[n - 1]`.
struct Scene {
    stack: TaggedStack,
    links: Table,
    contents: [Contents; ITEMS],
}

/// Links in atomics, as the region map keeps them.
struct Table([AtomicU64; ITEMS + 1]);

impl Links for Table {
    fn below(&self, item: u64) -> u64 {
        self.0[item as usize].load(Ordering::Relaxed)
    }
    fn set_below(&self, item: u64, below: u64) {
        self.0[item as usize].store(below, Ordering::Relaxed);
    }
}

impl Scene {
    /// Returns a stack of `items`, the last one on top.
    fn new(items: &[u64]) -> Arc<Scene> {
        let scene = Scene {
            stack: TaggedStack::new(),
            links: Table(std::array::from_fn(|_| AtomicU64::new(0))),
            contents: std::array::from_fn(|_| Contents::new(0)),
        };
        items.iter().for_each(|&item| scene.stack.push(item, &scene.links));
        Arc::new(scene)
    }

    /// Fills an item the caller owns and puts it on top.
    fn push(&self, item: u64) {
        self.contents[item as usize - 1].write(item);
        self.stack.push(item, &self.links);
    }

    /// Takes the top item and uses it; 0 for none.
    fn pop(&self) -> u64 {
        let item = self.stack.pop(&self.links).unwrap_or(0);
        if item != 0 {
            self.contents[item as usize - 1].write(item);
        }
        item
    }

    /// Checks that the items popped and those still stacked are `count` different ones.
    fn account(&self, popped: impl IntoIterator<Item = u64>, count: usize) {
        let rest = std::iter::from_fn(|| self.stack.pop(&self.links));
        let mut all: Vec<u64> = popped.into_iter().filter(|&item| item != 0).chain(rest).collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=count as u64), "lost or doubled: {all:?}");
    }
}

/// A pop that is overtaken by two pops and the push of the item it has read must not succeed.
#[test]
fn stack_pop_overtaken_by_pops_and_push() {
    explore("stack_pop_overtaken", &["bottom", "top"], || {
        let scene = Scene::new(&[2, 1]);
        let [popped, kept] = beside(
            &scene,
            [
                |scene| scene.pop(),
                |scene| {
                    let (first, second) = (scene.pop(), scene.pop());
                    if first != 0 {
                        scene.push(first);
                    }
                    second
                },
            ],
        );
        scene.account([popped, kept], 2);
        if popped == 1 { "top" } else { "bottom" }
    });
}

/// A push publishes the item's contents and its link to the pop that takes it.
#[test]
fn stack_push_publishes_contents_and_link() {
    explore("stack_push_publishes", &["both", "none", "one"], || {
        let scene = Scene::new(&[]);
        let [_, (first, second)] = beside(
            &scene,
            [
                |scene| {
                    scene.push(1);
                    scene.push(2);
                    (0, 0)
                },
                |scene| (scene.pop(), scene.pop()),
            ],
        );
        scene.account([first, second], 2);
        match (first, second) {
            (0, 0) => "none",
            (0, _) | (_, 0) => "one",
            _ => "both",
        }
    });
}

/// Two pops share what one push after another brings.
#[test]
fn stack_pops_versus_push() {
    explore("stack_pops_versus_push", &["both", "one"], || {
        let scene = Scene::new(&[1]);
        let [_, first, second] = beside(
            &scene,
            [
                |scene| {
                    scene.push(2);
                    0
                },
                |scene| scene.pop(),
                |scene| scene.pop(),
            ],
        );
        scene.account([first, second], 2);
        if first * second != 0 { "both" } else { "one" }
    });
}

/// Two pushes and a pop: each item is once in the stack or with the popper.
#[test]
fn stack_pushes_versus_pop() {
    explore("stack_pushes_versus_pop", &["fresh", "old"], || {
        let scene = Scene::new(&[1]);
        let [_, _, popped] = beside(
            &scene,
            [
                |scene| {
                    scene.push(2);
                    0
                },
                |scene| {
                    scene.push(3);
                    0
                },
                |scene| scene.pop(),
            ],
        );
        scene.account([popped], 3);
        if popped == 1 { "old" } else { "fresh" }
    });
}

/// A baton and what goes with it.
struct Errand {
    baton: Baton,
    /// Times the baton was taken.
    taken: Contents,
}

impl Errand {
    fn new() -> Arc<Errand> {
        Arc::new(Errand { baton: Baton::new(), taken: Contents::new(0) })
    }

    /// Takes the baton `times` times if nobody has it, uses what goes with it and puts it down;
    /// returns how many times it had it.
    fn go(&self, times: usize) -> u64 {
        let goes = (0..times).filter(|_| {
            let is_mine = self.baton.take();
            if is_mine {
                self.taken.write(self.taken.read() + 1);
                self.baton.put_down();
            }
            is_mine
        });
        goes.count() as u64
    }

    /// Checks that what goes with the baton was used `times` times.
    fn account(&self, times: u64) {
        assert!(self.baton.take(), "the baton was not put down");
        assert_eq!(self.taken.read(), times, "a use was lost");
    }
}

/// Two threads that come by twice: one has the baton at a time and finds what the last one left.
#[test]
fn baton_passes_between_two() {
    explore("baton_passes_between_two", &["2", "3", "4"], || {
        let errand = Errand::new();
        let goes = beside(&errand, [|errand| errand.go(2), |errand| errand.go(2)]);
        let times = goes.iter().sum();
        errand.account(times);
        ["2", "3", "4"][times as usize - 2]
    });
}

/// Three threads: none waits, and each that passes by leaves the baton alone.
#[test]
fn baton_passes_among_three() {
    explore("baton_passes_among_three", &["1", "2", "3"], || {
        let errand = Errand::new();
        let goes =
            beside(&errand, [|errand| errand.go(1), |errand| errand.go(1), |errand| errand.go(1)]);
        let times = goes.iter().sum();
        errand.account(times);
        ["1", "2", "3"][times as usize - 1]
    });
}
