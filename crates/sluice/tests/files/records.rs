//! VMS record files: sent as lines, cached as lines, rewritten as lines, and converted on the command line.

mod rewritten;

use std::fmt::Write;
use std::fs;

use sluice_testing::{Ending, Response, Server, Setup, wait_until};

/// Three lines, as variable-length records and as text.
const RECORDS: &[u8] = b"\x05\0hello\0\x00\0\x05\0world\0";
const LINES: &str = "hello\n\nworld\n";

/// Variable-length records and their lines: more than the server reads at once.
fn large() -> (Vec<u8>, String) {
    let (mut records, mut lines) = (Vec::new(), String::new());
    for number in 0..60_000_u32 {
        let line = format!("{number} {}", "x".repeat(number as usize % 97));
        records.extend(u16::try_from(line.len()).unwrap().to_le_bytes());
        records.extend(line.as_bytes());
        records.resize(records.len().next_multiple_of(2), 0xff);
        writeln!(lines, "{line}").unwrap();
    }
    (records, lines)
}

/// A setup that answers `/vms/*` with the files in htdocs/vms, with these keys, and `/raw/*` with the same files
/// unconverted.
fn setup(keys: &str) -> Setup {
    let setup = Setup::new()
        .route(&format!(
            "path = \"/vms/*\"\nfiles = {{ directory = \"htdocs/vms\", {keys} }}"
        ))
        .route("path = \"/raw/*\"\nfiles = { directory = \"htdocs/vms\" }");
    setup.file("vms/index.html", b"\x04\0page")
}

const VARIABLE: &str = "record_format = \"variable\"";
const CACHED: &str = "record_format = \"variable\", convert = \"cache\"";

fn fetch_with(server: &Server, path: &str, field: &str) -> Response {
    server.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"))
}

