//! Bump arenas: a cursor moves, and everything goes at once.
//!
//! | name | a scope is |
//! |---|---|
//! | `polyheap-region` | a region of its own on a heap |
//! | `polyheap-secret` | the same, clearing what it gives up |
//! | `polyheap-inner` | an inner scope of one region |
//! | `bumpalo`, `bump-scope` | an arena made and dropped |
//! | `bumpalo-reset` | one arena, reset |
//! | `bump-scope-inner` | an inner scope of one arena |

use allocator_api2::alloc::Allocator;
use bump_scope::alloc::Global;
use bumpalo::Bump;
use polyheap::Heap;
use polyheap_region::{Region, Scope, SecretRegion, scope, secret_scope};
use std::hint::black_box;
use std::mem::MaybeUninit;

/// polyheap's regions.
pub(crate) const OURS: &[&str] = &["polyheap-region", "polyheap-inner", "polyheap-secret"];

/// Arenas made anew.
pub(crate) const PEERS: &[&str] = &["bumpalo", "bump-scope"];

/// Arenas kept: a ratio of their own.
pub(crate) const KEPT: &[&str] = &["bumpalo-reset", "bump-scope-inner"];

static HEAP: Heap = Heap::new();

/// A value of so many words, of which the first is written.
#[derive(Debug)]
pub(crate) struct Value<const WORDS: usize>([MaybeUninit<u64>; WORDS]);

impl<const WORDS: usize> Value<WORDS> {
    #[inline(always)]
    fn new(first: usize) -> Value<WORDS> {
        let mut words = [MaybeUninit::uninit(); WORDS];
        words[0].write(first as u64);
        Value(words)
    }
}

/// A bump arena.
pub(crate) trait ArenaSubject {
    fn create() -> Self;
    fn value<const WORDS: usize>(&self, first: usize);
    fn slice(&self, items: &[u32]);
    fn text(&self, text: &str);

    /// Gives up all values.
    fn reset(&mut self);

    /// Opens a scope, allocates `count` values and closes it.
    fn cycle<const WORDS: usize>(&mut self, count: usize);

    /// Opens `depth` scopes inside each other, each with a number, and closes them.
    fn nest(&mut self, depth: usize);

    /// Does `job` with the arena as an allocator.
    fn with_allocator<J: AllocatorJob>(&self, job: J);
}

/// Something to do with an allocator, whichever it is.
pub(crate) trait AllocatorJob {
    fn run<A: Allocator + Copy>(self, alloc: A);
}

/// Something to do with an arena, whichever it is.
pub(crate) trait ArenaJob {
    type Output;
    fn run<A: ArenaSubject>(self) -> Self::Output;
}

/// Does `job` with the arenas called `name`.
///
/// # Panics
/// If there are none: the parent checks the names.
pub(crate) fn with_arena<J: ArenaJob>(name: &str, job: J) -> J::Output {
    match name {
        "polyheap-region" => job.run::<OwnScope>(),
        "polyheap-secret" => job.run::<SecretScope>(),
        "polyheap-inner" => job.run::<InnerScope>(),
        "bumpalo" => job.run::<Bump>(),
        "bumpalo-reset" => job.run::<Reset>(),
        "bump-scope" => job.run::<BumpScope>(),
        "bump-scope-inner" => job.run::<BumpScopeInner>(),
        _ => panic!("no arena {name}"),
    }
}

/// The methods that all arenas have under the same names.
macro_rules! allocate_in {
    ($subject:ident => $arena:expr) => {
        #[inline(always)]
        fn value<const WORDS: usize>(&self, first: usize) {
            let $subject = self;
            black_box($arena.alloc_with(|| Value::<WORDS>::new(first)));
        }

        #[inline(always)]
        fn slice(&self, items: &[u32]) {
            let $subject = self;
            black_box($arena.alloc_slice_copy(items));
        }

        #[inline(always)]
        fn text(&self, text: &str) {
            let $subject = self;
            black_box($arena.alloc_str(text));
        }

        fn with_allocator<J: AllocatorJob>(&self, job: J) {
            let $subject = self;
            job.run(&$arena);
        }
    };
}

macro_rules! allocate_values {
    ($words:ident, $arena:expr, $count:expr) => {
        for number in 0..$count {
            black_box($arena.alloc_with(|| Value::<$words>::new(number)));
        }
    };
}

