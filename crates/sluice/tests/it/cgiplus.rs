//! CGIplus: processes that live on, and are handed request after request.
//!
//! The record on CGIPLUSIN, the sentinel, the request body, and what becomes of the process. Mailboxes of records are in
//! `mailboxes`, many processes at once in `pools`, wrong scripts in `bad_scripts`.

use std::collections::BTreeMap;

use crate::harness::{Ending, Response, Server, Setup, python, wait_until, write_script};

/// Says its process and how often it was used.
const COUNTER: &str = r#"
count = 0
while accept():
    count += 1
    put(HEAD + b"%d %d" % (os.getpid(), count))
    finish()
"#;

/// The process that a counter said, and its count.
#[track_caller]
fn counted(response: &Response) -> (u32, u32) {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let (pid, count) = response.text().split_once(' ').expect("a process and a count");
    (pid.parse().unwrap(), count.parse().unwrap())
}

#[test]
fn a_process_is_kept_and_used_again() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    let (pid, first) = counted(&server.get("/cgiplus-bin/counter"));
    assert_eq!(first, 1);
    for expected in 2..=6 {
        assert_eq!(counted(&server.get("/cgiplus-bin/counter")), (pid, expected));
    }
    let mut client = server.connect();
    for expected in 7..=9 {
        assert_eq!(counted(&client.get("/cgiplus-bin/counter").response()), (pid, expected));
    }
}

/// Says the bytes that CGIPLUSIN held, and asks for another form of the next ones.
const RAW: &str = r##"
import select
while True:
    got = os.read(3, 1 << 20)
    if not got:
        break
    while not (got.startswith(b"!\n") and got.endswith(b"\n\n")
               or got.startswith(b"!!") and b"\n" in got and len(got) >= got.index(b"\n") + 1 + int(got[2:got.index(b"\n")])):
        got += os.read(3, 1 << 20)
    if select.select([3], [], [], 0)[0]:
        got += b"more"
    put(ESC + b"\n!CGIPLUS: " + (b"struct" if got.startswith(b"!\n") else b"record") + b"\n" + EOT + b"\n")
    put(b"Content-Type: application/octet-stream\n\n" + got)
    finish()
"##;

