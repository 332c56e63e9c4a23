//! Clients of HTTP/2 that open little of their windows, or read little from their sockets: they may hold neither a script
//! nor much memory, whatever else they do on the connection.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::frames::*;
use sluice_testing::{DEADLINE, Server, Setup, wait_until};

const LISTENER: &str = "[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"";

/// WINDOW_UPDATE (RFC 9113 §6.9).
const WINDOW_UPDATE: u8 = 8;

/// SETTINGS_INITIAL_WINDOW_SIZE with this number of bytes.
fn window(bytes: u16) -> Vec<u8> {
    [&[0, 4, 0, 0][..], &bytes.to_be_bytes()].concat()
}

/// Reads what arrives within a moment.
fn read_some(client: &mut TcpStream, received: &mut Vec<u8>) {
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut bytes = [0; 64 << 10];
    match client.read(&mut bytes) {
        Ok(0) => panic!("the connection was closed"),
        Ok(length) => received.extend_from_slice(&bytes[..length]),
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            "{error}"
        ),
    }
}

/// The number of frames of a type.
fn count(received: &[u8], kind: u8) -> usize {
    frames(received).iter().filter(|frame| frame.0 == kind).count()
}

fn endless() -> Setup {
    Setup::new()
        .file("a.txt", "hello")
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .cgi("max = 8")
        .listeners(LISTENER)
}

#[test]
fn stalled_streams_are_reset_although_others_progress() {
    let server = endless().limits("send_timeout = \"1s\"").start();
    let mut client = connect_with(&server, &window(1000));
    for number in 0..8 {
        client.write_all(&get(2 * number + 1, "/cgi-bin/endless")).unwrap();
    }
    server.wait_for_processes(8);
    let (mut received, mut next) = (Vec::new(), 17);
    // Each small response is progress of the connection, but not of those streams.
    let are_over = wait_until(|| {
        client.write_all(&get(next, "/a.txt")).unwrap();
        next += 2;
        read_some(&mut client, &mut received);
        server.processes().is_empty() && count(&received, RST_STREAM) == 8
    });
    assert!(are_over, "{:?}\n{}", server.processes(), server.log());
    let last = next;
    client.write_all(&get(last, "/a.txt")).unwrap();
    let goes_on = wait_until(|| {
        read_some(&mut client, &mut received);
        let received = frames(&received);
        received.iter().any(|frame| (frame.0, frame.1) == (DATA, last))
    });
    assert!(goes_on, "the connection serves no more");
    server.log_line("the client took less than send_timeout and send_rate allow");
}

#[test]
fn stalled_streams_are_reset_although_another_one_is_fast() {
    let server = Setup::new()
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .cgi("max = 9")
        .listeners(LISTENER)
        .limits("send_timeout = \"1s\"")
        .start();
    let mut client = connect_with(&server, &window(1));
    let open = |stream, bytes: u32| frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    for stream in (1..19).step_by(2) {
        client.write_all(&get(stream, "/cgi-bin/endless")).unwrap();
    }
    client.write_all(&open(17, 1 << 30)).unwrap();
    server.wait_for_processes(9);
    // Fast enough for all of them, but it takes everything itself.
    let (mut received, mut reset) = (Vec::new(), Vec::new());
    let are_over = wait_until(|| {
        client.write_all(&open(0, 16 << 10)).unwrap();
        read_some(&mut client, &mut received);
        let complete = frames(&received);
        let used: usize = complete.iter().map(|frame| 9 + frame.2.len()).sum();
        received.drain(..used);
        reset.extend(
            complete
                .iter()
                .filter(|frame| frame.0 == RST_STREAM)
                .map(|frame| frame.1),
        );
        reset.len() >= 8
    });
    assert!(are_over, "{reset:?} {:?}\n{}", server.processes(), server.log());
    reset.sort_unstable();
    assert_eq!(reset, [1, 3, 5, 7, 9, 11, 13, 15]);
    server.wait_for_processes(1);
}

