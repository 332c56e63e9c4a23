//! The access log: one line per exchange, whatever its outcome, and the signal that reopens its file. Also the lines
//! that scripts write to their standard error.
//!
//! Submodules: line formats (`formats`), logs of sites and routes (`sites`), and rotation by the server (`rotation`).

mod formats;
mod rotation;
mod sites;

use std::fs;

use sluice_testing::{Server, Setup, wait_until};

/// A script that prints its request id and writes a line to its standard error.
const PRINT_ID: &str = r#"printf 'Content-Type: text/plain\n\nUNIQUE_ID=%s\n' "$UNIQUE_ID"; echo "a complaint" >&2"#;

/// The status in a line of the combined format.
fn status(line: &str) -> &str {
    let after = line
        .split_once(" HTTP/1.")
        .unwrap_or_else(|| panic!("no request in {line:?}"))
        .1;
    after
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("no status in {line:?}"))
}

/// The statuses of all lines, sorted.
fn statuses(lines: &[String]) -> Vec<&str> {
    let mut all: Vec<&str> = lines.iter().map(|line| status(line)).collect();
    all.sort_unstable();
    all
}

/// The value of a key in a JSON line, without quotes.
fn json<'a>(line: &'a str, key: &str) -> &'a str {
    let key = format!("\"{key}\":");
    let value = line.split_once(&key).unwrap_or_else(|| panic!("no {key} in {line}")).1;
    match value.strip_prefix('"') {
        Some(text) => text.split('"').next().unwrap_or_default(),
        None => value.split([',', '}']).next().unwrap_or_default(),
    }
}

#[test]
fn combined_line_has_client_request_status_and_size() {
    let server = Setup::new().file("a.txt", "hello").start();
    server.send(
        "GET /a.txt?b=%22c HTTP/1.1\r\nHost: test\r\nReferer: http://x/\"y\"\r\nUser-Agent: quo\"te\\\u{e4}\r\n\r\n",
    );
    let line = server.access_lines(1).swap_remove(0);
    let (front, id) = line.rsplit_once(' ').unwrap();
    assert!(
        id.len() >= 16 && id.chars().all(|letter| letter.is_ascii_alphanumeric()),
        "{line}"
    );
    assert!(front.starts_with("127.0.0.1 - - ["), "{line}");
    let wanted = r#"] "GET /a.txt?b=%22c HTTP/1.1" 200 5 "http://x/\"y\"" "quo\"te\\\xc3\xa4""#;
    assert!(front.ends_with(wanted), "{line}");
}