#[test]
fn variables_come_as_lines_or_as_a_block_exactly_as_specified() {
    let server = Setup::new().cgiplus("max = 1").python("raw", RAW).start();
    let mut client = server.connect();
    let mut ask = || {
        let response = client.get("/cgiplus-bin/raw/a/b?one+two").response();
        assert_eq!(response.ending, Ending::Complete);
        response.body
    };
    let (lines, block, again) = (ask(), ask(), ask());
    let (by_lines, by_block) = (variables_of_lines(&lines), variables_of_block(&block));
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", "/cgiplus-bin/raw"),
        ("PATH_INFO", "/a/b"),
        ("QUERY_STRING", "one+two"),
        ("WWW_KEY_1", "one"),
        ("WWW_KEY_2", "two"),
        ("WWW_KEY_COUNT", "2"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_HOST", "test"),
    ] {
        assert_eq!(by_lines.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(without_changing(by_lines), without_changing(by_block));
    assert_ne!(
        variables_of_lines(&again)["UNIQUE_ID"],
        variables_of_lines(&lines)["UNIQUE_ID"]
    );
}

/// `!` LF, then `NAME=value` LF …, then an empty line.
#[track_caller]
fn variables_of_lines(record: &[u8]) -> BTreeMap<String, String> {
    let text = std::str::from_utf8(record).unwrap();
    let lines = text.strip_prefix("!\n").and_then(|rest| rest.strip_suffix("\n\n"));
    named(lines.expect("a start record and an empty line").split('\n'))
}

/// `!!<n>` LF and n bytes: a 16-bit little-endian length that counts text and NUL, the text, NUL …, a length of zero.
#[track_caller]
fn variables_of_block(record: &[u8]) -> BTreeMap<String, String> {
    let end = record.iter().position(|byte| *byte == b'\n').unwrap();
    let start = std::str::from_utf8(&record[..end]).unwrap();
    let bytes: usize = start.strip_prefix("!!").unwrap().parse().unwrap();
    let mut rest = &record[end + 1..];
    assert_eq!(rest.len(), bytes, "the count holds the whole block");
    let mut texts = Vec::new();
    loop {
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        rest = &rest[2..];
        if length == 0 {
            break;
        }
        assert_eq!(rest[length - 1], 0, "each variable ends with NUL");
        texts.push(std::str::from_utf8(&rest[..length - 1]).unwrap());
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "the zero length is the last");
    named(texts.into_iter())
}

#[track_caller]
fn named<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for text in texts {
        let (name, value) = text.split_once('=').expect("NAME=value");
        let earlier = variables.insert(name.to_owned(), value.to_owned());
        assert_eq!(earlier, None, "{name} comes twice");
    }
    variables
}

/// Without what is another in each request.
fn without_changing(mut variables: BTreeMap<String, String>) -> BTreeMap<String, String> {
    variables.retain(|name, _| name != "UNIQUE_ID" && !name.starts_with("REQUEST_TIME"));
    variables
}

/// Says the request's variables, then those of its environment.
const LISTER: &str = r##"
while variables := accept():
    environment = "".join(f"environment {name}={value}\n" for name, value in os.environ.items())
    text = "".join(f"{name}={value}\n" for name, value in variables.items()) + environment
    put(HEAD + text.encode())
    finish()
"##;

#[test]
fn nothing_of_a_request_is_left_for_the_next() {
    let server = Setup::new().cgiplus("max = 1").python("lister", LISTER).start();
    let body = "a=1&b=2";
    let first = server.send(format!(
        "POST /cgiplus-bin/lister/info?form=yes HTTP/1.1\r\nHost: test\r\nX-Once: secret\r\nContent-Type: text/x\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    for name in [
        "HTTP_X_ONCE",
        "PATH_INFO",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "WWW_FORM_FORM",
    ] {
        assert!(first.variable(name).is_some(), "{name}");
    }
    let second = server.get("/cgiplus-bin/lister");
    for name in [
        "HTTP_X_ONCE",
        "PATH_INFO",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "WWW_FORM_FORM",
    ] {
        assert_eq!(second.variable(name), None, "{name}");
    }
    assert_eq!(second.variable("QUERY_STRING"), Some(""));
    assert_eq!(second.variable("REQUEST_METHOD"), Some("GET"));
}

#[test]
fn the_environment_holds_the_channels_and_nothing_of_a_request() {
    let server = Setup::new().python("lister", LISTER).start();
    let response = server.get("/cgiplus-bin/lister?a+b");
    let value = |name: &str| response.variable(&format!("environment {name}"));
    assert_eq!(value("CGIPLUSIN"), Some("/dev/fd/3"));
    assert_eq!(value("CGIPLUSBUF"), Some("/dev/fd/4"));
    for (name, letter, other) in [("EOF", 'Z', "EOF"), ("ESC", 'E', "ESC"), ("EOT", 'D', "EOT")] {
        let sentinel = value(&format!("CGIPLUS{name}")).unwrap();
        let digits = sentinel
            .strip_prefix(&format!("${letter}-"))
            .unwrap()
            .strip_suffix('-')
            .unwrap();
        assert_eq!(digits.len(), 24, "{sentinel}");
        assert!(
            digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')),
            "{sentinel}"
        );
        assert_eq!(response.variable(&format!("WWW_GATEWAY_{other}")), Some(sentinel));
    }
    for name in [
        "REQUEST_METHOD",
        "QUERY_STRING",
        "SCRIPT_NAME",
        "HTTP_HOST",
        "WWW_KEY_1",
        "UNIQUE_ID",
    ] {
        assert_eq!(value(name), None, "{name}");
    }
    assert_eq!(response.variable("WWW_GATEWAY_MRS"), Some("65536"));
}

#[test]
fn a_prefix_stands_before_the_names_of_all_variables() {
    let server = Setup::new()
        .cgiplus("variable_prefix = \"WWW_\"")
        .python("lister", LISTER)
        .start();
    let response = server.get("/cgiplus-bin/lister?a+b");
    let text = response.text();
    let names = text.lines().filter(|line| !line.starts_with("environment "));
    let bare: Vec<_> = names.filter(|name| !name.starts_with("WWW_")).collect();
    assert!(bare.is_empty(), "{bare:?}");
    assert!(!text.contains("WWW_WWW_"), "{text}");
    assert_eq!(response.variable("WWW_REQUEST_METHOD"), Some("GET"));
    assert_eq!(response.variable("WWW_HTTP_HOST"), Some("test"));
    assert_eq!(response.variable("WWW_KEY_1"), Some("a"));
}

#[test]
fn the_sentinel_ends_a_reply_however_it_is_written() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "ends",
            r#"
count = 0
while variables := accept():
    count += 1
    text = HEAD + b"%d %d" % (os.getpid(), count)
    way = variables["QUERY_STRING"]
    if way == "joined":
        put(text + EOF)
    elif way == "line":
        put(text + EOF + b"\n")
    elif way == "own":
        put(text)
        put(EOF)
    elif way == "split":
        put(text + EOF[:9])
        put(EOF[9:])
    elif way == "bytes":
        put(text)
        for at in range(len(EOF)):
            put(EOF[at : at + 1])
    elif way == "slow":
        put(text + EOF[:20])
        tell("begun")
        wait_at("go")
        put(EOF[20:])
    elif way == "late":
        put(text + EOF)
        wait_at("go")
        put(b"\n")
        tell("done")
"#,
        )
        .start();
    let (begun, done) = (server.setup().listen("begun"), server.setup().listen("done"));
    let mut gate = server.setup().gate("go");
    let mut expected = (0, 0);
    for way in ["line", "joined", "own", "split", "bytes", "slow", "late", "line"] {
        let mut client = server.connect();
        client.get(&format!("/cgiplus-bin/ends?{way}"));
        if way == "slow" {
            begun.line();
            gate.open();
        }
        let (pid, count) = counted(&client.response());
        if way == "late" {
            // The newline of the sentinel comes when the response has long been sent.
            gate.open();
            done.line();
        }
        let first = if expected.0 == 0 { pid } else { expected.0 };
        expected = (first, expected.1 + 1);
        assert_eq!((pid, count), expected, "{way}");
    }
}

