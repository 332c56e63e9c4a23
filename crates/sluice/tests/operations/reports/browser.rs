//! The pages in headless Chromium, at the width of a desktop and of a phone: the style sheet and the script are loaded, the live page is
//! connected, and the browser refuses nothing.
//! Pictures of all pages are compared in `pictures.py`.

use std::path::PathBuf;
use std::process::Command;

use super::{LOCAL, setup};
use crate::browser;
use sluice_testing::{SLOW, Server, Setup};

const PICTURES: &str = include_str!("pictures.py");

/// The document after its script has run, and what the browser has logged.
fn load(browser: &PathBuf, server: &Server, page: &str, width: u32) -> [String; 2] {
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--timeout=60000",
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
    let Some(browser) = browser::program() else { return };
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

#[test]
fn pictures_of_the_pages_fit_a_desktop_and_a_phone() {
    let Some(browser) = browser::program() else { return };
    let setup = Setup::new()
        .route(LOCAL)
        .route("path = \"/private/*\"\nfiles = { directory = \"htdocs\" }\naccess = { realm = \"Staff\", users = \"users\" }")
        .route("path = \"/files/*\"\nfiles = { directory = \"htdocs\", listing = true }")
        .python("slow", SLOW)
        .script("fail", "#!/bin/sh\nexit 3\n")
        .file("a.txt", "text");
    std::fs::write(setup.path("users"), "ann:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n").unwrap();
    let server = setup.start();
    let (begun, _gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    let _waiting = [
        "/cgi-bin/slow?a",
        "/cgiplus-bin/slow?a-longer-query=which%20has%20no%20end",
    ]
    .map(|path| {
        let mut client = server.connect();
        client.get(path);
        begun.line();
        client
    });
    for path in ["/a.txt", "/a.txt", "/none", "/cgi-bin/fail"] {
        server.get(path);
    }
    server.log_line("exit code 3");
    browser::run(PICTURES, &browser, &server);
}
