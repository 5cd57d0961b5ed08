//! The report in its three shapes, and that it accounts for the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use polyheap_subsystem::polyheap::{Heap, heaps, process_stats};
use polyheap_subsystem::{History, Recorder, Subsystem, registry, report, subsystem};
use serde_json::Value;

subsystem! {
    static PARSER: "parser", max = 64 << 20, soft_max = 1536;
    static UNUSED: "unused", isolated;
    static LONG: "größer als alle übrigen Namen, die hier stehen";
    static ODD: "<b>\"odd\" & 'long'</b>";
    static BROKEN: "two\nlines\u{1b}[1m";
}

/// Heaps come and go with the tests, and sums are compared: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns a vector of so many bytes, made in the heap rather than on the stack.
fn zeros(subsystem: &'static Subsystem, bytes: usize) -> polyheap_subsystem::Vec<u8> {
    let mut list = subsystem.vec();
    list.resize(bytes, 0);
    list
}

#[test]
fn parts_add_up_to_the_process() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    drop((zeros(&PARSER, 100_000), PARSER.boxed(1)));
    let list = zeros(&PARSER, 300_000);
    let other = Heap::builder().name("no subsystem").build();
    let mut text = other.vec();
    text.resize(1_000_000, b'x');
    // Leaves a warm region behind.
    drop(Heap::new().vec_from([1u8; 50_000]));

    let report = report();
    let kept = process_stats();
    let heaps_bytes: usize = heaps().map(|heap| heap.held_bytes).sum();
    assert_eq!(report.held_bytes(), heaps_bytes + kept.warm_region_bytes + kept.mapping_bytes);
    assert!(report.kept_bytes > 0, "{report}");
    assert_eq!((report.other_heaps, report.other_held_bytes), (1, other.stats().held_bytes));
    let parser = report.get("parser").unwrap();
    assert_eq!((parser.live_bytes, parser.live_blocks), (PARSER.stats().live_bytes, 1));
    assert_eq!(report.live_bytes(), parser.live_bytes);
    let stats = PARSER.stats();
    assert!(stats.cached_bytes > 0 && stats.kept_large_bytes > 0, "{stats}");
    assert_eq!(parser.cached_bytes, stats.cached_bytes + stats.kept_large_bytes);
    drop((list, text));
}

#[test]
fn looking_makes_no_heap_of_what_was_never_used() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorder = Recorder::new();
    recorder.sample();
    let report = report();
    UNUSED.check();
    assert!(LONG.leaks().is_clean() && UNUSED.leaks().is_clean());
    assert_eq!(report.get("unused").unwrap().held_bytes, 0);
    assert!(heaps().all(|heap| heap.name() != "unused"));
}

#[test]
fn table_has_a_row_for_each_and_even_columns() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = report().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("subsystem") && lines[0].ends_with("denied"), "{text}");
    let names =
        registry().iter().map(|subsystem| subsystem.name().replace(char::is_control, "\u{fffd}"));
    for name in names {
        assert!(lines.iter().any(|line| line.starts_with(&name)), "{text}");
    }
    assert!(text.contains("two\u{fffd}lines\u{fffd}[1m"), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
    let parser = lines.iter().find(|line| line.starts_with("parser")).unwrap();
    assert!(parser.contains(" 64 MiB ") && parser.contains(" 1.5 KiB "), "{text}");
    // The longest name is two spaces from its budget, letters counted rather than bytes.
    let longest = format!("{}  {:>6}  ", LONG.name(), "-");
    assert!(lines.iter().any(|line| line.starts_with(&longest)), "{text}");
    assert!(lines.last().unwrap().starts_with("process"), "{text}");
}

#[test]
fn json_has_every_field() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let list = PARSER.vec_from([7u8; 3000]);
    let report = report();
    let value: Value = serde_json::from_str(&report.to_json()).unwrap();
    let rows = value["subsystems"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    let parser = report.get("parser").unwrap();
    for (field, bytes) in [
        ("max_bytes", 64 << 20),
        ("soft_max_bytes", 1536),
        ("live_bytes", parser.live_bytes),
        ("live_blocks", parser.live_blocks),
        ("peak_live_bytes", parser.peak_live_bytes),
        ("held_bytes", parser.held_bytes),
        ("cached_bytes", parser.cached_bytes),
        ("denied_by_limit", parser.denied_by_limit as usize),
        ("denied_by_system", 0),
        ("threads", parser.threads),
    ] {
        assert_eq!(row("parser")[field], bytes, "{field}");
    }
    assert_eq!(
        (&row("unused")["max_bytes"], &row("unused")["is_isolated"]),
        (&Value::Null, &true.into())
    );
    assert_eq!(value["held_bytes"], report.held_bytes());
    assert_eq!(row(ODD.name())["name"], ODD.name());
    drop(list);
}

/// Fails unless every tag that is opened is closed, in order.
fn assert_well_formed(page: &str) {
    let mut open = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{page}"),
            None if name.starts_with('!') || name == "meta" || tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn page_stands_alone_and_has_all_its_parts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorder = Recorder::new();
    recorder.sample();
    let list = zeros(&PARSER, 1 << 20);
    (0..3).for_each(|_| recorder.sample());
    let page = report().to_html(&recorder.history());
    assert_well_formed(&page);
    for foreign in ["http", "src=", "href", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for part in [
        "prefers-color-scheme: dark",
        ">live bytes</text>",
        ">held bytes</text>",
        ">seconds since the recorder was made</text>",
        "<li><i class=\"c0\">",
        "&lt;b&gt;&quot;odd&quot; &amp; 'long'&lt;/b&gt;",
        "<td>64 MiB</td>",
        ">1 MiB</text>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<b>"));
    // An area a subsystem in each of the two panels.
    assert_eq!(page.matches("<path ").count(), 2 * registry().len().min(8));
    assert!(!page.contains("NaN") && !page.contains("inf"));
    drop(list);
}

#[test]
fn page_without_a_history_has_the_table() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let page = report().to_html(&History::default());
    assert_well_formed(&page);
    assert!(!page.contains("<svg") && page.contains("No picture") && page.contains("parser</th>"));
}

#[test]
fn more_subsystems_than_colours_share_the_last_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorder = Recorder::new();
    let added: Vec<&'static Subsystem> = (0..12)
        .map(|number| {
            let name = format!("added {number}").leak();
            &*Box::leak(Box::new(Subsystem::builder(name).build()))
        })
        .collect();
    added.iter().for_each(|subsystem| subsystem.register());
    let list = zeros(added[11], 2 << 20);
    (0..2).for_each(|_| recorder.sample());
    let page = report().to_html(&recorder.history());
    assert_well_formed(&page);
    assert_eq!(page.matches("<path ").count(), 16);
    assert!(page.contains("</i>all others</li>"));
    // What held most has a colour of its own; all of them have their rows.
    assert!(page.contains("</i>added 11</li>") && !page.contains("</i>added 10</li>"));
    assert!((0..12).all(|number| page.contains(&format!("</i>added {number}</th>"))));
    drop(list);
}