#[test]
fn windows_opened_by_single_bytes_hold_no_script() {
    let server = endless().limits("send_timeout = \"1s\"").start();
    let mut client = connect_with(&server, &window(1000));
    client.write_all(&get(1, "/cgi-bin/endless")).unwrap();
    server.wait_for_processes(1);
    let mut received = Vec::new();
    let is_over = wait_until(|| {
        client
            .write_all(&frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()))
            .unwrap();
        read_some(&mut client, &mut received);
        count(&received, RST_STREAM) == 1
    });
    assert!(is_over, "{}", server.log());
    server.wait_for_processes(0);
}

#[test]
fn records_as_small_as_the_window_do_not_excuse_a_slow_client() {
    let server = endless()
        .cgi("mailbox = \"record\"")
        .limits("send_timeout = \"1s\"\nsend_rate = \"1MiB\"")
        .start();
    let mut client = connect_with(&server, &window(2));
    client.write_all(&get(1, "/cgi-bin/endless")).unwrap();
    server.wait_for_processes(1);
    let mut received = Vec::new();
    let is_over = wait_until(|| {
        client
            .write_all(&frame(WINDOW_UPDATE, 0, 1, &2_u32.to_be_bytes()))
            .unwrap();
        read_some(&mut client, &mut received);
        count(&received, RST_STREAM) == 1
    });
    assert!(is_over, "{}", server.log());
    server.wait_for_processes(0);
}

#[test]
fn slow_but_sufficient_windows_go_on() {
    let server = endless()
        .file("large.txt", vec![b'x'; 1 << 20])
        .limits("send_timeout = \"2s\"\nsend_rate = \"4KiB\"")
        .start();
    let mut client = connect_with(&server, &window(1000));
    client.write_all(&get(1, "/large.txt")).unwrap();
    let mut received = Vec::new();
    let begin = Instant::now();
    // Some 75 KiB a second, many times `send_rate`, so that a busy machine does not come near it, for longer than the time limit.
    let is_long_enough = wait_until(|| {
        let opened = [1, 0].map(|stream| frame(WINDOW_UPDATE, 0, stream, &500_u32.to_be_bytes()));
        client.write_all(&opened.concat()).unwrap();
        read_some(&mut client, &mut received);
        assert_eq!(count(&received, RST_STREAM), 0, "{}", server.log());
        begin.elapsed() > Duration::from_secs(6)
    });
    assert!(is_long_enough);
    let everything = [1, 0].map(|stream| frame(WINDOW_UPDATE, 0, stream, &(1_u32 << 21).to_be_bytes()));
    client.write_all(&everything.concat()).unwrap();
    let is_complete = wait_until(|| {
        read_some(&mut client, &mut received);
        body_bytes(&received) == 1 << 20
    });
    assert!(is_complete, "{} bytes arrived", body_bytes(&received));
}

/// Bytes of bodies that have arrived.
#[test]
fn complete_responses_that_nobody_takes_end_the_connection_although_others_progress() {
    let server = Setup::new()
        .file("a.txt", "x".repeat(2000))
        .file("large.txt", "x".repeat(16_000))
        .listeners(LISTENER)
        .limits("send_timeout = \"1s\"")
        .start();
    // A response of one chunk comes from the cache.
    assert_eq!(server.get("/large.txt").body.len(), 16_000);
    let mut client = connect_with(&server, &window(4000));
    // Enough for everything that follows but the large response, whose own window stays closed.
    let open = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    client.write_all(&open).unwrap();
    client.write_all(&get(1, "/large.txt")).unwrap();
    let (mut next, mut bytes) = (3, [0; 64 << 10]);
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // These responses are progress of the connection, and soon more than a turn of the large one.
    let is_closed = wait_until(|| {
        let is_written = client.write_all(&get(next, "/a.txt")).is_ok();
        next += 2;
        !is_written || matches!(client.read(&mut bytes), Ok(0))
    });
    assert!(is_closed, "{}", server.log());
    server.log_line("the client took less than send_timeout and send_rate allow");
}

fn body_bytes(received: &[u8]) -> usize {
    let received = frames(received);
    let data = received.iter().filter(|frame| frame.0 == DATA);
    data.map(|frame| frame.2.len()).sum()
}

#[test]
fn preface_that_arrives_in_two_packets_begins_http2() {
    let server = endless().start();
    let (mut client, rest) = connect_in_two_packets(&server);
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // The server has seen the first byte by now.
    assert!(client.read(&mut [0; 1]).is_err());
    client.write_all(&rest).unwrap();
    client.write_all(&get(1, "/a.txt")).unwrap();
    let mut received = Vec::new();
    let is_answered = wait_until(|| {
        read_some(&mut client, &mut received);
        count(&received, DATA) == 1
    });
    assert!(is_answered, "{received:?}");
}