#[test]
fn what_looks_like_half_a_sentinel_is_body() {
    let server = Setup::new()
        .python(
            "halves",
            r#"
while accept():
    put(HEAD + EOF[:-1] + b"|" + EOF[:14])
    put(b"|$Z-" + b"0" * 24 + b"-|" + EOT + b"|" + EOF[:2])
    finish()
"#,
        )
        .start();
    let response = server.get("/cgiplus-bin/halves");
    let parts: Vec<_> = response.text().split('|').collect();
    assert_eq!(parts.len(), 5);
    assert_eq!((parts[0].len(), parts[1].len()), (27, 14));
    assert!(parts[0].starts_with(parts[1]));
    assert_eq!(parts[2], format!("$Z-{}-", "0".repeat(24)));
    assert_eq!(
        parts[3][3..27],
        parts[0][3..27],
        "a close sentinel without an open callout is text"
    );
    assert_eq!(parts[4], "$Z");
}

#[test]
fn a_listing_of_the_environment_does_not_end_the_reply() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .script(
            "listing",
            r#"exec <&3
while read -r line; do
  [ "$line" ] && continue
  printf 'Content-Type: text/plain\n\n'
  env
  echo "pid $$"
  set
  echo "<td>CGIPLUSEOF</td><td class=\"value\">$CGIPLUSEOF</td> {\"CGIPLUSESC\": \"$CGIPLUSESC\"}"
  echo end
  echo "$CGIPLUSEOF"
done"#,
        )
        .start();
    let first = server.get("/cgiplus-bin/listing");
    let text = first.text();
    assert!(text.ends_with("\nend\n"), "{text}");
    assert!(
        text.contains("\nCGIPLUSEOF=$Z-") && text.contains("\nCGIPLUSESC=$E-") && text.contains("\nCGIPLUSEOT=$D-")
    );
    assert!(text.contains("<td class=\"value\">$Z-"));
    let pid = |text: &str| text.lines().find(|line| line.starts_with("pid ")).unwrap().to_owned();
    assert_eq!(pid(server.get("/cgiplus-bin/listing").text()), pid(text));
}

