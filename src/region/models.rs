//! Models of the claims on a region's free word, of purges, and of the depot of mappings: no chunk
//! and no mapping ever has two owners, an owner finds it as the last one left it, and chunks that
//! are not reached are zero.
//!
//! Some scenes of three and four threads are explored up to a number of preemptions: without a bound
//! they take many minutes.
//!
//! *Invariants held here*: `[chunk-one-owner]`, `[charged-is-held]` and `[mapping-one-owner]` are
//! what they are about.
//!
//! *Concurrency*: loom runs the real `chunks` and `mapping_depot`; [`Contents`] stands for a chunk's
//! memory and for a mapping's entry.
//!
//! *Neighbours*: stands on the workbench in `sync`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Tally;

use super::chunks::{claim_run, claim_run_at, fill_up, give_run, hollow_out, is_hollow, purge_run};
use super::mapping_depot::MappingDepot;
use crate::base::run_mask;
use crate::sync::{AtomicU8, AtomicU64, Contents, Ordering, beside, explore, explore_within};

const CHUNKS: usize = 4;

/// Outcomes that are numbers.
const COUNTS: [&str; 3] = ["0", "1", "2"];

/// A region of four chunks.
struct Scene {
    free: AtomicU64,
    chunks: [Contents; CHUNKS],
}

impl Scene {
    fn new(free: u64) -> Arc<Scene> {
        let chunks = std::array::from_fn(|_| Contents::new(0));
        Arc::new(Scene { free: AtomicU64::new(free), chunks })
    }

    /// Claims a run anywhere and writes to it; returns its mask, 0 for none.
    fn claim(&self, count: usize, step: usize) -> u64 {
        let claimed = claim_run(&self.free, 0, count, step);
        claimed.map_or(0, |first| self.write(first, count))
    }

    /// Claims a run at a place and writes to it; returns its mask, 0 for none.
    fn claim_at(&self, first: usize, count: usize) -> u64 {
        if claim_run_at(&self.free, first, count) { self.write(first, count) } else { 0 }
    }

    /// Writes to a run the caller owns for the last time and gives it back.
    fn give(&self, first: usize, count: usize) -> u64 {
        self.write(first, count);
        assert!(give_run(&self.free, first, count), "given twice");
        0
    }

    fn write(&self, first: usize, count: usize) -> u64 {
        self.chunks[first..first + count].iter().for_each(|chunk| _ = chunk.write(1));
        run_mask(first, count)
    }

    /// Checks that the claimed chunks and the free ones are those of `all`, each once.
    fn account(&self, claimed: impl IntoIterator<Item = u64>, all: u64) {
        let mut seen = self.free.load(Ordering::Relaxed);
        for mask in claimed {
            assert_eq!(seen & mask, 0, "a chunk with two owners");
            seen |= mask;
        }
        assert_eq!(seen, all, "a chunk was lost");
    }
}

/// Two claimers whose runs overlap, while the chunk that both want comes back.
#[test]
fn chunk_claims_overlap_while_one_is_given() {
    let outcomes = ["high run", "low run", "no run"];
    explore("chunk_claims_overlap", &outcomes, || {
        // Chunk 2 is the giver's; 1 and 3 are free: a run of two needs it.
        let scene = Scene::new(0b1010);
        let [_, low, high] = beside(
            &scene,
            [|scene| scene.give(2, 1), |scene| scene.claim(2, 1), |scene| scene.claim_at(2, 2)],
        );
        scene.account([low, high], 0b1110);
        match (low, high) {
            (0, 0) => "no run",
            (0, _) => "high run",
            _ => "low run",
        }
    });
}

/// Two claimers of any chunk, one chunk free: the free word alone decides.
#[test]
fn chunk_claims_of_the_last_chunk() {
    explore("chunk_claims_of_the_last_chunk", &["first", "second"], || {
        let scene = Scene::new(0b0100);
        let claimed = beside(&scene, [|scene| scene.claim(1, 1), |scene| scene.claim_at(2, 1)]);
        scene.account(claimed, 0b0100);
        if claimed[0] != 0 { "first" } else { "second" }
    });
}

