//! `preload`: whole programs with an allocator loaded in front by `LD_PRELOAD`: the C loop, and real programs.
//!
//! ```text
//! child ─ runs, with LD_PRELOAD ─┬─ this program once more, for the loop
//!   └─ time, resident set        └─ a script of a real program
//! ```
//!
//! The loop allocates, touches and frees by the C library's names; its figure is CPU time a pair. A program's figures are
//! the wall time of one run, the CPU time of all its processes, and the highest resident set of the largest. It works in a directory of its
//! own, which a first script, with nothing in front, has filled. The row of the C library has nothing in front either, but
//! for redis, which is linked to another allocator: there the C library itself stands in front.
//!
//! polyheap's library is looked for beside this program: build `polyheap-preload` first. Peers and programs that are not
//! installed are named, and left out.

use super::Workload;
use crate::context::Context;
use crate::measure::time_loop;
use crate::opaque::opaque_pointer;
use crate::options::Options;
use crate::reading::{Outcome, Reading};
use crate::spawn::{child_arguments, run as run_to_end};
use crate::task::{Field, Task};
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const PRELOAD: Workload = Workload {
    name: "preload",
    about: "an allocator in front of whole programs: the C loop, python, git, redis, ...",
    tasks,
    run,
};

/// The allocators that can stand in front, and the file names of their libraries.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("polyheap-preload", &["libpolyheap_preload.so"]),
    ("mimalloc-preload", &["libmimalloc.so.2.0", "libmimalloc.so.2", "libmimalloc.so"]),
    ("jemalloc-preload", &["libjemalloc.so.2"]),
    ("tcmalloc-preload", &["libtcmalloc_minimal.so.4"]),
    (C_LIBRARY, &["libc.so.6"]),
];

/// Their names alone.
pub(crate) const ALLOCATORS: &[&str] =
    &[LIBRARIES[0].0, LIBRARIES[1].0, LIBRARIES[2].0, LIBRARIES[3].0, LIBRARIES[4].0];

const C_LIBRARY: &str = "glibc";

