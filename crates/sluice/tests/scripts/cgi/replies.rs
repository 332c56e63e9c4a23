//! The meaning of script replies: document, local redirect, client redirect with and without document, NPH (RFC 3875
//! §6).

use sluice_testing::{Ending, Response, Setup};

/// The response to a GET for a script that prints this text (in printf(1) syntax).
#[track_caller]
fn reply(text: &str) -> Response {
    let server = Setup::new().script("x", &format!("printf '{text}'")).start();
    server.get("/cgi-bin/x")
}

#[test]
fn document_reply_keeps_its_type_and_fields() {
    let response = reply(r"Content-Type: text/html\r\nX-Own: value\r\n\r\n<p>hello");
    assert_eq!((response.status, response.text()), (200, "<p>hello"));
    assert_eq!(response.field("content-type"), Some("text/html"));
    assert_eq!(response.field("x-own"), Some("value"));
    assert!(response.field("date").is_some() && response.field("server").is_some());
}

#[test]
fn head_may_use_bare_line_feeds() {
    let response = reply(r"Content-Type: text/plain\nX-Own: value\n\nline\r\n\n\r\n");
    assert_eq!((response.status, response.text()), (200, "line\r\n\n\r\n"));
    assert_eq!(response.field("x-own"), Some("value"));
    let mixed = reply(r"Content-Type: text/plain\r\nX-Own: value\n\r\nbody");
    assert_eq!((mixed.text(), mixed.field("x-own")), ("body", Some("value")));
}

#[test]
fn status_field_sets_the_status() {
    let response = reply(r"Status: 404 Nothing Here\nContent-Type: text/plain\n\nmine");
    assert_eq!((response.status, response.text()), (404, "mine"));
    assert_eq!(response.field("status"), None);
    assert_eq!(reply(r"Status: 201\nContent-Type: text/plain\n\n").status, 201);
}

