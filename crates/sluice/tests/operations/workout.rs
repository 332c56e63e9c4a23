//! `sluice workout` and `sluice rate` against a server of the test: what is compared, counted and reported, and the exit status.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use sluice_testing::{Authority, RunResult, Server, Setup, run, signal, sluice, spawn};

/// Runs a workout in the server's directory.
fn workout(server: &Server, arguments: &[&str]) -> RunResult {
    run(&server.path("."), &[&["workout"], arguments].concat())
}

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn paths_are_requested_in_rotation_and_every_reply_is_compared() {
    // Without the cache, which keeps a descriptor open for each file of this size.
    let server = Setup::new()
        .cache("size = 0")
        .file("a.txt", "a")
        .file("b.txt", "b".repeat(70_000))
        .start();
    let result = workout(
        &server,
        &[
            &url(&server, "/"),
            "-p",
            "/a.txt",
            "-p",
            "/b.txt",
            "-c",
            "4",
            "-n",
            "100",
            "--threads",
            "2",
        ],
    );
    assert!(result.status.success(), "{}{}", result.output, result.errors);
    assert_contains(
        &result.output,
        &[
            "HTTP/1.1, 4 connections, kept open, 2 threads",
            "100: 100 the same as the first, 0 different, 0 failed",
            "opened     4 connections",
            "         50     200              1  /a.txt\n",
            "         50     200         70,000  /b.txt\n",
        ],
    );
    // One request for each path came first.
    let lines = server.access_lines(102);
    assert_eq!(lines.iter().filter(|line| line.contains("GET /a.txt ")).count(), 51);
}

#[test]
fn replies_that_differ_are_counted_and_fail_the_run() {
    let pid = r#"printf 'Content-Type: text/plain\n\n%07d' $$"#;
    let server = Setup::new().script("pid", pid).start();
    let url = url(&server, "/cgi-bin/pid");
    let result = workout(&server, &[&url, "-n", "6", "-c", "2"]);
    assert_eq!(result.status.code(), Some(1));
    assert_contains(
        &result.output,
        &[
            "6: 0 the same as the first, 6 different, 0 failed",
            "/cgi-bin/pid: another body, from byte ",
        ],
    );
    let result = workout(&server, &[&url, "-n", "6", "--compare", "length"]);
    assert!(result.status.success(), "{}", result.output);
    assert_contains(&result.output, &["6 with the status and length of the first"]);
}

#[test]
fn truncated_replies_and_error_pages_after_the_first_reply_are_reported() {
    // The first process makes the directory and answers well.
    let text = r#"mkdir "$TEST_DIR/$QUERY_STRING" 2>/dev/null || { [ "$QUERY_STRING" = late ] || exit 3; half=1; }
        printf 'Content-Type: text/plain\nContent-Length: 6\n\nabc'
        [ -n "$half" ] || printf def"#;
    let server = Setup::new().script("once", text).start();
    for (query, parts) in [
        ("late", ["4: 0 the same", "in the middle of its reply"]),
        ("early", ["4: 0 the same", "status 502 instead of 200"]),
    ] {
        let result = workout(
            &server,
            &[&url(&server, &format!("/cgi-bin/once?{query}")), "-n", "4", "-c", "1"],
        );
        assert_eq!(result.status.code(), Some(1), "{}", result.output);
        assert_contains(&result.output, &parts);
    }
}

#[test]
fn connections_may_be_opened_for_each_request_or_broken_off() {
    let server = Setup::new().cache("size = 0").file("big.bin", vec![7; 4 << 20]).start();
    let url = url(&server, "/big.bin");
    let result = workout(&server, &[&url, "-n", "12", "-c", "3", "--no-keep-alive"]);
    assert_contains(
        &result.output,
        &["one for each request", "opened     12 connections", "12 the same"],
    );
    let result = workout(&server, &[&url, "-n", "12", "-c", "1", "--break", "4"]);
    assert!(result.status.success(), "{}", result.output);
    assert_contains(
        &result.output,
        &["12: 9 the same", "3 broken off on purpose", "opened     3 connections"],
    );
}

#[test]
fn tls_http2_and_unix_sockets_are_measured_too() {
    let authority = Authority::new();
    let listeners = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }\n\
                     [[listen]]\naddress = \"unix:s.sock\"\nhttp2 = \"on\"";
    let setup = Setup::new().file("a.txt", "hello").listeners(listeners);
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    std::fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let server = setup.start();
    let secure = format!("https://localhost:{}/a.txt", server.tls_address().port());
    for (options, protocol) in [
        (vec![secure.as_str(), "--ca", "ca.pem"], "HTTP/1.1"),
        (vec![secure.as_str(), "--insecure", "--http2"], "HTTP/2"),
        (vec![secure.as_str(), "--insecure", "--no-keep-alive"], "HTTP/1.1"),
        (vec!["http://localhost/a.txt", "--unix", "s.sock"], "HTTP/1.1"),
        (vec!["http://localhost/a.txt", "--unix", "s.sock", "--http2"], "HTTP/2"),
    ] {
        let result = workout(&server, &[options.as_slice(), &["-n", "20", "-c", "2"]].concat());
        assert!(
            result.status.success(),
            "{options:?}: {}{}",
            result.output,
            result.errors
        );
        assert_contains(&result.output, &[protocol, "20: 20 the same as the first"]);
    }
    std::fs::write(server.path("other.pem"), Authority::new().pem()).unwrap();
    for (options, message) in [
        (
            vec![secure.as_str(), "--ca", "other.pem"],
            "accept any certificate with --insecure",
        ),
        (
            vec![secure.as_str(), "--ca", "missing.pem"],
            "missing.pem: No such file",
        ),
        (vec![&url(&server, "/a.txt"), "--insecure"], "are for https"),
        (
            vec![&url(&server, "/a.txt"), "--http2"],
            "it may not expect HTTP/2 in clear text",
        ),
        (
            vec![&url(&server, "/a.txt").replace("http:", "https:"), "--insecure"],
            "write http://",
        ),
    ] {
        let result = workout(&server, &options);
        assert_eq!(result.status.code(), Some(1), "{options:?}: {}", result.output);
        assert_contains(&result.errors, &[message]);
    }
}

