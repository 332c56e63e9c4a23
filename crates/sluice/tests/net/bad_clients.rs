//! Clients that break the rules of HTTP, by mistake or on purpose. None may smuggle a request, show a script data that
//! was not sent, or stop the server from serving others.

use sluice_testing::{Client, Ending, Server, Setup};

/// A script that prints its variables and its body.
const SHOW: &str = r#"printf 'Content-Type: text/plain\n\n'; env; printf 'BODY='; cat"#;

fn server() -> Server {
    let setup = Setup::new().file("a.txt", "a").script("show", SHOW);
    setup.site("hosts = [\"test\", \"other.example\"]").start()
}

/// The status of the error response, after which the connection must close.
#[track_caller]
fn refusal(server: &Server, request: impl AsRef<[u8]>) -> u16 {
    let mut client = server.connect();
    client.try_send(&request);
    let response = client.response();
    let text = String::from_utf8_lossy(request.as_ref());
    let has_close = response.field("connection") == Some("close");
    assert!(
        has_close,
        "{} and the connection stays open after {text:?}",
        response.status
    );
    client.assert_closed();
    response.status
}

/// `GET /a.txt` with further header lines.
fn with_lines(lines: &str) -> String {
    format!("GET /a.txt HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\n")
}

#[test]
fn incomplete_head_then_eof_is_harmless() {
    let server = server();
    for half in [
        "",
        "G",
        "GET /a.txt",
        "GET /a.txt HTTP/1.1\r\n",
        "GET /a.txt HTTP/1.1\r\nHost: test\r\n",
    ] {
        let mut client = server.connect();
        client.send(half);
        client.finish();
        let (answer, _) = client.rest();
        assert!(
            !answer.starts_with(b"HTTP/1.1 2"),
            "{half:?}: {}",
            String::from_utf8_lossy(&answer)
        );
        server.connect().send(half);
    }
    server.assert_idle();
}

#[test]
fn script_sees_no_end_of_file_after_an_incomplete_body() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "take",
            r#"exec 9> "$TEST_DIR/events"; read -r line; echo "$line" >&9; while read -r line; do :; done; echo complete >&9"#,
        )
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
        .start();
    for half in [
        "/cgi-bin/take HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf\n",
        "/stream/take HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf\n\r\n",
        "/stream/take HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf\n",
    ] {
        for round in 0..10 {
            let mut client = server.connect();
            client.send(format!("POST {half}"));
            assert_eq!(events.line(), "half");
            // Every other client closes both directions.
            if round % 2 == 0 {
                drop(client);
            } else {
                client.finish();
                let (answer, _) = client.rest();
                assert!(
                    !answer.starts_with(b"HTTP/1.1 2"),
                    "{half}: {}",
                    String::from_utf8_lossy(&answer)
                );
            }
            assert_eq!(
                events.end(),
                Vec::<String>::new(),
                "{half}: the script took half a body for a complete one"
            );
        }
    }
    server.assert_idle();
}

