//! Child processes: started, waited for no longer than a limit, ended when they take longer.

use crate::context::Context;
use crate::reading::Outcome;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
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
    let program = std::env::current_exe().map_err(|error| Failure::Died(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(child_arguments(context)).stderr(Stdio::null());
    let output = run(command.stdout(Stdio::piped()), limit, |child| child.stdout.take())?;
    serde_json::from_str(&output)
        .map_err(|error| Failure::Died(format!("unreadable outcome: {error}")))
}

/// Runs `command` and returns all that came out of the pipe that `pick` takes.
pub(crate) fn run<P: Read + Send + 'static>(
    command: &mut Command,
    limit: Duration,
    pick: impl FnOnce(&mut Child) -> Option<P>,
) -> Result<String, Failure> {
    let died = |error: std::io::Error| Failure::Died(error.to_string());
    let mut child = command.stdin(Stdio::null()).spawn().map_err(died)?;
    let mut pipe = pick(&mut child).ok_or_else(|| Failure::Died("no pipe".into()))?;
    let (sender, receiver) = channel();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.read_to_string(&mut text).map(|_| text);
        // The receiver has gone if the limit was reached.
        _ = sender.send(read);
    });
    let text = receiver.recv_timeout(limit);
    if text.is_err() {
        // A child that ended meanwhile cannot be ended again, which is no matter.
        _ = child.kill();
    }
    let status = child.wait().map_err(died)?;
    _ = reader.join();
    let text = text.map_err(|_| Failure::TimedOut)?.map_err(died)?;
    if status.success() { Ok(text) } else { Err(Failure::Died(manner(status))) }
}

fn manner(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGSEGV), _) => "segmentation fault".into(),
        (Some(libc::SIGABRT), _) => "aborted".into(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or(-1)),
    }
}
