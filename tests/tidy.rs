//! The house rules a machine can check, by scanning the text of `src/`. Each check is one test;
//! each scanner is first shown a snippet that breaks its rule (`scanners_catch_what_they_are_for`).

use std::collections::BTreeSet;

#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/scan.rs"]
mod scan;

use rules::{
    FILE_LINES_MAX, Source, declared_modules, layer_faults, read, room, shape_faults, sources,
    unknown_ids,
};
use scan::{code_of, product_of, token_faults};

/// Rooms and files that may say `unsafe`; the rest of `cache` is policy. Shorten it, never lengthen.
const UNSAFE_ROOMS: [&str; 21] = [
    "base/",
    "os/",
    "sync/",
    "region/",
    "slab/",
    "heap/",
    "resource/",
    "buffer/cells",
    "buffer/faces",
    "buffer/heap",
    "buffer/lock",
    "buffer/part",
    "buffer/static_heap",
    "cache/away",
    "cache/class_state",
    "cache/exchange",
    "cache/flush",
    "cache/large",
    "cache/magazine",
    "cache/store",
    "cache/thread_heap",
];
const PANIC_FREE_ROOMS: [&str; 5] = ["buffer", "region", "slab", "cache", "heap"];
const PANICS: [&str; 8] = [
    "panic!",
    ".unwrap()",
    ".expect(",
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "unreachable!",
    "unimplemented!",
];
const CASTS: [&str; 6] = [
    ".addr()",
    "with_addr",
    "map_addr",
    "with_exposed_provenance",
    "expose_provenance",
    "as_ptr() as usize",
];

/// Runs one scanner over all files of `src/` and fails with everything it found.
fn check(scanner: impl Fn(&Source) -> Vec<String>) {
    report(sources("src").iter().flat_map(scanner).collect());
}

fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn layers_look_down_and_through_faces() {
    check(|file| {
        if file.path == "lib.rs" { vec![] } else { layer_faults(&file.path, &code_of(&file.text)) }
    });
}

#[test]
fn libc_is_named_under_os_only() {
    check(|file| match room(&file.path) {
        "os" => vec![],
        _ => token_faults(
            &file.path,
            &code_of(&file.text),
            &["libc"],
            "only os/ talks to the system",
        ),
    });
}

#[test]
fn unsafe_stands_in_listed_rooms_only() {
    check(|file| match UNSAFE_ROOMS.iter().any(|room| file.path.starts_with(room)) {
        true => vec![],
        false => {
            token_faults(&file.path, &code_of(&file.text), &["unsafe"], "this room does without")
        }
    });
}

#[test]
fn pointers_and_integers_meet_in_base_addr_only() {
    check(|file| match file.path.as_str() {
        "base/addr.rs" => vec![],
        _ => token_faults(&file.path, &code_of(&file.text), &CASTS, "only base/addr.rs casts"),
    });
}

#[test]
fn nothing_panics_from_region_to_heap() {
    check(|file| match PANIC_FREE_ROOMS.contains(&room(&file.path)) {
        true => token_faults(
            &file.path,
            &product_of(&file.path, &code_of(&file.text)),
            &PANICS,
            "may not panic",
        ),
        false => vec![],
    });
}

#[test]
fn files_are_short_and_begin_with_a_header() {
    check(|file| shape_faults(&file.path, &file.text));
}

#[test]
fn no_work_is_left_marked_as_undone() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    check(|file| token_faults(&file.path, &file.text, &marks, "do it or drop it"));
}

#[test]
fn invariants_are_listed_and_cited() {
    let guide = read("src/guide/invariants.md");
    let listed = guide.lines().filter_map(|line| line.strip_prefix("- **[")?.split_once(']'));
    let known: BTreeSet<String> = listed.map(|(id, _)| id.to_string()).collect();
    check(|file| unknown_ids(&file.path, &file.text, &known));
    let texts: Vec<Source> = sources("src").into_iter().chain(sources("tests")).collect();
    let uncited =
        known.iter().filter(|id| !texts.iter().any(|file| file.text.contains(id.as_str())));
    report(uncited.map(|id| format!("src/guide/invariants.md: [{id}] is cited nowhere")).collect());
}

#[test]
fn every_file_is_reachable_from_the_crate_root() {
    let files = sources("src");
    let declared: BTreeSet<String> =
        files.iter().flat_map(|file| declared_modules(&file.path, &file.text)).collect();
    let orphans =
        files.iter().filter(|file| file.path != "lib.rs" && !declared.contains(&file.path));
    report(orphans.map(|file| format!("src/{}: no `mod` leads here", file.path)).collect());
}

#[test]
fn every_example_is_in_the_readme() {
    let readme = read("README.md");
    let missing = sources("examples")
        .into_iter()
        .filter(|file| !readme.contains(file.path.trim_end_matches(".rs")));
    report(
        missing.map(|file| format!("README.md does not mention examples/{}", file.path)).collect(),
    );
}

#[test]
fn scanners_catch_what_they_are_for() {
    let caught = |code: &str| layer_faults("slab/claim.rs", &code_of(code)).len();
    assert_eq!(caught("use crate::heap::Heap;"), 1, "higher rank");
    assert_eq!(
        caught("use crate::{base::Bits, region::{Region, header::Header}};"),
        1,
        "not the face"
    );
    assert_eq!(
        caught("use crate::Heap;\nlet x = crate::cache::Bin::new();"),
        2,
        "root, and inline"
    );
    assert_eq!(caught("use crate::slab::claim::Claim; // crate::heap::Heap\n\"crate::heap\""), 0);
    assert_eq!(token_faults("a.rs", "unsafe { unsafe_op() }", &["unsafe"], "").len(), 1);
    assert_eq!(
        token_faults("a.rs", &code_of("/* libc */ '\"' libc::x \"libc\""), &["libc"], "").len(),
        1
    );
    let code = "const _: () = assert!(A);const { assert!(B) };\n\
                #[cfg(test)]\nmod tests { fn f() { panic!() } }\nx.unwrap();";
    assert_eq!(
        token_faults("a.rs", &product_of("slab/a.rs", code), &PANICS, ""),
        ["src/a.rs:4: `.unwrap()`: "]
    );
    assert_eq!(
        unknown_ids(
            "a.rs",
            "x[a-b]; // SAFETY: 1. [no-such] [`link`] [a-b](url)",
            &BTreeSet::new()
        )
        .len(),
        1
    );
    assert_eq!(shape_faults("a.rs", &"\n".repeat(FILE_LINES_MAX + 1)).len(), 2);
    assert_eq!(
        declared_modules("slab/mod.rs", "pub mod bits;"),
        ["slab/bits.rs", "slab/bits/mod.rs"]
    );
}
