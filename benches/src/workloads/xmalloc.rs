//! `xmalloc`: one thread allocates, another frees; a bounded queue of batches between them. An operation is one block.

use super::Workload;
use crate::block::Block;
use crate::context::Context;
use crate::measure::time_threads;
use crate::opaque::opaque;
use crate::options::Options;
use crate::reading::Reading;
use crate::subject::{Job, Subject, with_subject};
use crate::task::{Field, Task};
use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::scope;
use std::time::Instant;

pub(crate) const XMALLOC: Workload =
    Workload { name: "xmalloc", about: "one thread allocates, another frees", tasks, run };

const BATCH: usize = 256;
const QUEUE_BATCHES: usize = 16;

type Batch = Vec<Block>;

fn tasks(options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(&[64, 1024], &[64]);
    sizes
        .iter()
        .map(|size| Task::new("xmalloc", format!("{size}"), Field::Globals).with_threads(2))
        .collect()
}

fn run(context: &Context) -> Vec<Reading> {
    with_subject(&context.allocator, Xmalloc(context))
}

struct Xmalloc<'a>(&'a Context);

impl Job for Xmalloc<'_> {
    type Output = Vec<Reading>;

    fn run<S: Subject>(self, subject: &S) -> Vec<Reading> {
        let size = self.0.size();
        vec![time_threads(self.0, |until| {
            let (full, to_free) = sync_channel::<Batch>(QUEUE_BATCHES);
            let (emptied, to_fill) = sync_channel::<Batch>(QUEUE_BATCHES + 2);
            for _ in 0..QUEUE_BATCHES + 2 {
                emptied.send(Vec::with_capacity(BATCH)).expect("the queue has room");
            }
            scope(|scope| {
                scope.spawn(move || produce(subject, size, until, &full, &to_fill));
                scope
                    .spawn(move || consume(subject, &to_free, &emptied))
                    .join()
                    .expect("the consumer does not panic")
            })
        })]
    }
}

fn produce<S: Subject>(
    subject: &S,
    size: usize,
    until: Instant,
    full: &SyncSender<Batch>,
    to_fill: &Receiver<Batch>,
) {
    while Instant::now() < until {
        let Ok(mut batch) = to_fill.recv() else { return };
        batch.extend((0..BATCH).map(|_| Block::new(subject, opaque(size))));
        if full.send(batch).is_err() {
            return;
        }
    }
}

/// Frees until the producer has gone; returns the number of blocks.
fn consume<S: Subject>(subject: &S, to_free: &Receiver<Batch>, emptied: &SyncSender<Batch>) -> u64 {
    let mut freed = 0;
    while let Ok(mut batch) = to_free.recv() {
        freed += batch.len() as u64;
        for block in batch.drain(..) {
            black_box(block.look());
            block.free(subject);
        }
        // The producer may have gone already.
        _ = emptied.send(batch);
    }
    freed
}
