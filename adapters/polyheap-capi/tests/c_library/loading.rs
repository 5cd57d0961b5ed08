//! The library loaded at run time, beside others with many thread-locals, and unloaded while threads
//! that used it live.

use std::path::PathBuf;
use std::process::Command;

use crate::kit::{BOTH_WAYS, Linked, Source, run};

/// Libraries that want static thread-locals, of which the loader has room for some KiB in all.
const STATIC_LOCALS: usize = 12;
/// Libraries with much more of the other kind.
const DYNAMIC_LOCALS: usize = 20;

fn locals(number: usize) -> PathBuf {
    let source = Source::at("tests/c/locals.c").flag("-shared").flag("-fPIC");
    // Each a library of its own: the loader knows them by their files.
    let source = source.flag(&format!("-DNUMBER={number}"));
    if number < DYNAMIC_LOCALS {
        source.flag("-DLOCAL_BYTES=20000").compile_alone()
    } else {
        source.flag("-DLOCAL_BYTES=256").flag("-DSTATIC_LOCALS").compile_alone()
    }
}

fn plugin(linked: Linked) -> PathBuf {
    Source::at("tests/c/plugin.c").flag("-shared").flag("-fPIC").compile(linked)
}

#[test]
fn a_library_comes_and_goes_beside_others_with_many_thread_locals() {
    let host = Source::at("tests/c/host.c").compile_alone();
    let others: Vec<PathBuf> = (0..DYNAMIC_LOCALS + STATIC_LOCALS).map(locals).collect();
    for linked in BOTH_WAYS {
        let mut command = Command::new(&host);
        command.arg(plugin(linked)).args(&others);
        let ending = run(command);
        ending.assert_well();
        // The loader ran out of room for static thread-locals, or it would prove nothing.
        assert!(ending.stderr.contains("static TLS"), "{ending:#?}");
    }
}
