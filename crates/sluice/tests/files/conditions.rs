//! Conditional requests for files, OPTIONS, and the agreement of HEAD with GET.

use std::fs::File;
use std::time::{Duration, SystemTime};

use sluice_testing::{Response, Server, Setup};

/// Long before any file of these tests was written.
const LONG_AGO: &str = "Thu, 01 Jan 1970 00:00:00 GMT";
/// Long after any of them.
const LONG_HENCE: &str = "Fri, 31 Dec 9999 23:59:59 GMT";

/// A server with an old file `a.txt` that contains "one".
fn server() -> Server {
    Setup::new().file("a.txt", "one").age("a.txt").start()
}

#[track_caller]
fn ask(server: &Server, method: &str, path: &str, lines: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{lines}\r\n"));
    client.response_to(method)
}

#[test]
fn each_condition_is_evaluated_for_get_and_head() {
    let server = server();
    let file = server.get("/a.txt");
    let (tag, date) = (file.field("etag").unwrap(), file.field("last-modified").unwrap());
    for (line, status) in [
        (format!("If-Match: {tag}"), 200),
        ("If-Match: *".to_owned(), 200),
        (format!("If-Match: \"other\"\r\nIf-Match: \"x,y\", {tag}"), 200),
        (format!("If-Match: W/{tag}"), 412),
        ("If-Match: \"other\"".to_owned(), 412),
        ("If-Match: other".to_owned(), 412),
        ("If-Match:".to_owned(), 412),
        (format!("If-Unmodified-Since: {date}"), 200),
        (format!("If-Unmodified-Since: {LONG_HENCE}"), 200),
        (format!("If-Unmodified-Since: {LONG_AGO}"), 412),
        ("If-Unmodified-Since: long ago".to_owned(), 200),
        (format!("If-Unmodified-Since: {LONG_AGO}, {LONG_AGO}"), 200),
        (format!("If-None-Match: {tag}"), 304),
        (format!("If-None-Match: W/{tag}"), 304),
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"other\"".to_owned(), 200),
        (format!("If-None-Match: other, {tag}"), 200),
        (format!("If-Modified-Since: {date}"), 304),
        (format!("If-Modified-Since: {LONG_HENCE}"), 304),
        (format!("If-Modified-Since: {LONG_AGO}"), 200),
        (format!("If-Modified-Since: {date}\r\nIf-Modified-Since: {date}"), 200),
    ] {
        for method in ["GET", "HEAD"] {
            let response = ask(&server, method, "/a.txt", &format!("{line}\r\n"));
            assert_eq!(response.status, status, "{method} {line}");
            if (method, status) == ("GET", 200) {
                assert_eq!(response.text(), "one", "{line}");
            }
        }
    }
}