/// Where systems keep their libraries, after the directory of this program.
const DIRECTORIES: &[&str] =
    &["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// What the allocator is called in the process that has one in front already.
const LOADED: &str = "loaded";

const LOOP: &str = "loop ";

const SIZES: &[usize] = &[
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    32 << 20,
];

const QUICK_SIZES: &[usize] = &[64, 64 << 10, 4 << 20];

/// How long a script may take; the parent's own limit is shorter, mostly.
const SCRIPT_LIMIT: Duration = Duration::from_secs(600);

/// A real program.
struct Program {
    name: &'static str,
    /// What must be installed.
    needs: &'static [&'static str],
    /// Fills the directory, with nothing in front.
    prepare: &'static str,
    /// What is measured.
    script: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "python json, pymalloc",
        needs: &["python3"],
        prepare: PYTHON_JSON,
        script: "exec python3 work.py",
    },
    Program {
        name: "python json, malloc",
        needs: &["python3"],
        prepare: PYTHON_JSON,
        script: "PYTHONMALLOC=malloc exec python3 work.py",
    },
    Program {
        name: "perl tables",
        needs: &["perl"],
        prepare: "",
        script: r#"exec perl -e 'for my $round (1..4) { my %h; $h{$_ * 7919 % 60013} .= "$_," for 1..300000;
            my @a = sort { length $h{$a} <=> length $h{$b} or $a <=> $b } keys %h; my %i = map { $_ => [$_, $h{$_}] } @a }'"#,
    },
    Program {
        name: "git gc and log",
        needs: &["git"],
        prepare: r#"export HOME="$PWD" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
            git init -q -b main repository && cd repository && n=0
            while [ $n -lt 150 ]; do n=$((n + 1)); seq $n $((n * 90)) > file$((n % 17)); git add . && git commit -q -m "change $n"; done"#,
        script: r#"cd repository && git gc -q --aggressive --prune=now && git log -p > ../log && git blame file3 > ../blame"#,
    },
    Program {
        name: "sqlite",
        needs: &["sqlite3"],
        prepare: r"cat > work.sql <<'END'
create table item (id integer primary key, name text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
insert into item select i, 'name ' || (i * 7919 % 100003), i * 0.5 from n;
create index item_name on item (name);
select count(*), sum(weight) from item where name like 'name 1%';
create temp table sums as select name, count(*) c, group_concat(id) ids from item group by name;
select sum(length(ids)) from sums;
END",
        script: "exec sqlite3 :memory: < work.sql",
    },
    Program {
        name: "g++ -O1",
        needs: &["g++"],
        prepare: r#"printf '%s\n' '#include <map>' '#include <regex>' '#include <iostream>' 'int main(int n, char **v) {' \
            'std::map<std::string, std::regex> all; for (int i = 0; i < n; i++) all.emplace(v[i], std::regex(v[i]));' \
            'for (auto &[k, r] : all) std::cout << k << std::regex_replace(k, r, "x"); }' > work.cc"#,
        script: "exec g++ -std=c++17 -O1 -c work.cc -o work.o",
    },
    Program {
        name: "redis",
        needs: &["redis-server", "redis-benchmark", "redis-cli"],
        prepare: "",
        script: r#"redis-server --port 0 --unixsocket "$PWD/s" --save '' --appendonly no > log & server=$!
            until redis-cli -s s ping 2> /dev/null | grep -q PONG; do sleep 0.01; done
            redis-benchmark -s s -q -n 100000 -P 16 -c 20 -d 100 -r 200000 -t set,get,lpush,hset,zadd > bench
            redis-cli -s s shutdown nosave; wait $server"#,
    },
    Program {
        name: "node",
        needs: &["node"],
        prepare: r"cat > work.js <<'END'
const zlib = require('zlib');
for (let round = 0; round < 6; round++) {
  const text = JSON.stringify(Array.from({ length: 60000 }, (_, i) => ({ i, name: 'n' + i * 7919 % 1000, list: [i, i + 1] })));
  const parts = []; for (let i = 0; i < 4000; i++) { parts.push(Buffer.alloc(i * 17 % 60000, i)); if (parts.length > 99) parts.shift(); }
  zlib.inflateSync(zlib.deflateSync(text)); JSON.parse(text);
}
END",
        script: "exec node work.js",
    },
    Program {
        name: "short processes",
        needs: &["sh", "true"],
        prepare: "",
        script: "n=0; while [ $n -lt 300 ]; do n=$((n + 1)); /bin/true; done",
    },
];

const PYTHON_JSON: &str = r#"cat > work.py <<'END'
import json, re
for turn in range(3):
    records = [{"id": i, "name": "n%d" % (i * 7919 % 1000), "tags": ["t%d" % (i % k) for k in range(1, 9)],
                "text": "lorem ipsum " * (i % 40)} for i in range(40000)]
    text = json.dumps(records)
    again = json.loads(text)
    words = re.findall(r'"(n\d+)"', text)
    again.sort(key=lambda record: record["name"])
END"#;

fn tasks(options: &Options) -> Vec<Task> {
    let sizes = options.sizes_or(SIZES, QUICK_SIZES);
    let loops =
        sizes.iter().map(|size| Task::new("preload", format!("{LOOP}{size}"), Field::Preloads));
    let has_programs = options.sizes.is_empty();
    let programs = PROGRAMS.iter().filter(|program| has_programs && program.is_installed());
    let programs = programs
        .map(|program| Task::new("preload", program.name, Field::Preloads).long_if_quick(options));
    loops.chain(programs).collect()
}

fn run(context: &Context) -> Vec<Reading> {
    if context.allocator == LOADED {
        return vec![c_loop(context, context.size())];
    }
    let library = match library(&context.allocator) {
        Ok(library) => library,
        Err(message) => stop(&message),
    };
    let read = if context.case.starts_with(LOOP) { run_loop } else { run_program };
    match read(context, &library) {
        Ok(readings) => readings,
        Err(message) => stop(&message),
    }
}

/// Ends this child; the parent shows the message.
fn stop(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(2)
}

