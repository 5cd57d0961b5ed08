//! Limits of the system and settings of the environment.

mod support;

use std::path::PathBuf;

use support::{Ending, assert_well, library, run, scratch};

/// Allocates until it is told that there is no memory, lets go, and goes on.
const UNTIL_REFUSED: &str = r#"cat > refused.py <<'END'
def fill(size):
    kept = []
    try:
        while True: kept.append(bytearray(size))
    except MemoryError:
        return len(kept)
print([fill(size) > 0 for size in (5000000, 500000, 50000, 5000, 500)])
print(sum(map(len, map(str, range(100000)))))
END
"#;

const WELL: &str = "[True, True, True, True, True]\n488890\n";

fn directory(name: &str) -> PathBuf {
    scratch(name)
}

#[test]
fn limited_address_space_is_a_memory_error_in_python() {
    let directory = directory("address-space");
    for kibibytes in [262_144, 524_288] {
        let script = format!(
            "{UNTIL_REFUSED} ulimit -v {kibibytes}; PYTHONMALLOC=malloc exec python3 refused.py"
        );
        assert_eq!(assert_well(&script, &directory, &[]).stdout, WELL, "{kibibytes}");
    }
}

#[test]
fn limit_of_the_environment_is_a_memory_error_in_python() {
    let directory = directory("limit");
    let script = format!("{UNTIL_REFUSED} PYTHONMALLOC=malloc exec python3 refused.py");
    for limit in ["64M", "65536k", "67108864"] {
        let ending = assert_well(&script, &directory, &[("POLYHEAP_LIMIT", limit)]);
        assert_eq!((ending.stdout.as_str(), ending.stderr.as_str()), (WELL, ""));
    }
}

#[test]
fn settings_are_told_when_asked() {
    let directory = directory("verbose");
    let greeting = |variables: &[(&str, &str)]| {
        let mut variables = variables.to_vec();
        variables.push(("POLYHEAP_VERBOSE", "1"));
        // The shell itself is one program, and what it runs another.
        let output = run("exec true", &directory, &[library()], &variables);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = told.lines().next_back().unwrap_or_default().to_owned();
        line.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or(line)
    };
    assert_eq!(greeting(&[]), "limit none, decay 1000 ms, huge pages system");
    let all =
        [("POLYHEAP_LIMIT", "1g"), ("POLYHEAP_DECAY_MS", "0"), ("POLYHEAP_HUGE_PAGES", "always")];
    assert_eq!(greeting(&all), "limit 1073741824 B, decay at once, huge pages always");
    let others = [("POLYHEAP_DECAY_MS", "never"), ("POLYHEAP_HUGE_PAGES", "never")];
    assert_eq!(greeting(&others), "limit none, decay never, huge pages never");
    assert_eq!(
        greeting(&[("POLYHEAP_DECAY_MS", "250")]),
        "limit none, decay 250 ms, huge pages system"
    );
}

#[test]
fn settings_not_understood_are_named_once_and_passed_over() {
    let directory = directory("unknown");
    let told = |name: &str, value: &str| {
        let output = run("exec /bin/true", &directory, &[library()], &[(name, value)]);
        let ending = Ending::of(&output);
        assert_eq!(ending.status, Some(0));
        // Two programs, `timeout` and the last one, and the shell between them.
        let mut lines: Vec<&str> = ending.stderr.lines().collect();
        assert!(lines.len() <= 3, "{lines:?}");
        lines.dedup();
        lines.join("|")
    };
    assert_eq!(told("POLYHEAP_LIMITS", "1"), "polyheap: unknown setting POLYHEAP_LIMITS");
    assert_eq!(told("POLYHEAP_", ""), "polyheap: unknown setting POLYHEAP_");
    let malformed = [
        ("POLYHEAP_LIMIT", "much"),
        ("POLYHEAP_LIMIT", "0"),
        ("POLYHEAP_LIMIT", "99999999999999999999"),
        ("POLYHEAP_LIMIT", "99999999999999999G"),
        ("POLYHEAP_LIMIT", "-1"),
        ("POLYHEAP_DECAY_MS", "soon"),
        ("POLYHEAP_HUGE_PAGES", "yes"),
        ("POLYHEAP_STATISTICS", "2"),
        ("POLYHEAP_VERBOSE", "yes"),
    ];
    for (name, value) in malformed {
        assert_eq!(told(name, value), format!("polyheap: malformed value in {name}={value}"));
    }
    assert_eq!(told("POLYHEAP_LIMIT", "1M"), "");
    assert_eq!(told("POLYHEA", "1M"), "");
}

#[test]
fn statistics_are_written_at_exit_when_asked() {
    let directory = directory("statistics");
    let script = "exec python3 -c 'x = bytearray(3000000)'";
    let ending = assert_well(script, &directory, &[("POLYHEAP_STATISTICS", "1")]);
    let last = ending.stderr.rfind("polyheap: live ").expect("statistics are written");
    let text = &ending.stderr[last..];
    assert!(text.contains(" mappings, ") && text.contains("\n      64 B: "), "{text}");
    assert_eq!(assert_well(script, &directory, &[("POLYHEAP_STATISTICS", "0")]).stderr, "");
}
