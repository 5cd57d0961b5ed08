//! The header against the library: the same functions, the same types, the same structs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::offset_of;
use std::process::Command;

use polyheap_capi::{FOREIGN_FAULT, FOREIGN_LIBC, ISOLATED, NO_THREAD_CACHE, Options, Stats};

use crate::kit::{Source, assert_ran_well, here, prefix, scratch};

/// A C type for each Rust type in a signature.
const TYPES: [(&str, &str); 16] = [
    ("usize", "size_t"),
    ("bool", "bool"),
    ("c_int", "int"),
    ("*mut c_void", "void *"),
    ("*const c_void", "const void *"),
    ("*mut *mut c_void", "void **"),
    ("*mut c_char", "char *"),
    ("*const c_char", "const char *"),
    ("&Handle", "polyheap_t *"),
    ("*mut Handle", "polyheap_t *"),
    ("*const Options", "const polyheap_options_t *"),
    ("*mut Stats", "polyheap_stats_t *"),
    ("Option<Visitor>", "int (*)(void *, size_t, void *)"),
    ("Option<FaultHandler>", "void (*)(const char *, const void *)"),
    ("", "void"),
    ("()", "void"),
];

/// Returns the functions that the Rust sources export, as C declares them, without parameter names.
fn exported_by_the_sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(here().join("src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (_, signature) = part.split_once("extern \"C\" fn ").unwrap();
            let (signature, _) = signature.split_once('{').unwrap();
            let (name, rest) = signature.split_once('(').unwrap();
            let (parameters, result) = rest.rsplit_once(')').unwrap();
            let types = parameters.split(',').map(str::trim).filter(|one| !one.is_empty());
            let types: Vec<&str> =
                types.map(|one| c_type(one.split_once(": ").unwrap().1)).collect();
            let types = if types.is_empty() { vec!["void"] } else { types };
            let result = c_type(result.trim().trim_start_matches("-> ").trim());
            found.insert(name.to_string(), format!("{result} {name}({})", types.join(", ")));
        }
    }
    found
}

fn c_type(rust_type: &str) -> &'static str {
    let found = TYPES.iter().find(|(rust, _)| *rust == rust_type);
    found.unwrap_or_else(|| panic!("no C type for {rust_type:?}")).1
}

/// Each function is declared once more, with the types the Rust sources have: the compiler refuses
/// what differs.
#[test]
fn the_header_declares_what_the_sources_export() {
    let functions = exported_by_the_sources();
    assert!(functions.len() > 30, "{functions:?}");
    let mut text = String::from("#include <polyheap.h>\n");
    functions.values().for_each(|declaration| text.push_str(&format!("{declaration};\n")));
    let path = scratch("programs").join("declared_again.c");
    fs::write(&path, text).unwrap();
    for standard in ["-std=c99", "-std=c11"] {
        let mut command = Command::new("gcc");
        command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-c"]).arg(&path);
        command.arg("-I").arg(prefix().join("include")).args(["-o", "/dev/null"]);
        assert_ran_well(command);
    }
}

#[test]
fn the_libraries_define_what_the_header_declares_and_nothing_else() {
    let header = fs::read_to_string(here().join("include/polyheap.h")).unwrap();
    let words = header.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let functions = exported_by_the_sources();
    let declared: BTreeSet<&str> = words.filter(|word| functions.contains_key(*word)).collect();
    assert_eq!(declared.len(), functions.len());
    let mut command = Command::new("nm");
    command.args(["-D", "--defined-only"]).arg(prefix().join("lib/libpolyheap.so"));
    let listing = assert_ran_well(command);
    let defined: BTreeSet<&str> =
        listing.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(defined, declared);
    let mut command = Command::new("nm");
    command.args(["--defined-only", "--extern-only", "-A"]).arg(prefix().join("lib/libpolyheap.a"));
    let listing = assert_ran_well(command);
    let defined = listing.lines().filter_map(|line| line.rsplit_once(" T ").map(|(_, name)| name));
    let defined: BTreeSet<&str> = defined.filter(|name| name.starts_with("polyheap_")).collect();
    assert_eq!(defined, declared);
    // A process keeps its own malloc.
    for taken in [" T malloc\n", " T free\n", " T realloc\n", " T _Znwm\n"] {
        assert!(!listing.contains(taken), "the static library defines{taken}");
    }
}

#[test]
fn structs_and_constants_are_the_same_on_both_sides() {
    macro_rules! offsets {
        ($lines:ident, $name:literal, $type:ty: $($member:ident)*) => {
            $lines.push(format!("{} {}", $name, size_of::<$type>()));
            $($lines.push(format!(
                "{}.{} {}", $name, stringify!($member), offset_of!($type, $member)
            ));)*
        };
    }
    let mut lines = Vec::new();
    offsets!(lines, "options", Options: size name max_bytes soft_max_bytes thread_cache_bytes
        thread_large_bytes heap_large_bytes decay decay_ms huge_pages flags);
    offsets!(lines, "stats", Stats: size live_bytes live_blocks peak_live_bytes held_bytes cached_bytes
        kept_large_bytes dirty_bytes regions mappings threads denied_by_limit denied_by_system);
    lines.push(format!("POLYHEAP_NO_THREAD_CACHE {NO_THREAD_CACHE}"));
    lines.push(format!("POLYHEAP_ISOLATED {ISOLATED}"));
    lines.push(format!("POLYHEAP_FOREIGN_FAULT {FOREIGN_FAULT}"));
    lines.push(format!("POLYHEAP_FOREIGN_LIBC {FOREIGN_LIBC}"));
    let program = Source::at("tests/c/layout.c").compile_alone();
    let printed = assert_ran_well(Command::new(program));
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn the_headers_compile_by_themselves_without_a_warning() {
    let compile = |compiler: &str, standard: &str, header: &str| {
        let path = scratch("programs").join(format!("alone_{standard}_{header}.c"));
        fs::write(&path, format!("#include <{header}>\nint unused;\n")).unwrap();
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic", "-c"]);
        command.arg(format!("-std={standard}")).arg("-I").arg(prefix().join("include"));
        command.args(["-x", if compiler == "g++" { "c++" } else { "c" }]).arg(path);
        command.args(["-o", "/dev/null"]);
        assert_ran_well(command);
    };
    for standard in ["c99", "c11", "c17", "gnu99"] {
        compile("gcc", standard, "polyheap.h");
    }
    for standard in ["c++11", "c++17", "c++20"] {
        compile("g++", standard, "polyheap.h");
    }
    for standard in ["c++17", "c++20"] {
        compile("g++", standard, "polyheap.hpp");
    }
}
