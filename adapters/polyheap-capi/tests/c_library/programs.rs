//! Programs that check themselves, linked both ways, plainly and under tools.

use std::process::Command;

use crate::kit::{BOTH_WAYS, Linked, Source, has_program, run};

fn assert_well(path: &str) {
    for linked in BOTH_WAYS {
        run(Command::new(Source::at(path).compile(linked))).assert_well();
    }
}

#[test]
fn the_default_heap_keeps_the_contracts_of_malloc() {
    assert_well("tests/c/plain.c");
}

#[test]
fn heaps_do_what_the_header_says() {
    assert_well("tests/c/heaps.c");
}

#[test]
fn threads_share_heaps_and_end() {
    assert_well("tests/c/threads.c");
}

#[test]
fn heaps_come_and_go_under_threads_that_stay() {
    assert_well("tests/c/rounds.c");
}

#[test]
fn children_of_a_busy_process_can_do_everything() {
    assert_well("tests/c/fork.c");
}

#[test]
fn containers_of_cpp_live_in_heaps() {
    assert_well("tests/c/containers.cpp");
}

#[test]
fn examples_run() {
    for linked in BOTH_WAYS {
        let ending = run(Command::new(Source::at("examples/subsystems.c").compile(linked)));
        let lines: Vec<&str> = ending.stdout.lines().collect();
        assert_eq!(ending.code, Some(0), "{ending:#?}");
        assert!(lines[0].ends_with(" nodes, then out of memory"), "{ending:#?}");
        assert!(lines[1].starts_with("{\"name\":\"cache\",") && lines[2] == "the result");

        let ending = run(Command::new(Source::at("examples/containers.cpp").compile(linked)));
        assert_eq!(ending.code, Some(0), "{ending:#?}");
        let expected =
            "and 1\nmore 1\none 2\nword 2\n5 blocks live\nlimit reached, 1000 numbers kept\n";
        assert_eq!(ending.stdout, expected);
    }
}

/// Invalid reads and writes, use of what was never written, and frees that libc would not like.
#[test]
fn programs_are_clean_under_memcheck() {
    if !has_program("valgrind") {
        return eprintln!("no valgrind: not run");
    }
    for path in
        ["tests/c/plain.c", "tests/c/heaps.c", "tests/c/containers.cpp", "tests/c/threads.c"]
    {
        let program = Source::at(path).compile(Linked::Dynamically);
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=99", "--leak-check=no"]).arg(program);
        let ending = run(command);
        ending.assert_well();
        assert!(!ending.stderr.contains("=="), "{path}: {ending:#?}");
    }
}

#[test]
fn programs_are_clean_under_address_sanitizer() {
    for path in
        ["tests/c/plain.c", "tests/c/heaps.c", "tests/c/containers.cpp", "tests/c/threads.c"]
    {
        for linked in BOTH_WAYS {
            let program = Source::at(path).flag("-fsanitize=address,undefined").compile(linked);
            let mut command = Command::new(program);
            command.env("ASAN_OPTIONS", "detect_leaks=0");
            command.env("UBSAN_OPTIONS", "halt_on_error=1");
            run(command).assert_well();
        }
    }
}

/// A process with little address space starts, is refused memory at the limit, and goes on.
#[test]
fn a_program_with_little_address_space_is_refused_not_ended() {
    for linked in BOTH_WAYS {
        let program = Source::at("tests/c/little.c").compile(linked);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 262144 && exec \"$0\""]).arg(program);
        run(command).assert_well();
    }
}
