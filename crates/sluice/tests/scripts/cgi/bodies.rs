//! Request and response bodies of scripts: streamed in both directions, complete, of any size, with a correct length.

use sluice_testing::{Ending, Setup};

#[test]
fn upload_is_streamed_to_the_script() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "take",
            r#"read -r first; echo "$first" > "$TEST_DIR/events"; read -r second; printf 'Content-Type: text/plain\n\n%s' "$second""#,
        )
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/take HTTP/1.1\r\nHost: test\r\nContent-Length: 8\r\n\r\none\n");
    assert_eq!(events.line(), "one");
    assert_eq!(client.send("two\n").response().text(), "two");
}

#[test]
fn output_is_streamed_to_the_client() {
    let setup = Setup::new();
    let mut gate = setup.gate("gate");
    let server = setup
        .script(
            "slow",
            r#"printf 'Content-Type: text/plain\n\nearly'; read -r line < "$TEST_DIR/gate"; printf late"#,
        )
        .start();
    let mut client = server.connect();
    let head = client.get("/cgi-bin/slow").head();
    assert_eq!(head.field("transfer-encoding"), Some("chunked"));
    assert_eq!(client.chunk(), b"early");
    gate.open();
    assert_eq!(client.chunk(), b"late");
    assert_eq!(client.chunk(), b"");
}

#[test]
fn head_is_sent_before_the_first_body_byte() {
    let setup = Setup::new();
    let mut gate = setup.gate("gate");
    let server = setup
        .script(
            "slow",
            r#"printf 'Content-Type: text/plain\n\n'; read -r line < "$TEST_DIR/gate"; printf body"#,
        )
        .start();
    let mut client = server.connect();
    let head = client.get("/cgi-bin/slow").head();
    gate.open();
    assert_eq!(client.body(head.framing("GET")), (b"body".to_vec(), Ending::Complete));
}

#[test]
fn script_may_write_while_it_reads() {
    let server = Setup::new()
        .script(
            "echo",
            r"printf 'Content-Type: text/plain\n\n'; while read -r line; do echo $line; done",
        )
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\n\r\none\n");
    client.head();
    assert_eq!(client.chunk(), b"one\n");
    client.send("two\n");
    assert_eq!(client.chunk(), b"two\n");
    client.send("end\n");
    assert_eq!(client.chunk(), b"end\n");
    assert_eq!(client.chunk(), b"");
}