#[test]
fn a_counted_body_is_not_searched() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "counted",
            r#"
count = 0
while variables := accept():
    count += 1
    body = b"%d %d\n%s\n%s tail" % (os.getpid(), count, EOF, ESC)
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
        assert!(lines[1].starts_with("$Z-") && lines[2].starts_with("$E-") && lines[2].ends_with(" tail"));
    }
}

/// Reads as much of its body as the query says, and says what came.
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

/// Process, count, CONTENT_LENGTH, bytes read and their checksum.
#[track_caller]
fn numbers(response: &Response) -> [u64; 5] {
    let words: Vec<u64> = response.text().split(' ').map(|word| word.parse().unwrap()).collect();
    words.try_into().unwrap()
}

/// CRC-32 as in zlib, bit by bit.
fn checksum(bytes: &[u8]) -> u64 {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    u64::from(!crc)
}

/// Bytes of which no two pieces are alike.
fn pattern(length: usize, seed: u8) -> Vec<u8> {
    let bytes = (0_u32..).flat_map(|number| (number ^ u32::from(seed) << 24).to_le_bytes());
    bytes.take(length).collect()
}

#[test]
fn a_body_is_there_to_the_byte_and_its_unread_rest_is_taken_away() {
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
fn a_chunked_body_gets_a_content_length() {
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
fn a_dual_script_knows_how_it_runs() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .script(
            "dual",
            r#"respond() { printf 'Content-Type: text/plain\n\n%s %s %s' "$1" "$2" "$$"; }
if [ -z "${CGIPLUSEOF+set}" ]; then respond "once" "$QUERY_STRING"; exit; fi
exec <&3
while read -r line; do
  case $line in
    QUERY_STRING=*) query=${line#*=};;
    '') respond "kept" "$query"; echo "$CGIPLUSEOF";;
  esac
done"#,
        )
        .start();
    let text = |path: &str| server.get(path).text().to_owned();
    let first = text("/cgiplus-bin/dual?a=1");
    let pid = first.strip_prefix("kept a=1 ").unwrap();
    assert_eq!(text("/cgiplus-bin/dual?b=2"), format!("kept b=2 {pid}"));
    assert!(text("/cgi-bin/dual?c=3").starts_with("once c=3 "));
    assert!(text("/cgi-bin/dual?d=4").starts_with("once d=4 "));
}

#[test]
fn head_has_no_body_and_leaves_the_process_clean() {
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
fn bodies_of_every_size_arrive_whole() {
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
        "to the end of the connection"
    );
}

#[test]
fn output_that_comes_with_the_sentinel_ends_the_process() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "talker",
            r#"
while accept():
    put(HEAD + b"%d 1" % os.getpid() + EOF + b"\nContent-Type: text/plain\n\nmore")
"#,
        )
        .start();
    let (first, _) = counted(&server.get("/cgiplus-bin/talker"));
    let (second, _) = counted(&server.get("/cgiplus-bin/talker"));
    assert_ne!(first, second, "a process that talks out of turn is not used again");
    let line = server.log_line("after the sentinel");
    assert!(
        line.contains(&format!("pid {first}")) && line.contains("/talker"),
        "{line}"
    );
    server.log_lines(2, "after the sentinel");
    server.assert_idle();
}

#[test]
fn output_that_comes_between_requests_reaches_nobody() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "talker",
            r#"
while accept():
    put(HEAD + b"%d 1" % os.getpid())
    finish()
    wait_at("go")
    put(HEAD + b"poison")
    finish()
    tell("done")
"#,
        )
        .start();
    let done = server.setup().listen("done");
    let mut gate = server.setup().gate("go");
    let (first, _) = counted(&server.get("/cgiplus-bin/talker"));
    gate.open();
    done.line();
    let (second, _) = counted(&server.get("/cgiplus-bin/talker"));
    assert_ne!(first, second, "a process that talks out of turn is not used again");
    gate.open();
}

#[test]
fn a_changed_script_gets_a_new_process() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    let (old, _) = counted(&server.get("/cgiplus-bin/counter"));
    let changed = COUNTER.replace("count += 1", "count += 100");
    write_script(&server.path("htdocs/cgi-bin/counter"), &python(&changed));
    let (new, count) = counted(&server.get("/cgiplus-bin/counter"));
    assert_eq!(count, 100, "the new script answers");
    assert_ne!(new, old);
    server.wait_for_processes(1);
}