#[test]
fn connection_at_rest_is_closed_after_the_head_timeout() {
    let server = endless().limits("head_timeout = \"8s\"").start();
    let mut client = connect(&server);
    client.write_all(&get(1, "/a.txt")).unwrap();
    let begin = Instant::now();
    let received = rest(&mut client);
    let goaway = received.iter().filter(|frame| frame.0 == GOAWAY);
    assert!(goaway.count() > 0, "{received:?}");
    // Less than twice the time, even on a busy machine.
    assert!(begin.elapsed() < Duration::from_millis(15_500), "{:?}", begin.elapsed());
}

/// Requests a file on all streams of a connection without a window, and waits until all have begun.
#[track_caller]
fn request_on_all_streams(server: &Server, path: &str) -> TcpStream {
    let mut client = connect_with(server, &window(1));
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let requests: Vec<u8> = (0..128).flat_map(|number| get(2 * number + 1, path)).collect();
    client.write_all(&requests).unwrap();
    let (mut received, mut bytes) = (Vec::new(), [0; 64 << 10]);
    while count(&received, DATA) < 128 {
        let length = client.read(&mut bytes).unwrap();
        assert_ne!(length, 0, "the connection was closed");
        received.extend_from_slice(&bytes[..length]);
    }
    client
}

#[test]
fn streams_without_a_window_use_little_memory() {
    let server = Setup::new()
        .file("large", vec![b'x'; 24 << 20])
        .listeners(LISTENER)
        .start();
    let before = server.memory_bytes();
    let clients: Vec<_> = (0..10).map(|_| request_on_all_streams(&server, "/large")).collect();
    let grown = server.memory_bytes().saturating_sub(before);
    // 16 KiB for each stream, 1 MiB for each connection, and the exchanges themselves; with full chunks it is 160 MiB.
    assert!(grown < 90 << 20, "{grown} bytes for 1280 streams");
    drop(clients);
}

#[test]
fn memory_for_responses_is_bounded_for_all_connections() {
    let server = Setup::new()
        .workers(1)
        .file("large", vec![b'x'; 24 << 20])
        .file("a.txt", "hello")
        .limits("send_memory = \"8MiB\"")
        .listeners(LISTENER)
        .start();
    let mut clients = Vec::new();
    // Each uses 2 MiB at least. The one that waits longest is aborted, so the newest is always served.
    for _ in 0..12 {
        clients.push(request_on_all_streams(&server, "/large"));
    }
    let line = server.log_line("send_memory is used up");
    assert!(line.contains("connection from 127.0.0."), "{line}");
    assert_eq!(server.get("/a.txt").text(), "hello");
    let response = server.get("/large");
    assert_eq!(
        response.body.len(),
        24 << 20,
        "an honest client gets all of a large file"
    );
}

#[test]
fn streams_that_send_files_do_not_take_all_descriptors() {
    let server = Setup::new()
        .workers(1)
        .file("large", vec![b'x'; 24 << 20])
        .file("a.txt", "hello")
        .script("ok", "echo Content-Type: text/plain; echo; echo ran")
        .listeners(LISTENER)
        .start_after("resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))");
    let mut client = connect_with(&server, &window(1));
    let requests: Vec<u8> = (0..128).flat_map(|number| get(2 * number + 1, "/large")).collect();
    client.write_all(&requests).unwrap();
    let line = server.log_line("files are being sent, as many as the limit of open files");
    assert!(line.contains("503"), "{line}");
    // Every descriptor that a connection or a script needs is still there.
    let _idle: Vec<_> = (0..20).map(|_| server.connect()).collect();
    assert_eq!(server.get("/a.txt").text(), "hello");
    assert_eq!(server.get("/cgi-bin/ok").text(), "ran\n");
    let refused = server.get("/large");
    assert_eq!(refused.status, 503);
    assert!(refused.field("retry-after").is_some());
    drop(client);
    let is_free = wait_until(|| server.get("/large").status == 200);
    assert!(is_free, "{}", server.log());
}
