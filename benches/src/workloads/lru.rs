//! `lru`: a cache of 8 192 entries that drops the least recently used, under Zipf requests to 100 000 keys.
//!
//! A hash map from key texts to places in a list, linked in order of use; every value is a block of its own of 16 B to
//! 4 KiB. A hit copies the value out into a response; a miss makes key and value, and drops an old entry. An operation is
//! one request.

use super::Workload;
use crate::context::Context;
use crate::measure::time_loop;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use crate::via::Via;
use crate::zipf;
use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use hashbrown::{DefaultHashBuilder, HashMap};
use std::hint::black_box;
use std::io::Write;

pub(crate) const LRU: Workload = Workload {
    name: "lru",
    about: "cache under Zipf requests, hash map and boxed values",
    tasks,
    run,
};

const ENTRIES: usize = 8192;
const KEYS: u32 = 100_000;
const REQUESTS: usize = 1 << 19;
/// End of the list of entries.
const NONE: usize = usize::MAX;

fn tasks(_: &Options) -> Vec<Task> {
    vec![Task::new("lru", "8192 entries", Field::MixedSizes)]
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Lru(context))
}

struct Lru<'a>(&'a Context);

impl Job for Lru<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let requests = zipf::requests(&mut Rng::new(0), KEYS, REQUESTS);
        let mut cache = Cache::new(Via(subject));
        let mut turn = requests.iter().cycle();
        requests.iter().take(REQUESTS / 4).for_each(|&key| cache.request(key));
        vec![time_loop(self.0, |count| {
            for _ in 0..count {
                cache.request(turn.next().copied().unwrap_or_default());
            }
        })]
    }
}

type Bytes<'a, S> = VecIn<u8, Via<'a, S>>;

struct Entry<'a, S: Subject> {
    key: Bytes<'a, S>,
    value: BoxIn<[u8], Via<'a, S>>,
    newer: usize,
    older: usize,
}

struct Cache<'a, S: Subject> {
    via: Via<'a, S>,
    places: HashMap<Bytes<'a, S>, usize, DefaultHashBuilder, Via<'a, S>>,
    entries: VecIn<Entry<'a, S>, Via<'a, S>>,
    newest: usize,
    oldest: usize,
}

impl<'a, S: Subject> Cache<'a, S> {
    fn new(via: Via<'a, S>) -> Cache<'a, S> {
        Cache {
            via,
            places: HashMap::new_in(via),
            entries: VecIn::new_in(via),
            newest: NONE,
            oldest: NONE,
        }
    }

    fn request(&mut self, key: u32) {
        let mut text = VecIn::new_in(self.via);
        write!(text, "user:{key:08}:profile").expect("a vector takes all");
        if let Some(&place) = self.places.get(&text) {
            let response = copy_of(&self.entries[place].value, self.via);
            black_box(&response);
            self.unlink(place);
            self.link(place);
        } else {
            self.insert(text, zipf::value_bytes(key));
        }
    }

    fn insert(&mut self, key: Bytes<'a, S>, value_bytes: usize) {
        let mut value = VecIn::with_capacity_in(value_bytes, self.via);
        value.resize(value_bytes, 7);
        let entry =
            Entry { key: key.clone(), value: value.into_boxed_slice(), newer: NONE, older: NONE };
        let place = if self.entries.len() < ENTRIES {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.entries[place].key);
            self.entries[place] = entry;
            place
        };
        self.places.insert(key, place);
        self.link(place);
    }

    /// Makes the entry the newest.
    fn link(&mut self, place: usize) {
        self.entries[place].newer = NONE;
        self.entries[place].older = self.newest;
        match self.newest {
            NONE => self.oldest = place,
            newest => self.entries[newest].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: usize) {
        let Entry { newer, older, .. } = self.entries[place];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
    }
}

fn copy_of<'a, S: Subject>(bytes: &[u8], via: Via<'a, S>) -> Bytes<'a, S> {
    let mut copy = VecIn::with_capacity_in(bytes.len(), via);
    copy.extend_from_slice(bytes);
    copy
}
