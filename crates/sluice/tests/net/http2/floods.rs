//! Clients that flood the server with HTTP/2 frames to keep it busy or fill its memory: they are disconnected, and
//! other clients are not affected.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use super::frames::*;
use sluice_testing::{DEADLINE, Setup};

fn setup() -> Setup {
    Setup::new()
        .file("a.txt", "hello")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
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
    let before = server.memory_bytes();
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
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for floods");
}

#[test]
fn endless_head_ends_the_connection() {
    let server = setup().start();
    let before = server.memory_bytes();
    // Repeated fields of 200 bytes; and empty frames, which no limit on bytes would catch.
    let field = [&b"\0\x01x\x7f\x49"[..], &[b'a'; 200]].concat();
    for chunk in [&field[..], &[]] {
        let mut client = connect(&server);
        client.write_all(&frame(HEADERS, END_STREAM, 1, &[0x82, 0x86])).unwrap();
        let (flood, begin) = (frame(CONTINUATION, 0, 1, chunk).repeat(100), Instant::now());
        while begin.elapsed() < DEADLINE && client.write_all(&flood).is_ok() {}
        assert!(begin.elapsed() < DEADLINE, "the flood is not stopped");
    }
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for a head");
    assert_eq!(server.get("/a.txt").text(), "hello");
}
