//! Clients that close their sending side and wait for the response, and clients that have left: the two look alike until
//! the server sends something.

use std::sync::Arc;

use rustls::version::{TLS12, TLS13};

use sluice_testing::{Authority, DEADLINE, Ending, Setup, TlsClient};

/// Waits for the test before it answers.
const HELD: &str = r#"read -r line < "$TEST_DIR/go"; printf 'Content-Type: text/plain\n\nheld'"#;

/// Sends a head and a body, and is silent then.
const BEGINS: &str = r"printf 'Content-Type: text/plain\n\nbody'; exec sleep 1000";

#[test]
fn requests_are_answered_after_the_end_of_the_sending_side() {
    let large = "0123456789".repeat(500_000);
    let server = Setup::new()
        .file("a.txt", "hello")
        .file("large.txt", &large)
        .script(
            "echo",
            r#"printf 'Content-Type: text/plain\n\n%s' "$QUERY_STRING"; cat"#,
        )
        .start();
    let mut client = server.connect();
    client.get("/a.txt").get("/cgi-bin/echo?1").get("/large.txt");
    client.send("POST /cgi-bin/echo?2 HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody");
    client.finish();
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.response().text(), "1");
    assert!(client.response().text() == large);
    assert_eq!(client.response().text(), "2body");
    client.assert_closed();
    let mut client = server.connect();
    client.send("GET /cgi-bin/echo?old HTTP/1.0\r\n\r\n").finish();
    let (answer, ending) = client.rest();
    assert!(
        answer.ends_with(b"\r\n\r\nold") && ending == Ending::Complete,
        "{answer:?}"
    );
}

#[test]
fn script_that_takes_its_time_answers_a_half_closed_connection() {
    let setup = Setup::new();
    let mut gate = setup.gate("go");
    let server = setup
        .script("held", HELD)
        .python(
            "kept",
            "while accept():\n    wait_at('go')\n    put(HEAD + b'held')\n    finish()",
        )
        .start();
    for path in ["/cgi-bin/held", "/cgiplus-bin/kept"] {
        let mut client = server.connect();
        client.get(path).finish();
        // The server has noticed, and has sent the first byte of the status line to find out whether the client has left.
        assert!(!client.is_silent_for(DEADLINE), "{path}");
        gate.open();
        assert_eq!(client.response().text(), "held", "{path}");
        client.assert_closed();
    }
}

#[test]
fn body_goes_on_for_a_half_closed_connection() {
    let setup = Setup::new();
    let mut gate = setup.gate("go");
    let server = setup
        .script(
            "pauses",
            r#"printf 'Content-Type: text/plain\n\nbody'; read -r line < "$TEST_DIR/go"; printf ', and more'"#,
        )
        .start();
    for keep_alive in ["close", "keep-alive"] {
        let mut client = server.connect();
        client.send(format!(
            "GET /cgi-bin/pauses HTTP/1.1\r\nHost: test\r\nConnection: {keep_alive}\r\n\r\n"
        ));
        client.head();
        assert_eq!(client.chunk(), b"body");
        client.finish();
        // A leading zero of the size of the next chunk.
        assert!(!client.is_silent_for(DEADLINE));
        gate.open();
        assert_eq!(client.chunk(), b", and more");
        assert_eq!(client.chunk(), b"");
        client.assert_closed();
    }
}

#[test]
fn script_that_takes_its_time_answers_a_half_closed_connection_over_tls() {
    let authority = Authority::new();
    let setup = Setup::new().script("held", HELD);
    let setup = setup.listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }");
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    let mut gate = setup.gate("go");
    let server = setup.start();
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(authority.client(&[version]));
        let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
        client
            .send("GET /cgi-bin/held HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        client.finish().unwrap();
        assert_eq!(client.read_until("H").unwrap(), "");
        gate.open();
        let response = client.rest().unwrap();
        assert!(
            response.starts_with("TTP/1.1 200 OK\r\n") && response.contains("held"),
            "{response}"
        );
    }
}

#[test]
fn client_that_has_left_is_noticed_while_its_script_is_silent() {
    let setup = Setup::new().limits("half_close_timeout = \"1h\"");
    let events = setup.event_fifo("events");
    let server = setup
        .script("silent", r#"echo here > "$TEST_DIR/events"; exec sleep 1000"#)
        .start();
    for _ in 0..3 {
        let mut client = server.connect();
        client.get("/cgi-bin/silent");
        assert_eq!(events.line(), "here");
        drop(client);
        server.wait_for_processes(0);
    }
    let line = server.access_lines(1).remove(0);
    assert!(line.contains(" 499 "), "{line}");
}

#[test]
fn client_that_has_left_after_an_interim_response_is_noticed() {
    let setup = Setup::new().limits("half_close_timeout = \"1h\"");
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "silent",
            r#"head -c 4 > /dev/null; echo here > "$TEST_DIR/events"; exec sleep 1000"#,
        )
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/silent HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    client.take_through(b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    assert_eq!(events.line(), "here");
    drop(client);
    server.wait_for_processes(0);
}

#[test]
fn reset_ends_the_script_at_once() {
    let server = Setup::new()
        .limits("half_close_timeout = \"1h\"")
        .script("begins", BEGINS)
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/begins");
    assert!(!client.is_silent_for(DEADLINE));
    // Closed with unread bytes, so the client's system sends a reset.
    drop(client);
    server.wait_for_processes(0);
}

#[test]
fn half_closed_client_is_taken_to_have_left_after_the_time() {
    for timeout in ["0s", "1s"] {
        let server = Setup::new()
            .limits(&format!("half_close_timeout = \"{timeout}\""))
            .script("begins", BEGINS)
            .start();
        let mut client = server.connect();
        client.get("/cgi-bin/begins");
        client.take_through(b"body");
        client.finish();
        let (rest, ending) = client.rest();
        let is_probed = rest.ends_with(b"0");
        assert!(rest == b"\r\n" || is_probed, "{timeout}: {rest:?}");
        assert!(
            !is_probed || ending == Ending::Truncated,
            "{timeout}: it may look complete"
        );
        server.wait_for_processes(0);
    }
}