/// A run goes from owner to owner: claimed, given and claimed again.
#[test]
fn chunk_run_passes_through_two_owners() {
    explore("chunk_run_passes_on", &["both", "first", "second"], || {
        let scene = Scene::new(0b0110);
        let claim_and_give: fn(&Scene) -> u64 = |scene| {
            let run = scene.claim(2, 1);
            if run != 0 {
                scene.give(1, 2);
            }
            run
        };
        let [first, second] = beside(&scene, [claim_and_give, |scene| scene.claim_at(1, 2)]);
        scene.account([second], 0b0110);
        match (first != 0, second != 0) {
            (true, true) => "both",
            (true, false) => "first",
            _ => "second",
        }
    });
}

/// Contents of a chunk without memory.
const UNMAPPED: u64 = 9;

/// A region of which chunks 1 and 2 are all there is.
struct Ground {
    free: AtomicU64,
    hollow: AtomicU8,
    chunks: [Contents; 2],
}

impl Ground {
    fn new(free: u64) -> Arc<Ground> {
        let chunks = std::array::from_fn(|_| Contents::new(0));
        Arc::new(Ground { free: AtomicU64::new(free), hollow: AtomicU8::new(0), chunks })
    }

    fn hollow_out(&self) -> bool {
        hollow_out(&self.free, &self.hollow, 1, 2, || {
            self.set_all(0, UNMAPPED);
            true
        })
    }

    fn fill_up(&self) -> bool {
        fill_up(&self.free, &self.hollow, 1, 2, || {
            self.set_all(UNMAPPED, 0);
            true
        })
    }

    fn set_all(&self, from: u64, to: u64) {
        self.chunks.iter().for_each(|chunk| assert_eq!(chunk.write(to), from, "mapped as it was"));
    }

    /// Claims a chunk, which has memory, and gives it back; returns whether there was one.
    fn use_chunk(&self) -> bool {
        let Some(chunk) = claim_run(&self.free, 0, 1, 1) else { return false };
        assert_eq!(self.chunks[chunk - 1].write(1), 0, "a chunk without memory, or in use");
        self.chunks[chunk - 1].write(0);
        give_run(&self.free, chunk, 1)
    }
}

/// A region is hollowed out while a thread takes a chunk of it, and filled up by two.
#[test]
fn hollow_region_versus_claim_and_fills() {
    let outcomes = ["hollow", "solid", "solid, filled once"];
    explore_within(Some(3), "hollow_region_versus_claim_and_fills", &outcomes, || {
        let ground = Ground::new(0b110);
        let [hollowed, first, second, _] = beside(
            &ground,
            [
                |ground| ground.hollow_out(),
                |ground| ground.fill_up(),
                |ground| ground.fill_up(),
                |ground| ground.use_chunk(),
            ],
        );
        assert!(!(first && second), "filled twice");
        assert!(hollowed || !first && !second, "filled, and never hollow");
        let filled = first || second;
        assert_eq!(is_hollow(&ground.hollow), hollowed && !filled);
        let free = ground.free.load(Ordering::Relaxed);
        assert_eq!(free, if hollowed && !filled { 0 } else { 0b110 }, "a chunk was lost");
        match (hollowed, filled) {
            (true, false) => "hollow",
            (true, true) => "solid, filled once",
            _ => "solid",
        }
    });
}

/// A region goes from hollow to solid and back while another thread fills it: whoever changes the memory
/// finds it as the state says.
#[test]
fn hollow_region_is_filled_and_hollowed_again() {
    explore("hollow_region_is_filled_and_hollowed_again", &["solid"], || {
        let ground = Ground::new(0b110);
        let in_turn: fn(&Ground) -> bool = |ground| {
            ground.hollow_out();
            ground.fill_up()
        };
        beside(&ground, [in_turn, in_turn]);
        assert!(!is_hollow(&ground.hollow), "whoever hollows out fills up, or lets another do so");
        assert_eq!(ground.free.load(Ordering::Relaxed), 0b110, "a chunk was lost");
        "solid"
    });
}

