//! `kv`: a key-value store of 16 shards, values of 16 B to 4 KiB, two threads.
//!
//! Half of the requests read a value, copied out; four in ten write one; one in ten removes one. A full shard drops its
//! oldest entry at a write, whichever thread made that, so values are freed by other threads than allocated them. An
//! operation is one request.

use super::Workload;
use crate::context::Context;
use crate::measure::time_threads;
use crate::options::Options;
use crate::reading::Reading;
use crate::rng::Rng;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use crate::via::Via;
use crate::zipf;
use allocator_api2::vec::Vec as VecIn;
use hashbrown::{DefaultHashBuilder, HashMap};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::scope;
use std::time::Instant;

pub(crate) const KV: Workload = Workload {
    name: "kv",
    about: "key-value store, variable values, cross-thread eviction",
    tasks,
    run,
};

const SHARDS: usize = 16;
const SHARD_ENTRIES: usize = 1024;
const KEYS: u32 = 65_536;
const REQUESTS: usize = 1 << 16;
/// Requests between two looks at the clock.
const STRIDE: usize = 256;

fn tasks(options: &Options) -> Vec<Task> {
    let threads = options.threads_or(&[2], &[2]);
    threads
        .iter()
        .map(|&count| Task::new("kv", "16 shards", Field::MixedSizes).with_threads(count))
        .collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Kv(context))
}

struct Kv<'a>(&'a Context);

impl Job for Kv<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let requests = zipf::requests(&mut Rng::new(0), KEYS, REQUESTS);
        let store = Store::new(Via(subject));
        vec![time_threads(self.0, |until| {
            scope(|scope| {
                let serve = |number| {
                    let (store, requests) = (&store, &requests);
                    scope.spawn(move || store.serve(requests, number, until))
                };
                let running: Vec<_> = (0..self.0.threads).map(serve).collect();
                running.into_iter().map(|thread| thread.join().expect("servers do not panic")).sum()
            })
        })]
    }
}

type Bytes<'a, S> = VecIn<u8, Via<'a, S>>;

struct Shard<'a, S: Subject> {
    values: HashMap<u32, Bytes<'a, S>, DefaultHashBuilder, Via<'a, S>>,
    /// Keys in the order they were first written; the harness's own.
    order: VecDeque<u32>,
}

struct Store<'a, S: Subject> {
    via: Via<'a, S>,
    shards: Vec<Mutex<Shard<'a, S>>>,
}

impl<'a, S: Subject> Store<'a, S> {
    fn new(via: Via<'a, S>) -> Store<'a, S> {
        let shard = |_| Mutex::new(Shard { values: HashMap::new_in(via), order: VecDeque::new() });
        Store { via, shards: (0..SHARDS).map(shard).collect() }
    }

    /// Serves requests until then; returns how many.
    fn serve(&self, requests: &[u32], number: usize, until: Instant) -> u64 {
        let mut rng = Rng::new(number as u64);
        let mut turn = requests.iter().cycle().skip(number * REQUESTS / 2);
        let mut served = 0;
        while Instant::now() < until {
            for &key in turn.by_ref().take(STRIDE) {
                match rng.below(10) {
                    0..5 => self.read(key),
                    5..9 => self.write(key),
                    _ => self.remove(key),
                }
            }
            served += STRIDE as u64;
        }
        served
    }

    fn shard(&self, key: u32) -> MutexGuard<'_, Shard<'a, S>> {
        self.shards[key as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, key: u32) {
        let response = self.shard(key).values.get(&key).cloned();
        black_box(response);
    }

    fn write(&self, key: u32) {
        let length = zipf::value_bytes(key);
        let mut value = VecIn::with_capacity_in(length, self.via);
        value.resize(length, 7);
        let mut shard = self.shard(key);
        if shard.values.insert(key, value).is_none() {
            shard.order.push_back(key);
        }
        while shard.values.len() > SHARD_ENTRIES {
            let Some(oldest) = shard.order.pop_front() else { return };
            shard.values.remove(&oldest);
        }
    }

    fn remove(&self, key: u32) {
        let removed = self.shard(key).values.remove(&key);
        drop(removed);
    }
}
