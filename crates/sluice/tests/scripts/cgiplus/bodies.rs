//! Request and response bodies of CGIplus scripts.

use super::counted;
use sluice_testing::{Ending, Response, Setup};

/// A script that reads as much of its body as the query says, and prints what it got.
const READER: &str = r#"
import zlib
count = 0
while variables := accept():
    count += 1
    length = int(variables.get("CONTENT_LENGTH", "0"))
    wanted = int(variables.get("WWW_KEY_1", length))
    got = body(wanted)
    put(HEAD + b"%d %d %d %d %d" % (os.getpid(), count, length, len(got), zlib.crc32(got)))
    finish()
"#;

/// Pid, count, CONTENT_LENGTH, bytes read and their checksum.
#[track_caller]
fn numbers(response: &Response) -> [u64; 5] {
    let words: Vec<u64> = response.text().split(' ').map(|word| word.parse().unwrap()).collect();
    words.try_into().unwrap()
}

/// CRC-32 as in zlib, computed bit by bit.
fn checksum(bytes: &[u8]) -> u64 {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    u64::from(!crc)
}

/// Bytes without repetition.
fn pattern(length: usize, seed: u8) -> Vec<u8> {
    let bytes = (0_u32..).flat_map(|number| (number ^ u32::from(seed) << 24).to_le_bytes());
    bytes.take(length).collect()
}

#[test]
fn body_is_exact_and_its_unread_rest_is_discarded() {
    let server = Setup::new().cgiplus("max = 1").python("reader", READER).start();
    let sizes = [
        (10, 10),
        (10, 3),
        (10, 0),
        (200_000, 200_000),
        (200_000, 17),
        (200_000, 0),
        (60_000, 0),
        (5, 5),
    ];
    for (turn, (length, wanted)) in sizes.into_iter().enumerate() {
        let body = pattern(length, u8::try_from(turn).unwrap());
        let got = numbers(&server.post(&format!("/cgiplus-bin/reader?{wanted}"), &body));
        let expected = [turn as u64 + 1, length as u64, wanted as u64, checksum(&body[..wanted])];
        assert_eq!(got[1..], expected, "{wanted} of {length} bytes read");
    }
}

#[test]
fn chunked_body_gets_a_content_length() {
    let server = Setup::new().cgiplus("max = 1").python("reader", READER).start();
    for length in [0, 1, 1000, 65_536, 65_537, 300_000] {
        let body = pattern(length, 1);
        let mut request =
            b"POST /cgiplus-bin/reader HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in body.chunks(1777) {
            request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            request.extend_from_slice(chunk);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        let got = numbers(&server.send(request));
        assert_eq!(
            got[2..],
            [length as u64, length as u64, checksum(&body)],
            "{length} bytes"
        );
    }
}

#[test]
fn counted_body_may_contain_the_sentinels() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "counted",
            r#"
count = 0
while variables := accept():
    count += 1
    body = b"%d %d\nCGIPLUSEOF=%s\nCGIPLUSESC=%s tail" % (os.getpid(), count, EOF, ESC)
    head = b"Content-Type: text/plain\nContent-Length: %d\n\n" % len(body)
    if variables["QUERY_STRING"] == "together":
        put(head + body + EOF + b"\n")
    else:
        put(head)
        for at in range(len(body)):
            put(body[at : at + 1])
        finish()
"#,
        )
        .start();
    for (count, way) in ["together", "apart", "together"].into_iter().enumerate() {
        let response = server.get(&format!("/cgiplus-bin/counted?{way}"));
        let lines: Vec<_> = response.text().lines().collect();
        assert!(lines[0].ends_with(&format!(" {}", count + 1)), "{way}: {lines:?}");
        assert!(lines[1].contains("=$Z-") && lines[2].contains("=$E-") && lines[2].ends_with(" tail"));
    }
}

#[test]
fn head_response_has_no_body_and_the_process_stays_usable() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "bodies",
            r#"
count = 0
while variables := accept():
    count += 1
    text = b"%d %d" % (os.getpid(), count)
    if variables["QUERY_STRING"] == "long":
        text += b" " * 3000000
    length = b"Content-Length: %d\n" % len(text) if variables.get("PATH_INFO") == "/counted" else b""
    put(b"Content-Type: text/plain\n" + length + b"\n" + text)
    finish()
"#,
        )
        .start();
    let mut client = server.connect();
    let mut count = 0;
    for path in ["/bodies", "/bodies/counted", "/bodies?long", "/bodies/counted?long"] {
        client.send(format!("HEAD /cgiplus-bin{path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let response = client.response_to("HEAD");
        assert_eq!((response.status, response.body.len()), (200, 0), "{path}");
        if path == "/bodies/counted?long" {
            let length: usize = response.field("content-length").unwrap().parse().unwrap();
            assert!(length > 3_000_000, "{length}");
        }
        count += 2;
        let response = client.get("/cgiplus-bin/bodies").response();
        assert_eq!(counted(&response).1, count, "after HEAD {path}");
    }
}

#[test]
fn bodies_of_every_size_are_complete() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "sizes",
            r#"
while variables := accept():
    size = int(variables["WWW_KEY_1"])
    text = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    length = b"Content-Length: %d\n" % size if variables.get("PATH_INFO") else b""
    put(b"Content-Type: application/octet-stream\n" + length + b"\n")
    put(text)
    finish()
"#,
        )
        .start();
    let mut client = server.connect();
    for size in [0, 1, 15, 4096, 65_535, 65_536, 131_072, 131_073, 1_000_000, 5_000_000] {
        for path in ["", "/counted"] {
            let response = client.get(&format!("/cgiplus-bin/sizes{path}?{size}")).response();
            assert_eq!(response.ending, Ending::Complete, "{size}{path}");
            assert_eq!(response.body.len(), size, "{path}");
            let is_right = response
                .body
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == b"0123456789abcdef"[at % 16]);
            assert!(is_right, "{size}{path}");
            if path == "/counted" {
                assert_eq!(response.field("content-length"), Some(size.to_string().as_str()));
            }
        }
    }
    let old = server.send("GET /cgiplus-bin/sizes?300000 HTTP/1.0\r\n\r\n");
    assert_eq!(
        (old.body.len(), old.ending),
        (300_000, Ending::Complete),
        "delimited by the end of the connection"
    );
}