struct OwnScope(Region<'static>);

impl ArenaSubject for OwnScope {
    fn create() -> OwnScope {
        OwnScope(Region::new_in(&HEAP))
    }

    allocate_in!(subject => subject.0);

    #[inline(always)]
    fn reset(&mut self) {
        self.0.reset();
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        scope(&HEAP, |r| allocate_values!(WORDS, r, count));
    }

    fn nest(&mut self, depth: usize) {
        scope(&HEAP, |r| {
            black_box(r.alloc(depth));
            if depth > 1 {
                self.nest(depth - 1);
            }
        });
    }
}

struct SecretScope(SecretRegion<'static>);

impl ArenaSubject for SecretScope {
    fn create() -> SecretScope {
        SecretScope(SecretRegion::new_in(&HEAP))
    }

    allocate_in!(subject => *subject.0);

    #[inline(always)]
    fn reset(&mut self) {
        self.0.reset();
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        secret_scope(&HEAP, |r| allocate_values!(WORDS, r, count));
    }

    fn nest(&mut self, depth: usize) {
        secret_scope(&HEAP, |r| {
            black_box(r.alloc(depth));
            if depth > 1 {
                self.nest(depth - 1);
            }
        });
    }
}

struct InnerScope(Region<'static>);

impl ArenaSubject for InnerScope {
    fn create() -> InnerScope {
        InnerScope(Region::new_in(&HEAP))
    }

    allocate_in!(subject => subject.0);

    #[inline(always)]
    fn reset(&mut self) {
        self.0.reset();
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        self.0.scope(|r| allocate_values!(WORDS, r, count));
    }

    fn nest(&mut self, depth: usize) {
        fn nest(r: &mut Scope<'_, '_>, depth: usize) {
            black_box(r.alloc(depth));
            if depth > 1 {
                r.scope(|inner| nest(inner, depth - 1));
            }
        }
        self.0.scope(|r| nest(r, depth));
    }
}

impl ArenaSubject for Bump {
    fn create() -> Bump {
        Bump::new()
    }

    allocate_in!(subject => *subject);

    #[inline(always)]
    fn reset(&mut self) {
        Bump::reset(self);
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        let arena = Bump::new();
        allocate_values!(WORDS, arena, count);
    }

    fn nest(&mut self, depth: usize) {
        let arena = Bump::new();
        black_box(arena.alloc(depth));
        if depth > 1 {
            self.nest(depth - 1);
        }
    }
}

struct Reset(Bump);

impl ArenaSubject for Reset {
    fn create() -> Reset {
        Reset(Bump::new())
    }

    allocate_in!(subject => subject.0);

    #[inline(always)]
    fn reset(&mut self) {
        self.0.reset();
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        allocate_values!(WORDS, self.0, count);
        self.0.reset();
    }

    /// There are no nested scopes; this is what one round of allocating costs.
    fn nest(&mut self, depth: usize) {
        self.cycle::<1>(depth);
    }
}

type BumpScope = bump_scope::Bump<Global>;

impl ArenaSubject for BumpScope {
    fn create() -> BumpScope {
        BumpScope::new()
    }

    allocate_in!(subject => *subject);

    #[inline(always)]
    fn reset(&mut self) {
        BumpScope::reset(self);
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        let arena = BumpScope::new();
        allocate_values!(WORDS, arena, count);
    }

    fn nest(&mut self, depth: usize) {
        let arena = BumpScope::new();
        black_box(arena.alloc(depth));
        if depth > 1 {
            self.nest(depth - 1);
        }
    }
}

struct BumpScopeInner(BumpScope);

impl ArenaSubject for BumpScopeInner {
    fn create() -> BumpScopeInner {
        BumpScopeInner(BumpScope::new())
    }

    allocate_in!(subject => subject.0);

    #[inline(always)]
    fn reset(&mut self) {
        self.0.reset();
    }

    #[inline(always)]
    fn cycle<const WORDS: usize>(&mut self, count: usize) {
        self.0.scoped(|r| allocate_values!(WORDS, r, count));
    }

    fn nest(&mut self, depth: usize) {
        fn nest(r: &mut bump_scope::BumpScope<'_, Global>, depth: usize) {
            black_box(r.alloc(depth));
            if depth > 1 {
                r.scoped(|inner| nest(inner, depth - 1));
            }
        }
        self.0.scoped(|r| nest(r, depth));
    }
}
