//! The pages of the demo in headless Chromium: what a visitor should see first, one right edge, and nothing that is wider than its window.

use std::process::Command;

use super::{Demo, Layout, skip};

const IN_BROWSER: &str = concat!(
    include_str!("../operations/browser.py"),
    "\n\n",
    include_str!("in_browser.py")
);

#[test]
fn the_pages_fit_a_desktop_and_a_phone() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut programs = std::env::split_paths(&path).flat_map(|directory| names.map(|name| directory.join(name)));
    let Some(program) = programs.find(|program| program.is_file()) else {
        return skip("Chromium");
    };
    let demo = Demo::start(Layout::Installed);
    let ran = Command::new("python3")
        .args(["-c", IN_BROWSER])
        .arg(program)
        .arg(format!("http://{}", demo.address))
        .output()
        .expect("Python");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && ran.stdout.ends_with(b"done\n"), "{errors}");
}