#[test]
fn records_are_sent_as_lines_except_those_of_one_size() {
    for (format, file, lines) in [
        ("variable", RECORDS, LINES),
        ("variable", b"", ""),
        ("vfc", b"\x04\0\x01\x8dab\x03\0\x01\x8dc", "ab\nc\n"),
        ("vfc:4", b"\x06\0\x01\x8d\0\0ab", "ab\n"),
        ("fixed:4", b"onlytwo.", "onlytwo."),
        ("fixed:3", b"one\0two\0", "one\0two\0"),
        ("fixed:80", b"not of this length", "not of this length"),
        ("stream_cr", b"\x02\0\r", "\x02\0\r"),
        ("undefined", b"\x02\0ab", "\x02\0ab"),
    ] {
        let server = setup(&format!("record_format = \"{format}\""))
            .file("vms/a.txt", file)
            .start();
        let response = server.get("/vms/a.txt");
        assert_eq!((response.status, response.text()), (200, lines), "{format}");
        assert_eq!(response.field("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(response.field("content-length"), Some(lines.len().to_string().as_str()));
        assert_eq!(server.get("/raw/a.txt").body, file, "{format}");
    }
}

#[test]
fn lines_have_their_own_validators() {
    let server = setup(VARIABLE).file("vms/a.txt", RECORDS).age("vms/a.txt").start();
    let (lines, raw) = (server.get("/vms/a.txt"), server.get("/raw/a.txt"));
    let (tag, date) = (lines.field("etag").unwrap(), lines.field("last-modified").unwrap());
    assert_ne!(Some(tag), raw.field("etag"));
    assert_eq!(Some(date), raw.field("last-modified"));
    for field in [format!("If-None-Match: {tag}"), format!("If-Modified-Since: {date}")] {
        let response = fetch_with(&server, "/vms/a.txt", &field);
        assert_eq!((response.status, response.field("etag")), (304, Some(tag)), "{field}");
    }
    let raw_tag = format!("If-None-Match: {}", raw.field("etag").unwrap());
    assert_eq!(fetch_with(&server, "/vms/a.txt", &raw_tag).text(), LINES);
    assert_eq!(
        fetch_with(&server, "/raw/a.txt", &format!("If-None-Match: {tag}")).body,
        RECORDS
    );
}

#[test]
fn index_page_may_be_a_record_file() {
    let server = setup(VARIABLE).start();
    let page = server.get("/vms/");
    assert_eq!(
        (page.text(), page.field("content-type")),
        ("page\n", Some("text/html; charset=utf-8"))
    );
}

#[test]
fn large_file_is_sent_in_chunks_completely() {
    let (records, lines) = large();
    let server = setup(VARIABLE).file("vms/large.txt", &records).start();
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.get("/vms/large.txt").response();
        assert_eq!(response.field("transfer-encoding"), Some("chunked"));
        assert!(response.text() == lines, "the lines differ");
    }
    client.send("HEAD /vms/large.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.field("content-length")), (200, None));
    assert_eq!(client.get("/health.txt").response().text(), "well");
    // Chunks hold many records each, although the server reads 60,000 records one by one.
    let (mut chunks, head) = (0, client.get("/vms/large.txt").head());
    assert_eq!(head.status, 200);
    while !client.chunk().is_empty() {
        chunks += 1;
    }
    assert!(chunks < 1_000, "{chunks} chunks");
    // For HTTP/1.0 the connection's end ends the body.
    let response = server.send("GET /vms/large.txt HTTP/1.0\r\nHost: test\r\n\r\n");
    assert!(response.text() == lines, "the lines differ");
}

#[test]
fn malformed_record_truncates_the_response_and_is_logged_with_its_offset() {
    let (mut records, lines) = large();
    let position = records.len();
    records.extend(b"\xfe\xffmore");
    let server = setup(VARIABLE).file("vms/large.txt", &records).start();
    for version in ["1.1", "1.0"] {
        let response = server.send(format!("GET /vms/large.txt HTTP/{version}\r\nHost: test\r\n\r\n"));
        assert_eq!(
            (response.status, response.ending),
            (200, Ending::Truncated),
            "HTTP/{version}"
        );
        // How many lines arrive depends on the client's speed: an abort does not wait for the client.
        assert!(lines.as_bytes().starts_with(&response.body), "the lines differ");
    }
    let message = format!("response aborted: file \"large.txt\": byte {position}: a record of 65534 bytes");
    assert_eq!(server.log_lines(2, &message).len(), 2);
}

#[test]
fn small_malformed_file_is_500_and_logged_with_its_offset() {
    let server = setup(CACHED)
        .file("vms/a.txt", b"\x02\0ab\x09\0cd")
        .age("vms/a.txt")
        .start();
    for _ in 0..2 {
        let response = server.get("/vms/a.txt");
        assert_eq!(response.status, 500);
        assert!(
            !response.text().contains("byte 4"),
            "the error page reveals the file's content"
        );
    }
    let message = "file \"a.txt\": byte 4: the file ends within a record, 7 bytes are missing";
    assert_eq!(server.log_lines(2, message).len(), 2);
}

#[test]
fn cached_lines_have_a_length_and_the_same_etag() {
    let (records, lines) = large();
    let setup = setup(CACHED).file("vms/large.txt", &records).age("vms/large.txt");
    let server = setup.file("vms/a.txt", RECORDS).age("vms/a.txt").start();
    let first = server.get("/vms/large.txt");
    assert_eq!(first.field("transfer-encoding"), Some("chunked"));
    assert!(first.text() == lines, "the lines differ");
    let length = lines.len().to_string();
    assert!(wait_until(|| {
        let response = server.get("/vms/large.txt");
        assert!(response.text() == lines, "the lines differ");
        assert_eq!(response.field("etag"), first.field("etag"));
        response.field("content-length") == Some(&length)
    }));
    let mut client = server.connect();
    client.send("HEAD /vms/large.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(
        client.response_to("HEAD").field("content-length"),
        Some(length.as_str())
    );
    // Each route has its own representation.
    for _ in 0..3 {
        assert_eq!(server.get("/vms/a.txt").text(), LINES);
        assert_eq!(server.get("/raw/a.txt").body, RECORDS);
    }
}

#[test]
fn ranges_need_a_known_length() {
    let (records, lines) = large();
    let setup = setup(CACHED).file("vms/large.txt", &records).age("vms/large.txt");
    let server = setup.file("vms/a.txt", RECORDS).age("vms/a.txt").start();
    let full = fetch_with(&server, "/vms/large.txt", "Range: bytes=0-9");
    assert_eq!((full.status, full.field("accept-ranges")), (200, None));
    assert!(full.text() == lines, "the lines differ");
    let part = fetch_with(&server, "/vms/a.txt", "Range: bytes=7-11");
    assert_eq!((part.status, part.text()), (206, "world"));
    // A download that started while the lines were generated resumes with the cached ones.
    let rest = format!("Range: bytes=1000000-\r\nIf-Range: {}", full.field("etag").unwrap());
    assert!(wait_until(|| fetch_with(&server, "/vms/large.txt", &rest).status == 206));
    assert!(fetch_with(&server, "/vms/large.txt", &rest).text() == &lines[1_000_000..]);
    let failed = fetch_with(&server, "/vms/large.txt", "If-Match: \"other\"");
    assert_eq!(failed.status, 412);
}

#[test]
fn cached_lines_are_dropped_when_the_file_changes() {
    let setup = setup(CACHED).cache("revalidate = \"0s\"");
    let server = setup.file("vms/a.txt", RECORDS).age("vms/a.txt").start();
    assert_eq!(server.get("/vms/a.txt").text(), LINES);
    fs::write(server.path("htdocs/vms/a.txt"), b"\x05\0other").unwrap();
    assert_eq!(server.get("/vms/a.txt").text(), "other\n");
}

#[test]
fn lines_too_large_for_the_cache_are_converted_each_time() {
    let (records, lines) = large();
    let setup = setup(CACHED).cache("file_size = \"1MiB\"");
    let server = setup.file("vms/large.txt", &records).age("vms/large.txt").start();
    for _ in 0..5 {
        let response = server.get("/vms/large.txt");
        assert_eq!(response.field("content-length"), None);
        assert!(response.text() == lines, "the lines differ");
    }
}
