//! Clients that send or read only a byte now and then, or vanish without closing: none may occupy a script forever.
//!
//! Not here: clients that stop completely (`http`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluice_testing::{Ending, Setup, wait_until};

#[test]
fn trickling_body_is_answered_408() {
    let server = Setup::new()
        .limits("body_timeout = \"1s\"\nbody_rate = \"4KiB\"")
        .script(
            "take",
            "cat > /dev/null; echo Content-Type: text/plain; echo; echo whole",
        )
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
        .start();
    let cases = [
        ("cgi-bin", "Content-Length: 1000000", "x"),
        // Buffered before the script starts.
        ("cgi-bin", "Transfer-Encoding: chunked", "1\r\nx\r\n"),
        ("stream", "Transfer-Encoding: chunked", "1\r\nx\r\n"),
    ];
    for (turn, (path, framing, chunk)) in cases.into_iter().enumerate() {
        let mut client = server.connect();
        client.send(format!("POST /{path}/take HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n"));
        let fed = wait_until(|| !client.is_silent_for(Duration::from_millis(20)) || !client.try_send(chunk));
        assert!(fed, "{path}, {framing}: the server reads a trickling body forever");
        assert_eq!(client.response().status, 408, "{path}, {framing}");
        let line = server
            .log_lines(turn + 1, "bytes of the request body came in")
            .pop()
            .unwrap();
        assert!(line.contains("only "), "{line}");
    }
    server.assert_idle();
}

/// At 4 KiB a second the first bytes would pay for 50 seconds.
#[test]
fn bytes_sent_fast_do_not_pay_for_a_trickle() {
    let server = Setup::new()
        .limits("body_timeout = \"1s\"\nbody_rate = \"4KiB\"")
        .script(
            "take",
            "cat > /dev/null; echo Content-Type: text/plain; echo; echo whole",
        )
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/take HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n");
    client.send("x".repeat(200 << 10));
    let fed = wait_until(|| !client.is_silent_for(Duration::from_millis(20)) || !client.try_send("x"));
    assert!(fed, "the server reads a trickling body forever");
    assert_eq!(client.response().status, 408);
}

#[test]
fn slow_script_does_not_trigger_the_body_timeout() {
    let setup = Setup::new();
    let (begun, mut gate) = (setup.event_fifo("begun"), setup.gate("go"));
    let server = setup
        .limits("body_timeout = \"1s\"\nbody_rate = \"1MiB\"")
        .script(
            "slow",
            "echo up > \"$TEST_DIR/begun\"; read line < \"$TEST_DIR/go\"; echo Content-Type: text/plain; echo; wc -c",
        )
        .start();
    // More than a pipe holds, and more than hyper reads ahead.
    let length = 2 << 20;
    let mut client = server.connect();
    client.send(format!(
        "POST /cgi-bin/slow HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n"
    ));
    let mut sender = client.sender();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.write_all(&vec![b'x'; length]));
        begun.line();
        assert!(
            client.is_silent_for(Duration::from_millis(1500)),
            "the server blames the client"
        );
        gate.open();
        let response = client.response();
        assert_eq!((response.status, response.text().trim()), (200, "2097152"));
    });
}

#[test]
fn client_that_reads_single_bytes_is_disconnected() {
    let server = Setup::new()
        .limits("send_timeout = \"300ms\"")
        .file("large", vec![b'x'; 32 << 20])
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .start();
    for (turn, path) in ["/large", "/cgi-bin/endless"].into_iter().enumerate() {
        let mut client = server.connect();
        client.get(path);
        let mut stream = client.sender();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading =
                scope.spawn(|| wait_until(|| stream.read(&mut [0]).is_err() || is_over.load(Ordering::Relaxed)));
            // Logged when the server gives up.
            server.access_lines(turn + 1);
            is_over.store(true, Ordering::Relaxed);
            assert!(reading.join().unwrap());
        });
        server.wait_for_processes(0);
    }
}

