//! Uploads over HTTP/2 whose clients leave within them: by resetting the stream, or by closing the connection.

use std::io::Write;
use std::net::TcpStream;

use super::frames::{CANCEL, DATA, END_HEADERS, HEADERS, RST_STREAM, connect, frame, get, wait_for};
use sluice_testing::{Server, Setup, request, top, wait_until};

/// HEADERS of a POST whose body follows (RFC 7541 §6), with or without Content-Length.
pub(super) fn post(stream: u32, path: &str, length: Option<&str>) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // Its name is number 28 of the static table.
    let length = length.map(|length| [&[0x0f, 0x0d][..], &text(length)].concat());
    let block = [
        &[0x83, 0x86, 0x04][..],
        &text(path),
        b"\x01\x01t",
        &length.unwrap_or_default(),
    ];
    frame(HEADERS, END_HEADERS, stream, &block.concat())
}

/// Sends 1,000 bytes of a body on a connection of its own, and waits until the server has them: of a stream that is reset earlier, hyper tells
/// nothing.
fn begin(server: &Server, path: &str, length: Option<&str>) -> TcpStream {
    let mut stream = connect(server);
    let data = frame(DATA, 0, 1, &[b'x'; 1000]);
    stream.write_all(&[post(1, path, length), data].concat()).unwrap();
    let has_body = || request(&top(server), path).is_some_and(|request| request["received_bytes"] == 1000);
    assert!(wait_until(has_body), "{}", server.log());
    stream
}

/// Checks the lines of both logs about the last upload.
#[track_caller]
fn assert_cut(server: &Server, known: usize, path: &str, expected: &str) {
    let line = server.access_lines(known + 1).pop().unwrap_or_default();
    assert!(line.contains(&format!("\"POST {path} HTTP/2.0\" 499 ")), "{line}");
    let log = server.log_line(&format!("{path}: {expected}"));
    let is_named_once = !log.contains("request body: ") && !log.contains("error reading");
    assert!(
        log.contains("INFO") && log.contains("status=499") && is_named_once,
        "{log}"
    );
}

#[test]
fn a_cut_upload_is_logged_with_what_came_of_it_and_status_499() {
    let script = "cat > /dev/null; printf 'Content-Type: text/plain\\n\\nall'";
    let loops = "while accept():\n    while body(1 << 16):\n        pass\n    put(HEAD + b'all')\n    finish()\n";
    let server = Setup::new()
        .workers(1)
        .limits("log_lines = 100")
        .script("cgi", script)
        .python("cgiplus", loops)
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
        .file("a.txt", "a")
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\nhttp2 = \"on\"")
        .start();
    let announced = "the client has left after 1000 of 500000 bytes of the request body";
    let open = "the client has left after 1000 bytes of the request body, before its end";
    for path in ["/cgi-bin/cgi", "/cgiplus-bin/cgiplus", "/stream/cgi"] {
        for (length, expected) in [(Some("500000"), announced), (None, open)] {
            for is_reset in [true, false] {
                // The way in the query, so that each has lines of its own.
                let path = format!("{path}?{}{is_reset}", length.unwrap_or_default());
                let known = server.access_lines(0).len();
                let mut stream = begin(&server, &path, length);
                if is_reset {
                    stream
                        .write_all(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()))
                        .unwrap();
                    assert_cut(&server, known, &path, expected);
                    // Other requests of the connection go on.
                    stream.write_all(&get(3, "/a.txt")).unwrap();
                    wait_for(&mut stream, |frame| (frame.0, frame.1, &frame.2[..]) == (DATA, 3, b"a"));
                    server.access_lines(known + 2);
                } else {
                    drop(stream);
                    assert_cut(&server, known, &path, expected);
                }
            }
        }
    }
    assert_eq!(server.get("/a.txt").text(), "a");
}