#[test]
fn replies_without_a_body_are_complete() {
    let empty = reply(r"Content-Type: text/plain\n\n");
    assert_eq!((empty.status, empty.text()), (200, ""));
    for status in [204, 304] {
        let response = reply(&format!(r"Status: {status}\n\nsurplus"));
        assert_eq!((response.status, response.text()), (status, ""));
        assert_eq!(response.field("transfer-encoding"), None);
    }
    let reset = reply(r"Status: 205\nContent-Length: 7\nContent-Type: text/plain\n\nsurplus");
    assert_eq!((reset.status, reset.text()), (205, ""));
    assert_eq!(reset.field("content-length"), Some("0"));
    let server = Setup::new()
        .script("x", r#"printf 'Status: %s\n\nsurplus' "$QUERY_STRING""#)
        .file("a.txt", "a")
        .start();
    let mut client = server.connect();
    for status in [204, 205] {
        assert_eq!(client.get(&format!("/cgi-bin/x?{status}")).response().status, status);
    }
    assert_eq!(
        client.get("/a.txt").response().text(),
        "a",
        "the connection stays in sync"
    );
}

#[test]
fn content_length_of_a_reply_is_enforced() {
    let exact = reply(r"Content-Type: text/plain\nContent-Length: 5\n\nhello");
    assert_eq!((exact.field("content-length"), exact.text()), (Some("5"), "hello"));
    let more = reply(r"Content-Type: text/plain\nContent-Length: 5\n\nhello, world");
    assert_eq!(more.text(), "hello");
    let less = reply(r"Content-Type: text/plain\nContent-Length: 500\n\nhello");
    assert!(less.status == 502 || less.ending == Ending::Truncated, "{less:?}");
}

#[test]
fn client_redirect_is_sent_to_the_client() {
    let bare = reply(r"Location: https://example.org/x?y=z\n\n");
    assert_eq!(
        (bare.status, bare.field("location")),
        (302, Some("https://example.org/x?y=z"))
    );
    let document = reply(r"Status: 301\nLocation: https://example.org/\nContent-Type: text/html\n\n<a>");
    assert_eq!((document.status, document.text()), (301, "<a>"));
    assert_eq!(document.field("location"), Some("https://example.org/"));
    let local_with_status = reply(r"Status: 303 See Other\nLocation: /next\n\n");
    assert_eq!(
        (local_with_status.status, local_with_status.field("location")),
        (303, Some("/next"))
    );
    let created = reply(r"Status: 201 Created\nLocation: /made/1\nContent-Type: text/plain\n\nmade");
    assert_eq!(
        (created.status, created.field("location"), created.text()),
        (201, Some("/made/1"), "made")
    );
}

#[test]
fn local_redirect_is_served_like_a_request() {
    let server = Setup::new()
        .script("to-file", r"printf 'Location: /a.txt\n\n'")
        .script("to-script", r"printf 'Location: /cgi-bin/show/info?query=1\n\n'")
        .script("to-none", r"printf 'Location: /none\n\n'")
        .script("climbs", r"printf 'Location: /../../etc/passwd\n\n'")
        .script("show", r"printf 'Content-Type: text/plain\n\n'; env; echo BODY=$(cat)")
        .file("a.txt", "a file")
        .start();
    let file = server.get("/cgi-bin/to-file");
    assert_eq!(
        (file.status, file.text(), file.field("location")),
        (200, "a file", None)
    );
    let script = server.post("/cgi-bin/to-script?own=2", "body of the first");
    assert_eq!(script.variable("SCRIPT_NAME"), Some("/cgi-bin/show"));
    assert_eq!(script.variable("PATH_INFO"), Some("/info"));
    assert_eq!(script.variable("QUERY_STRING"), Some("query=1"));
    assert_eq!(script.variable("REQUEST_METHOD"), Some("GET"));
    assert_eq!(script.variable("CONTENT_LENGTH"), None);
    assert_eq!(script.variable("BODY"), Some(""));
    assert_eq!(server.get("/cgi-bin/to-none").status, 404);
    let climbs = server.get("/cgi-bin/climbs");
    assert!(climbs.status >= 400 && !climbs.text().contains("root:"), "{climbs:?}");
}

#[test]
fn local_redirect_loop_is_502() {
    let server = Setup::new()
        .script(
            "x",
            r#"echo . >> "$TEST_DIR/rounds"; printf 'Location: /cgi-bin/y\n\n'"#,
        )
        .script("y", r"printf 'Location: /cgi-bin/x\n\n'")
        .start();
    let response = server.get("/cgi-bin/x");
    assert_eq!(response.status, 502);
    server.log_line("local redirects");
    let rounds = std::fs::read_to_string(server.path("rounds")).unwrap().lines().count();
    assert!((2..=20).contains(&rounds), "{rounds} rounds");
    server.assert_idle();
}

#[test]
fn script_may_write_its_own_status_line() {
    for first in ["HTTP/1.1 299 Own Word", "HTTP/1.0 299 Own Word"] {
        let response = reply(&format!(
            r"{first}\r\nContent-Type: text/plain\r\nX-Own: value\r\n\r\nbody"
        ));
        assert_eq!((response.status, response.text()), (299, "body"));
        assert_eq!(response.field("x-own"), Some("value"));
        assert_eq!(response.head.version, "HTTP/1.1");
    }
}

#[test]
fn interim_responses_of_a_script_are_discarded() {
    let response = reply(
        r"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\nX-Own: value\r\n\r\nbody",
    );
    assert_eq!((response.status, response.text()), (201, "body"));
    assert_eq!((response.field("x-own"), response.field("link")), (Some("value"), None));
    let without_another = reply(r"HTTP/1.1 100 Continue\r\n\r\nContent-Type: text/plain\r\n\r\nbody");
    assert_eq!(without_another.status, 502);
}

#[test]
fn body_that_a_script_has_framed_is_framed_again() {
    let chunks = r"5;a=b\r\nhello\r\n06\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n";
    for head in [
        r"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        r"Content-Type: text/plain\nTransfer-Encoding: Chunked\n\n",
        r"Content-Type: text/plain\nTransfer-Encoding: chunked\nContent-Length: 3\n\n",
    ] {
        let response = reply(&format!("{head}{chunks}"));
        assert_eq!((response.status, response.text()), (200, "hello world"), "{head}");
        assert_eq!(response.ending, Ending::Complete);
        assert_eq!(response.field("trailer"), None);
    }
}

#[test]
fn body_that_is_not_framed_as_its_head_says_is_the_scripts_fault() {
    let head = r"Content-Type: text/plain\nTransfer-Encoding: chunked\n\n";
    for body in ["<html>plain</html>\\n", "zz\\r\\nhello\\r\\n", "", "0\\r\\n"] {
        assert_eq!(reply(&format!("{head}{body}")).status, 502, "{body}");
    }
    for body in [
        r"5\r\nhello",
        r"5\r\nhello\r\n",
        r"5\r\nhello\r\n0\r\n",
        r"4\r\nhello\r\n0\r\n\r\n",
        r"5\r\nhello\r\n0\r\nno field\r\n\r\n",
    ] {
        let response = reply(&format!("{head}{body}"));
        assert_eq!((response.status, response.ending), (200, Ending::Truncated), "{body}");
        assert!("hello".as_bytes().starts_with(&response.body), "{body}");
    }
    for coding in ["gzip", "gzip, chunked"] {
        assert_eq!(
            reply(&format!(r"Transfer-Encoding: {coding}\n\nbody")).status,
            502,
            "{coding}"
        );
    }
}

#[test]
fn kept_process_serves_on_after_a_body_that_it_has_framed() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "framed",
            r#"
count = 0
while variables := accept():
    count += 1
    put(HEAD[:-1] + b"Transfer-Encoding: chunked\n\n")
    for part in (b"%d" % count, b" of ", b"%d" % os.getpid()):
        put(b"%x\r\n%s\r\n" % (len(part), part))
    put(b"0\r\n\r\n" + EOF)
"#,
        )
        .start();
    let pid = |count: &str| {
        let response = server.get("/cgiplus-bin/framed");
        let (first, pid) = response.text().split_once(" of ").unwrap();
        assert_eq!(first, count);
        pid.to_owned()
    };
    assert_eq!(pid("1"), pid("2"));
}

