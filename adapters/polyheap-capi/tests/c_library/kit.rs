//! What the tests share: the library installed once, compilers, and programs run under a time limit.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a program is stopped.
const LIMIT: Duration = Duration::from_secs(240);

/// How a program is linked with the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linked {
    Statically,
    Dynamically,
}

pub(crate) const BOTH_WAYS: [Linked; 2] = [Linked::Statically, Linked::Dynamically];

/// The flags every program is compiled with.
const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"];

/// How a program ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ending {
    /// Panics unless the program said that all went well.
    pub(crate) fn assert_well(&self) {
        let is_well = self.code == Some(0) && self.stdout.lines().last() == Some("well");
        assert!(is_well, "the program failed: {self:#?}");
    }
}

/// Returns the folder of this crate.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a folder for what a test makes.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the command that installs the library as it was built for these tests.
pub(crate) fn installer(prefix: &Path) -> Command {
    // Next to the tests' own artifacts, so that nothing is built twice.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut command = Command::new(here().join("install.sh"));
    command.env("CARGO", env!("CARGO")).env("CARGO_TARGET_DIR", target);
    command.arg("--prefix").arg(prefix).arg("--profile");
    command.arg(if cfg!(debug_assertions) { "dev" } else { "release" });
    command
}

/// Returns where the library is installed for these tests.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch("prefix");
        assert_ran_well(installer(&prefix));
        prefix
    })
}

/// Returns what follows a key in the installed pkg-config file.
pub(crate) fn pkg_config_line(key: &str) -> String {
    let text = fs::read_to_string(prefix().join("lib/pkgconfig/polyheap.pc")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().to_string()
}

/// A program to be compiled.
pub(crate) struct Source {
    path: PathBuf,
    flags: Vec<String>,
    name: String,
}

impl Source {
    /// Returns the source at a path below this crate.
    pub(crate) fn at(path: &str) -> Source {
        let name = path.replace(['/', '.'], "_");
        Source { path: here().join(path), flags: Vec::new(), name }
    }

    /// Adds a flag, and what it makes of the program's name.
    pub(crate) fn flag(mut self, flag: &str) -> Source {
        let part = flag.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        self.name = format!("{}-{part}", self.name);
        self.flags.push(flag.to_string());
        self
    }

    fn command(&self, output: &Path) -> Command {
        let is_cpp = self.path.extension().is_some_and(|extension| extension == "cpp");
        let mut command = Command::new(if is_cpp { "g++" } else { "gcc" });
        command.arg(if is_cpp { "-std=c++17" } else { "-std=c11" }).args(STRICT);
        command.arg("-pthread").arg("-I").arg(prefix().join("include"));
        command.arg("-I").arg(here().join("tests/c"));
        command.args(&self.flags).arg(&self.path).arg("-o").arg(output);
        command
    }

    /// Compiles without the library; returns where the result lies.
    pub(crate) fn compile_alone(&self) -> PathBuf {
        let output = scratch("programs").join(&self.name);
        let mut command = self.command(&output);
        command.arg("-ldl");
        make_once(&output, command);
        output
    }

    /// Compiles and links with the library; returns where the result lies.
    pub(crate) fn compile(&self, linked: Linked) -> PathBuf {
        let output = scratch("programs").join(format!("{}-{linked:?}", self.name));
        let library = prefix().join("lib");
        let mut command = self.command(&output);
        match linked {
            Linked::Statically => {
                command.arg(library.join("libpolyheap.a"));
                command.args(pkg_config_line("Libs.private:").split_whitespace());
            }
            Linked::Dynamically => {
                command.arg("-L").arg(&library).arg("-lpolyheap");
                command.arg(format!("-Wl,-rpath,{}", library.display()));
            }
        }
        make_once(&output, command);
        output
    }
}

/// Runs the command that makes `output`, unless this process did so already. One at a time: a file
/// that is being written cannot be run.
fn make_once(output: &Path, command: Command) {
    static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !made.contains(output) {
        assert_ran_well(command);
        made.insert(output.to_path_buf());
    }
}

/// Runs a command to its end, or until the time is up.
pub(crate) fn run(mut command: Command) -> Ending {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} did not end");
        }
        thread::sleep(Duration::from_millis(2));
    };
    Ending {
        code: status.code(),
        signal: status.signal(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// Runs a command that must end with success; returns what it wrote.
pub(crate) fn assert_ran_well(command: Command) -> String {
    let text = format!("{command:?}");
    let ending = run(command);
    assert!(ending.code == Some(0), "{text}: {ending:#?}");
    ending.stdout
}

/// Returns whether a program of this machine can be started.
pub(crate) fn has_program(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
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
