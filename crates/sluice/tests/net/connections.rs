//! How many connections there may be: what happens to the next one, to idle ones, and when descriptors are few.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sluice_testing::{Authority, Client, DEADLINE, Server, Setup, wait_until};

/// Time in which a connection that must wait shows nothing.
const MOMENT: Duration = Duration::from_millis(100);

fn setup(connections: usize) -> Setup {
    Setup::new()
        .workers(1)
        .limits(&format!("connections = {connections}"))
        .file("a.txt", "a")
}

/// A client that has got a response and keeps its connection.
#[track_caller]
fn kept(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").response().text(), "a");
    client
}

#[test]
fn connection_over_the_limit_closes_the_one_that_has_been_idle_longest() {
    let server = setup(3).start();
    let (mut first, mut second, mut third) = (kept(&server), kept(&server), kept(&server));
    assert_eq!(first.get("/a.txt").response().text(), "a");
    let mut fourth = kept(&server);
    second.assert_closed();
    for client in [&mut first, &mut third, &mut fourth] {
        assert_eq!(client.get("/a.txt").response().text(), "a");
    }
    let line = server.log_line("closing the one that has been idle longest");
    assert!(line.contains("WARN") && line.contains("127.0.0.1:"), "{line}");
}

#[test]
fn clients_that_send_nothing_or_half_a_head_do_not_keep_others_out() {
    let server = setup(8).start();
    for sent in ["", "G", "GET /a.txt HTTP/1.1\r\nHost: te"] {
        let mut idle: Vec<_> = (0..30).map(|_| server.connect()).collect();
        idle.iter_mut().for_each(|client| {
            client.try_send(sent);
        });
        for _ in 0..10 {
            kept(&server);
        }
    }
}

#[test]
fn unfinished_handshakes_do_not_keep_others_out() {
    let setup = setup(8).listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }");
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    let _idle: Vec<_> = (0..30).map(|_| Client::connect(server.tls_address())).collect();
    kept(&server);
}

#[test]
fn busy_connections_are_not_closed_for_others() {
    let setup = setup(2);
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup
        .script(
            "wait",
            "echo up > \"$TEST_DIR/events\"; read line < \"$TEST_DIR/gate\"; printf 'Content-Type: text/plain\\n\\ndone'",
        )
        .start();
    let mut busy = [server.connect(), server.connect()];
    for client in &mut busy {
        client.get("/cgi-bin/wait");
        assert_eq!(events.line(), "up");
    }
    let mut third = server.connect();
    third.get("/a.txt");
    assert!(third.is_silent_for(MOMENT), "it is served although two are allowed");
    gate.open();
    // The first that is done makes room.
    assert_eq!(third.response().text(), "a");
    gate.open();
    for client in &mut busy {
        assert_eq!(client.response().text(), "done");
    }
}

#[test]
fn idle_http2_connection_makes_room_with_goaway() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let server = setup(1)
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .start();
    let address = &server.addresses()[1];
    let mut idle = TcpStream::connect(address.trim_start_matches("http://").trim_end_matches('/')).unwrap();
    idle.set_read_timeout(Some(DEADLINE)).unwrap();
    idle.write_all(PREFACE).unwrap();
    // The server's SETTINGS.
    idle.read_exact(&mut [0; 9]).unwrap();
    kept(&server);
    let mut rest = Vec::new();
    let end = idle.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    // Length, type GOAWAY, no flags, stream 0.
    assert!(
        rest.windows(9).any(|bytes| bytes == b"\0\0\x08\x07\0\0\0\0\0"),
        "{rest:?}"
    );
}

/// All that the server sends to a request that is the last of its connection.
fn last_answer(server: &Server) -> Vec<u8> {
    let mut client = server.connect();
    client.try_send("GET /a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    client.rest().0
}

#[test]
fn one_address_may_have_so_many_connections() {
    let limits = "connections_per_client = 2";
    let server = Setup::new().limits(limits).file("a.txt", "a").start();
    let (first, mut second) = (kept(&server), kept(&server));
    // Closed, or reset because it has sent something.
    assert_eq!(last_answer(&server), b"");
    server.log_line("its address has 2 already (limits.connections_per_client)");
    assert_eq!(second.get("/a.txt").response().text(), "a");
    drop(first);
    let has_room = wait_until(|| last_answer(&server).starts_with(b"HTTP/1.1 200"));
    assert!(has_room, "{}", server.log());
    // A trusted proxy has the connections of many clients.
    let server = Setup::new()
        .limits(limits)
        .server("trusted_proxies = [\"127.0.0.0/8\"]")
        .file("a.txt", "a")
        .start();
    let _many: Vec<_> = (0..5).map(|_| kept(&server)).collect();
}

#[test]
fn connections_leave_descriptors_for_requests() {
    let server = Setup::new()
        .file("large", vec![b'x'; 9 << 20])
        .file("a.txt", "a")
        .script("hello", "printf 'Content-Type: text/plain\\n\\nhello'")
        .start_after("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))");
    let line = server.log_line("the limit of 120 open files");
    assert!(line.contains("connections instead of 10000"), "{line}");
    let _idle: Vec<_> = (0..110).map(|_| server.connect()).collect();
    let mut next = kept(&server);
    assert_eq!(next.get("/cgi-bin/hello").response().text(), "hello");
    assert_eq!(next.get("/large").response().body.len(), 9 << 20);
}

#[test]
fn a_client_that_leaves_within_its_body_is_named_with_what_came_of_it() {
    let server = Setup::new().script("show", "cat").start();
    for (head, expected) in [
        (
            "Content-Length: 500000",
            "the client has left after 1000 of 500000 bytes of the request body",
        ),
        (
            "Transfer-Encoding: chunked",
            "the client has left after 1000 bytes of the request body, before its end",
        ),
    ] {
        let body = "x".repeat(1000);
        let body = if head.starts_with("Transfer") {
            format!("3e8\r\n{body}\r\n")
        } else {
            body
        };
        let mut client = server.connect();
        client.try_send(format!(
            "POST /cgi-bin/show HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\n{body}"
        ));
        drop(client);
        let line = server.log_line(expected);
        assert!(!line.contains("error reading"), "{line}");
    }
}
