//! The pages in headless Chromium, at the width of a desktop and of a phone: the style sheet and the script are loaded, the live page is
//! connected, and the browser refuses nothing.
//!
//! Skipped with a message where there is no Chromium, unless SLUICE_TEST_REQUIRE_ALL is set.

use std::path::PathBuf;
use std::process::Command;

use super::setup;
use sluice_testing::Server;

/// The names of the browser.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<PathBuf> {
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

/// The document after its script has run, and what the browser has logged.
fn load(browser: &PathBuf, server: &Server, page: &str, width: u32) -> [String; 2] {
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--timeout=5000",
        ])
        .arg(format!("--user-data-dir={}", server.path("browser").display()))
        .arg(format!("--window-size={width},900"))
        .arg("--dump-dom")
        .arg(format!("http://{}/-/{page}", server.address()))
        .output()
        .unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn a_browser_shows_the_pages_and_refuses_nothing() {
    let Some(browser) = browser() else { return };
    let server = setup().file("a.txt", "text").start();
    server.get("/a.txt");
    for (page, title) in [("", "Overview"), ("statistics", "Statistics")] {
        for width in [1200, 400] {
            let [document, log] = load(&browser, &server, page, width);
            assert!(document.contains(&format!("<h1>{title}</h1>")), "{document}\n{log}");
            let is_live = document.contains("· connecting") || document.contains("· live");
            assert!(is_live, "the script has not run\n{document}\n{log}");
            for refused in [
                "Content Security Policy",
                "Refused to",
                "SyntaxError",
                "TypeError",
                "ReferenceError",
            ] {
                assert!(!log.contains(refused), "{log}");
            }
        }
    }
    // The browser has asked for the files of the page.
    for file in ["report.css", "report.js"] {
        let has_asked = server.access_lines(5).iter().any(|line| line.contains(file));
        assert!(has_asked, "{file}");
    }
}