/// Reads at most `bytes` bytes, about two hundred times a second, for as long as `goes_on`. True if it ended because of
/// that, false if the connection did.
fn read_slowly(stream: &mut TcpStream, bytes: usize, goes_on: impl Fn() -> bool) -> bool {
    let mut buffer = vec![0; bytes];
    let mut is_connected = true;
    let has_ended = wait_until(|| {
        is_connected = matches!(stream.read(&mut buffer), Ok(1..));
        !is_connected || !goes_on()
    });
    assert!(has_ended, "the server waits for a slow client forever");
    is_connected
}

#[test]
fn client_below_the_lowest_rate_is_disconnected_although_it_reads_on() {
    // The kernel takes some MB at first, and that client is given a second for each 4 MiB.
    let server = Setup::new()
        .limits("send_timeout = \"1s\"\nsend_rate = \"4MiB\"")
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/endless");
    let mut stream = client.sender();
    // Some 800 KiB a second.
    assert!(!read_slowly(&mut stream, 4096, || true));
    server.wait_for_processes(0);
    server.log_line("the client took less than send_timeout and send_rate allow");
}

#[test]
fn slow_client_above_the_lowest_rate_gets_everything() {
    let length = 32 << 20;
    let server = Setup::new()
        .limits("send_timeout = \"2s\"\nsend_rate = \"16KiB\"")
        .file("large", vec![b'x'; length])
        .start();
    let mut client = server.connect();
    client.send("GET /large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let mut stream = client.sender();
    let begin = Instant::now();
    // For longer than the time limit at a fraction of what the kernel could take.
    assert!(read_slowly(&mut stream, 4096, || begin.elapsed() < Duration::from_secs(6)));
    let (rest, ending) = client.rest();
    assert_eq!(ending, Ending::Complete, "{}", server.log());
    assert!(rest.len() > length / 2, "{} bytes were left", rest.len());
    assert!(!server.log().contains("aborted"), "{}", server.log());
}

#[test]
fn silent_script_is_not_a_slow_client() {
    let setup = Setup::new();
    let mut gate = setup.gate("gate");
    let server = setup
        .limits("send_timeout = \"300ms\"\nsend_rate = \"100MiB\"")
        .script(
            "pause",
            "printf 'Content-Type: text/plain\\n\\nbegin '; read line < \"$TEST_DIR/gate\"; echo end",
        )
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/pause");
    let head = client.head();
    assert_eq!(client.chunk(), b"begin ");
    assert!(client.is_silent_for(Duration::from_millis(2500)), "{}", server.log());
    gate.open();
    let (body, ending) = client.body(head.framing("GET"));
    assert_eq!((body.as_slice(), ending), (&b"end\n"[..], Ending::Complete));
}

#[test]
fn clients_that_read_nothing_use_little_memory() {
    let server = Setup::new().workers(1).file("large", vec![b'x'; 24 << 20]).start();
    let before = server.memory_bytes();
    let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.get("/large");
        assert_eq!(client.head().status, 200);
    }
    let grown = server.memory_bytes().saturating_sub(before);
    // Up to 256 KiB each, and what a connection needs anyway. Sixteen of a worker have 1 MiB if the kernel took the first
    // bytes at once (sluice-files, `pace`); hyper asks for the next chunk when a part of the last one is sent. Measured: 45
    // to 53 MB, and 118 if all may have 1 MiB.
    let large_chunks = 16 * (2 << 20);
    assert!(grown < (45 << 20) + large_chunks, "{grown} bytes for 100 clients");
}

#[test]
fn keepalive_probes_vanished_clients() {
    let server = Setup::new().file("b.txt", "bb").start();
    let mut client = server.connect();
    assert_eq!(client.get("/b.txt").response().text(), "bb");
    // The server's socket in proc_net_tcp(5): timer 2 is keepalive.
    let (own, other) = (hex(server.address()), hex(client.address()));
    let timer = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.into_iter().find(|row| row[1] == own && row[2] == other).unwrap();
        row[5][..2].to_owned()
    };
    assert!(wait_until(|| timer() == "02"), "timer {}", timer());
}

/// An address as in proc_net_tcp(5).
fn hex(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else {
        panic!("{address}")
    };
    format!(
        "{:08X}:{:04X}",
        u32::from_ne_bytes(address.ip().octets()),
        address.port()
    )
}
