//! Processes: running one test by itself, reading what a child wrote, counting what one holds.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SCENARIO: &str = "POLYHEAP_SCENARIO";

/// Returns the scenario this process was started for, if it is such a child.
pub(crate) fn scenario() -> Option<String> {
    env::var(SCENARIO).ok()
}

/// This test program, to be run again for one test.
#[derive(Debug)]
pub(crate) struct Child {
    command: Command,
    limit: Duration,
}

/// How a child ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Its exit code, if it exited.
    pub(crate) code: Option<i32>,
    /// Whether it had to be stopped.
    pub(crate) is_late: bool,
    /// What it wrote on standard output, the test harness's lines included.
    pub(crate) stdout: String,
    /// What it wrote on standard error.
    pub(crate) stderr: String,
}

impl Child {
    /// Returns the child that runs `test` with `scenario`.
    pub(crate) fn new(test: &str, scenario: &str) -> Child {
        Child::under(&[], test, scenario)
    }

    /// Returns the child that runs `test` with `scenario` by way of another program.
    pub(crate) fn under(launcher: &[&str], test: &str, scenario: &str) -> Child {
        let this_program = env::current_exe().expect("a test has a path");
        let mut command = match launcher {
            [] => Command::new(this_program),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(this_program);
                command
            }
        };
        command
            .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
            .env(SCENARIO, scenario)
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Child { command, limit: Duration::from_secs(60) }
    }

    /// Sets the time after which the child is stopped.
    pub(crate) fn limit(mut self, limit: Duration) -> Child {
        self.limit = limit;
        self
    }

    /// Runs the child to its end.
    pub(crate) fn run(mut self) -> io::Result<Ending> {
        let started = Instant::now();
        let mut child = self.command.spawn()?;
        let stdout = read_all(child.stdout.take());
        let stderr = read_all(child.stderr.take());
        let mut is_late = false;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > self.limit {
                is_late = true;
                child.kill()?;
                break child.wait()?;
            }
            thread::sleep(Duration::from_millis(2));
        };
        Ok(Ending {
            signal: status.signal(),
            code: status.code(),
            is_late,
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
        })
    }
}

impl Ending {
    /// Panics unless the child ended well.
    pub(crate) fn assert_success(&self) {
        assert!(self.code == Some(0), "the child failed: {self:#?}");
    }
}

/// Runs `body` in a process of its own, where nothing else allocates, starts threads or counts.
pub(crate) fn alone(test: &str, limit: Duration, body: impl FnOnce()) {
    if scenario().as_deref() == Some(test) {
        body();
        // What was measured is worth seeing when the test is run by hand.
        let _ = io::stderr().flush();
        return;
    }
    let ending = Child::new(test, test).limit(limit).run().expect("this program can be started");
    eprint!("{}", ending.stderr);
    ending.assert_success();
    assert!(ending.stdout.contains("1 passed"), "no test is called {test}: {}", ending.stdout);
}

/// Runs each of `bodies` in a thread and waits until the threads are gone.
///
/// A scope alone waits for the bodies; what threads do on their way out may come later.
pub(crate) fn run_to_the_end<R: Send>(
    bodies: impl IntoIterator<Item = impl FnOnce() -> R + Send>,
) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = bodies.into_iter().map(|body| scope.spawn(body)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

/// Returns `full` in optimised builds and a twentieth of it, but at least 1, in others.
pub(crate) fn scaled(full: usize) -> usize {
    if cfg!(debug_assertions) { (full / 20).max(1) } else { full }
}

/// Returns the number in environment variable `name`, else `usual`.
pub(crate) fn size_from_env(name: &str, usual: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Returns the bytes of memory the process has resident; 0 under a sanitizer.
pub(crate) fn current_resident_bytes() -> usize {
    if is_sanitized() { 0 } else { statm(1) }
}

/// Returns the bytes of address space the process has; 0 under a sanitizer.
pub(crate) fn current_address_space_bytes() -> usize {
    if is_sanitized() { 0 } else { statm(0) }
}

/// Returns the number of mappings the process has; 0 under a sanitizer.
pub(crate) fn mapping_count() -> usize {
    if is_sanitized() {
        return 0;
    }
    fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

/// Returns the page faults of the process that needed no disk; 0 under a sanitizer.
pub(crate) fn minor_faults() -> usize {
    if is_sanitized() {
        return 0;
    }
    // SAFETY: all zeros is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: `usage` is valid for a write.
    let outcome = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    assert_eq!(outcome, 0);
    usage.ru_minflt as usize
}

/// Returns whether the process has a sanitizer's shadow memory, which takes terabytes of address
/// space. What memory counters say then is about the sanitizer.
fn is_sanitized() -> bool {
    statm(0) >= 8 << 40
}

fn statm(field: usize) -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(field).and_then(|word| word.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
