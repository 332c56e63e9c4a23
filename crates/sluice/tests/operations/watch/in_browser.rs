//! The page of WATCH in headless Chromium.

use super::page::setup;
use crate::browser;

const TEST: &str = include_str!("page.py");

#[test]
fn the_page_shows_events_on_a_desktop_and_on_a_phone() {
    let Some(program) = browser::program() else { return };
    let server = setup().start();
    browser::run(TEST, &program, &server);
    // Two of each width.
    server.log_lines(4, "the watcher has left");
}
