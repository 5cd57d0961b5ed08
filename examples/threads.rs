//! Shows: a heap handed to threads that outlive the function, and blocks freed where they land.
//! When you would want it: thread pools, actors, anything that asks for `'static`.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::sync::mpsc;
use std::thread;

use allocator_api2::vec::Vec;
use polyheap::{Heap, SharedHeap};

fn main() {
    let heap: SharedHeap = Heap::builder().name("messages").build().share();
    let (sender, receiver) = mpsc::channel::<Vec<u8, SharedHeap>>();

    let producers: std::vec::Vec<_> = (0..4_u8)
        .map(|number| {
            let (heap, sender) = (heap.clone(), sender.clone());
            thread::spawn(move || {
                for length in 1..=1000 {
                    let mut message = Vec::with_capacity_in(length, heap.clone());
                    message.resize(length, number);
                    if sender.send(message).is_err() {
                        break;
                    }
                }
            })
        })
        .collect();
    drop(sender);

    // Every message was allocated on another thread and is freed on this one: no queue, no
    // hand-back.
    let received: usize = receiver.iter().map(|message| message.len()).sum();
    for producer in producers {
        let _ = producer.join();
    }
    println!("{received} bytes received, {} blocks left", heap.stats().live_blocks);
}
