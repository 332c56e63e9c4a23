//! Connections that send without end: chunk framing, pipelined requests. What makes no body is bounded, and the other
//! connections of the same worker have their turn.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustls::version::TLS13;

use sluice_testing::{Authority, Client, Server, Setup, TlsClient, wait_until};

const POST: &str = "POST /cgi-bin/count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Far more than the framing of a body may have.
const ATTACK_BYTES: usize = 32 << 20;

fn setup() -> Setup {
    Setup::new()
        .workers(1)
        .file("a.txt", "hello")
        .age("a.txt")
        .script("count", r"printf 'Content-Type: text/plain\n\n'; wc -c")
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
}

/// Sends bytes again and again while this says so; returns how many the server took.
fn send_while(mut send: impl FnMut(&[u8]) -> bool, bytes: &str) -> usize {
    let block = bytes.repeat((64 << 10) / bytes.len());
    let mut sent = 0;
    while sent < ATTACK_BYTES && send(block.as_bytes()) {
        sent += block.len();
    }
    sent
}

#[test]
fn chunk_framing_without_end_is_refused() {
    let server = setup().start();
    let extension = format!("1;{}\r\nx\r\n", "e".repeat(100));
    let attacks = [
        // The size of the first chunk, and of a later one.
        ("/cgi-bin/count", "", "0"),
        ("/cgi-bin/count", "5\r\nhello\r\n", "0"),
        ("/stream/count", "5\r\nhello\r\n", "0"),
        ("/cgi-bin/count", "5", " "),
        ("/cgi-bin/count", "5", "\t"),
        ("/cgi-bin/count", "5;", "e"),
        ("/cgi-bin/count", "", &extension),
        ("/cgi-bin/count", "0\r\n", "Trailer: x\r\n"),
    ];
    for (number, (path, begin, endless)) in attacks.into_iter().enumerate() {
        let mut client = server.connect();
        client.send(POST.replace("/cgi-bin/count", path)).send(begin);
        let is_unanswered = |bytes: &[u8]| client.is_silent_for(Duration::from_millis(1)) && client.try_send(bytes);
        let sent = send_while(is_unanswered, endless);
        assert!(sent < ATTACK_BYTES, "{path} {begin:?} and {endless:?} without end");
        drop(client);
        let line = server.access_lines(number + 1).remove(number);
        // The script may have begun its reply.
        let is_refused = line.contains("\" 400 ") || path == "/stream/count" && line.contains("\" 200 0 ");
        assert!(is_refused, "{path} {begin:?} and {endless:?}: {line}");
    }
    server.log_lines(4, "too much framing");
    server.assert_idle();
}

#[test]
fn chunk_framing_without_end_is_refused_over_tls() {
    let authority = Authority::new();
    let setup = setup().listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }");
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    let config = Arc::new(authority.client(&[&TLS13]));
    let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    client.send(POST).unwrap();
    let send = |bytes: &[u8]| client.send(std::str::from_utf8(bytes).unwrap()).is_ok();
    // The response comes meanwhile, and what follows is discarded.
    send_while(send, "0");
    drop(client);
    let line = server.access_lines(1).remove(0);
    assert!(line.contains("\" 400 "), "{line}");
}

#[test]
fn framing_earns_no_time() {
    let server = setup().limits("body_timeout = \"700ms\"").start();
    let mut client = server.connect();
    client.send(POST).send("5\r\nhello\r\n");
    while client.is_silent_for(Duration::from_millis(20)) {
        client.try_send("0");
    }
    assert_eq!(client.response().status, 408);
}

#[test]
fn leading_zeros_blanks_and_short_extensions_are_accepted() {
    let server = setup().start();
    let chunks = "001 \t\r\nx\r\n2;a=b\r\nyz\r\n".repeat(2000);
    for path in ["/cgi-bin/count", "/stream/count"] {
        let response = server.send(format!("{}{chunks}000\r\n\r\n", POST.replace("/cgi-bin/count", path)));
        assert_eq!(response.text().trim(), "6000", "{path}");
    }
}

/// Stops the server between two moments of its work, and returns when all its threads stand still.
fn stop(server: &Server) {
    server.signal("STOP");
    let tasks = format!("/proc/{}/task", server.server_pid());
    let is_stopped = |task: &fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, state)| state.starts_with(" T"))
    };
    let mut all = || fs::read_dir(&tasks).unwrap().flatten().all(|task| is_stopped(&task));
    assert!(wait_until(&mut all), "the server goes on");
}

#[test]
fn pipelined_requests_leave_others_their_turn() {
    // Their responses fit into the buffers of the sockets.
    const PIPELINED: usize = 2000;
    /// Requests of one turn, twice: that in which the server was stopped, and one more.
    const MEANWHILE: usize = 64;
    let server = setup().start();
    let (mut many, mut other) = (server.connect(), server.connect());
    assert_eq!(other.get("/a.txt?before").response().text(), "hello");
    many.send("GET /a.txt?many HTTP/1.1\r\nHost: test\r\n\r\n".repeat(PIPELINED));
    let answer = |client: &mut Client| client.response().status;
    assert_eq!(answer(&mut many), 200);
    stop(&server);
    other.get("/a.txt?other");
    let mut answered = 1;
    while !many.is_silent_for(Duration::from_millis(50)) {
        assert_eq!(answer(&mut many), 200);
        answered += 1;
    }
    server.signal("CONT");
    assert_eq!(other.response().text(), "hello");
    (answered..PIPELINED).for_each(|_| assert_eq!(answer(&mut many), 200));
    let lines = server.access_lines(PIPELINED + 2);
    let other = lines.iter().position(|line| line.contains("?other")).unwrap();
    // The first line is that of the request before.
    assert!(
        other <= 1 + answered + MEANWHILE,
        "{} of {} requests came first",
        other - 1 - answered,
        PIPELINED - answered
    );
}