#[test]
fn large_body_is_echoed_while_it_is_uploaded() {
    let server = Setup::new()
        .script("echo", r"printf 'Content-Type: text/plain\n\n'; exec cat")
        .start();
    let body: Vec<u8> = (0..8_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let mut client = server.connect();
    let length = body.len();
    client.send(format!(
        "POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n"
    ));
    // The script writes before it has read everything. A client that sends without reading would block, so send in a
    // thread.
    let response = std::thread::scope(|scope| {
        let mut sender = client.sender();
        scope.spawn(move || std::io::Write::write_all(&mut sender, &body).unwrap());
        client.response()
    });
    assert_eq!(
        (response.status, response.body.len(), response.ending),
        (200, length, Ending::Complete)
    );
    assert!(
        response
            .body
            .iter()
            .zip(0_u32..)
            .all(|(byte, number)| *byte == number.to_le_bytes()[1])
    );
}

#[test]
fn unread_request_body_does_not_block_the_reply() {
    let server = Setup::new()
        .script("deaf", r"exec 0< /dev/null; printf 'Content-Type: text/plain\n\ndeaf'")
        .script("done", r"printf 'Content-Type: text/plain\nContent-Length: 4\n\ndone'")
        .start();
    for script in ["deaf", "done"] {
        let mut client = server.connect();
        client.send(format!(
            "POST /cgi-bin/{script} HTTP/1.1\r\nHost: test\r\nContent-Length: 3000000\r\n\r\n"
        ));
        let response = std::thread::scope(|scope| {
            let mut sender = client.sender();
            // The server may close before it has read everything.
            scope.spawn(move || std::io::Write::write_all(&mut sender, &vec![b'x'; 3_000_000]));
            client.response()
        });
        assert_eq!(response.text(), script);
    }
    server.assert_idle();
}

/// A client that reads only after it has sent its body. A reset would end its upload, and elsewhere than on Linux it could cost it the response.
#[test]
fn client_may_send_the_whole_of_a_body_that_nobody_reads_before_it_reads_the_response() {
    let server = Setup::new()
        .script("cgi", r"printf 'Content-Type: text/plain\n\nunread'")
        .python("plus", "while accept():\n    put(HEAD + b'unread')\n    finish()\n")
        .python("engine", "while accept():\n    put(HEAD + b'unread')\n    finish()\n")
        .file("rte/a.test", "")
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = { program = \"htdocs/cgi-bin/engine\" }",
        )
        .route("path = \"/cgi-bin/cgi/small\"\nlimits = { body_size = 10 }")
        .start();
    let body = vec![b'x'; 20_000_000];
    for (path, status) in [
        ("/cgi-bin/cgi", 200),
        ("/cgiplus-bin/plus", 200),
        ("/rte/a.test", 200),
        ("/cgi-bin/cgi/small", 413),
        ("/missing", 405),
    ] {
        for field in ["Accept: */*", "Expect: 100-continue", "Connection: close"] {
            let mut client = server.connect();
            let length = body.len();
            client.send(format!(
                "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n{field}\r\n\r\n"
            ));
            assert!(client.try_send(&body), "{path}, {field}: the connection was reset");
            client.finish();
            let mut seen = client.response().status;
            if seen == 100 {
                seen = client.response().status;
            }
            assert_eq!(seen, status, "{path}, {field}");
            client.assert_closed();
        }
    }
}

#[test]
fn connection_outlives_a_body_that_nobody_reads() {
    let server = Setup::new()
        .script("done", r"printf 'Content-Type: text/plain\nContent-Length: 4\n\ndone'")
        .file("page.txt", "page")
        .start();
    let body = "x".repeat(200_000);
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for path in ["/cgi-bin/done", "/page.txt", "/none"] {
        let mut client = server.connect();
        for (framing, bytes) in [
            ("Content-Length: 200000", &body),
            ("Transfer-Encoding: chunked", &chunked),
        ] {
            let mut sender = client.sender();
            let request = format!("POST {path} HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n{bytes}");
            std::thread::scope(|scope| {
                scope.spawn(move || std::io::Write::write_all(&mut sender, request.as_bytes()));
                assert_ne!(client.response().status, 0);
            });
            assert_eq!(
                client.get("/page.txt").response().text(),
                "page",
                "after {path}, {framing}"
            );
        }
    }
    server.assert_idle();
}

#[test]
fn client_that_sends_no_more_of_an_unread_body_is_disconnected() {
    let server = Setup::new().file("page.txt", "page").start();
    let mut client = server.connect();
    client.send("POST /none HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\nx");
    assert_eq!(client.response().status, 405);
    client.assert_closed();
}

#[test]
fn chunked_upload_is_buffered_and_has_a_content_length() {
    let server = Setup::new()
        .script(
            "count",
            r#"printf 'Content-Type: text/plain\n\n%s %s' "$CONTENT_LENGTH" "$(wc -c)""#,
        )
        .start();
    for (chunks, size) in [(0, 1), (1, 1), (5, 1000), (65, 1000), (66, 1000), (30, 100_000)] {
        let chunk = format!("{size:x}\r\n{}\r\n", "x".repeat(size));
        let response = server.send(format!(
            "POST /cgi-bin/count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            chunk.repeat(chunks)
        ));
        let bytes = chunks * size;
        assert_eq!(response.text(), format!("{bytes} {bytes}"), "{chunks} chunks of {size}");
    }
}

#[test]
fn buffered_body_reaches_the_script_unchanged() {
    let server = Setup::new()
        .script("echo", r"printf 'Content-Type: application/octet-stream\n\n'; exec cat")
        .start();
    let body: Vec<u8> = (0..200_000_u32).map(|number| (number % 251).to_le_bytes()[0]).collect();
    let mut request = b"POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for part in body.chunks(7777) {
        request.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        request.extend_from_slice(part);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    assert!(server.send(request).body == body);
}

#[test]
fn script_starts_only_after_a_chunked_body_is_complete() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "x",
            r#"echo started > "$TEST_DIR/events"; printf 'Content-Type: text/plain\n\n'; exec cat"#,
        )
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/x HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    assert!(events.is_silent_for(std::time::Duration::from_millis(100)));
    client.send("0\r\n\r\n");
    assert_eq!(events.line(), "started");
    assert_eq!(client.response().text(), "abc");
}

#[test]
fn route_may_stream_chunked_bodies_without_a_length() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "take",
            r#"read -r first; echo "$first" > "$TEST_DIR/events"; printf 'Content-Type: text/plain\n\n%s ' "${CONTENT_LENGTH-none}"; cat"#,
        )
        .cgi("request_body = \"stream\"")
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/take HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n");
    assert_eq!(events.line(), "one");
    client.send("3\r\ntwo\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "none two");
}

#[test]
fn output_of_every_size_is_complete() {
    let server = Setup::new()
        .script(
            "bytes",
            r#"printf 'Content-Type: text/plain\n\n'; head -c "$QUERY_STRING" /dev/zero"#,
        )
        .start();
    let mut client = server.connect();
    for size in [0, 1, 4096, 65_536, 131_072, 131_073, 1_048_576, 20_000_000] {
        let response = client.get(&format!("/cgi-bin/bytes?{size}")).response();
        assert_eq!((response.body.len(), response.ending), (size, Ending::Complete));
    }
}

#[test]
fn script_killed_within_its_body_truncates_the_response() {
    let setup = Setup::new();
    let mut gate = setup.gate("gate");
    let server = setup
        .script(
            "dies",
            r#"printf 'Content-Type: text/plain\n\nhalf'; read -r line < "$TEST_DIR/gate"; kill -9 $$"#,
        )
        .start();
    let mut client = server.connect();
    let head = client.get("/cgi-bin/dies").head();
    assert_eq!(client.chunk(), b"half");
    gate.open();
    assert_eq!(client.body(head.framing("GET")), (Vec::new(), Ending::Truncated));
    server.log_line("response aborted");
    server.assert_idle();
}

#[test]
fn truncated_body_resets_an_http_1_0_connection() {
    let setup = Setup::new();
    let mut gate = setup.gate("gate");
    let server = setup
        .script(
            "dies",
            r#"printf 'Content-Type: text/plain\n\nhalf'; read -r line < "$TEST_DIR/gate"; kill -9 $$"#,
        )
        .start();
    let mut client = server.connect();
    client.send("GET /cgi-bin/dies HTTP/1.0\r\n\r\n").head();
    client.take_through(b"half");
    gate.open();
    assert_eq!(client.rest().1, Ending::Truncated);
}
