//! Clients that send frames of HTTP/2 as fast as they can, to keep the server busy or to fill its memory: they lose their connection,
//! and nobody else notices.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use crate::harness::{DEADLINE, Server, Setup};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames (RFC 9113 §6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// Flags of HEADERS (§6.2).
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Codes of errors (§7).
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

fn setup() -> Setup {
    Setup::new()
        .file("a.txt", "hello")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
}

/// A connection that has begun, on which nothing was read.
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

/// HEADERS of a whole request: GET, http, the path, and the host `t` (RFC 7541 §6).
fn get(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let block = [&[0x82, 0x86, 0x04, length], path.as_bytes(), b"\x01\x01t"].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

/// A frame as it came: kind, stream, payload.
type Frame = (u8, u32, Vec<u8>);

/// The frames that these bytes begin with, and no half one.
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

/// The number that a payload begins with, after so many bytes.
fn number(payload: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(payload[at..at + 4].try_into().unwrap())
}

/// All frames until the server closes, which it must.
#[track_caller]
fn rest(stream: &mut TcpStream) -> Vec<Frame> {
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received).map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    frames(&received)
}

/// The codes with which the connection was given up.
fn farewells(frames: &[Frame]) -> Vec<u32> {
    let farewells = frames.iter().filter(|frame| frame.0 == GOAWAY);
    farewells.map(|frame| number(&frame.2, 4)).collect()
}

/// Bytes of memory that the server holds (proc_pid_statm(5)).
fn memory_bytes(server: &Server) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    // Of 4 KiB, where pages are not larger.
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
}

#[test]
fn streams_that_are_reset_as_fast_as_they_are_opened_end_the_connection() {
    let server = setup().script("slow", "exec sleep 1000").start();
    for path in ["/a.txt", "/cgi-bin/slow"] {
        let mut client = connect(&server);
        let one = |number: u32| [get(number, path), frame(RST_STREAM, 0, number, &CANCEL.to_be_bytes())].concat();
        let flood: Vec<u8> = (0..5_000).flat_map(|number| one(2 * number + 1)).collect();
        // The server may have closed before it has them all.
        let _ = client.write_all(&flood);
        let _ = client.shutdown(Shutdown::Write);
        let received = rest(&mut client);
        if let [code, ..] = farewells(&received)[..] {
            assert_eq!(code, ENHANCE_YOUR_CALM, "{path}");
        }
        server.wait_for_processes(0);
        assert_eq!(server.get("/a.txt").text(), "hello");
    }
    let logged = server.stop().access.len();
    assert!(logged < 1_000, "{logged} of 10,000 were looked at");
}

#[test]
fn more_streams_than_were_announced_are_refused_and_the_others_go_on() {
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
    // Those that were announced (SETTINGS_MAX_CONCURRENT_STREAMS), before anything is asked for.
    let announced = loop {
        let mut chunk = [0; 4096];
        let length = client.read(&mut chunk).unwrap();
        assert_ne!(length, 0, "no SETTINGS came");
        received.extend_from_slice(&chunk[..length]);
        if let Some((_, _, payload)) = frames(&received).into_iter().find(|frame| frame.0 == SETTINGS) {
            let mut settings = payload.chunks(6);
            let streams = settings.find(|setting| setting[..2] == [0, 3]).expect("a bound");
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
        assert_ne!(length, 0, "the connection was ended: {refused:?}");
        received.extend_from_slice(&chunk[..length]);
    };
    let expected: Vec<_> = (announced..announced + 3)
        .map(|number| (2 * number + 1, REFUSED_STREAM))
        .collect();
    assert_eq!(refused, expected);
    // The others wait for it.
    server.wait_for_processes(1);
    drop(client);
    drop(gate);
    server.wait_for_processes(0);
}

/// Sends frames for ever, and reads nothing or all that comes, until the server has closed.
#[track_caller]
fn flood(mut client: TcpStream, frame: &[u8], reads: bool) {
    let reader = reads.then(|| {
        let mut reader = client.try_clone().unwrap();
        thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()))
    });
    let (chunk, begin) = (frame.repeat((64 << 10) / frame.len()), Instant::now());
    while begin.elapsed() < DEADLINE && client.write_all(&chunk).is_ok() {}
    assert!(begin.elapsed() < DEADLINE, "it may go on for ever, or comes to a halt");
    if let Some(reader) = reader {
        let _ = reader.join().unwrap();
    }
}

#[test]
fn pings_and_settings_without_end_fill_no_memory_and_end_the_connection() {
    let limits = "head_timeout = \"300ms\"\nsend_timeout = \"300ms\"";
    let server = setup().limits(limits).start();
    let before = memory_bytes(&server);
    // All at once: each takes some seconds.
    thread::scope(|scope| {
        for (kind, payload, reads) in [
            (PING, &[0; 8][..], true),
            (PING, &[0; 8], false),
            // SETTINGS_INITIAL_WINDOW_SIZE, which each stream's window would have to follow.
            (SETTINGS, &[0, 4, 0, 0, 0xff, 0xff], false),
            // Unknown kinds are passed over (§4.1), but a connection of nothing else is none.
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
fn a_head_without_end_ends_the_connection() {
    let server = setup().start();
    let before = memory_bytes(&server);
    // A field of 200 bytes, again and again; and pieces of nothing, which no bound of bytes would ever meet.
    let field = [&b"\0\x01x\x7f\x49"[..], &[b'a'; 200]].concat();
    for chunk in [&field[..], &[]] {
        let mut client = connect(&server);
        client.write_all(&frame(HEADERS, END_STREAM, 1, &[0x82, 0x86])).unwrap();
        let (flood, begin) = (frame(CONTINUATION, 0, 1, chunk).repeat(100), Instant::now());
        while begin.elapsed() < DEADLINE && client.write_all(&flood).is_ok() {}
        assert!(begin.elapsed() < DEADLINE, "it may go on for ever");
    }
    let grown = memory_bytes(&server).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for a head");
    assert_eq!(server.get("/a.txt").text(), "hello");
}