#[test]
fn incomplete_buffered_body_starts_no_script() {
    let server = Setup::new().script("take", r#": > "$TEST_DIR/ran""#).start();
    for half in ["4\r\nhalf\r\n", "a\r\nhalf"] {
        let mut client = server.connect();
        client.send(format!(
            "POST /cgi-bin/take HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{half}"
        ));
        client.finish();
        let (answer, _) = client.rest();
        assert!(
            !answer.starts_with(b"HTTP/1.1 2"),
            "{half}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    server.assert_idle();
    assert!(!server.path("ran").exists());
}

#[test]
fn bytes_after_a_body_are_the_next_request() {
    let server = server();
    let mut client = server.connect();
    client.send("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbodyGET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(client.response().text().ends_with("BODY=body"));
    assert_eq!(client.response().text(), "a");
    client.send("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody and more\r\n\r\n");
    assert!(client.response().text().ends_with("BODY=body"));
    assert_eq!(
        client.response().status,
        400,
        "the surplus bytes are not a valid request"
    );
    client.assert_closed();
}

#[test]
fn unread_body_is_not_parsed_as_a_request() {
    let smuggled = "GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n";
    let server = Setup::new()
        .file("a.txt", "a")
        .script("deaf", r"printf 'Content-Type: text/plain\n\ndeaf'")
        .start();
    for path in ["/a.txt", "/none", "/cgi-bin/deaf", "/cgi-bin/none"] {
        let mut client = server.connect();
        let length = smuggled.len();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{smuggled}"
        ));
        client.response();
        // Either the body was skipped and the next request is answered, or the connection closes.
        client.try_send("GET /health.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let (rest, _) = client.rest();
        let rest = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty() || rest.ends_with("well"), "{path}: {rest}");
        assert!(rest.matches("HTTP/1.1").count() < 2, "{path}: {rest}");
    }
}

#[test]
fn content_length_with_chunked_is_ignored_or_refused_and_closes() {
    let server = server();
    let body = "3\r\nabc\r\n0\r\n\r\n";
    let smuggled = "GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n";
    for length in [3, body.len(), body.len() + smuggled.len()] {
        let lines = [
            format!("Content-Length: {length}"),
            "Transfer-Encoding: chunked".to_owned(),
        ];
        for lines in [lines.join("\r\n"), [lines[1].as_str(), lines[0].as_str()].join("\r\n")] {
            let mut client = server.connect();
            client.send(format!(
                "POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\n{body}"
            ));
            let response = client.response();
            if response.status == 200 {
                // RFC 9112 §6.3: Transfer-Encoding wins, and the script does not see the other length.
                assert_eq!(response.variable("CONTENT_LENGTH"), Some("3"), "{lines}");
                assert!(response.text().ends_with("BODY=abc"), "{lines}");
            } else {
                assert_eq!(response.status, 400, "{lines}");
            }
            // RFC 9112 §6.1: the server MUST close the connection after responding to such a request.
            client.assert_closed();
        }
    }
}

#[test]
fn two_content_lengths_are_refused() {
    let server = server();
    for lines in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1, 2",
        "Content-Length: 2\r\nX: y\r\ncontent-length: 1",
    ] {
        let request = format!("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\nab");
        assert_eq!(refusal(&server, request), 400, "{lines}");
    }
}

#[test]
fn non_numeric_content_length_is_refused() {
    let server = server();
    for length in [
        "-1",
        "+1",
        "0x1",
        "1a",
        "",
        " ",
        "1 1",
        "1.0",
        "99999999999999999999",
        "\u{661}",
    ] {
        let request = format!("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\na");
        assert_eq!(refusal(&server, request), 400, "{length:?}");
    }
}

#[test]
fn transfer_coding_other_than_chunked_is_refused() {
    let server = server();
    for (codings, expected) in [
        // The body is chunked last, so its end is known: RFC 9112 §6.1.
        ("gzip, chunked", 501),
        ("gzip\r\nTransfer-Encoding: chunked", 501),
        ("xchunked, CHUNKED", 501),
        ("chunked, chunked", 400),
        ("chunked\r\nTransfer-Encoding: Chunked", 400),
        // Its end is unknown: §6.3.
        ("gzip", 400),
        ("chunked, gzip", 400),
        ("identity", 400),
        ("xchunked", 400),
        ("\"chunked\"", 400),
        ("chunked\r\nTransfer-Encoding: gzip", 400),
    ] {
        let request =
            format!("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: {codings}\r\n\r\n0\r\n\r\n");
        assert_eq!(refusal(&server, request), expected, "{codings}");
    }
    let empty_element = "POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: , chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(server.send(empty_element).status, 200, "RFC 9110 §5.6.1");
    let old = "POST /cgi-bin/show HTTP/1.0\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(refusal(&server, old), 400, "HTTP/1.0 has no chunks");
    server.assert_idle();
}

#[test]
fn malformed_chunks_end_the_request() {
    let server = server();
    for chunks in [
        "x\r\n",
        "-1\r\na\r\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\na",
        "1\na\n0\n\n",
        "\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
    ] {
        let request =
            format!("POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        let mut client = server.connect();
        client.send(request);
        client.finish();
        let (answer, _) = client.rest();
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{chunks:?}: {answer}"
        );
    }
    server.assert_idle();
}

#[test]
fn control_characters_in_a_head_are_refused() {
    let server = server();
    for lines in [
        "X: a\rb",
        "X: a\r",
        "X: a\0b",
        "X\0: a",
        "X: \u{1}",
        "X: \u{7f}",
        "X\r: a",
        "X : a",
        " X: a",
        ": a",
        "X",
        "X: a\r\n folded",
        "X: a\r\n\tfolded",
        "X(y): a",
    ] {
        assert_eq!(refusal(&server, with_lines(lines)), 400, "{lines:?}");
    }
    assert_eq!(server.send(with_lines("X: \ttabs\tinside\t")).status, 200);
}

#[test]
fn malformed_request_line_is_refused() {
    let server = server();
    for line in [
        "GET  /a.txt HTTP/1.1",
        "GET /a.txt  HTTP/1.1",
        "GET /a .txt HTTP/1.1",
        "GET\t/a.txt HTTP/1.1",
        "GET /a.txt HTTP/1.1 ",
        "GET /a\0.txt HTTP/1.1",
        "GET /a\r.txt HTTP/1.1",
        "GET /a.txt http/1.1",
        "GET /a.txt HTTP/1",
        "GET /a.txt HTTP/11.1",
        "GET /a.txt",
        "GET",
        "(GET) /a.txt HTTP/1.1",
        " GET /a.txt HTTP/1.1",
        "/a.txt",
    ] {
        assert_eq!(
            refusal(&server, format!("{line}\r\nHost: test\r\n\r\n")),
            400,
            "{line:?}"
        );
    }
    for (version, expected) in [
        ("HTTP/0.9", 400),
        ("HTTP/1.2", 400),
        ("HTTP/1.9", 400),
        ("HTTP/1.10", 400),
        ("HTTP/2.0", 400),
        ("HTTP/3.0", 400),
    ] {
        let status = refusal(&server, format!("GET /a.txt {version}\r\nHost: test\r\n\r\n"));
        assert_eq!(status, expected, "{version}");
    }
}

#[test]
fn target_that_is_neither_path_nor_url_is_refused() {
    let server = Setup::new().file("index.html", "the root").start();
    // Authority form is only for CONNECT (RFC 9112 §3.2.3).
    for target in ["a.txt", "test", "test:80", "*/", "?", "?a=b", "#a"] {
        let response = server.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        assert_eq!(response.status, 400, "{target}: {}", response.text());
    }
}

#[test]
fn bytes_that_are_not_http_are_refused() {
    let server = server();
    let mut noise = vec![0_u8; 5000];
    for (index, byte) in noise.iter_mut().enumerate() {
        *byte = (index * index % 251).to_le_bytes()[0];
    }
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
    for bytes in [
        noise,
        hello,
        b"\0\0\0\0\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
    ] {
        let mut client = server.connect();
        client.try_send(&bytes);
        client.finish();
        let (answer, _) = client.rest();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

#[test]
fn field_of_100_000_bytes_is_too_large() {
    let server = server();
    assert_eq!(
        refusal(&server, with_lines(&format!("X: {}", "x".repeat(100_000)))),
        431
    );
    assert_eq!(
        refusal(&server, with_lines(&format!("{}: x", "x".repeat(100_000)))),
        431
    );
}

#[test]
fn proxy_field_never_reaches_a_script() {
    let server = server();
    for name in ["Proxy", "proxy", "PROXY", "pRoXy"] {
        let response = server.send(format!(
            "GET /cgi-bin/show HTTP/1.1\r\nHost: test\r\n{name}: http://evil.example\r\nX-Proxy: seen\r\n\r\n"
        ));
        assert!(!response.text().contains("evil.example"), "{}", response.text());
        assert_eq!(response.variable("HTTP_X_PROXY"), Some("seen"));
    }
}

#[test]
fn credentials_never_reach_a_script() {
    let server = server();
    let response = server.send(
        "GET /cgi-bin/show HTTP/1.1\r\nHost: test\r\nAuthorization: Basic c2VjcmV0\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n",
    );
    assert!(!response.text().contains("c2VjcmV0"), "{}", response.text());
}

#[test]
fn fields_that_map_to_the_same_variable_do_not_mix() {
    let server = server();
    for lines in [
        "X-User: right\r\nX_User: wrong",
        "X_User: wrong\r\nX-User: right",
        "X_User: wrong\r\nX-User: right\r\nx_user: wrong",
    ] {
        let response = server.send(format!("GET /cgi-bin/show HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\n"));
        assert_eq!(response.variable("HTTP_X_USER"), Some("right"), "{lines}");
        assert!(!response.text().contains("wrong"), "{lines}");
    }
    let alone = server.send("GET /cgi-bin/show HTTP/1.1\r\nHost: test\r\nX_User: wrong\r\n\r\n");
    assert_eq!(alone.variable("HTTP_X_USER"), None);
}

#[test]
fn header_fields_cannot_set_server_variables() {
    let server = server();
    let response = server.send(
        "GET /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent_Length: 7\r\nRemote-Addr: 1.2.3.4\r\nPath: /evil\r\n\
         LD_PRELOAD: evil\r\nX: a%0aREMOTE_USER=evil\r\n\r\n",
    );
    assert_eq!(response.variable("REMOTE_ADDR"), Some("127.0.0.1"));
    assert_eq!(response.variable("CONTENT_LENGTH"), None);
    assert_eq!(response.variable("REMOTE_USER"), None);
    assert_eq!(response.variable("HTTP_REMOTE_ADDR"), Some("1.2.3.4"));
    assert!(response.variable("PATH").is_some_and(|path| path != "/evil"));
}

#[test]
fn a_request_has_exactly_one_host() {
    let server = server();
    for (what, lines) in [
        ("none", ""),
        ("two", "Host: test\r\nHost: test\r\n"),
        ("two that differ", "Host: test\r\nX: y\r\nHost: other\r\n"),
        ("a space", "Host: te st\r\n"),
        ("a user", "Host: user@test\r\n"),
        ("a path", "Host: test/path\r\n"),
        ("two in one", "Host: test, other\r\n"),
        ("a NUL", "Host: te\0st\r\n"),
    ] {
        let response = server.send(format!("GET /a.txt HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(response.status, 400, "{what}");
    }
    for host in ["test", "test:80", "[::1]:80", "127.0.0.1", ""] {
        let response = server.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, 200, "{host:?}");
    }
}

#[test]
fn host_with_invalid_port_is_refused() {
    let server = server();
    for host in ["test:port", "test:1:2", "test:-1", "test:99999999"] {
        let response = server.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.status, 400, "{host}");
    }
}

#[test]
fn absolute_target_overrides_host() {
    let server = server();
    let response = server.send("GET http://other.example:8080/cgi-bin/show?a=b HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(response.variable("SERVER_NAME"), Some("other.example"));
    assert_eq!(response.variable("SCRIPT_NAME"), Some("/cgi-bin/show"));
    assert_eq!(response.variable("QUERY_STRING"), Some("a=b"));
    let bare = server.send("GET http://other.example HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(bare.status, 403, "the root directory");
    let without = server.send("GET http://other.example/a.txt HTTP/1.1\r\n\r\n");
    assert_eq!(without.status, 400, "Host is required even with an absolute target");
}

#[test]
fn script_sees_only_the_host_of_the_target() {
    let server = server();
    // RFC 9112 §3.2.2: the received Host field is ignored and replaced by the host of the target.
    let response = server.send("GET http://other.example:8080/cgi-bin/show HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(response.variable("HTTP_HOST"), Some("other.example:8080"));
}

#[test]
fn options_asterisk_is_answered() {
    let server = server();
    let mut client = server.connect();
    let response = client.send("OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n").response();
    assert_eq!((response.status, response.text()), (200, ""));
    assert_eq!(client.get("/a.txt").response().text(), "a");
}

#[test]
fn asterisk_is_refused_for_other_methods() {
    let server = server();
    // RFC 9112 §3.2.4.
    for method in ["GET", "POST", "DELETE"] {
        let response = server.send(format!(
            "{method} * HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(response.status, 400, "{method} *");
    }
}

#[test]
fn connect_opens_no_tunnel() {
    let server = Setup::new()
        .script("show", SHOW)
        .sites("[[site]]\nhosts = [\"all.example\"]\n[[site.route]]\npath = \"/*\"\nscript = { file = \"htdocs/cgi-bin/show\" }")
        .start();
    for target in [
        "all.example:443",
        "all.example:80",
        "test:443",
        "127.0.0.1:22",
        "/",
        "/cgi-bin/show",
    ] {
        let host = target.trim_start_matches('/');
        let mut client = server.connect();
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let status = client.head().status;
        assert!(matches!(status, 400 | 404 | 405 | 501), "{target}: {status}");
    }
}

#[test]
fn http2_preface_in_clear_text_is_refused() {
    let server = server();
    let mut client = server.connect();
    client.try_send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0");
    let response = client.response();
    assert_eq!((response.status, response.ending), (505, Ending::Complete));
    client.assert_closed();
}

#[test]
fn upgrade_is_ignored() {
    let server = server();
    for name in ["websocket", "h2c"] {
        let response = server.send(with_lines(&format!("Connection: Upgrade\r\nUpgrade: {name}")));
        assert_eq!(response.status, 200, "{name}");
    }
}

#[test]
fn requests_after_a_refused_one_are_not_answered() {
    let server = server();
    let mut client = server.connect();
    client.try_send(with_lines("X : y") + "GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response().status, 400);
    client.assert_closed();
}

#[test]
fn a_hundred_bad_clients_do_not_disturb_a_good_one() {
    let server = server();
    let mut good = server.connect();
    let bad: Vec<Client> = (0..100)
        .map(|number| {
            let mut client = server.connect();
            client.try_send(match number % 4 {
                0 => "GET /a.txt HT",
                1 => "POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n",
                2 => "\0\0\0",
                _ => "POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
            });
            client
        })
        .collect();
    assert_eq!(good.get("/a.txt").response().text(), "a");
    drop(bad);
    assert!(
        good.get("/cgi-bin/show")
            .response()
            .text()
            .contains("SCRIPT_NAME=/cgi-bin/show")
    );
    server.wait_for_processes(0);
}