/// Finds the library of an allocator.
fn library(allocator: &str) -> Result<PathBuf, String> {
    let (_, names) = LIBRARIES
        .iter()
        .find(|(name, _)| *name == allocator)
        .ok_or_else(|| format!("{allocator} has no library to load in front"))?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let places = own.parent().into_iter().chain(DIRECTORIES.iter().map(Path::new));
    places
        .flat_map(|place| names.iter().map(|name| place.join(name)))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{} is not there", names[0]))
}

/// Runs this program once more, with the library in front, to do the loop.
fn run_loop(context: &Context, library: &Path) -> Result<Vec<Reading>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let inner = Context { allocator: LOADED.into(), ..context.clone() };
    let mut command = Command::new(own);
    command.args(child_arguments(&inner));
    if context.allocator != C_LIBRARY {
        command.env("LD_PRELOAD", library);
    }
    let printed = run_to_end(&mut command, SCRIPT_LIMIT).map_err(|failure| failure.to_string())?;
    let outcome: Outcome =
        serde_json::from_str(&printed.stdout).map_err(|error| error.to_string())?;
    Ok(outcome.readings)
}

/// The loop, by the C library's names: whoever stands in front answers.
fn c_loop(context: &Context, size: usize) -> Reading {
    time_loop(context, |pairs| {
        for _ in 0..pairs {
            // SAFETY: no preconditions.
            let start: *mut u8 = unsafe { libc::malloc(size) }.cast();
            // SAFETY: the block has at least one byte; null faults here, and the parent reports it.
            unsafe { start.write(1) };
            // SAFETY: allocated just now, and the only pointer to it.
            unsafe { libc::free(opaque_pointer(start).cast()) };
        }
    })
}

/// Runs a program once, with the library in front.
fn run_program(context: &Context, library: &Path) -> Result<Vec<Reading>, String> {
    let program = PROGRAMS
        .iter()
        .find(|program| program.name == context.case)
        .ok_or_else(|| format!("no program {}", context.case))?;
    let place = std::env::temp_dir().join(format!("polyheap-benches-{}", std::process::id()));
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let in_front = context.allocator != C_LIBRARY || program.name == "redis";
    let prepared = run_script(program.prepare, &place, None);
    let before = Children::until_now();
    let ran =
        prepared.and_then(|_| run_script(program.script, &place, in_front.then_some(library)));
    let after = Children::until_now();
    // What stays behind is in the system's place for it.
    _ = fs::remove_dir_all(&place);
    let nanoseconds = |time: Duration| time.as_nanos() as f64;
    Ok(vec![
        Reading::time("", nanoseconds(ran?)),
        Reading::time("CPU", nanoseconds(after.cpu.saturating_sub(before.cpu))),
        // What has filled the directory is small beside the programs.
        Reading::resident("peak RSS", after.largest_bytes),
    ])
}

/// Runs a script in `place`; returns how long it took.
fn run_script(script: &str, place: &Path, library: Option<&Path>) -> Result<Duration, String> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(place);
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let start = Instant::now();
    run_to_end(&mut command, SCRIPT_LIMIT).map_err(|failure| failure.to_string())?;
    Ok(start.elapsed())
}

/// The processes that this one has waited for, and those that they have.
struct Children {
    /// CPU time of all.
    cpu: Duration,
    /// Highest resident set of the largest.
    largest_bytes: u64,
}

impl Children {
    fn until_now() -> Children {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the place takes what the system tells.
        unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
        // SAFETY: zeros are a valid value too, should the call have failed.
        let usage = unsafe { usage.assume_init() };
        let span = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        Children {
            cpu: span(usage.ru_utime) + span(usage.ru_stime),
            largest_bytes: usage.ru_maxrss as u64 * 1024,
        }
    }
}

impl Program {
    /// Returns whether all it needs is installed, and says what is not.
    fn is_installed(&self) -> bool {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let is_there =
            |name: &str| std::env::split_paths(&paths).any(|path| path.join(name).is_file());
        match self.needs.iter().find(|name| !is_there(name)) {
            Some(missing) => {
                eprintln!("preload: {} is left out, {missing} is not installed", self.name);
                false
            }
            None => true,
        }
    }
}
