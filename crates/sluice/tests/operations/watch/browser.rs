//! The page of WATCH in headless Chromium. Skipped with a message where there is none.

use std::process::{Command, Stdio};

use super::page::setup;
use sluice_testing::spawn;

const SCRIPT: &str = include_str!("browser.py");

/// The names of the browser, of distributions and of its makers.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

#[test]
fn the_page_shows_events_on_a_desktop_and_on_a_phone() {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&directories).flat_map(|directory| NAMES.map(|name| directory.join(name)));
    let Some(program) = programs.find(|program| program.is_file()) else {
        return skip();
    };
    let server = setup().start();
    let url = format!("http://{}", server.address());
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT]).arg(program).arg(&url);
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    // The script has deadlines of its own, longer than those of the harness: a browser takes its time on a busy machine.
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && output.stdout.ends_with(b"done\n"),
        "{errors}"
    );
    // One of each width.
    server.log_lines(2, "the watcher has left");
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skip() {
    eprintln!("skipped: Chromium is not installed");
}