#[test]
fn json_line_has_the_same_and_the_duration() {
    let server = Setup::new()
        .log("access = \"-\"\nformat = \"json\"")
        .file("a.txt", "hello")
        .start();
    server.send("GET /a.txt?b HTTP/1.1\r\nHost: test:80\r\nUser-Agent: a \"b\" \\\t\r\n\r\n");
    let line = server.access_lines(1).swap_remove(0);
    assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    for (key, value) in [
        ("client", "127.0.0.1"),
        ("host", "test:80"),
        ("method", "GET"),
        ("target", "/a.txt?b"),
        ("protocol", "HTTP/1.1"),
        ("status", "200"),
        ("body_bytes", "5"),
        ("cut", "false"),
        ("referer", "null"),
    ] {
        assert_eq!(json(&line, key), value, "{key} in {line}");
    }
    assert!(line.contains(r#""agent":"a \"b\" \\"#), "{line}");
    assert!(
        json(&line, "time").ends_with('Z') && json(&line, "duration_us").parse::<u64>().is_ok(),
        "{line}"
    );
}

#[test]
fn every_exchange_is_logged_exactly_once() {
    let server = Setup::new()
        .limits("body_size = \"10\"")
        .file("a.txt", "a")
        .script("good", r"printf 'Content-Type: text/plain\n\ngood'")
        .script("bad", "echo nothing")
        .script("empty", r"printf 'Status: 204\n\n'")
        .script("local", r"printf 'Location: /a.txt\n\n'")
        .file_with_mode("cgi-bin/norun", "", 0o644)
        .start();
    let mut client = server.connect();
    let mut expected = Vec::new();
    for (path, status) in [
        ("/a.txt", "200"),
        ("/none", "404"),
        ("/", "403"),
        ("/cgi-bin/good", "200"),
        ("/cgi-bin/bad", "502"),
        ("/cgi-bin/empty", "204"),
        ("/cgi-bin/local", "200"),
        ("/cgi-bin/norun", "403"),
        ("/%00", "400"),
    ] {
        client.get(path).response();
        expected.push(status);
    }
    client
        .send("HEAD /a.txt HTTP/1.1\r\nHost: test\r\n\r\n")
        .response_to("HEAD");
    drop(client);
    assert_eq!(server.post("/a.txt", "a").status, 405);
    assert_eq!(server.post("/cgi-bin/good", "more than ten").status, 413);
    assert_eq!(server.send("GET /a.txt HTTP/1.1\r\n\r\n").status, 400);
    expected.extend(["200", "405", "413", "400"]);
    expected.sort_unstable();
    assert_eq!(statuses(&server.stop().access), expected);
}

#[test]
fn requests_without_a_usable_head_are_logged_too() {
    let server = Setup::new()
        .limits("head_timeout = \"200ms\"\nhead_size = \"8KiB\"")
        .file("a.txt", "a")
        .start();
    for (request, status) in [
        ("GET /a.txt HTTP/1.1\r\nX : y\r\n\r\n".to_owned(), 400),
        (format!("GET /a.txt HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000)), 431),
        ("GET /a.txt HTTP/1.1\r\n".to_owned(), 408),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
    ] {
        let mut client = server.connect();
        client.try_send(request);
        assert_eq!(client.response().status, status);
    }
    // A connection without a request is not an exchange.
    server.connect().assert_closed();
    let ended = server.stop();
    assert_eq!(
        statuses(&ended.access),
        ["400", "408", "431", "505"],
        "{:#?}",
        ended.access
    );
}

#[test]
fn aborted_exchanges_are_logged_once_as_such() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .log("access = \"-\"\nformat = \"json\"")
        .file("large", vec![b'x'; 32 << 20])
        .script("silent", r#"echo started > "$TEST_DIR/events"; exec sleep 1000"#)
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .script(
            "dies",
            r"printf 'Content-Type: text/plain\n\n'; head -c 300000 /dev/zero; kill -9 $$",
        )
        .start();
    let mut silent = server.connect();
    silent.get("/cgi-bin/silent");
    events.line();
    drop(silent);
    for path in ["/cgi-bin/endless", "/large"] {
        server.connect().get(path).head();
    }
    server.get("/cgi-bin/dies");
    server.access_lines(4);
    server.assert_idle();
    let ended = server.stop();
    let mut lines: Vec<_> = ended
        .access
        .iter()
        .map(|line| (json(line, "target"), json(line, "status"), json(line, "cut")))
        .collect();
    lines.sort_unstable();
    let expected = [
        ("/cgi-bin/dies", "200", "true"),
        ("/cgi-bin/endless", "200", "true"),
        ("/cgi-bin/silent", "499", "false"),
        ("/large", "200", "true"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn request_of_a_client_that_left_early_is_logged() {
    let server = Setup::new().file("a.txt", "a").start();
    for _ in 0..400 {
        server.connect().get("/a.txt");
    }
    let complete = wait_until(|| server.access_lines(0).len() == 400);
    assert!(complete, "{} lines for 400 requests", server.access_lines(0).len());
}

#[test]
fn body_bytes_are_counted() {
    let server = Setup::new()
        .file("large", vec![b'x'; 1_000_000])
        .script("bytes", "echo Content-Type: text/plain; echo; head -c 500000 /dev/zero")
        .start();
    assert_eq!(server.get("/large").body.len(), 1_000_000);
    assert_eq!(server.get("/cgi-bin/bytes").body.len(), 500_000);
    // Two workers may write their lines in any order.
    let lines = server.access_lines(2);
    for counted in ["\" 200 1000000 \"", "\" 200 500000 \""] {
        assert!(lines.iter().any(|line| line.contains(counted)), "{counted}: {lines:#?}");
    }
}

#[test]
fn request_id_is_the_same_in_logs_and_script() {
    let server = Setup::new().script("tell", PRINT_ID).start();
    for count in 1..4 {
        let response = server.get("/cgi-bin/tell");
        let id = response.variable("UNIQUE_ID").unwrap();
        let access = server.access_lines(count).pop().unwrap();
        assert!(access.ends_with(&format!(" {id}")), "{id}: {access}");
        let script_line = server.log_lines(count, "a complaint").pop().unwrap();
        assert!(script_line.contains(&format!("id={id}")), "{id}: {script_line}");
        assert!(
            script_line.contains("cgi-bin/tell") && script_line.contains("pid="),
            "{script_line}"
        );
    }
}

#[test]
fn error_page_shows_the_request_id() {
    let server = Setup::new().script("bad", "echo nothing").start();
    let page = server.get("/cgi-bin/bad");
    let access = server.access_lines(1).pop().unwrap();
    let id = access.rsplit(' ').next().unwrap();
    assert!(page.text().contains(id), "{id} is not in {}", page.text());
    assert!(server.log_line("status=502").contains(id));
}

#[test]
fn request_ids_are_unique() {
    let server = Setup::new().file("a.txt", "a").start();
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for _ in 0..25 {
        for client in &mut clients {
            client.get("/a.txt").response();
        }
    }
    drop(clients);
    let lines = server.stop().access;
    let ids: std::collections::HashSet<_> = lines.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!((lines.len(), ids.len()), (200, 200));
}

#[test]
fn script_output_cannot_forge_log_lines() {
    let server = Setup::new()
        .script(
            "shout",
            r#"printf 'Content-Type: text/plain\n\n'; printf 'one\r2026 INFO forged\033[31m\ntwo' >&2"#,
        )
        .start();
    server.get("/cgi-bin/shout");
    let line = server.log_line("forged");
    server.log_line("two");
    assert!(line.contains("one"), "{line}");
    assert!(
        !line.contains(['\r', '\u{1b}']),
        "control characters reach the terminal: {line:?}"
    );
}

#[test]
fn client_cannot_forge_log_lines() {
    let server = Setup::new().start();
    server.get("/a%0d%0aforged%20line%1b%5b31m");
    server.send("GET /b HTTP/1.1\r\nHost: test\r\nUser-Agent: a\u{9b}b\r\n\r\n");
    server.access_lines(2);
    let ended = server.stop();
    assert!(
        !ended
            .access
            .iter()
            .chain([&ended.errors])
            .any(|text| text.contains(['\u{1b}', '\r', '\u{9b}']))
    );
    assert!(
        !ended.access.iter().any(|line| line.starts_with("forged")),
        "{:#?}",
        ended.access
    );
    assert!(
        !ended.errors.lines().any(|line| line.starts_with("forged")),
        "{}",
        ended.errors
    );
}

#[test]
fn access_log_can_be_disabled() {
    let server = Setup::new().log("access = \"off\"").file("a.txt", "a").start();
    assert_eq!(server.get("/a.txt").text(), "a");
    assert_eq!(server.stop().access, Vec::<String>::new());
}

fn targets(path: &std::path::Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.contains("health"));
    lines
        .map(|line| line.split(' ').nth(6).unwrap_or("-").to_owned())
        .collect()
}

#[track_caller]
fn assert_logged(server: &Server, name: &str, expected: &[&str]) {
    let path = server.path(name);
    assert!(
        wait_until(|| targets(&path) == expected),
        "{name} holds {:?}, not {expected:?}",
        targets(&path)
    );
}

#[test]
fn sigusr1_reopens_the_file_without_losing_lines() {
    let server = Setup::new().log("access = \"access.log\"").file("a.txt", "a").start();
    server.get("/a.txt?1");
    assert_logged(&server, "access.log", &["/a.txt?1"]);
    fs::rename(server.path("access.log"), server.path("access.log.1")).unwrap();
    server.get("/a.txt?2");
    assert_logged(&server, "access.log.1", &["/a.txt?1", "/a.txt?2"]);
    server.signal("USR1");
    server.log_line("the logs are opened again");
    server.get("/a.txt?3");
    assert_logged(&server, "access.log", &["/a.txt?3"]);
    assert_logged(&server, "access.log.1", &["/a.txt?1", "/a.txt?2"]);
}

#[test]
fn log_that_cannot_be_reopened_stays_in_the_old_file() {
    let setup = Setup::new().log("access = \"logs/access.log\"").file("a.txt", "a");
    fs::create_dir(setup.path("logs")).unwrap();
    let server = setup.start();
    fs::rename(server.path("logs"), server.path("moved")).unwrap();
    server.signal("USR1");
    server.log_line("access log");
    server.log_line("stays in use");
    server.get("/a.txt?1");
    assert_logged(&server, "moved/access.log", &["/a.txt?1"]);
}

#[test]
fn log_file_is_appended_to() {
    let setup = Setup::new().log("access = \"access.log\"");
    fs::write(setup.path("access.log"), "an older line\n").unwrap();
    let server = setup.start();
    server.get("/x");
    assert!(wait_until(
        || targets(&server.path("access.log")).contains(&"/x".to_owned())
    ));
    assert!(
        fs::read_to_string(server.path("access.log"))
            .unwrap()
            .starts_with("an older line\n")
    );
}
