//! Ranges: one or several parts of a file, from memory and from disk, and invalid or unsatisfiable ranges.

use std::fs::File;
use std::ops::Range;

use sluice_testing::{Ending, Response, Server, Setup, make_old};

/// Bytes without repetition, so that every part is recognisable.
fn content(bytes: usize) -> Vec<u8> {
    let numbers = (0..).flat_map(|number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes());
    numbers.take(bytes).collect()
}

/// Files of every kind that the server distinguishes: in ordinary memory, in sealed memory, too large for sealed
/// memory, too large for the cache.
const SIZES: [usize; 6] = [1, 1000, 20_000, 200_000, 300_000, 9_000_000];

/// A server with old files of all sizes, `f<size>.bin`.
fn server_with(cache: &str) -> Server {
    let setup = SIZES.iter().fold(Setup::new().cache(cache), |setup, size| {
        let name = format!("f{size}.bin");
        setup.file(&name, content(*size)).age(&name)
    });
    setup.start()
}

fn request(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\n")
}

#[track_caller]
fn fetch(server: &Server, path: &str, lines: &str) -> Response {
    server.send(request(path, lines))
}

/// Ranges of a file of this size, and the bytes that they select.
fn ranges_of(size: usize) -> Vec<(String, Range<usize>)> {
    let (half, last) = (size / 2, size - 1);
    vec![
        ("0-0".to_owned(), 0..1),
        ("0-".to_owned(), 0..size),
        (format!("0-{size}000"), 0..size),
        (format!("{half}-"), half..size),
        (format!("{last}-{last}"), last..size),
        (format!("{}-{half}", half / 3), half / 3..half + 1),
        ("-1".to_owned(), last..size),
        (format!("-{}", half + 1), size - half - 1..size),
        (format!("-{size}0"), 0..size),
    ]
}

#[test]
fn single_range_is_sent_from_memory_and_from_disk() {
    for cache in ["", "size = 0"] {
        let server = server_with(cache);
        let mut client = server.connect();
        for size in SIZES {
            let (path, full) = (format!("/f{size}.bin"), content(size));
            let tag = client.get(&path).response().field("etag").unwrap().to_owned();
            for (range, span) in ranges_of(size) {
                let response = client.send(request(&path, &format!("Range: bytes={range}"))).response();
                let expected = format!("bytes {}-{}/{size}", span.start, span.end - 1);
                assert_eq!(response.status, 206, "{path} {range}");
                assert_eq!(
                    response.field("content-range"),
                    Some(expected.as_str()),
                    "{path} {range}"
                );
                assert_eq!(response.field("etag"), Some(tag.as_str()));
                assert_eq!(response.field("accept-ranges"), Some("bytes"));
                assert_eq!(response.field("content-type"), Some("application/octet-stream"));
                assert!(response.body == full[span], "{path} {range}: wrong content");
            }
        }
    }
}

/// The parts of a body, parsed strictly by RFC 2046 §5.1: the fields and bytes of each.
#[track_caller]
fn parts(response: &Response) -> Vec<(String, Vec<u8>)> {
    assert_eq!((response.status, response.ending), (206, Ending::Complete));
    assert_eq!(
        response.field("content-range"),
        None,
        "only the parts have it (RFC 9110 §15.3.7.2)"
    );
    let kind = response.field("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    assert!(boundary.len() >= 22 && boundary.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter has no preceding CRLF.
    let body = [b"\r\n", response.body.as_slice()].concat();
    let mut sections = split(&body, delimiter.as_bytes());
    assert_eq!(sections.remove(0), b"", "nothing before the first part");
    assert_eq!(sections.pop().unwrap(), b"--\r\n", "the end, and nothing after it");
    let mut parts = Vec::new();
    for section in sections {
        let section = section.strip_prefix(b"\r\n").unwrap();
        let mut halves = split(section, b"\r\n\r\n");
        let head = String::from_utf8(halves.remove(0).to_vec()).unwrap();
        parts.push((head, halves.join(&b"\r\n\r\n"[..])));
    }
    parts
}

fn split<'a>(mut bytes: &'a [u8], at: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(span) = bytes.windows(at.len()).position(|window| window == at) {
        parts.push(&bytes[..span]);
        bytes = &bytes[span + at.len()..];
    }
    parts.push(bytes);
    parts
}