/// Contents of a chunk that was handed out once.
const OLD: u64 = 1;
/// Contents of a chunk in use.
const LIVE: u64 = 2;

/// A region of four chunks whose reached ones are dirty and whose other ones are zero.
struct Dirt {
    free: AtomicU64,
    reached: [AtomicU8; CHUNKS],
    chunks: [Contents; CHUNKS],
}

/// What became of a claim or a purge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    /// There was nothing to claim.
    Nothing,
    /// Claimed a chunk that was not reached.
    Fresh,
    /// Claimed a chunk that was reached.
    Used,
    /// Purged so many reached chunks.
    Purged(usize),
}

impl Dirt {
    /// Returns a region in which the chunks of `free` are free and those of `reached` dirty.
    fn new(free: u64, reached: u64) -> Arc<Dirt> {
        let is_reached = |chunk: usize| reached >> chunk & 1 == 1;
        let old = |chunk| Contents::new(if is_reached(chunk) { OLD } else { 0 });
        Arc::new(Dirt {
            free: AtomicU64::new(free),
            reached: std::array::from_fn(|chunk| AtomicU8::new(is_reached(chunk).into())),
            chunks: std::array::from_fn(old),
        })
    }

    /// Purges a run if it is free and the system `may`.
    fn purge_if(&self, first: usize, count: usize, may: bool) -> Deed {
        let drop_contents = || {
            let run = &self.chunks[first..first + count];
            run.iter().filter(|_| may).for_each(|chunk| _ = chunk.write(0));
            may
        };
        let (forgotten, was_taken) =
            purge_run(&self.free, &self.reached, first, count, drop_contents);
        assert!(was_taken, "given by another");
        Deed::Purged(forgotten)
    }

    fn purge(&self, first: usize, count: usize) -> Deed {
        self.purge_if(first, count, true)
    }

    /// Claims a chunk anywhere, in the order of `Span::create`, and checks what is in it.
    fn claim(&self) -> Deed {
        claim_run(&self.free, 0, 1, 1).map_or(Deed::Nothing, |chunk| self.reach(chunk))
    }

    /// Claims the chunk at a place; as [`claim`](Dirt::claim).
    fn claim_at(&self, chunk: usize) -> Deed {
        if claim_run_at(&self.free, chunk, 1) { self.reach(chunk) } else { Deed::Nothing }
    }

    fn reach(&self, chunk: usize) -> Deed {
        let is_reached = self.reached[chunk].load(Ordering::Relaxed) != 0;
        if !is_reached {
            self.reached[chunk].store(1, Ordering::Relaxed);
        }
        let before = self.chunks[chunk].write(LIVE);
        assert!(is_reached || before == 0, "a fresh chunk is not zero");
        assert_ne!(before, LIVE, "a live chunk was claimed");
        if is_reached { Deed::Used } else { Deed::Fresh }
    }

    /// Gives a chunk the caller owns, which is live till then.
    fn give(&self, chunk: usize) {
        assert_eq!(self.chunks[chunk].write(OLD), LIVE, "a live chunk was purged");
        assert!(give_run(&self.free, chunk, 1), "given twice");
    }

    /// Claims a chunk at a place and gives it back.
    fn pass(&self, chunk: usize) -> Deed {
        let deed = self.claim_at(chunk);
        if deed != Deed::Nothing {
            self.give(chunk);
        }
        deed
    }

