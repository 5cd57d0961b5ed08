//! Proof that secrets are cleared: an optimised program writes one, leaves by every way there is,
//! and searches all of its memory for it. The same program built without the clearing must fail.
//!
//! Linux only, as it reads `/proc/self/mem`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;

const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/Cargo.toml");

/// Builds the probe and returns its path.
fn build(name: &str, flags: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--manifest-path", PROBE])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("release/probe")
}

fn run(probe: &PathBuf, arguments: &[&str]) -> String {
    let output = Command::new(probe).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns for each way its name, the copies while the secret lived, and those afterwards.
fn search(probe: &PathBuf) -> Vec<(String, usize, usize)> {
    let ways = run(probe, &[]);
    ways.lines()
        .map(|way| {
            let found = run(probe, &[way]);
            let (living, left) = found.trim().split_once(' ').unwrap();
            (way.to_string(), living.parse().unwrap(), left.parse().unwrap())
        })
        .collect()
}

#[test]
fn no_way_out_leaves_a_copy_of_the_secret() {
    let probe = build("probe-clearing", "");
    for (way, living, left) in search(&probe) {
        assert!(living >= 1, "{way}: the search does not find a living secret");
        assert_eq!(left, 0, "{way}: copies left");
    }
    assert_clearing_is_in_the_object_code(&probe);
}

#[test]
fn a_build_without_clearing_is_caught() {
    let probe = build("probe-no-clearing", "--cfg polyheap_region_no_clearing");
    for (way, living, left) in search(&probe) {
        assert!(living >= 1, "{way}: the search does not find a living secret");
        assert!(left >= 1, "{way}: the search would not notice that nothing is cleared");
    }
}

/// The function that clears is called and stores something, link-time optimisation or not.
fn assert_clearing_is_in_the_object_code(probe: &PathBuf) {
    let objdump = Command::new("objdump").args(["-d", "--demangle"]).arg(probe).output();
    let Ok(listing) = objdump.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    else {
        eprintln!("skipped: no objdump");
        return;
    };
    let name = "polyheap_region::clear::clear";
    let body = listing.split("\n\n").find(|part| {
        part.lines().next().is_some_and(|head| head.contains(name) && head.ends_with(">:"))
    });
    let body = body.expect("the clearing function is gone");
    let stores = ["memset", "stos", "movups", "movaps", "vmov", "stp", "bzero"];
    assert!(stores.iter().any(|store| body.contains(store)), "it clears nothing:\n{body}");
    let calls = listing.lines().filter(|line| line.contains("call") && line.contains(name));
    assert!(calls.count() > 0, "nobody calls it");
}
