//! Every function that allocates or frees is taken over, in C and in C++, beside other libraries too.
//!
//! A second library behind ours names what reaches it: a function we left out, or a block we did not know.

mod support;

use std::path::{Path, PathBuf};

use support::{Ending, compile, library, run, scratch};

/// The public names. Those the C library does not define on its own are called only where we do.
const NAMES: [&str; 33] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
];

struct Built {
    directory: PathBuf,
    teller: PathBuf,
}

fn build(name: &str) -> Built {
    let directory = scratch(name);
    compile("gcc", "family.c", &["-Wno-deprecated-declarations"], &directory.join("family"));
    let new = ["-std=c++17", "-Wno-alloc-size-larger-than", "-Wno-mismatched-new-delete"];
    compile("g++", "operators.cc", &new, &directory.join("operators"));
    let teller = directory.join("teller.so");
    compile("g++", "teller.cc", &["-shared", "-fPIC", "-std=gnu++17", "-Wno-attributes"], &teller);
    Built { directory, teller }
}

impl Built {
    fn run(&self, program: &str, preloads: &[&Path]) -> Ending {
        let output = run(program, &self.directory, preloads, &[]);
        let ending = Ending::of(&output);
        assert_eq!(ending.status, Some(0), "{program} with {preloads:?}: {}", ending.stdout);
        ending
    }
}

#[test]
fn every_function_is_taken_over() {
    let built = build("interposition");
    // The second library before ours gets all calls: it would see what we leave out.
    let mut reached = String::new();
    for program in ["./family", "./operators"] {
        let ending = built.run(program, &[&built.teller, library()]);
        assert!(ending.stdout.ends_with("well\n"), "{ending:?}");
        reached += &ending.stderr;
    }
    for name in NAMES {
        assert!(reached.contains(&format!("reached {name}\n")), "nobody calls {name}");
    }
    // Behind ours nothing reaches it.
    for program in ["./family", "./operators"] {
        let ending = built.run(program, &[library(), &built.teller]);
        assert!(ending.stdout.ends_with("well\n"), "{ending:?}");
        let reached: Vec<&str> = ending.stderr.lines().collect();
        // Without memory the next operator takes over, which calls ours.
        let is_next = |line: &&&str| program == "./operators" && line.starts_with("reached _Zn");
        let left: Vec<_> = reached.iter().filter(|line| !is_next(line)).collect();
        assert!(left.is_empty(), "{program}: {left:?}");
    }
}

#[test]
fn standards_are_kept() {
    let built = build("standards");
    for program in ["./family", "./operators"] {
        let ending = built.run(program, &[library()]);
        assert_eq!((ending.stdout.as_str(), ending.stderr.as_str()), ("well\n", ""));
    }
}