#[test]
fn several_ranges_are_sent_as_parts_in_request_order() {
    for cache in ["", "size = 0"] {
        let server = server_with(cache);
        for size in [1000, 20_000, 200_000, 300_000] {
            let (path, full) = (format!("/f{size}.bin"), content(size));
            // Twice, because larger files enter the cache after the first request.
            for _ in 0..2 {
                let asked = format!("Range: bytes=-100, 0-9, 300-{}, {size}-, 200-249,240-299", size - 300);
                let spans = [size - 100..size, 0..10, 200..size - 299];
                let response = fetch(&server, &path, &asked);
                let expected: Vec<_> = spans
                    .iter()
                    .map(|span| {
                        let (first, last) = (span.start, span.end - 1);
                        let head = format!(
                            "Content-Type: application/octet-stream\r\nContent-Range: bytes {first}-{last}/{size}"
                        );
                        (head, full[span.clone()].to_vec())
                    })
                    .collect();
                assert!(parts(&response) == expected, "{path}: wrong parts");
                assert!(response.field("content-length").is_some());
            }
        }
    }
}

#[test]
fn ranges_that_merge_into_one_are_sent_as_one() {
    let server = Setup::new().file("a.txt", "0123456789").start();
    for (asked, range, text) in [
        ("0-4,5-9", "bytes 0-9/10", "0123456789"),
        ("2-3,3-6,5-5", "bytes 2-6/10", "23456"),
        ("10-20,4-4,-0", "bytes 4-4/10", "4"),
    ] {
        let response = fetch(&server, "/a.txt", &format!("Range: bytes={asked}"));
        assert_eq!((response.status, response.text()), (206, text), "{asked}");
        assert_eq!(response.field("content-range"), Some(range), "{asked}");
    }
}

#[test]
fn boundary_is_different_for_each_body() {
    let server = Setup::new().file("a.txt", "0123456789").start();
    let kind = || {
        let response = fetch(&server, "/a.txt", "Range: bytes=0-0,9-9");
        response.field("content-type").unwrap().to_owned()
    };
    assert_ne!(kind(), kind());
}

#[test]
fn unsatisfiable_range_is_416_with_the_length() {
    let server = Setup::new().file("a.txt", "0123456789").file("empty", "").start();
    for (path, range, length) in [
        ("/a.txt", "10-", 10),
        ("/a.txt", "10-20,99999999999999999999999-", 10),
        ("/a.txt", "-0", 10),
        ("/empty", "0-", 0),
        ("/empty", "0-0,-0", 0),
    ] {
        let response = fetch(&server, path, &format!("Range: bytes={range}"));
        assert_eq!(response.status, 416, "{path} {range}");
        let expected = format!("bytes */{length}");
        assert_eq!(
            response.field("content-range"),
            Some(expected.as_str()),
            "{path} {range}"
        );
        assert!(response.text().contains("416"), "the error page shows the status");
    }
    // The last 5 bytes of an empty file are satisfiable and empty.
    let end = fetch(&server, "/empty", "Range: bytes=-5");
    assert_eq!((end.status, end.text()), (200, ""));
}

#[test]
fn invalid_range_is_ignored() {
    let server = Setup::new().file("a.txt", "0123456789").start();
    for lines in [
        "Range:",
        "Range: bytes",
        "Range: bytes=",
        "Range: bytes=-",
        "Range: bytes=a-b",
        "Range: bytes=3-2",
        "Range: bytes=0-1,3-2",
        "Range: bytes=0-1;2-3",
        "Range: lines=0-1",
        "Range: none",
        "Range: 0-1",
        "Range: bytes=0-1\r\nRange: bytes=2-3",
        "Range: bytes=0-1\u{e9}",
        "If-Range: \"other\"",
    ] {
        let response = fetch(&server, "/a.txt", lines);
        assert_eq!((response.status, response.text()), (200, "0123456789"), "{lines}");
        assert_eq!(response.field("content-range"), None, "{lines}");
        assert_eq!(response.field("accept-ranges"), Some("bytes"), "{lines}");
    }
}

