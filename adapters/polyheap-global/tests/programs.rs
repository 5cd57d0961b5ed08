//! Whole programs over the global heap: a text search by many threads, and a large JSON document.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use polyheap_global::GlobalHeap;
use regex::Regex;
use serde_json::{Value, json};

#[global_allocator]
static GLOBAL: GlobalHeap = GlobalHeap::new();

fn document(number: usize) -> String {
    let mut text = String::new();
    for line in 0..200 {
        let _ = writeln!(text, "{line}: entry-{} of {number}, id={:04x}", line * number, line);
    }
    text
}

#[test]
fn text_search_by_many_threads_finds_every_line() {
    let (sender, receiver) = mpsc::sync_channel::<(usize, String)>(16);
    let receiver = Arc::new(Mutex::new(receiver));
    let searchers: Vec<_> = (0..4)
        .map(|_| {
            let receiver = Arc::clone(&receiver);
            thread::spawn(move || {
                let pattern =
                    Regex::new(r"(?m)^(\d+): entry-(\d+) of (\d+), id=00[0-4]f$").unwrap();
                let mut found = Vec::new();
                loop {
                    let next = receiver.lock().unwrap().recv();
                    let Ok((number, text)) = next else { return found };
                    let hits = pattern.captures_iter(&text).map(|hit| hit[2].to_string());
                    found.push((number, hits.collect::<Vec<_>>()));
                }
            })
        })
        .collect();
    (0..100).for_each(|number| sender.send((number, document(number))).unwrap());
    drop(sender);
    let found: Vec<_> = searchers.into_iter().flat_map(|it| it.join().unwrap()).collect();
    assert_eq!(found.len(), 100);
    for (number, hits) in found {
        let expected = [15, 31, 47, 63, 79].map(|line| (line * number).to_string());
        assert_eq!(hits, expected, "in document {number}");
    }
}

#[test]
fn json_comes_back_as_it_went_out() {
    let record = |number: usize| {
        json!({
            "number": number,
            "name": "name ".repeat(number % 40),
            "tags": (0..number % 9).map(|tag| tag.to_string()).collect::<Vec<_>>(),
            "inner": {"half": number as f64 / 2.0, "none": null, "is_small": number < 2_000},
        })
    };
    let value = Value::Array((0..5_000).map(record).collect());
    let text = serde_json::to_string(&value).unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let text = text.clone();
            thread::spawn(move || serde_json::from_str::<Value>(&text).unwrap())
        })
        .collect();
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() == value));
    assert!(GLOBAL.stats().live_blocks > 10_000);
}
