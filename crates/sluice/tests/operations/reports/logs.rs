//! The ends of the logs: in files and in memory, whatever their lines contain.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use super::{LOCAL, get, json, setup};
use sluice_testing::{Server, Setup, launchers_of, signal, wait_until};

/// The lines that a query shows.
#[track_caller]
fn lines(server: &Server, query: &str) -> Vec<String> {
    let shown = json(server, &format!("/-/logs.json?{query}"));
    let lines = shown["lines"].as_array().unwrap_or_else(|| panic!("{shown}"));
    lines.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// Waits until a query shows a line with this text.
#[track_caller]
fn wait_for_line(server: &Server, query: &str, text: &str) {
    let has = || lines(server, query).iter().any(|line| line.contains(text));
    assert!(wait_until(has), "no {text} in {:#?}", lines(server, query));
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn logs_that_go_to_no_file_are_shown_from_memory() {
    let server = setup().start();
    server.get("/a%20b?secret=%3Cscript%3Ealert(1)%3C/script%3E&name=first");
    wait_for_line(&server, "log=access:*", "name=first");
    wait_for_line(&server, "log=server", "listening on http://");
    let page = get(&server, "/-/logs?log=access:*&filter=NAME%3Dfirst");
    for words in ["name=first", "kept in memory", "value=\"NAME=first\"", "query strings"] {
        assert!(page.text().contains(words), "no {words} in {}", page.text());
    }
    assert!(!page.text().contains("<script>alert"), "{}", page.text());
    // The first log is that of the server.
    let shown = json(&server, "/-/logs.json");
    assert_eq!((&shown["log"], &shown["lines_max"]), (&"server".into(), &100.into()));
    assert_eq!(json(&server, "/-/logs.json?lines=1000000")["lines_max"], 100);
    let unknown = get(&server, "/-/logs?log=../../etc/passwd");
    assert!(unknown.status == 200 && unknown.text().contains("There is no such log"));
}

#[test]
fn the_log_of_each_site_is_shown_and_rotation_is_followed() {
    let site = "[[site]]\nhosts = [\"b.test\", \"c.test\"]\nroot = \"htdocs\"\nlog = { access = \"b.log\" }";
    let server = setup()
        .log("access = \"a.log\"\ndiagnostics = \"server.log\"")
        .sites(site)
        .file("a.txt", "text")
        .start();
    server.send("GET /a.txt?of-b HTTP/1.1\r\nHost: b.test\r\n\r\n");
    server.get("/a.txt?of-a");
    wait_for_line(&server, "log=access:*", "of-a");
    wait_for_line(&server, "log=access:b.test", "of-b");
    assert!(
        !lines(&server, "log=access:b.test")
            .iter()
            .any(|line| line.contains("of-a"))
    );
    wait_for_line(&server, "log=server", "listening on");
    let shown = json(&server, "/-/logs.json?log=access:b.test");
    let file = shown["logs"][2]["file"].as_str().unwrap();
    assert!(file.ends_with("/b.log"), "{shown}");

    let path = server.path("b.log");
    fs::rename(&path, server.path("b.log.1")).unwrap();
    server.signal("USR1");
    wait_for_line(&server, "log=server", "the logs are opened again");
    server.send("GET /a.txt?after HTTP/1.1\r\nHost: b.test\r\n\r\n");
    wait_for_line(&server, "log=access:b.test", "after");
    assert!(
        !lines(&server, "log=access:b.test")
            .iter()
            .any(|line| line.contains("of-b"))
    );

    append(&path, b"not \xff UTF-8, \x1b[2J a terminal\r\n");
    let last = lines(&server, "log=access:b.test").pop().unwrap();
    assert_eq!(last, "not \u{fffd} UTF-8, \\u{1b}[2J a terminal\\r");
    append(&path, &vec![b'x'; 3 << 20]);
    append(&path, b"\nthe end\n");
    assert_eq!(lines(&server, "log=access:b.test"), ["the end"]);
    fs::remove_file(&path).unwrap();
    let page = get(&server, "/-/logs?log=access:b.test");
    assert!(
        page.text().contains("b.log cannot be read: No such file"),
        "{}",
        page.text()
    );
}

/// The end of a server process is known to its supervisor only.
#[test]
fn lines_of_the_supervisor_are_shown_by_the_next_server_process() {
    for keys in ["", "diagnostics = \"server.log\""] {
        let server = setup().log(keys).start();
        let old = server.server_pid();
        assert!(signal(old, "KILL"));
        let killed = format!("server process {old} was killed by signal 9");
        server.log_line(&killed);
        wait_for_line(&server, "log=server", " serves");
        let shown = lines(&server, "log=server");
        let position = |text: &str| shown.iter().rposition(|line| line.contains(text));
        assert!(position(&killed) < position("listening on http://"), "{shown:#?}");
        for text in [&killed, " serves"] {
            let count = |lines: &[String]| lines.iter().filter(|line| line.contains(text)).count();
            assert_eq!(count(&shown), 1, "{shown:#?}");
            let logged: Vec<String> = server.log().lines().map(str::to_owned).collect();
            assert_eq!(count(&logged), 1, "{logged:#?}");
        }
    }
}

#[test]
fn lines_of_the_supervisor_wait_while_the_server_process_does_not_read() {
    let server = setup().start();
    assert!(signal(server.server_pid(), "STOP"));
    let mut killed = Vec::new();
    for _ in 0..3 {
        assert!(wait_until(|| {
            killed.extend(launchers_of(server.pid()).pop().filter(|pid| signal(*pid, "KILL")));
            !killed.is_empty()
        }));
        server.log_line(&format!("launcher process {} was killed", killed.pop().unwrap()));
    }
    assert!(signal(server.server_pid(), "CONT"));
    let has_all = || {
        let shown = lines(&server, "log=server&filter=launcher+process");
        shown.iter().filter(|line| line.contains("was killed")).count() == 3
    };
    assert!(wait_until(has_all), "{}", server.log());
}

#[test]
fn a_log_that_is_a_fifo_is_shown_from_memory() {
    let setup = Setup::new().route(LOCAL).log("access = \"fifo.log\"");
    let fifo = setup.event_fifo("fifo.log");
    let server = setup.start();
    server.get("/health.txt?through");
    while !fifo.line().contains("through") {}
    wait_for_line(&server, "log=access:*", "through");
    let page = get(&server, "/-/logs?log=access:*");
    assert!(
        page.text().contains("fifo.log is not a regular file"),
        "{}",
        page.text()
    );
}

#[test]
fn new_lines_appear_while_the_page_is_shown() {
    let server = setup().start();
    let mut client = server.connect();
    client.send("GET /-/logs?live&log=server&filter=cache HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head().field("content-type"), Some("text/event-stream"));
    client.take_through(b"event: content\n");
    server.signal("USR2");
    client.take_through(b"cache purged");
    server.stop();
}

#[test]
fn only_those_who_may_have_reports_see_logs_and_activity() {
    let elsewhere = "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:192.0.2.0/24\"] }";
    let server = Setup::new().route(elsewhere).start();
    for path in ["logs", "logs.json", "logs?live", "activity", "activity.json"] {
        assert_eq!(get(&server, &format!("/-/{path}")).status, 403, "{path}");
    }
}
