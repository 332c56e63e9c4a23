//! Request targets and versions that are unusual, and what is not a target.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sluice_testing::{Server, Setup};

/// A script that prints what its path means.
const SHOW: &str = r#"printf 'Content-Type: text/plain\n\n%s|%s|%s|%s' "$SERVER_PROTOCOL" "$REQUEST_URI" "$PATH_INFO" "$QUERY_STRING""#;

fn server() -> Server {
    let setup = Setup::new()
        .site("hosts = [\"test\"]\nindex = [\"index.cgi\"]")
        .script_route("*.cgi", "mode = \"cgi\"")
        .script("show", SHOW)
        .file_with_mode("index.cgi", format!("#!/bin/sh\n{SHOW}"), 0o755);
    setup.start()
}

fn get(server: &Server, target: &str) -> (u16, String) {
    let response = server.send(format!(
        "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    ));
    (response.status, response.text().to_owned())
}

#[test]
fn a_percent_sign_that_begins_no_escape_is_refused_in_every_path_but_not_in_a_query() {
    let server = server();
    for path in [
        "/%zz",
        "/%",
        "/health.txt%",
        "/index.cgi/%4",
        "/index.cgi%zz",
        "/cgi-bin/show/100%",
        "//%%41",
        "/%2",
    ] {
        for target in [path.to_owned(), format!("http://test{path}"), format!("{path}?a=b")] {
            assert_eq!(get(&server, &target).0, 400, "{target}");
        }
    }
    // Many applications send such queries, and scripts get them as they are.
    for query in ["100%", "%zz", "a=%&b=%4"] {
        for path in ["/index.cgi", "/cgi-bin/show", "/"] {
            let (status, text) = get(&server, &format!("{path}?{query}"));
            assert_eq!((status, text.rsplit('|').next()), (200, Some(query)), "{path}?{query}");
        }
        assert_eq!(get(&server, &format!("/health.txt?{query}")).0, 200, "{query}");
    }
}

#[test]
fn a_percent_sign_that_begins_no_escape_is_refused_where_a_script_names_a_path() {
    let setup = Setup::new()
        .script("local", "printf 'Location: /100%%.txt\\n\\n'")
        .script("accel", "printf 'X-Accel-Redirect: /files/100%%.txt\\n\\n'")
        .script("path", "printf 'X-Sendfile: %s/files/100%%.txt\\n\\n' \"$TEST_DIR\"")
        .cgi("send_files = { \"/files/\" = \"files\" }")
        .file("100%.txt", "below the root");
    std::fs::create_dir(setup.path("files")).unwrap();
    std::fs::write(setup.path("files/100%.txt"), "sent").unwrap();
    let server = setup.start();
    assert_eq!(get(&server, "/cgi-bin/local").0, 502);
    server.log_line("a % without two hexadecimal digits");
    assert_eq!(get(&server, "/cgi-bin/accel").0, 502);
    // This one is the path of a file, not of a URL.
    assert_eq!(get(&server, "/cgi-bin/path"), (200, "sent".to_owned()));
    assert_eq!(get(&server, "/100%25.txt"), (200, "below the root".to_owned()));
}

#[test]
fn an_absolute_target_without_a_path_means_the_root() {
    let server = server();
    for (target, expected) in [
        ("http://test?a=b/c", "HTTP/1.1|/?a=b/c||a=b/c"),
        ("http://test:80?", "HTTP/1.1|/?||"),
        ("http://test", "HTTP/1.1|/||"),
    ] {
        assert_eq!(get(&server, target), (200, expected.to_owned()), "{target}");
    }
    for target in ["?a=b", "test?a=b"] {
        assert_eq!(get(&server, target).0, 400, "{target}");
    }
}

#[test]
fn what_looks_like_a_request_line_is_not_changed_in_fields_and_bodies() {
    let setup = Setup::new()
        .script("echo", r#"printf 'Content-Type: text/plain\n\n%s|' "$HTTP_X_A"; cat"#)
        .script(
            "held",
            r#"read -r line < "$TEST_DIR/go"; printf 'Content-Type: text/plain\n\nheld'"#,
        );
    let mut gate = setup.gate("go");
    let server = setup.start();
    for version in ["1.5", "2.0"] {
        let line = format!("GET / HTTP/{version}\r\n");
        let post = format!(
            "POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n",
            line.len()
        );
        // The server reads the second part of a request when it has answered the request before, and has the first part.
        for (first, second, expected) in [
            (post.clone(), format!("\r\n{line}"), format!("|{line}")),
            (format!("{post}\r\n"), line.clone(), format!("|{line}")),
            (
                "GET /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nX-A: ".to_owned(),
                format!("{line}\r\n"),
                format!("{}|", line.trim_end()),
            ),
        ] {
            let mut client = server.connect();
            client.send(format!("GET /cgi-bin/held HTTP/1.1\r\nHost: test\r\n\r\n{first}"));
            gate.open();
            assert_eq!(client.response().text(), "held");
            client.send(second);
            let response = client.response();
            assert_eq!((response.status, response.text()), (200, expected.as_str()));
        }
    }
}

#[test]
fn paths_that_are_not_utf8_reach_files_and_scripts_as_bytes() {
    let hex = r#"printf 'Content-Type: text/plain\n\n'; for v in "$SCRIPT_NAME" "$PATH_INFO" "$PATH_TRANSLATED" "$REQUEST_URI" "$SCRIPT_FILENAME"; do printf '%s\n' "${v##*/htdocs}" | od -An -tx1 -v | tr -d ' \n'; echo; done"#;
    let setup = Setup::new()
        .site("listing = true")
        .route("path = \"/old/*\"\nrewrite = \"/new/*\"")
        .route("path = \"/moved/*\"\nredirect = { to = \"/new/*\" }")
        .script("hex", hex);
    let name = OsStr::from_bytes(b"caf\xe9");
    let root = setup.path("htdocs");
    for directory in [root.join("new"), root.join("d").join(name)] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(root.join("new").join(name), "coffee").unwrap();
    std::fs::write(root.join("d").join(name).join("a.txt"), "inner").unwrap();
    std::fs::write(root.join("new").join(OsStr::from_bytes(b"\xff~")), "a backup").unwrap();
    std::fs::copy(root.join("cgi-bin/hex"), root.join("cgi-bin").join(name)).unwrap();
    let server = setup.start();
    for (path, text) in [
        ("/new/caf%E9", "coffee"),
        ("/old/caf%e9", "coffee"),
        ("/d/caf%E9/a.txt", "inner"),
    ] {
        assert_eq!(get(&server, path), (200, text.to_owned()), "{path}");
    }
    let redirected = server.get("/moved/caf%E9");
    assert_eq!(redirected.field("location"), Some("/new/caf%E9"));
    assert_eq!(server.get("/d/caf%E9").field("location"), Some("/d/caf%E9/"));
    let of = |bytes: &[u8]| -> String { bytes.iter().chain(b"\n").map(|byte| format!("{byte:02x}")).collect() };
    let (_, text) = get(&server, "/cgi-bin/hex/x%E9%C3%A4");
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(
        lines[..4],
        [
            of(b"/cgi-bin/hex"),
            of(b"/x\xe9\xc3\xa4"),
            of(b"/x\xe9\xc3\xa4"),
            of(b"/cgi-bin/hex/x%E9%C3%A4")
        ]
    );
    let (_, text) = get(&server, "/cgi-bin/caf%E9");
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(
        (&lines[0], &lines[4]),
        (&of(b"/cgi-bin/caf\xe9"), &of(b"/cgi-bin/caf\xe9"))
    );
    let page = server.get("/new/");
    assert!(
        page.text().contains("caf%E9\"") && page.text().contains("caf\u{fffd}"),
        "{}",
        page.text()
    );
    assert!(server.get("/d/").text().contains("caf%E9"));
    // Rules for names hold for such names, too.
    assert_eq!(get(&server, "/new/%FF~").0, 404);
    for path in ["/new/%E9%00", "/%E9/../..", "/new/%E9%0a"] {
        assert_eq!(get(&server, path).0, 400, "{path}");
    }
    assert_eq!(get(&server, "/cgi-bin/none%E9").0, 404);
    server.log_line("/cgi-bin/none\\xe9: not there");
}
