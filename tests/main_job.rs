//! The main job, run as a user runs it: its answer, its table, and its manners with bad input.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Runs the example. A plain `cargo test` has built it; a run of this file alone may have to.
fn run_main_job(arguments: &[&Path]) -> Output {
    let this_test = env::current_exe().expect("a test has a path");
    let profile_dir = this_test.ancestors().nth(2).expect("TARGET/PROFILE/deps/TEST");
    let program =
        profile_dir.join("examples").join(format!("subsystems{}", env::consts::EXE_SUFFIX));
    if !program.exists() {
        build_main_job(profile_dir);
    }
    Command::new(&program).args(arguments).output().expect("the example starts")
}

fn build_main_job(profile_dir: &Path) {
    let profile = if profile_dir.ends_with("debug") { "dev" } else { "release" };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", "subsystems", "--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the example does not build");
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(name)
}

/// A file with `content` in the folder cargo keeps for tests.
fn file_with(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("the target folder is writable");
    path
}

fn assert_refused(path: &Path, reason: &str) {
    let output = run_main_job(&[path]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{}: {message}", path.display());
    assert!(message.contains(reason) && message.contains(&*path.to_string_lossy()), "{message}");
    assert!(output.stdout.is_empty(), "an answer was printed for {}", path.display());
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn shipped_text_gives_the_known_answer() {
    // The counts were taken with tr, sort and uniq.
    let output = run_main_job(&[]);
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        "9103 lines, 59784 words, 5607 different",
        "3146  the",
        "1882  and",
        "1513  of",
        "59784 queries, 68%",
    ];
    for fact in expected {
        assert!(page.contains(fact), "no {fact:?} in\n{page}");
    }
}

#[test]
fn table_accounts_for_each_subsystem_and_the_dropped_heap_is_gone() {
    let output = run_main_job(&[&shipped("corpus.txt")]);
    let page = String::from_utf8_lossy(&output.stdout);
    for subsystem in ["reader", "tokenizer", "cache", "report"] {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("{subsystem} ")))
            .unwrap_or_default();
        let figures: Vec<u64> =
            row.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let [live_kib, blocks, held_kib, _cached_kib] = figures[..] else {
            panic!("{subsystem}: {row:?}\n{page}")
        };
        assert!(live_kib > 0 && blocks > 0 && held_kib >= live_kib, "{row}");
    }
    assert!(
        page.contains("with the tokenizer: 4 heaps") && page.contains("after its drop: 3 heaps"),
        "{page}"
    );
}

#[test]
fn another_text_is_read_from_the_path_given() {
    let path = file_with("another.txt", "Größe größe GRÖSSE\nzwei\n".as_bytes());
    let page = String::from_utf8_lossy(&run_main_job(&[&path]).stdout).into_owned();
    assert!(page.contains("2 lines, 4 words, 3 different"), "{page}");
    assert!(page.contains("2  größe"), "{page}");
}

#[test]
fn input_that_cannot_be_read_ends_with_a_message_and_code_2() {
    assert_refused(&shipped("no-such-file.txt"), "cannot use");
    assert_refused(&shipped(""), "cannot use");
    assert_refused(&file_with("binary", &[0x7F, b'E', b'L', b'F', 0xFF]), "invalid utf-8");
    assert_refused(&file_with("cut-short", b"caf\xC3"), "utf-8");
    assert_refused(&file_with("zeros", &[b'a', 0, b'b']), "not a text");
    assert_refused(&file_with("empty", b""), "not a text");
}