#[test]
fn head_runs_the_script_and_sends_no_body() {
    let server = Setup::new()
        .script(
            "x",
            r#"printf 'Content-Type: text/plain\nX-Method: %s\n\nbody' "$REQUEST_METHOD""#,
        )
        .script("long", "echo Content-Type: text/plain; echo; yes | head -c 3000000")
        .script(
            "counted",
            r"printf 'Content-Type: text/plain\nContent-Length: 4\n\nbody'",
        )
        .file("a.txt", "a")
        .start();
    let mut client = server.connect();
    for (script, length) in [("x", None), ("long", None), ("counted", Some("4"))] {
        client.send(format!("HEAD /cgi-bin/{script} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let response = client.response_to("HEAD");
        assert_eq!(response.status, 200, "{script}");
        assert!(
            response.field("content-length") == length || length.is_none(),
            "{script}: {response:?}"
        );
        if script == "x" {
            assert_eq!(response.field("x-method"), Some("HEAD"));
        }
    }
    assert_eq!(
        client.get("/a.txt").response().text(),
        "a",
        "the connection stays in sync"
    );
    drop(client);
    server.assert_idle();
}

#[test]
fn connection_fields_of_a_script_are_removed() {
    let response = reply(
        r"Content-Type: text/plain\nConnection: close, X-Own\nKeep-Alive: 5\nUpgrade: h2c\nX-Own: v\nDate: today\n\nbody",
    );
    assert_eq!((response.status, response.text()), (200, "body"));
    assert!(response.field("date").is_some_and(|date| date.ends_with("GMT")));
    for name in ["keep-alive", "upgrade"] {
        assert_eq!(response.field(name), None, "{name}");
    }
    assert_eq!(response.field("connection"), None);
}

#[test]
fn several_set_cookie_fields_are_kept() {
    let response = reply(r"Content-Type: text/plain\nSet-Cookie: a=1\nSet-Cookie: b=2\n\n");
    assert_eq!(response.head.values("set-cookie"), ["a=1", "b=2"]);
}

#[test]
fn invalid_reply_is_502_and_the_log_names_the_script() {
    for text in [
        "",
        "no head at all",
        r"\n\nbody",
        r"Content-Type text/plain\n\nbody",
        r"Content-Type: text/plain\n folded: x\n\nbody",
        r"Content-Type: text/plain",
        r"Status: abc\n\n",
        r"Status: 99\n\n",
        r"Status: 100\n\n",
        r"X: a\rb\n\n",
        r"X: a\000b\n\n",
        r"X Y: a\n\n",
        r"Content-Length: 5\nContent-Length: 6\n\nhello",
        r"Content-Length: five\n\nhello",
        r"Location:\n\n",
        r"HTTP/1.1 abc\n\n",
        r"Status: 101 Switching Protocols\nUpgrade: websocket\n\n",
    ] {
        let server = Setup::new().script("wrong", &format!("printf '{text}'")).start();
        let response = server.get("/cgi-bin/wrong");
        assert_eq!(response.status, 502, "{text}");
        assert!(
            !response.text().contains("cgi-bin"),
            "{text}: the client must not see file names"
        );
        let line = server.log_line("status=502");
        assert!(
            line.contains("cgi-bin/wrong") && line.contains("WARN"),
            "{text}: {line}"
        );
    }
}

#[test]
fn status_without_a_usual_phrase_has_none() {
    let server = Setup::new()
        .script("own", r"printf 'HTTP/1.1 299 Its Own\r\n\r\nx'")
        .start();
    let mut client = server.connect();
    let head = client.get("/cgi-bin/own").take_through(b"\r\n");
    assert_eq!(head.escape_ascii().to_string(), "HTTP/1.1 299 \\r\\n");
}