    /// Checks that all chunks but `live` are free, that those not reached are zero, and that as many
    /// are reached as were, and those that `deeds` reached, without those they purged.
    fn account(&self, live: u64, before: usize, deeds: &[Deed]) {
        assert_eq!(self.free.load(Ordering::Acquire), 0b1110 & !live, "lost or given early");
        let reached: Vec<bool> =
            self.reached.iter().map(|reached| reached.load(Ordering::Relaxed) != 0).collect();
        for (is_reached, contents) in reached.iter().zip(&self.chunks) {
            assert!(*is_reached || contents.read() == 0, "what is not reached is not zero");
        }
        let fresh = deeds.iter().filter(|&&deed| deed == Deed::Fresh).count();
        let purged = |deed: &Deed| if let Deed::Purged(chunks) = deed { *chunks } else { 0 };
        let forgotten: usize = deeds.iter().map(purged).sum();
        let now = reached.iter().filter(|&&is_reached| is_reached).count();
        assert_eq!(now + forgotten, before + fresh, "counted twice or not at all");
    }
}

/// A claimer that keeps its chunk finds it purged or dirty, and it is not purged afterwards.
#[test]
fn purge_versus_claim() {
    explore("purge_versus_claim", &["held up", "purged before", "taken before"], || {
        let dirt = Dirt::new(0b1110, 0b0100);
        let [purged, claimed] = beside(&dirt, [|dirt| dirt.purge(2, 1), |dirt| dirt.claim_at(2)]);
        let live = if claimed == Deed::Nothing { 0 } else { 0b0100 };
        dirt.account(live, 1, &[purged, claimed]);
        match (purged, claimed) {
            (Deed::Purged(1), Deed::Fresh) => "purged before",
            (Deed::Purged(1), Deed::Nothing) => "held up",
            (Deed::Purged(0), Deed::Used) => "taken before",
            other => panic!("{other:?}"),
        }
    });
}

/// A chunk is claimed and given back while a run around it is purged.
#[test]
fn purge_of_a_run_versus_claim_and_give() {
    let outcomes = ["given before", "held up", "purged before", "taken meanwhile"];
    explore("purge_of_a_run", &outcomes, || {
        // Of the run of 1 and 2, chunk 1 is dirty and chunk 2 not yet.
        let dirt = Dirt::new(0b1110, 0b0010);
        let [purged, claimed] = beside(&dirt, [|dirt| dirt.purge(1, 2), |dirt| dirt.pass(2)]);
        dirt.account(0, 1, &[purged, claimed]);
        match (purged, claimed) {
            (Deed::Purged(2), Deed::Fresh) => "given before",
            (Deed::Purged(1), Deed::Fresh) => "purged before",
            (Deed::Purged(1), Deed::Nothing) => "held up",
            (Deed::Purged(0), Deed::Fresh) => "taken meanwhile",
            other => panic!("{other:?}"),
        }
    });
}

/// A live chunk is given back while a purger and a claimer want it.
#[test]
fn purge_versus_giver_versus_claimer() {
    let outcomes = ["claimed", "neither", "purged", "purged and claimed"];
    explore("purge_versus_giver_versus_claimer", &outcomes, || {
        // Chunk 2 is the giver's, the others are taken for good.
        let dirt = Dirt::new(0, 0b0100);
        dirt.chunks[2].write(LIVE);
        let [_, purged, claimed] = beside(
            &dirt,
            [
                |dirt| {
                    dirt.give(2);
                    Deed::Nothing
                },
                |dirt| dirt.purge(2, 1),
                |dirt| dirt.claim(),
            ],
        );
        let live = if claimed == Deed::Nothing { 0 } else { 0b0100 };
        dirt.account(0b1010 | live, 1, &[purged, claimed]);
        match (purged, claimed) {
            (Deed::Purged(0), Deed::Nothing) => "neither",
            (Deed::Purged(0), Deed::Used) => "claimed",
            (Deed::Purged(1), Deed::Nothing) => "purged",
            (Deed::Purged(1), Deed::Fresh) => "purged and claimed",
            other => panic!("{other:?}"),
        }
    });
}

