//! Transfers through the plain buffer, which any language can use: pwrite(2) and one callout per part.

use super::{assert_numbered, numbered};
use sluice_testing::{Ending, Setup, warnings_and_errors};

/// `?<bytes>+<buffer size>+<letters>`: sends numbers through the plain buffer, with both halves in flight.
///
/// Letters: `c` a Content-Length, `t` "tail" through the mailbox after BUFFER-END, `w` one part at a time from
/// offset 0, `x` no BUFFER-END and no wait for the last answers. A wrong answer ends it. Works as CGI too.
pub(super) const PLAIN: &str = r#"
from array import array

def expect(wanted):
    if (answer := cgiplusin.readline()) != b"200 %d\n" % wanted:
        sys.exit(f"{answer} instead of 200 {wanted}")

def numbers(at, count):
    return array("I", range(at // 4, (at + count) // 4 + 1)).tobytes()[at % 4 :][:count]

def respond(variables):
    key = lambda number: variables.get(f"WWW_KEY_{number}", "")
    total, letters, tail = int(key(1)), key(3), b"tail" if "t" in key(3) else b""
    name, capacity = ask(b"BUFFER-BEGIN: " + key(2).encode())[0].split()[1:]
    length = b"Content-Length: %d\n" % (total + len(tail)) if "c" in letters else b""
    put(b"Content-Type: application/octet-stream\nX-Pid: %d\nX-Bytes: %s\n%s\n" % (os.getpid(), capacity, length))
    halves = 1 if "w" in letters else 2
    part, in_flight, sent = int(capacity) // halves, [], 0
    while sent < total:
        if len(in_flight) == halves:
            expect(in_flight.pop(0))
        count, place = min(part, total - sent), sent // part % halves * part
        os.pwrite(4, numbers(sent, count), place)
        put(ESC + (b"BUFFER-WRITE: %d %d\n" % (count, place) if place else b"BUFFER-WRITE: %d\n" % count) + EOT)
        in_flight.append(count)
        sent += count
    if "x" in letters:
        return
    for count in in_flight:
        expect(count)
    put(ESC + b"BUFFER-END:\n" + EOT)
    expect(total)
    put(tail)

if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        finish()
else:
    respond(os.environ)
"#;

#[test]
fn bytes_arrive_unchanged() {
    let server = Setup::new().cgiplus("max = 1").python("plain", PLAIN).start();
    for (length, size, letters) in [
        (0, "4k", "c"),
        (0, "4k", "t"),
        (1, "4k", ""),
        (2047, "4k", "c"),
        (4096, "4k", "w"),
        (4097, "4k", "t"),
        (100_000, "4k", "ct"),
        (100_000, "8k", "w"),
        (1_000_000, "64k", "c"),
        (1_000_001, "64k", "wt"),
        (5_000_000, "1M", ""),
        (5_000_000, "3M", "ct"),
        (300_000, "1M", "c"),
    ] {
        for mode in ["cgi", "cgiplus"] {
            let path = format!("/{mode}-bin/plain?{length}+{size}+{letters}");
            let response = server.get(&path);
            let tail = if letters.contains('t') { "tail" } else { "" };
            assert_numbered(&response, length, tail, &path);
            assert_eq!(
                response.field("content-length").is_some(),
                letters.contains('c') || response.field("transfer-encoding").is_none()
            );
        }
    }
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn script_may_exit_without_buffer_end() {
    let server = Setup::new().cgiplus("max = 1").python("plain", PLAIN).start();
    for mode in ["cgi", "cgiplus", "cgiplus"] {
        for (length, letters) in [(3000, "x"), (3000, "xw"), (3000, "xc"), (0, "x")] {
            let path = format!("/{mode}-bin/plain?{length}+8k+{letters}");
            assert_numbered(&server.get(&path), length, "", &path);
        }
    }
}

#[test]
fn one_process_can_use_buffers_of_many_sizes() {
    let server = Setup::new().cgiplus("max = 1").python("plain", PLAIN).start();
    let mut pids = Vec::new();
    for (size, bytes) in [
        ("4k", "4096"),
        ("1M", "1048576"),
        ("64k", "65536"),
        ("2", "2097152"),
        ("4k", "4096"),
    ] {
        let response = server.get(&format!("/cgiplus-bin/plain?200000+{size}"));
        assert_numbered(&response, 200_000, "", size);
        assert_eq!(response.field("x-bytes"), Some(bytes));
        pids.push(response.field("x-pid").unwrap().to_owned());
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[test]
fn head_sends_no_buffer_data_and_the_process_stays_usable() {
    let server = Setup::new().cgiplus("max = 1").python("plain", PLAIN).start();
    let mut client = server.connect();
    for mode in ["cgiplus", "cgi"] {
        for letters in ["c", "t", "w", "x"] {
            let path = format!("/{mode}-bin/plain?50000+4k+{letters}");
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
            let response = client.response_to("HEAD");
            assert_eq!((response.status, response.body.len()), (200, 0), "{path}");
            if letters == "c" {
                assert_eq!(response.field("content-length"), Some("50000"));
            }
            assert_numbered(&client.get("/cgiplus-bin/plain?9000+4k").response(), 9000, "", &path);
        }
    }
}

#[test]
fn part_is_sent_from_its_offset() {
    let server = Setup::new()
        .python(
            "places",
            r#"
while accept():
    ask(b"BUFFER-BEGIN: 4k")
    put(HEAD)
    os.pwrite(4, b"0123456789", 0)
    os.pwrite(4, b"abcdefghij", 4086)
    said = ask(b"BUFFER-WRITE: 3 5", b"BUFFER-WRITE: 10 4086", b"!BUFFER-WRITE: 1 9", b"BUFFER-WRITE: 2", b"BUFFER-END:")
    put(b"".join(said))
    finish()
"#,
        )
        .start();
    let response = server.get("/cgiplus-bin/places");
    assert_eq!(response.text(), "567abcdefghij901200 3\n200 10\n200 2\n200 16\n");
}

#[test]
fn no_more_than_eight_parts_are_in_flight() {
    let server = Setup::new()
        .python(
            "many",
            r#"
while accept():
    ask(b"BUFFER-BEGIN: 4k")
    os.pwrite(4, b"x" * 4096, 0)
    # Nothing is sent before the head, so all of them are in flight.
    put(ESC + b"BUFFER-WRITE: 1\n" * 9 + EOT)
    first = cgiplusin.readline()
    put(HEAD)
    rest = [cgiplusin.readline() for _ in range(8)]
    end = ask(b"BUFFER-END:")
    put(first + b"".join(rest + end))
    finish()
"#,
        )
        .start();
    let response = server.get("/cgiplus-bin/many");
    let text = response.text();
    let rest = text.strip_prefix("xxxxxxxx400 ").unwrap_or_else(|| panic!("{text}"));
    assert!(rest.ends_with(&format!("\n{}200 8\n", "200 1\n".repeat(8))), "{text}");
}

#[test]
fn text_in_the_buffer_gets_no_newlines_of_records() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .python(
            "text",
            r#"
def callout(line):
    for record in (ESC, line, EOT):
        put(record)
    cgiplusin.readline()

callout(b"BUFFER-BEGIN: 4k")
os.pwrite(4, b"two parts", 0)
put(b"Content-Type: text/plain")
put(b"\n")
callout(b"BUFFER-WRITE: 4")
callout(b"BUFFER-WRITE: 5 4")
callout(b"BUFFER-END:")
put(b", a record")
"#,
        )
        .start();
    assert_eq!(server.get("/cgi-bin/text").text(), "two parts, a record\n");
}

#[test]
fn record_mailbox_supports_the_buffer() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .cgiplus("mailbox = \"record\"")
        .python("records", RECORDS)
        .start();
    for mode in ["cgi", "cgiplus"] {
        let response = server.get(&format!("/{mode}-bin/records"));
        let mut expected = numbered(10_000);
        expected.extend_from_slice(b"after");
        assert_eq!((response.ending, response.body), (Ending::Complete, expected), "{mode}");
    }
}

/// Each sentinel and each line is a separate record.
const RECORDS: &str = r#"
from array import array
def callout(line):
    put(ESC)
    put(line)
    put(EOT)
    return cgiplusin.readline()
def respond():
    callout(b"BUFFER-BEGIN: 12k")
    put(b"Content-Type: application/octet-stream")
    put(b"\n")
    os.pwrite(4, array("I", range(2500)).tobytes(), 0)
    callout(b"BUFFER-WRITE: 10000")
    callout(b"BUFFER-END:")
    put(b"after")
if "CGIPLUSEOF" in os.environ:
    while accept():
        respond()
        put(EOF)
else:
    respond()
"#;
