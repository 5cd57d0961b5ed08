//! Child processes: started, waited for no longer than a limit, ended when they take longer.

use crate::context::Context;
use crate::reading::Outcome;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Why a child gave no outcome.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    TimedOut,
    Died(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::TimedOut => f.write_str("timed out"),
            Failure::Died(how) => f.write_str(how),
        }
    }
}

/// This program, to be run as the child that `context` tells.
pub(crate) fn child_arguments(context: &Context) -> [String; 2] {
    ["--child".into(), serde_json::to_string(context).expect("numbers and text serialise")]
}

/// Runs `context` in a fresh process.
pub(crate) fn run_child(context: &Context, limit: Duration) -> Result<Outcome, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(died)?);
    let printed = run(command.args(child_arguments(context)), limit)?;
    serde_json::from_str(&printed.stdout)
        .map_err(|error| Failure::Died(format!("unreadable outcome: {error}")))
}

/// What a process printed.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `command` to its end, or to `limit`.
///
/// # Errors
/// It could not be started, took too long, or did not end well.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Printed, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(died)?;
    let (ended, end) = channel::<()>();
    let stdout = read_all(child.stdout.take(), ended.clone());
    let stderr = read_all(child.stderr.take(), ended);
    // Nothing is ever sent: both readers drop their senders at the end of their pipes.
    let is_late = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
    if is_late {
        // A child that has ended meanwhile cannot be ended again, which is no matter.
        _ = child.kill();
    }
    let status = child.wait().map_err(died)?;
    let printed = Printed {
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    };
    match status.success() {
        _ if is_late => Err(Failure::TimedOut),
        true => Ok(printed),
        false => Err(Failure::Died(manner(status, &printed.stderr))),
    }
}

fn read_all<P: Read + Send + 'static>(pipe: Option<P>, ended: Sender<()>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is all there is to be had.
            _ = pipe.read_to_end(&mut text);
        }
        drop(ended);
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn died(error: std::io::Error) -> Failure {
    Failure::Died(error.to_string())
}

/// How a process ended, and the last line it wrote about it.
fn manner(status: ExitStatus, stderr: &str) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(libc::SIGSEGV), _) => "segmentation fault".into(),
        (Some(libc::SIGABRT), _) => "aborted".into(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or(-1)),
    };
    match stderr.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => format!("{how}: {line}"),
        None => how,
    }
}