/// Two purges whose runs overlap, as a sweep's and a trim's do: each reached chunk counts once.
#[test]
fn purges_overlap_beside_a_claim() {
    explore_within(Some(3), "purges_overlap_beside_a_claim", &COUNTS, || {
        let dirt = Dirt::new(0b1110, 0b1110);
        let deeds =
            beside(&dirt, [|dirt| dirt.purge(1, 2), |dirt| dirt.purge(2, 2), |dirt| dirt.pass(3)]);
        dirt.account(0, 3, &deeds);
        let reached = dirt.reached.iter().filter(|chunk| chunk.load(Ordering::Relaxed) != 0);
        COUNTS[reached.count()]
    });
}

/// A purge the system refuses: what was reached stays reached, for what it holds may be anything.
#[test]
fn purge_refused_versus_claim() {
    explore("purge_refused_versus_claim", &["held up", "taken"], || {
        let dirt = Dirt::new(0b1110, 0b0100);
        let [purged, claimed] =
            beside(&dirt, [|dirt| dirt.purge_if(2, 1, false), |dirt| dirt.pass(2)]);
        dirt.account(0, 1, &[purged, claimed]);
        assert_eq!(purged, Deed::Purged(0));
        match claimed {
            Deed::Nothing => "held up",
            Deed::Used => "taken",
            other => panic!("{other:?}"),
        }
    });
}

/// A depot of two classes and three mappings; mapping `n` has the base `n`.
struct Mappings {
    depot: MappingDepot<2, 2>,
    /// What the last owner wrote to each mapping's entry.
    entries: [Contents; 3],
    bytes_max: usize,
    /// Bytes stored. No atomic of loom's: it changes together with the exchange before it, as loom
    /// lets other threads run before accesses to its own only.
    stored_bytes: Tally,
}

impl Mappings {
    fn new(bytes_max: usize) -> Arc<Mappings> {
        let entries = std::array::from_fn(|_| Contents::new(0));
        let (depot, stored_bytes) = (MappingDepot::new(), Tally::new(0));
        Arc::new(Mappings { depot, entries, bytes_max, stored_bytes })
    }

    /// Returns the class of a mapping and its bytes: the third one is larger.
    fn kind(mapping: usize) -> (usize, usize) {
        if mapping == 3 { (1, 2) } else { (0, 1) }
    }

    /// Writes to a mapping the caller owns and stores it; returns it if it stays here.
    fn store(&self, mapping: usize) -> usize {
        let (class, bytes) = Mappings::kind(mapping);
        self.entries[mapping - 1].write(mapping as u64);
        if !self.depot.store(class, mapping, bytes, self.bytes_max) {
            return mapping;
        }
        let stored_bytes = self.stored_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        assert!(stored_bytes <= self.bytes_max, "more is stored than may be");
        0
    }

    /// Loads a mapping of `class` and uses it; returns it, 0 for none.
    fn load(&self, class: usize) -> usize {
        let bytes = class + 1;
        let Some(mapping) = self.depot.load(class, bytes) else { return 0 };
        self.stored_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert_eq!(Mappings::kind(mapping), (class, bytes), "a mapping of another class");
        let entry = self.entries[mapping - 1].write(0);
        assert_eq!(entry, mapping as u64, "not what its last owner wrote");
        mapping
    }

    /// Checks that the mappings with threads and those in the depot are all, each once, and that the
    /// depot counts what it has.
    fn account(&self, held: impl IntoIterator<Item = usize>) {
        let counted = self.depot.bytes();
        let class = |class| std::iter::from_fn(move || Some(self.load(class)).filter(|&n| n != 0));
        let rest: Vec<usize> = class(0).chain(class(1)).collect();
        let bytes = rest.iter().map(|&mapping| Mappings::kind(mapping).1).sum::<usize>();
        assert_eq!((counted, self.depot.bytes()), (bytes, 0), "bytes that are not there");
        let held = held.into_iter().filter(|&mapping| mapping != 0);
        let mut all: Vec<usize> = held.chain(rest).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3], "a mapping was lost or doubled");
    }
}

