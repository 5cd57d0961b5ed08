//! A heap beneath a whole program. The first two lines are all a program needs.
//! When you would want it: faster allocation, statistics and limits without touching the code.

#[global_allocator]
static GLOBAL: polyheap_global::GlobalHeap = polyheap_global::GlobalHeap::new();

use std::collections::HashMap;
use std::thread;

fn main() {
    let workers = (0..4).map(|worker| thread::spawn(move || squares_from(worker * 1000)));
    let workers: Vec<_> = workers.collect();
    let tables = workers.into_iter().filter_map(|worker| worker.join().ok()).collect::<Vec<_>>();
    eprintln!("with {} tables: {}", tables.len(), GLOBAL.stats());
    drop(tables);
    eprintln!("{} bytes given back", GLOBAL.trim());
}

fn squares_from(first: u64) -> HashMap<String, u64> {
    (first..first + 1000).map(|number| (number.to_string(), number * number)).collect()
}

#[test]
fn it_runs() {
    main();
    assert!(GLOBAL.stats().live_blocks > 0);
}
