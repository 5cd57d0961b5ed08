//! Installation: what lies where, and what pkg-config makes of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::kit::{
    assert_ran_well, has_program, here, installer, pkg_config_line, prefix, run, scratch,
};

#[test]
fn headers_libraries_and_the_pkg_config_file_are_installed() {
    let library = prefix().join("lib");
    let version = env!("CARGO_PKG_VERSION");
    for name in ["include/polyheap.h", "include/polyheap.hpp", "lib/libpolyheap.a"] {
        assert!(prefix().join(name).is_file(), "{name} is missing");
    }
    let link = |name: &str| fs::read_link(library.join(name)).unwrap();
    assert_eq!(link("libpolyheap.so"), Path::new("libpolyheap.so.0"));
    assert_eq!(link("libpolyheap.so.0"), Path::new(&format!("libpolyheap.so.{version}")));
    assert_eq!(pkg_config_line("Version:"), version);
    let header = fs::read_to_string(here().join("include/polyheap.h")).unwrap();
    assert!(header.contains(&format!("#define POLYHEAP_VERSION \"{version}\"")));
    let mut command = Command::new("readelf");
    command.arg("-d").arg(library.join("libpolyheap.so"));
    let dynamic = assert_ran_well(command);
    for part in ["[libpolyheap.so.0]", "NODELETE"] {
        assert!(dynamic.contains(part), "{part} is missing: {dynamic}");
    }
    // Room for that is scarce when a library is loaded late.
    assert!(!dynamic.contains("STATIC_TLS"), "{dynamic}");
}

#[test]
fn a_destdir_goes_in_front_of_what_is_written_only() {
    let stage = scratch("stage");
    let mut command = installer(Path::new("/opt/poly"));
    command.arg("--libdir").arg("/opt/poly/lib64").arg("--destdir").arg(&stage);
    assert_ran_well(command);
    let file = stage.join("opt/poly/lib64/pkgconfig/polyheap.pc");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("prefix=/opt/poly\n") && text.contains("libdir=/opt/poly/lib64\n"));
    assert!(!text.contains('@') && !text.contains(&*stage.to_string_lossy()), "{text}");
    assert!(stage.join("opt/poly/include/polyheap.h").is_file());
}

#[test]
fn an_unknown_option_of_the_installer_is_refused() {
    let mut command = installer(&scratch("nowhere"));
    command.arg("--colour");
    assert_eq!(run(command).code, Some(2));
}

#[test]
fn a_program_compiles_with_what_pkg_config_says() {
    if !has_program("pkg-config") {
        return eprintln!("no pkg-config: not run");
    }
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    command.args(["--cflags", "--libs", "polyheap"]);
    let flags = assert_ran_well(command);
    let program = scratch("programs").join("by-pkg-config");
    let mut command = Command::new("gcc");
    command.arg(here().join("examples/subsystems.c")).args(flags.split_whitespace());
    command.arg("-o").arg(&program);
    assert_ran_well(command);
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", prefix().join("lib"));
    assert!(assert_ran_well(command).ends_with("the result\n"));
}
