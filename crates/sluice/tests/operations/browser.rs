//! Tests of pages in headless Chromium, which Python steers (`browser.py`).
//!
//! Here: what these tests share. They are skipped with a message where there is no Chromium, unless SLUICE_TEST_REQUIRE_ALL is set.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sluice_testing::{Server, spawn};

/// The names of the browser, of distributions and of its makers.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const BROWSER: &str = include_str!("browser.py");

/// The browser; `None`, after a message, if none is installed.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|directory| NAMES.map(|name| directory.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("SLUICE_TEST_REQUIRE_ALL").is_none(),
            "there is no Chromium"
        );
        #[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
        {
            eprintln!("skipped: there is no Chromium");
        }
    }
    found
}

/// Runs a test in Python, whose arguments are the browser and the address of the server.
#[track_caller]
pub(crate) fn run(test: &str, browser: &PathBuf, server: &Server) {
    let url = format!("http://{}", server.address());
    let mut command = Command::new("python3");
    command
        .arg("-c")
        .arg(format!("{BROWSER}\n\n{test}"))
        .arg(browser)
        .arg(&url);
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    // The script has deadlines of its own, longer than those of the harness: a browser takes its time on a busy machine.
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && output.stdout.ends_with(b"done\n"),
        "{errors}"
    );
}
