//! Clients that flood the server with HTTP/2 frames to keep it busy or fill its memory: they are disconnected, and
//! other clients are not affected.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use crate::harness::{DEADLINE, Server, Setup};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 §6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// Flags of HEADERS (§6.2).
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Error codes (§7).
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn setup() -> Setup {
    Setup::new()
        .file("a.txt", "hello")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
}

/// A connection after the preface, of which nothing has been read.
fn connect(server: &Server) -> TcpStream {
    let address = &server.addresses()[1];
    let mut stream = TcpStream::connect(address.trim_start_matches("http://").trim_end_matches('/')).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
        .write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat())
        .unwrap();
    stream
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// HEADERS of a complete request: GET, http, the path, and the host `t` (RFC 7541 §6).
fn get(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let block = [&[0x82, 0x86, 0x04, length], path.as_bytes(), b"\x01\x01t"].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

/// A received frame: type, stream, payload.
type Frame = (u8, u32, Vec<u8>);

/// The complete frames at the start of these bytes.
fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            break;
        };
        frames.push((head[3], stream, payload.to_vec()));
        bytes = rest;
    }
    frames
}

/// The 32-bit number at an offset of a payload.
fn number(payload: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(payload[at..at + 4].try_into().unwrap())
}

/// All frames until the server closes the connection.
#[track_caller]
fn rest(stream: &mut TcpStream) -> Vec<Frame> {
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received).map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    frames(&received)
}

/// The error codes of all GOAWAY frames.
fn goaway_codes(frames: &[Frame]) -> Vec<u32> {
    let goaway_codes = frames.iter().filter(|frame| frame.0 == GOAWAY);
    goaway_codes.map(|frame| number(&frame.2, 4)).collect()
}

/// The server's resident memory in bytes (proc_pid_statm(5)).
fn memory_bytes(server: &Server) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    // Assumes pages of 4 KiB; with larger pages the result is too small.
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
}

#[test]
fn rapid_reset_ends_the_connection() {
    let server = setup().script("slow", "exec sleep 1000").start();
    for path in ["/a.txt", "/cgi-bin/slow"] {
        let mut client = connect(&server);
        let one = |number: u32| [get(number, path), frame(RST_STREAM, 0, number, &CANCEL.to_be_bytes())].concat();
        let flood: Vec<u8> = (0..5_000).flat_map(|number| one(2 * number + 1)).collect();
        // The server may close before it has read everything.
        let _ = client.write_all(&flood);
        let _ = client.shutdown(Shutdown::Write);
        let received = rest(&mut client);
        if let [code, ..] = goaway_codes(&received)[..] {
            assert_eq!(code, ENHANCE_YOUR_CALM, "{path}");
        }
        server.wait_for_processes(0);
        assert_eq!(server.get("/a.txt").text(), "hello");
    }
    let logged = server.stop().access.len();
    assert!(logged < 1_000, "{logged} of 10,000 requests were served");
}

#[test]
fn streams_over_the_announced_limit_are_refused() {
    let server = setup()
        .script(
            "wait",
            "read line < \"$TEST_DIR/gate\"; printf 'Content-Type: text/plain\\n\\ndone'",
        )
        .cgi("max = 1, queue = 1000")
        .start();
    let gate = server.setup().gate("gate");
    let mut client = connect(&server);
    let mut received = Vec::new();
    // The announced SETTINGS_MAX_CONCURRENT_STREAMS, before anything is requested.
    let announced = loop {
        let mut chunk = [0; 4096];
        let length = client.read(&mut chunk).unwrap();
        assert_ne!(length, 0, "the server sent no SETTINGS");
        received.extend_from_slice(&chunk[..length]);
        if let Some((_, _, payload)) = frames(&received).into_iter().find(|frame| frame.0 == SETTINGS) {
            let mut settings = payload.chunks(6);
            let streams = settings
                .find(|setting| setting[..2] == [0, 3])
                .expect("SETTINGS_MAX_CONCURRENT_STREAMS");
            break number(streams, 2);
        }
    };
    assert!((100..1000).contains(&announced), "{announced}");
    let flood: Vec<u8> = (0..announced + 3)
        .flat_map(|number| get(2 * number + 1, "/cgi-bin/wait"))
        .collect();
    client.write_all(&flood).unwrap();
    let refused = loop {
        let refused: Vec<(u32, u32)> = frames(&received)
            .iter()
            .filter(|frame| frame.0 == RST_STREAM)
            .map(|frame| (frame.1, number(&frame.2, 0)))
            .collect();
        if refused.len() == 3 {
            break refused;
        }
        let mut chunk = [0; 4096];
        let length = client.read(&mut chunk).unwrap();
        assert_ne!(length, 0, "the connection was closed: {refused:?}");
        received.extend_from_slice(&chunk[..length]);
    };
    let expected: Vec<_> = (announced..announced + 3)
        .map(|number| (2 * number + 1, REFUSED_STREAM))
        .collect();
    assert_eq!(refused, expected);
    // The others wait for the gate.
    server.wait_for_processes(1);
    drop(client);
    drop(gate);
    server.wait_for_processes(0);
}

/// Sends frames until the server closes, reading either nothing or everything.
#[track_caller]
fn flood(mut client: TcpStream, frame: &[u8], reads: bool) {
    let reader = reads.then(|| {
        let mut reader = client.try_clone().unwrap();
        thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()))
    });
    let (chunk, begin) = (frame.repeat((64 << 10) / frame.len()), Instant::now());
    while begin.elapsed() < DEADLINE && client.write_all(&chunk).is_ok() {}
    assert!(begin.elapsed() < DEADLINE, "the flood is not stopped, or stalls");
    if let Some(reader) = reader {
        let _ = reader.join().unwrap();
    }
}

#[test]
fn ping_and_settings_floods_end_the_connection_without_filling_memory() {
    let limits = "head_timeout = \"300ms\"\nsend_timeout = \"300ms\"";
    let server = setup().limits(limits).start();
    let before = memory_bytes(&server);
    // In parallel, because each takes some seconds.
    thread::scope(|scope| {
        for (kind, payload, reads) in [
            (PING, &[0; 8][..], true),
            (PING, &[0; 8], false),
            // SETTINGS_INITIAL_WINDOW_SIZE, which changes the window of each stream.
            (SETTINGS, &[0, 4, 0, 0, 0xff, 0xff], false),
            // Unknown frame types are ignored (§4.1), but a connection must not consist of nothing else.
            (0xfa, &[0; 100], false),
        ] {
            let client = connect(&server);
            scope.spawn(move || flood(client, &frame(kind, 0, 0, payload), reads));
        }
        assert_eq!(server.get("/a.txt").text(), "hello");
    });
    let grown = memory_bytes(&server).saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for floods");
}

#[test]
fn endless_head_ends_the_connection() {
    let server = setup().start();
    let before = memory_bytes(&server);
    // Repeated fields of 200 bytes; and empty frames, which no limit on bytes would catch.
    let field = [&b"\0\x01x\x7f\x49"[..], &[b'a'; 200]].concat();
    for chunk in [&field[..], &[]] {
        let mut client = connect(&server);
        client.write_all(&frame(HEADERS, END_STREAM, 1, &[0x82, 0x86])).unwrap();
        let (flood, begin) = (frame(CONTINUATION, 0, 1, chunk).repeat(100), Instant::now());
        while begin.elapsed() < DEADLINE && client.write_all(&flood).is_ok() {}
        assert!(begin.elapsed() < DEADLINE, "the flood is not stopped");
    }
    let grown = memory_bytes(&server).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for a head");
    assert_eq!(server.get("/a.txt").text(), "hello");
}
