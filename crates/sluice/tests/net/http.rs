//! HTTP/1 with well-behaved clients, and the limits on heads, bodies, time and connections.
//!
//! Not here: clients that break the rules (`bad_clients`), and what is served (`files`, `cgi`).

use std::time::Duration;

use sluice_testing::{Client, Ending, Server, Setup, wait_until};

/// A script that echoes the request body.
const ECHO: &str = r"printf 'Content-Type: text/plain\n\n'; cat";

fn server() -> Server {
    Setup::new()
        .file("a.txt", "a")
        .file("b.txt", "bb")
        .script("echo", ECHO)
        .start()
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[test]
fn connection_is_kept_for_several_requests() {
    let server = server();
    let mut client = server.connect();
    for (path, body) in [("/a.txt", "a"), ("/b.txt", "bb"), ("/none", ""), ("/a.txt", "a")] {
        let response = client.get(path).response();
        assert!(
            response.status == 404 || response.text() == body,
            "{path}: {response:?}"
        );
        assert_eq!(response.head.version, "HTTP/1.1");
    }
    let response = client.send(post("/cgi-bin/echo", "kept")).response();
    assert_eq!(response.text(), "kept");
    client.send("GET /a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let response = client.response();
    assert_eq!((response.text(), response.field("connection")), ("a", Some("close")));
    client.assert_closed();
}

#[test]
fn every_response_has_date_and_server() {
    let server = server();
    for path in ["/a.txt", "/none", "/cgi-bin/echo"] {
        let response = server.get(path);
        assert!(
            response.field("date").is_some_and(|date| date.ends_with(" GMT")),
            "{path}: {response:?}"
        );
        assert!(response.field("server") == Some("Sluice"), "{path}: {response:?}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = server();
    let mut client = server.connect();
    let mut sent = String::new();
    for round in 0..20 {
        sent += "GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n";
        sent += &post("/cgi-bin/echo", &format!("round {round}"));
        sent += "HEAD /b.txt HTTP/1.1\r\nHost: test\r\n\r\n";
    }
    client.send(sent);
    for round in 0..20 {
        assert_eq!(client.response().text(), "a");
        assert_eq!(client.response().text(), format!("round {round}"));
        let head = client.response_to("HEAD");
        assert_eq!((head.status, head.field("content-length")), (200, Some("2")));
    }
}

#[test]
fn request_may_arrive_byte_by_byte() {
    let server = server();
    let mut client = server.connect();
    for byte in post("/cgi-bin/echo", "slowly").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response().text(), "slowly");
}

#[test]
fn empty_lines_before_a_request_are_ignored() {
    let server = server();
    let mut client = server.connect();
    client.send("\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response().text(), "a");
}

#[test]
fn http_1_0_needs_no_host_and_closes() {
    let server = server();
    let mut client = server.connect();
    let response = client.send("GET /a.txt HTTP/1.0\r\n\r\n").response();
    assert_eq!((response.status, response.text()), (200, "a"));
    client.assert_closed();
}

#[test]
fn http_1_0_keep_alive_is_honoured() {
    let server = server();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response();
        assert_eq!(
            (response.text(), response.field("connection")),
            ("a", Some("keep-alive"))
        );
    }
}

#[test]
fn http_1_0_gets_unknown_length_without_chunks() {
    let setup = Setup::new();
    let mut gate = setup.gate("gate");
    let server = setup
        .script(
            "slow",
            r#"printf 'Content-Type: text/plain\n\nfirst '; read line < "$TEST_DIR/gate"; printf last"#,
        )
        .start();
    for field in ["", "Connection: keep-alive\r\n"] {
        let mut client = server.connect();
        client.send(format!("GET /cgi-bin/slow HTTP/1.0\r\n{field}\r\n"));
        let head = client.head();
        let fields = ["transfer-encoding", "content-length", "connection"];
        assert_eq!(fields.map(|name| head.field(name)), [None, None, Some("close")]);
        client.take_through(b"first ");
        gate.open();
        assert_eq!(client.rest(), (b"last".to_vec(), Ending::Complete));
    }
}

#[test]
fn head_response_has_the_fields_of_get_and_no_body() {
    let server = server();
    let mut client = server.connect();
    let by_get = client.get("/b.txt").response();
    client.send("HEAD /b.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    let by_head = client.response_to("HEAD");
    let fields = |response: &sluice_testing::Response| {
        let mut fields = response.head.fields.clone();
        fields.retain(|field| field.0 != "date");
        fields
    };
    assert_eq!(fields(&by_head), fields(&by_get));
    client.send("HEAD /none HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 404);
    assert_eq!(client.get("/a.txt").response().text(), "a");
}

#[test]
fn continue_is_sent_when_the_body_is_wanted() {
    let server = server();
    let mut client = server.connect();
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().status, 100);
    assert_eq!(client.send("body").response().text(), "body");
}

#[test]
fn refused_request_gets_no_100_continue() {
    let server = Setup::new().limits("body_size = \"10\"").file("a.txt", "a").start();
    for (path, length, status) in [("/none", 4, 405), ("/a.txt", 4, 405), ("/a.txt", 11, 413)] {
        let mut client = server.connect();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        ));
        assert_eq!(client.head().status, status, "{path}");
    }
}

#[test]
fn chunked_body_with_extensions_and_trailers_is_decoded() {
    let server = server();
    let mut client = server.connect();
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("1\r\na\r\n002;name=value\r\nbc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nSum: 7\r\n\r\n");
    assert_eq!(client.response().text(), "abc0123456789");
    assert_eq!(client.get("/a.txt").response().text(), "a");
}

#[test]
fn head_over_the_limit_is_refused() {
    let server = Setup::new().limits("head_size = \"8KiB\"").file("a.txt", "a").start();
    let with_field = |bytes: usize| format!("GET /a.txt HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(bytes));
    assert_eq!(server.send(with_field(7000)).status, 200);
    let mut client = server.connect();
    let response = client.send(with_field(9000)).response();
    assert_eq!(response.status, 431);
    client.assert_closed();
}

#[test]
fn request_line_over_the_limit_is_refused_and_logged() {
    let long = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: test\r\n\r\n", "x".repeat(bytes));
    for (head_size, bytes, status) in [("8KiB", 9000, 431), ("64KiB", 66_000, 431), ("1MiB", 66_000, 414)] {
        let server = Setup::new().limits(&format!("head_size = \"{head_size}\"")).start();
        let mut client = server.connect();
        assert_eq!(client.send(long(bytes)).response().status, status, "{head_size}");
        client.assert_closed();
        let line = server.access_lines(1).swap_remove(0);
        assert!(line.contains(&format!("HTTP/1.1\" {status} ")), "{line}");
    }
}

#[test]
fn more_fields_than_the_limit_are_refused() {
    // The default, which is also hyper's, and another value.
    for (limits, limit) in [("", 100), ("head_fields = 10", 10)] {
        let server = Setup::new().limits(limits).file("a.txt", "a").start();
        let with_fields = |count: usize| {
            let fields: String = (1..count).map(|number| format!("X-{number}: x\r\n")).collect();
            format!("GET /a.txt HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
        };
        assert_eq!(server.send(with_fields(limit)).status, 200, "{limits}");
        let mut client = server.connect();
        assert_eq!(client.send(with_fields(limit + 1)).response().status, 431, "{limits}");
        client.assert_closed();
    }
}

#[test]
fn announced_body_over_the_limit_is_refused() {
    let server = Setup::new().limits("body_size = \"10\"").script("echo", ECHO).start();
    assert_eq!(server.post("/cgi-bin/echo", "0123456789").text(), "0123456789");
    assert_eq!(server.post("/cgi-bin/echo", "0123456789a").status, 413);
    let huge = "POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 18446744073709551000\r\n\r\n";
    let status = server.send(huge).status;
    assert!(matches!(status, 400 | 413), "{status}");
}

#[test]
fn chunked_body_over_the_limit_is_refused() {
    let server = Setup::new()
        .limits("body_size = \"100000\"")
        .script("echo", ECHO)
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
        .start();
    let chunks = |count: usize| {
        let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1000));
        format!("{}0\r\n\r\n", chunk.repeat(count))
    };
    for route in ["cgi-bin", "stream"] {
        let head = format!("POST /{route}/echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(server.send(head.clone() + &chunks(100)).body.len(), 100_000, "{route}");
        let mut client = server.connect();
        client.send(&head);
        client.try_send(chunks(101));
        let response = client.response();
        // A streamed body may have been answered before the limit was reached; then the response is truncated.
        let is_refused = response.status == 413 || route == "stream" && response.ending == Ending::Truncated;
        assert!(is_refused, "{route}: {} {:?}", response.status, response.ending);
    }
    server.assert_idle();
}

#[test]
fn incomplete_head_is_answered_408_after_the_timeout() {
    let server = Setup::new()
        .limits("head_timeout = \"200ms\"")
        .file("a.txt", "a")
        .start();
    let mut client = server.connect();
    let response = client.send("GET /a.txt HTTP/1.1\r\nHo").response();
    assert_eq!(response.status, 408);
    client.assert_closed();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").response().text(), "a");
    let response = client.send("GET /a.txt HTTP/1.1\r\nHost: test\r\n").response();
    assert_eq!(response.status, 408, "the second head on a connection");
    client.assert_closed();
}

#[test]
fn head_timeout_is_not_extended_by_further_bytes() {
    let server = Setup::new().limits("head_timeout = \"300ms\"").start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nX: ");
    let fed = wait_until(|| !client.is_silent_for(Duration::from_millis(20)) || !client.try_send("x"));
    assert!(fed, "an endless head is read forever");
    assert_eq!(client.response().status, 408);
}

#[test]
fn silent_connection_is_closed_without_a_response() {
    let server = Setup::new()
        .limits("head_timeout = \"100ms\"")
        .file("a.txt", "a")
        .start();
    server.connect().assert_closed();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").response().text(), "a");
    client.assert_closed();
}

#[test]
fn stalled_body_is_answered_408_and_its_script_stopped() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .limits("body_timeout = \"200ms\"")
        .script(
            "take",
            r#"exec 9> "$TEST_DIR/events"; echo started >&9; cat; echo complete >&9"#,
        )
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/take HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf");
    assert_eq!(events.line(), "started");
    assert_eq!(client.response().status, 408);
    events.end();
    server.assert_idle();
}

#[test]
fn client_that_reads_nothing_is_disconnected() {
    let server = Setup::new()
        .limits("send_timeout = \"200ms\"")
        .file("large", vec![b'x'; 32 << 20])
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .start();
    for path in ["/large", "/cgi-bin/endless"] {
        let mut client = server.connect();
        client.get(path);
        let head = client.head();
        assert_eq!(head.status, 200);
        // Read nothing until the server has given up.
        server.assert_idle();
        let (_, ending) = client.body(head.framing("GET"));
        assert_eq!(ending, Ending::Truncated, "{path}");
    }
}

#[test]
fn many_concurrent_connections_are_all_served() {
    let server = server();
    let mut clients: Vec<Client> = (0..200).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.get("/b.txt");
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "bb");
    }
}

#[test]
fn host_selects_the_site() {
    let setup = Setup::new().file("which.txt", "first");
    std::fs::create_dir(setup.path("other")).unwrap();
    std::fs::write(setup.path("other/which.txt"), "other").unwrap();
    let server = setup
        .sites("[[site]]\nhosts = [\"other.example\", \"*.other.example\"]\nroot = \"other\"")
        .start();
    for (host, site) in [
        ("other.example", "other"),
        ("OTHER.example:8080", "other"),
        ("a.b.other.example", "other"),
        ("another.example", "first"),
        ("127.0.0.1", "first"),
    ] {
        let response = server.send(format!("GET /which.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.text(), site, "{host}");
    }
}

#[test]
fn redirect_route_keeps_the_wildcard_match_and_the_query() {
    let server = Setup::new()
        .route("path = \"/old/*\"\nredirect = { to = \"/new/*\", status = 308 }")
        .start();
    let response = server.get("/old/a%20b/c?d=e");
    assert_eq!(
        (response.status, response.field("location")),
        (308, Some("/new/a%20b/c?d=e"))
    );
}
