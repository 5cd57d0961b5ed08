//! Builds the library and C programs, and runs programs with and without it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Seconds after which a program counts as hanging.
const PROGRAM_SECONDS: &str = "600";

/// How the line begins that the library writes at start under `POLYHEAP_VERBOSE=1`.
const GREETING: &str = concat!("polyheap ", env!("CARGO_PKG_VERSION"), ": ");

/// Returns the library, built as it is shipped. Cargo builds no library that a test cannot link, so
/// the first to ask does.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let built = Command::new(cargo)
            .args(["build", "--release", "--package", env!("CARGO_PKG_NAME")])
            .args(["--message-format", "json-render-diagnostics", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit())
            .output()
            .expect("cargo can be started");
        assert!(built.status.success(), "the library does not build");
        let report = String::from_utf8(built.stdout).unwrap();
        let mut words = report.split('"');
        let path = words.find(|word| word.ends_with("libpolyheap_preload.so"));
        PathBuf::from(path.expect("cargo names what it built"))
    })
}

/// Returns an empty directory of this name.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload").join(name);
    // It is not there on the first run.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Compiles a source of `tests/c` by `compiler` with `arguments` into `name`.
pub(crate) fn compile(compiler: &str, source: &str, arguments: &[&str], name: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(source)
        .args(arguments)
        .arg("-o")
        .arg(name)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns whether the program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).is_file())
}

/// Runs a shell script in `directory` with the libraries in `preloads`, and further variables.
pub(crate) fn run(
    script: &str,
    directory: &Path,
    preloads: &[&Path],
    variables: &[(&str, &str)],
) -> Output {
    let preloads: Vec<_> = preloads.iter().map(|path| path.to_str().unwrap()).collect();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PROGRAM_SECONDS, "sh", "-c", script]);
    command.current_dir(directory).env("LC_ALL", "C").stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").envs(variables.iter().copied());
    if !preloads.is_empty() {
        command.env("LD_PRELOAD", preloads.join(":"));
    }
    command.output().expect("a program can be started")
}

/// What a program wrote and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ending {
    /// Returns the ending of a run, without the library's greetings.
    pub(crate) fn of(output: &Output) -> Ending {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines = stderr.lines().filter(|line| !line.starts_with(GREETING));
        Ending {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: lines.map(|line| line.to_owned() + "\n").collect(),
        }
    }
}

/// Runs a script without the library and with it, and fails unless both runs write the same and end
/// well, and the library was there in the second.
pub(crate) fn assert_same(name: &str, script: &str) {
    let directory = scratch(name);
    let plain = Ending::of(&run(script, &directory, &[], &[]));
    assert_eq!(plain.status, Some(0), "{name} fails without the library: {plain:#?}");
    assert!(!plain.stdout.is_empty(), "{name} tells nothing");
    let directory = scratch(name);
    let output = run(script, &directory, &[library()], &[("POLYHEAP_VERBOSE", "1")]);
    let greetings = String::from_utf8_lossy(&output.stderr).matches(GREETING).count();
    assert!(greetings > 1, "{name} ran without the library: {output:?}");
    assert_eq!(Ending::of(&output), plain, "{name} differs under the library");
    let _ = fs::remove_dir_all(directory);
}

/// Runs a script with the library and fails unless it ends well.
pub(crate) fn assert_well(script: &str, directory: &Path, variables: &[(&str, &str)]) -> Ending {
    let ending = Ending::of(&run(script, directory, &[library()], variables));
    assert_eq!(ending.status, Some(0), "{script}: {ending:#?}");
    ending
}