#[test]
fn conditions_have_the_precedence_of_rfc_9110() {
    let server = server();
    let file = server.get("/a.txt");
    let (tag, date) = (file.field("etag").unwrap(), file.field("last-modified").unwrap());
    for (lines, status) in [
        // A date is ignored if there is also an entity tag condition.
        (format!("If-Match: {tag}\r\nIf-Unmodified-Since: {LONG_AGO}"), 200),
        (format!("If-Match: \"other\"\r\nIf-Unmodified-Since: {date}"), 412),
        (format!("If-None-Match: {tag}\r\nIf-Modified-Since: {LONG_AGO}"), 304),
        (format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {date}"), 200),
        // A failed precondition takes precedence over 304.
        (format!("If-None-Match: {tag}\r\nIf-Match: \"other\""), 412),
        (format!("If-None-Match: {tag}\r\nIf-Match: {tag}"), 304),
        (format!("If-Modified-Since: {date}\r\nIf-Unmodified-Since: {date}"), 304),
        (
            format!("If-Modified-Since: {date}\r\nIf-Unmodified-Since: {LONG_AGO}"),
            412,
        ),
        // Range is not evaluated in either case.
        (format!("If-None-Match: {tag}\r\nRange: bytes=0-0"), 304),
        ("If-Match: \"other\"\r\nRange: bytes=0-0".to_owned(), 412),
        ("If-Match: \"other\"\r\nRange: bytes=100-".to_owned(), 412),
        (format!("If-Match: {tag}\r\nRange: bytes=0-0"), 206),
    ] {
        let response = ask(&server, "GET", "/a.txt", &format!("{lines}\r\n"));
        assert_eq!(response.status, status, "{lines}");
    }
}

#[test]
fn not_modified_has_only_etag_and_vary_of_the_file() {
    let server = server();
    let tag = server.get("/a.txt").field("etag").unwrap().to_owned();
    for method in ["GET", "HEAD"] {
        let response = ask(&server, method, "/a.txt", &format!("If-None-Match: {tag}\r\n"));
        let names: Vec<_> = response.head.fields.iter().map(|field| field.0.as_str()).collect();
        assert_eq!(
            (response.status, names),
            (304, vec!["etag", "vary", "server", "date"]),
            "{method}"
        );
        assert_eq!(response.field("etag"), Some(tag.as_str()));
    }
}

#[test]
fn conditions_are_ignored_without_a_file() {
    let server = Setup::new().file("sub/index.html", "page").file("bare/x", "x").start();
    for lines in [
        "If-Match: *\r\n",
        "If-None-Match: *\r\n",
        "If-Match: \"other\"\r\n",
        "Range: bytes=0-\r\n",
    ] {
        for (path, status) in [("/none", 404), ("/sub", 301), ("/bare/", 403)] {
            assert_eq!(ask(&server, "GET", path, lines).status, status, "{path} {lines}");
        }
    }
    for method in ["POST", "PUT", "DELETE"] {
        let response = ask(
            &server,
            method,
            "/sub/index.html",
            "If-Match: \"other\"\r\nContent-Length: 0\r\n",
        );
        assert_eq!(response.status, 405, "{method}");
    }
    assert_eq!(ask(&server, "GET", "/sub/", "If-None-Match: *\r\n").status, 304);
    assert_eq!(ask(&server, "GET", "/sub/", "If-Match: \"other\"\r\n").status, 412);
}

#[test]
fn recently_changed_file_has_a_weak_etag_and_no_future_date() {
    let server = Setup::new().file("a.txt", "one").start();
    let file = File::options().write(true).open(server.path("htdocs/a.txt")).unwrap();
    let future = SystemTime::now() + Duration::from_secs(100 * 86_400);
    file.set_modified(future).unwrap();
    let response = server.get("/a.txt");
    let tag = response.field("etag").unwrap();
    assert!(tag.starts_with("W/\""), "{tag}");
    let date = |name: &str| httpdate(response.field(name).unwrap());
    assert!(date("last-modified") <= date("date"));
    let condition = |line: &str| {
        ask(
            &server,
            "GET",
            "/a.txt",
            &format!("{line}: {tag}\r\nRange: bytes=0-0\r\n"),
        )
    };
    assert_eq!(condition("If-None-Match").status, 304);
    assert_eq!(condition("If-Match").status, 412);
    assert_eq!(condition("If-Range").text(), "one");
}

/// A date that can be compared: year, month, the rest.
fn httpdate(text: &str) -> (u32, usize, String) {
    let words: Vec<_> = text.split(' ').collect();
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = months.iter().position(|month| *month == words[2]).unwrap();
    (words[3].parse().unwrap(), month, format!("{} {}", words[1], words[4]))
}

#[test]
fn head_matches_get_for_every_outcome() {
    let server = Setup::new()
        .file("a.txt", "one")
        .age("a.txt")
        .file("empty", "")
        .age("empty")
        .file("large", vec![b'x'; 200_000])
        .age("large")
        .file("huge", vec![b'x'; 9_000_000])
        .age("huge")
        .file("sub/index.html", "page")
        .age("sub/index.html")
        .file("bare/x", "x")
        .route("path = \"/old/*\"\nredirect = { to = \"/new/*\" }")
        .start();
    for (path, lines, status) in [
        ("/a.txt", "", 200),
        ("/empty", "", 200),
        ("/large", "", 200),
        ("/huge", "", 200),
        ("/sub/", "", 200),
        ("/sub", "", 301),
        ("/old/x", "", 302),
        ("/bare/", "", 403),
        ("/none", "", 404),
        ("/a.txt", "If-None-Match: *\r\n", 304),
        ("/a.txt", "If-Match: \"other\"\r\n", 412),
    ] {
        let (get, head) = (ask(&server, "GET", path, lines), ask(&server, "HEAD", path, lines));
        let fields = |response: &Response| {
            let mut fields = response.head.fields.clone();
            fields.retain(|field| field.0 != "date");
            fields
        };
        assert_eq!((get.status, head.status), (status, status), "{path} {lines}");
        assert_eq!(fields(&head), fields(&get), "{path} {lines}");
        let length = get.body.len().to_string();
        let announced = (status != 304).then_some(length.as_str());
        assert_eq!(head.field("content-length"), announced, "{path} {lines}");
    }
}

#[test]
fn options_lists_the_methods_of_files_and_directories() {
    let server = Setup::new()
        .file("a.txt", "one")
        .file("sub/index.html", "page")
        .file("bare/x", "x")
        .file(".hidden", "x")
        .start();
    for path in ["/a.txt", "/sub/", "/sub", "/bare/", "/"] {
        let response = ask(&server, "OPTIONS", path, "If-Match: \"other\"\r\nRange: bytes=100-\r\n");
        assert_eq!(
            (
                response.status,
                response.field("allow"),
                response.field("content-length")
            ),
            (204, Some("GET, HEAD, OPTIONS"), None),
            "{path}"
        );
    }
    for path in ["/none", "/none/", "/a.txt/", "/.hidden", "/cgi-bin/none"] {
        assert_eq!(ask(&server, "OPTIONS", path, "").status, 404, "{path}");
    }
}

#[test]
fn options_of_a_script_index_page_is_answered_by_the_script() {
    let script = "#!/bin/sh\nprintf 'Allow: BREW\\nContent-Type: text/plain\\n\\n%s' \"$REQUEST_METHOD\"\n";
    let server = Setup::new()
        .site("index = [\"index.html\", \"index.cgi\"]")
        .script_route("*.cgi", "mode = \"cgi\"")
        .file_with_mode("sub/index.cgi", script, 0o755)
        .start();
    let response = ask(&server, "OPTIONS", "/sub/", "");
    assert_eq!((response.text(), response.field("allow")), ("OPTIONS", Some("BREW")));
}
