//! Misuse ends the process with one line that names the fault, the heap and the address.

use std::process::Command;

use crate::kit::{Ending, Linked, Source, run};

/// A fault as `tests/c/faults.c` knows it, what the line says, and the heap it names.
const FAULTS: [(&str, &str, &str); 14] = [
    ("plain-again", "double free", "default"),
    ("heap-again", "double free", "culprit"),
    ("plain-interior", "free of an interior pointer", "default"),
    ("heap-interior", "free of an interior pointer", "culprit"),
    ("named-interior", "free of an interior pointer", "culprit"),
    ("resize-interior", "free of an interior pointer", "default"),
    ("foreign", "free of a foreign pointer", "default"),
    ("foreign-libc", "free of a foreign pointer", "default"),
    ("foreign-resize", "free of a foreign pointer", "default"),
    ("foreign-heap", "free of a foreign pointer", "culprit"),
    ("other-heap", "free into a heap that does not own the block", ""),
    ("other-heap-resize", "free into a heap that does not own the block", ""),
    ("sized", "free with a wrong layout", "culprit"),
    ("aligned-sized", "free with a wrong layout", "default"),
];

const SIZES: [&str; 4] = ["100", "20000", "200000", "3000000"];

fn commit(fault: &str, size: &str) -> Ending {
    let mut command = Command::new(Source::at("tests/c/faults.c").compile(Linked::Statically));
    command.args([fault, size]);
    let ending = run(command);
    assert_eq!(ending.signal, Some(libc::SIGABRT), "{fault} {size}: {ending:#?}");
    ending
}

fn address(ending: &Ending) -> &str {
    ending.stdout.lines().find_map(|line| line.strip_prefix("address=")).unwrap()
}

#[test]
fn every_fault_is_reported_with_one_line() {
    for (fault, text, heap) in FAULTS {
        for size in SIZES {
            let ending = commit(fault, size);
            let lines: Vec<&str> = ending.stderr.lines().collect();
            let expected = format!("polyheap: {text}: {} in heap \"{heap}\"", address(&ending));
            let is_said = lines.len() == 1 && lines[0].starts_with(&expected);
            assert!(is_said, "{fault} {size} should say {expected:?}: {ending:#?}");
        }
    }
}

#[test]
fn a_handler_is_told_instead() {
    let ending = commit("handler", "100");
    let expected = format!(
        "handler: polyheap: free of an interior pointer: {0} in heap \"default\" #",
        address(&ending)
    );
    let line = ending.stdout.lines().last().unwrap();
    assert!(line.starts_with(&expected) && line.ends_with(&format!(" at {}", address(&ending))));
    assert_eq!(ending.stderr, "");
    assert_eq!(commit("handler-taken-back", "100").stderr.lines().count(), 1);
}