/// Counts the mappings among what threads returned.
fn count(mappings: &[usize]) -> usize {
    mappings.iter().filter(|&&mapping| mapping != 0).count()
}

/// A storer and a loader of two mappings.
#[test]
fn mapping_storer_versus_loader() {
    explore("mapping_storer_versus_loader", &COUNTS, || {
        let mappings = Mappings::new(2);
        let [stored, loaded] = beside(
            &mappings,
            [
                |mappings| [mappings.store(1), mappings.store(2)],
                |mappings| [mappings.load(0), mappings.load(0)],
            ],
        );
        assert_eq!(stored, [0, 0], "a mapping that has room");
        mappings.account(loaded.into_iter().chain([3]));
        COUNTS[count(&loaded)]
    });
}

/// Two loaders and one mapping: one of them gets it.
#[test]
fn mapping_two_loaders() {
    explore("mapping_two_loaders", &["first", "second"], || {
        let mappings = Mappings::new(1);
        mappings.store(1);
        let loaded = beside(&mappings, [|mappings| mappings.load(0), |mappings| mappings.load(0)]);
        mappings.account(loaded.into_iter().chain([2, 3]));
        if loaded[0] == 1 { "first" } else { "second" }
    });
}

/// Two storers and two loaders at the two places of a class.
#[test]
fn mapping_storers_versus_loaders() {
    explore_within(Some(3), "mapping_storers_versus_loaders", &COUNTS, || {
        let mappings = Mappings::new(2);
        let held = beside(
            &mappings,
            [
                |mappings| mappings.store(1),
                |mappings| mappings.store(2),
                |mappings| mappings.load(0),
                |mappings| mappings.load(0),
            ],
        );
        assert_eq!(held[..2], [0, 0], "a mapping that has room");
        mappings.account(held.into_iter().chain([3]));
        COUNTS[count(&held[2..])]
    });
}

/// Two storers at the cap: whichever raises the bytes first has room, the other one has none.
#[test]
fn mapping_storers_at_the_cap() {
    explore("mapping_storers_at_the_cap", &["large", "small"], || {
        let mappings = Mappings::new(2);
        let held = beside(&mappings, [|mappings| mappings.store(2), |mappings| mappings.store(3)]);
        mappings.account(held.into_iter().chain([1]));
        match held {
            [0, 3] => "small",
            [2, 0] => "large",
            _ => panic!("both or neither: {held:?}"),
        }
    });
}

/// A storer that is refused may be in the way of one that has room, and only for that long.
#[test]
fn mapping_storer_beside_one_too_large() {
    explore("mapping_storer_beside_one_too_large", &["refused", "stored"], || {
        let mappings = Mappings::new(2);
        mappings.store(1);
        let held = beside(&mappings, [|mappings| mappings.store(2), |mappings| mappings.store(3)]);
        assert_eq!(held[1], 3, "more is stored than may be");
        let kept = if held[0] == 0 { 0 } else { mappings.store(2) };
        assert_eq!(kept, 0, "bytes of a refused mapping");
        mappings.account([3]);
        if held[0] == 0 { "stored" } else { "refused" }
    });
}

/// A loader makes room while a storer wants it: the old mapping is out before the new one is in.
#[test]
fn mapping_storer_versus_loader_at_the_cap() {
    explore("mapping_storer_versus_loader_at_the_cap", &["refused", "stored"], || {
        let mappings = Mappings::new(1);
        mappings.store(1);
        let [kept, loaded] =
            beside(&mappings, [|mappings| mappings.store(2), |mappings| mappings.load(0)]);
        assert_ne!(loaded, 0, "a mapping was there");
        mappings.account([kept, loaded, 3]);
        if kept == 0 { "stored" } else { "refused" }
    });
}