#[test]
fn a_thousand_ranges_send_no_more_than_the_file() {
    let server = server_with("");
    let mut client = server.connect();
    let apart = |count: usize| (0..count).map(|at| format!("{}-{}", at * 200, at * 200 + 9)).collect();
    let overlapping = |count: usize| (0..count).map(|at| format!("{at}-")).collect();
    let cases: [(Vec<String>, u16); 4] = [
        (apart(1000), 200),
        (apart(100), 200),
        (overlapping(1000), 200),
        (overlapping(100), 206),
    ];
    for (ranges, status) in cases {
        let lines = format!("Range: bytes={}", ranges.join(","));
        let response = client.send(request("/f300000.bin", &lines)).response();
        assert_eq!(
            (response.status, response.body.len()),
            (status, 300_000),
            "{} ranges",
            ranges.len()
        );
    }
}

#[test]
fn range_of_a_head_request_is_ignored() {
    let server = Setup::new().file("a.txt", "0123456789").start();
    for range in ["0-1", "100-", "0-1,5-6"] {
        let mut client = server.connect();
        client.send(format!(
            "HEAD /a.txt HTTP/1.1\r\nHost: test\r\nRange: bytes={range}\r\n\r\n"
        ));
        let response = client.response_to("HEAD");
        assert_eq!((response.status, response.field("content-length")), (200, Some("10")));
        assert_eq!(response.field("content-range"), None);
        assert_eq!(response.field("accept-ranges"), Some("bytes"));
    }
}

#[test]
fn if_range_resumes_a_download_unless_the_file_changed() {
    let server = server_with("revalidate = \"0s\"");
    let full = content(300_000);
    let first = server.get("/f300000.bin");
    let (tag, date) = (first.field("etag").unwrap(), first.field("last-modified").unwrap());
    let rest = |validator: &str| {
        let lines = format!("Range: bytes=100000-\r\nIf-Range: {validator}");
        fetch(&server, "/f300000.bin", &lines)
    };
    for validator in [tag, date] {
        let response = rest(validator);
        assert_eq!(response.status, 206, "{validator}");
        assert!(response.body == full[100_000..], "{validator}: wrong content");
    }
    let weak = format!("W/{tag}");
    for validator in [
        weak.as_str(),
        "\"other\"",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "*",
    ] {
        let response = rest(validator);
        assert_eq!(response.status, 200, "{validator}");
        assert!(response.body == full, "{validator}: wrong content");
    }
    let path = server.path("htdocs/f300000.bin");
    std::fs::write(&path, "another").unwrap();
    make_old(&path);
    assert_eq!(rest(tag).text(), "another");
    // The current version does not have that part.
    let lines = format!(
        "Range: bytes=100000-\r\nIf-Range: {}",
        server.get("/f300000.bin").field("etag").unwrap()
    );
    assert_eq!(fetch(&server, "/f300000.bin", &lines).status, 416);
}

#[test]
fn pipelined_ranges_are_answered_in_order() {
    let server = server_with("");
    let sizes = SIZES.iter().filter(|size| **size < 1_000_000);
    let asked: Vec<_> = sizes
        .flat_map(|size| ranges_of(*size).into_iter().map(|range| (*size, range)))
        .collect();
    // Served from disk first, and from the cache later.
    for _ in 0..3 {
        let mut client = server.connect();
        let requests = asked
            .iter()
            .map(|(size, (range, _))| request(&format!("/f{size}.bin"), &format!("Range: bytes={range}")));
        client.send(requests.collect::<String>());
        for (size, (range, span)) in &asked {
            let body = client.response().body;
            assert!(body == content(*size)[span.clone()], "{range} of {size}: wrong content");
        }
    }
}

#[test]
fn shrinking_file_truncates_a_partial_response() {
    const MIB: u64 = 1 << 20;
    for ranges in ["1048576-", "0-9,1048576-"] {
        let server = Setup::new().file("a.bin", "").start();
        let file = File::options().write(true).open(server.path("htdocs/a.bin")).unwrap();
        // More than the socket buffers hold, and more than the cache takes.
        file.set_len(100 * MIB).unwrap();
        let mut client = server.connect();
        client.send(request("/a.bin", &format!("Range: bytes={ranges}")));
        let head = client.head();
        assert_eq!(head.status, 206);
        file.set_len(2 * MIB).unwrap();
        let (body, ending) = client.body(head.framing("GET"));
        assert_eq!(ending, Ending::Truncated, "{ranges}");
        assert!(body.len() < 99 * usize::try_from(MIB).unwrap());
        server.log_line("shrank while it was sent");
    }
}
