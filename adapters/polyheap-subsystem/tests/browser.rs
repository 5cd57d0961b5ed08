//! The page in a real browser: run by hand, with a Chromium that is called `chromium` or named by the
//! variable `CHROMIUM`.
//!
//! ```sh
//! cargo test -p polyheap-subsystem --test browser -- --ignored --nocapture
//! ```
//!
//! What a machine can tell is asserted; the screenshots, whose paths it prints, are to be looked at.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use polyheap_subsystem::{Recorder, report, subsystem};

/// Width and height of the window in CSS pixels.
const WINDOW: [u32; 2] = [1100, 1100];

/// Where a PNG file has its width and its height, big-endian.
const PNG_SIZE_AT: usize = 16;

subsystem! {
    static PLAIN: "plain", max = 16 MiB, soft_max = 8 MiB;
    static HOSTILE: "</title></table><script>document.body.remove()</script>&amp;", isolated;
    static LONG: "a-name-that-has-no-place-to-break-and-is-longer-than-any-column-of-a-table-should-be";
}

/// Returns the path of a file of this test.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Has the browser open the page; returns what it prints.
fn open(page: &Path, options: &[String]) -> String {
    let profile = file("browser-profile");
    let browser = env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--hide-scrollbars", &format!("--window-size={},{}", WINDOW[0], WINDOW[1])])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("a Chromium is there");
    fs::remove_dir_all(profile).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs a Chromium; run by hand"]
fn a_browser_shows_the_whole_page_in_light_and_dark() {
    let recorder = Recorder::new();
    let mut lists = [PLAIN.vec(), HOSTILE.vec(), LONG.vec()];
    for round in 1..60usize {
        for (list, step) in lists.iter_mut().zip([7_000, 3_000, 11_000]) {
            list.resize(round * step % 300_000, 1u8);
            list.shrink_to_fit();
        }
        recorder.sample();
    }
    let report = report();
    let page = file("page.html");
    fs::write(&page, report.to_html(&recorder.history())).unwrap();

    // The tree the browser has made of it: nothing was moved, dropped or run.
    let tree = open(&page, &["--dump-dom".to_string()]);
    let body = tree.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    assert_eq!(body.matches("<tr>").count(), 3, "{tree}");
    assert_eq!(body.matches("<td>").count(), 3 * 8, "{tree}");
    assert_eq!(tree.matches("<path ").count(), 2 * 3, "{tree}");
    assert!(!tree.contains("<script") && tree.contains("&lt;script&gt;"), "{tree}");

    for (name, scheme) in [("page-light.png", 1), ("page-dark.png", 0)] {
        let picture = file(name);
        let target = format!("--screenshot={}", picture.display());
        open(&page, &[target, format!("--blink-settings=preferredColorScheme={scheme}")]);
        let bytes = fs::read(&picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
        let size = [0, 4].map(|at| {
            let at = PNG_SIZE_AT + at;
            u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
        });
        assert_eq!(size, WINDOW);
        eprintln!("{}", picture.display());
    }
    let [light, dark] =
        ["page-light.png", "page-dark.png"].map(|name| fs::read(file(name)).unwrap());
    assert_ne!(light, dark);
}
