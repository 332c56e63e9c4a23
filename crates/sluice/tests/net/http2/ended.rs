//! A stream that the administrator ends: the other streams of its connection go on.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::frames::{DATA, Frame, RST_STREAM, connect, frame, frames, get};
use sluice_testing::{SLOW, request, top};
use sluice_testing::{Server, Setup, run, wait_until};

/// WINDOW_UPDATE (RFC 9113 §6.9).
const WINDOW_UPDATE: u8 = 8;

/// Reads until this frame is among all that were received.
fn read_until(stream: &mut TcpStream, received: &mut Vec<u8>, is_wanted: impl Fn(&Frame) -> bool) {
    while !frames(received).iter().any(&is_wanted) {
        let mut bytes = [0; 16384];
        let length = stream.read(&mut bytes).unwrap();
        assert_ne!(length, 0, "the server has closed");
        received.extend_from_slice(&bytes[..length]);
    }
}

/// Ends the request for this target.
fn end(server: &Server, target: &str) {
    let shown = top(server);
    let found = request(&shown, target).unwrap();
    assert_eq!(found["protocol"], "HTTP/2");
    let ran = run(server.setup().directory(), &["end", found["id"].as_str().unwrap()]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
}

#[test]
fn a_stream_that_is_ended_is_reset_and_the_others_go_on() {
    let setup = Setup::new()
        .python("slow", SLOW)
        .file("large", vec![b'x'; 4 << 20])
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\nhttp2 = \"on\"");
    let server = setup.start();
    let (begun, mut gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    let (mut stream, mut received) = (connect(&server), Vec::new());
    for number in [1, 3] {
        stream
            .write_all(&get(number, &format!("/cgiplus-bin/slow?{number}")))
            .unwrap();
        begun.line();
        read_until(&mut stream, &mut received, |frame| (frame.0, frame.1) == (DATA, number));
    }
    end(&server, "/cgiplus-bin/slow?1");
    read_until(&mut stream, &mut received, |frame| {
        (frame.0, frame.1) == (RST_STREAM, 1)
    });
    assert!(wait_until(|| server.processes().len() == 1));
    // One that has used up the window, so that the server waits for the client.
    stream.write_all(&get(5, "/large")).unwrap();
    assert!(wait_until(
        || request(&top(&server), "/large").is_some_and(|request| request["state"] == "sending")
    ));
    end(&server, "/large");
    read_until(&mut stream, &mut received, |frame| {
        (frame.0, frame.1) == (RST_STREAM, 5)
    });
    stream
        .write_all(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes()))
        .unwrap();
    gate.open();
    read_until(&mut stream, &mut received, |frame| {
        (frame.0, frame.1, &frame.2[..]) == (DATA, 3, b"end")
    });
}
