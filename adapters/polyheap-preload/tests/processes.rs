//! Threads, forks, loading at run time, and misuse, in C programs under the library.

mod support;

use support::{assert_well, compile, library, run, scratch};

#[test]
fn threads_end_with_destructors_that_allocate() {
    let directory = scratch("threads");
    compile("gcc", "threads.c", &[], &directory.join("threads"));
    let told = assert_well("./threads", &directory, &[]).stdout;
    let bytes: Vec<i64> = told.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(bytes[1] - bytes[0] < 2 << 20, "memory grows with the threads that were: {told}");
}

#[test]
fn children_of_a_busy_process_allocate_in_all_tiers() {
    let directory = scratch("forks");
    compile("gcc", "forks.c", &[], &directory.join("forks"));
    // `POLYHEAP_TEST_FORKS=2000` for a soak: minutes, as each child copies the process's page tables.
    let forks = std::env::var("POLYHEAP_TEST_FORKS").unwrap_or_else(|_| "200".to_string());
    let told = assert_well(&format!("./forks {forks}"), &directory, &[]).stdout;
    assert_eq!(told, format!("{forks}\n"));
}

#[test]
fn opened_and_closed_at_run_time_beside_libraries_with_much_thread_local_data() {
    let directory = scratch("opener");
    compile("gcc", "opener.c", &["-ldl"], &directory.join("opener"));
    let mut script = format!("./opener {}", library().display());
    for number in 0..20 {
        let name = format!("local{number}.so");
        let size = if number % 2 == 0 { "-DMANY" } else { "-DFEW" };
        compile("gcc", "local.c", &["-shared", "-fPIC", size], &directory.join(&name));
        script = format!("{script} ./{name}");
    }
    let output = run(&script, &directory, &[], &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told == "well\n", "{output:?}");
}

#[test]
fn misuse_ends_the_process_with_a_line() {
    let directory = scratch("misuse");
    compile("gcc", "misuse.c", &["-Wno-free-nonheap-object"], &directory.join("misuse"));
    let told = |what: &str| {
        let output = run(&format!("exec ./misuse {what}"), &directory, &[library()], &[]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(told("nothing"), (true, String::new()));
    for size in ["", "-large", "-huge"] {
        let (is_well, line) = told(&format!("double{size}"));
        let is_told = line.starts_with("polyheap: double free: 0x");
        assert!(!is_well && is_told && line.lines().count() == 1, "{size}: {line}");
        let (is_well, line) = told(&format!("interior{size}"));
        assert!(!is_well && line.starts_with("polyheap: free of an interior pointer"), "{line}");
    }
    // The C library's own free is asked, and has its own words.
    let (is_well, line) = told("foreign");
    assert!(!is_well && line.contains("invalid pointer"), "{line}");
}

/// The library needs no other, and little of the thread-local block that all libraries share.
#[test]
fn costs_the_process_no_library_and_few_thread_local_bytes() {
    let directory = scratch("needs");
    let script = format!("LC_ALL=C readelf -dlW {}", library().display());
    let output = run(&script, &directory, &[], &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<&str> = told.lines().filter(|line| line.contains("(NEEDED)")).collect();
    let is_expected = |line: &&&str| line.contains("[libc.so") || line.contains("[ld-linux");
    assert_eq!(needed.len(), needed.iter().filter(is_expected).count(), "{needed:?}");
    // Reads of initial-exec words are marked.
    assert!(told.lines().any(|line| line.contains("(FLAGS)") && line.contains("STATIC_TLS")));
    let segment = told.lines().find(|line| line.trim_start().starts_with("TLS ")).unwrap();
    let bytes = segment.split_whitespace().nth(5).unwrap().trim_start_matches("0x");
    let bytes = u64::from_str_radix(bytes, 16).unwrap();
    assert!((1..=300).contains(&bytes), "{bytes} thread-local bytes");
}