#[test]
fn a_script_that_is_changed_while_it_runs_ends_its_reply_first() {
    let waiting = "\nwhile accept():\n    put(HEAD + b'%d ' % os.getpid())\n    tell('begun')\n    wait_at('go')\n    put(b'1')\n    finish()\n";
    let server = Setup::new().python("slow", waiting).start();
    let begun = server.setup().listen("begun");
    let mut gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get("/cgiplus-bin/slow");
    begun.line();
    write_script(
        &server.path("htdocs/cgi-bin/slow"),
        &python(&COUNTER.replace("count += 1", "count += 2")),
    );
    assert_eq!(
        counted(&server.get("/cgiplus-bin/slow")).1,
        2,
        "a new request has the new script"
    );
    gate.open();
    assert_eq!(counted(&client.response()).1, 1, "the old one ends well");
    server.wait_for_processes(1);
}

/// A shell script, for its quick start; ends after so many replies.
fn mortal(replies: u32) -> String {
    format!(
        r#"left={replies}
while [ $left -gt 0 ]; do
  while read -r line <&3 && [ "$line" ]; do :; done
  left=$((left - 1))
  printf 'Content-Type: text/plain\n\n%s' "$$"
  echo "$CGIPLUSEOF"
done"#
    )
}

#[test]
fn processes_that_end_after_their_replies_are_replaced_unseen() {
    for (max, replies) in [(1, 1), (4, 1), (4, 3)] {
        let server = Setup::new()
            .cgiplus(&format!("max = {max}"))
            .script("mortal", &mortal(replies))
            .start();
        let failures: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..12).map(|_| server.get("/cgiplus-bin/mortal")).collect::<Vec<_>>()))
                .collect();
            let responses = clients.into_iter().flat_map(|client| client.join().unwrap());
            responses
                .filter(|response| response.status != 200 || response.ending == Ending::Cut)
                .collect()
        });
        assert!(
            failures.is_empty(),
            "{} of 96 clients saw that processes end after {replies} replies, the first: {} {}\n{}",
            failures.len(),
            failures[0].status,
            String::from_utf8_lossy(&failures[0].body),
            server.log()
        );
        server.assert_idle();
    }
}

#[test]
fn a_process_that_was_killed_while_idle_is_replaced_unseen() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    let mut last = 0;
    for _ in 0..4 {
        let (pid, count) = counted(&server.get("/cgiplus-bin/counter"));
        assert_eq!(count, 1);
        assert_ne!(pid, last);
        last = pid;
        kill(pid);
    }
    server.wait_for_processes(0);
    assert_eq!(counted(&server.get("/cgiplus-bin/counter")).1, 1);
}

/// Ends a process at once; it is a zombie, or gone, when this returns.
fn kill(pid: u32) {
    let status = crate::harness::spawn(std::process::Command::new("kill").arg("-KILL").arg(pid.to_string()))
        .and_then(|mut kill| kill.wait())
        .unwrap();
    assert!(status.success());
    assert!(wait_until(|| !crate::harness::is_alive(pid)));
}

#[test]
fn an_idle_process_is_told_to_end_by_end_of_file() {
    let server = Setup::new()
        .cgiplus("idle = \"1s\"")
        .python(
            "told",
            r#"
count = 0
while accept():
    count += 1
    put(HEAD + b"%d %d" % (os.getpid(), count))
    finish()
tell("ended", "by end-of-file")
"#,
        )
        .start();
    let ended = server.setup().listen("ended");
    let (pid, _) = counted(&server.get("/cgiplus-bin/told"));
    assert_eq!(ended.line(), "by end-of-file");
    server.wait_for_processes(0);
    let (again, count) = counted(&server.get("/cgiplus-bin/told"));
    assert_eq!(count, 1);
    assert_ne!(again, pid);
    let ended = stop(server);
    assert!(
        !ended.contains("WARN"),
        "the end of an idle process is no fault:\n{ended}"
    );
}

/// Ends the server; what it said.
fn stop(server: Server) -> String {
    server.stop().errors
}