#[test]
fn method_fields_and_body_are_sent() {
    let echo =
        r#"printf 'Content-Type: text/plain\n\n%s %s %s %s' "$REQUEST_METHOD" "$HTTP_X_A" "$HTTP_HOST" "$(cat)""#;
    let server = Setup::new().script("echo", echo).start();
    std::fs::write(server.path("body.txt"), "abc").unwrap();
    let result = workout(
        &server,
        &[
            &url(&server, "/cgi-bin/echo"),
            "-n",
            "3",
            "-H",
            "X-A: b",
            "-H",
            "Host: c.test",
            "--body",
            "body.txt",
        ],
    );
    assert!(result.status.success(), "{}{}", result.output, result.errors);
    let bytes = "POST b c.test abc".len();
    assert_contains(&result.output, &[&format!("{bytes}  /cgi-bin/echo\n")]);
}

#[test]
fn wrong_urls_refused_connections_and_error_pages_are_one_clear_line() {
    let server = Setup::new().start();
    // Nobody listens on a port that has just been free.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (arguments, message) in [
        (
            vec![format!("http://{free}/")],
            "Connection refused: is the server running",
        ),
        (vec![server.address().to_string()], "write http://127.0.0.1:"),
        (vec![url(&server, "/missing")], "the server answers 404 Not Found"),
        (vec![url(&server, "/"), "-p".into(), "a".into()], "write /a"),
        (
            vec![url(&server, "/"), "-H".into(), "Content-Length: 3".into()],
            "the client sets this field itself",
        ),
        (
            vec!["http://localhost/".into(), "--unix".into(), "no.sock".into()],
            "No such file or directory",
        ),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = workout(&server, &arguments);
        assert_eq!(result.status.code(), Some(1), "{arguments:?}: {}", result.output);
        assert_contains(&result.errors, &[message]);
        assert_eq!(
            (result.errors.lines().count(), result.output.as_str()),
            (1, ""),
            "{}",
            result.errors
        );
    }
    let result = workout(
        &server,
        &[
            &url(&server, "/missing"),
            "--any-status",
            "--compare",
            "status",
            "-n",
            "5",
        ],
    );
    assert!(result.status.success(), "{}{}", result.output, result.errors);
    assert_contains(&result.output, &["          5     404 "]);
}

#[test]
fn interrupt_prints_what_was_measured() {
    let server = Setup::new()
        .script("a", "printf 'Content-Type: text/plain\n\nhello'")
        .start();
    let mut command = sluice(&server.path("."));
    command.args(["workout", &url(&server, "/cgi-bin/a"), "-c", "1", "-d", "1h"]);
    let mut child = spawn(&mut command).unwrap();
    server.access_lines(4);
    assert!(signal(child.id(), "INT"));
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
    assert_contains(
        &output,
        &["s, interrupted\n", " the same as the first, 0 different, 0 failed"],
    );
}

/// Answers each connection with a head, and then with the same bytes until the client leaves.
fn endless(head: &'static [u8], part: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let bytes = part.repeat(1000);
            let mut sent = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(head));
            while sent.is_ok() {
                sent = stream.write_all(&bytes);
            }
        }
    });
    address
}

#[test]
fn servers_that_send_without_end_do_not_outlast_the_time_limit() {
    let directory = Setup::new().start();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice();
    for (head, part) in [
        (b"".as_slice(), b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n".as_slice()),
        (chunked, b"0".as_slice()),
    ] {
        let url = format!("http://{}/", endless(head, part));
        let result = workout(&directory, &[&url, "-c", "1", "-n", "2", "--timeout", "1s"]);
        assert_eq!(result.status.code(), Some(1), "{}", result.output);
        assert_contains(&result.errors, &["no complete reply within 1s"]);
    }
}

#[test]
fn rating_describes_the_machine_and_has_average_minimum_and_maximum() {
    let setup = Setup::new();
    let result = run(setup.directory(), &["rate", "--samples", "2", "--time", "50ms"]);
    assert!(result.status.success(), "{}{}", result.output, result.errors);
    assert_contains(
        &result.output,
        &[
            "machine     ",
            "system      ",
            "server      sluice ",
            "average     minimum     maximum\n",
            "2 samples of 50ms each\n",
        ],
    );
    for name in ["processor ", "files ", "cgi "] {
        let line = result
            .output
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        let figures: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(3)
            .map(|figure| figure.replace(',', "").parse().unwrap())
            .collect();
        let [average, minimum, maximum] = figures[..] else {
            panic!("{line}")
        };
        assert!(0 < minimum && minimum <= average && average <= maximum, "{line}");
    }
}
