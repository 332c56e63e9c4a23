//! The two mailbox types: a byte stream, and records that become lines.

use sluice_testing::{Ending, Setup};

/// Writes each record with one write(2), as PATH_INFO and the query say; works as CGI too.
const RECORDS: &str = r#"
import urllib.parse
def respond(variables):
    name = lambda name: variables.get("WWW_" + name, variables.get(name))
    fields = dict(urllib.parse.parse_qsl(name("QUERY_STRING")))
    put(b"Content-Type: " + fields["type"].encode())
    for field in ("Script-Control", "Content-Length", "Content-Encoding"):
        if field in fields:
            put(f"{field}: {fields[field]}".encode())
    put(b"\n")
    for at, record in enumerate((b"one", b"two\n", b"three\r\n", b"", b"four\nfive", b"\n", b"six")):
        if record:
            put(record)
        if "callout" in fields and at == 3:
            put(ESC)
            put(b"SCRIPT-CONTROL: " + fields["callout"].encode())
            cgiplusin.readline()
            put(EOT)
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        put(EOF)
else:
    respond(os.environ)
"#;

const AS_LINES: &str = "one\ntwo\nthree\r\nfour\nfive\n\nsix\n";
const UNTOUCHED: &str = "onetwo\nthree\r\nfour\nfive\nsix";

#[test]
fn text_records_get_a_missing_newline() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .cgiplus("mailbox = \"record\", max = 1")
        .python("records", RECORDS)
        .start();
    let cases = [
        ("type=text/plain", AS_LINES),
        ("type=TEXT/html;%20charset=utf-8", AS_LINES),
        ("type=application/octet-stream", UNTOUCHED),
        ("type=text/plain&Script-Control=X-stream-mode", UNTOUCHED),
        ("type=image/png&Script-Control=X-record-mode", AS_LINES),
        ("type=text/plain&Script-Control=no-abort;%20X-Stream-Mode", UNTOUCHED),
        ("type=text/plain&Content-Encoding=gzip", UNTOUCHED),
    ];
    for mode in ["cgiplus", "cgi"] {
        for (query, expected) in cases {
            let response = server.get(&format!("/{mode}-bin/records?{query}"));
            assert_eq!(response.status, 200, "{mode} {query}\n{}", server.log());
            assert_eq!(response.text(), expected, "{mode} {query}");
            assert_eq!(response.field("script-control"), None);
        }
    }
}

#[test]
fn counted_body_of_records_gets_no_newlines() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .cgiplus("mailbox = \"record\", max = 1")
        .python("records", RECORDS)
        .start();
    let length = UNTOUCHED.len();
    for mode in ["cgiplus", "cgi", "cgiplus"] {
        let response = server.get(&format!("/{mode}-bin/records?type=text/plain&Content-Length={length}"));
        assert_eq!(response.text(), UNTOUCHED, "{mode}");
        assert_eq!(response.field("content-length"), Some(length.to_string().as_str()));
    }
}

#[test]
fn callout_changes_the_mode_of_later_records() {
    let server = Setup::new()
        .cgiplus("mailbox = \"record\", max = 1")
        .python("records", RECORDS)
        .start();
    let get = |query: &str| server.get(&format!("/cgiplus-bin/records?{query}")).text().to_owned();
    assert_eq!(
        get("type=text/plain&callout=X-stream-mode"),
        "one\ntwo\nthree\r\nfour\nfive\nsix"
    );
    assert_eq!(
        get("type=a/b&callout=X-record-mode"),
        "onetwo\nthree\r\nfour\nfive\n\nsix\n"
    );
    assert_eq!(
        get("type=text/plain"),
        AS_LINES,
        "the next request starts with the default"
    );
}

#[test]
fn stream_is_passed_unchanged() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "bytes",
            r#"
while variables := accept():
    put(b"Content-Type: " + variables["QUERY_STRING"].encode() + b"\n\n")
    for at in range(256):
        put(bytes([at]))
    put(b"line\r\nline")
    put(EOF)
"#,
        )
        .start();
    let expected: Vec<u8> = (0..=255).chain(*b"line\r\nline").collect();
    for kind in ["text/plain", "application/octet-stream"] {
        let response = server.get(&format!("/cgiplus-bin/bytes?{kind}"));
        assert_eq!(
            (response.ending, &response.body),
            (Ending::Complete, &expected),
            "{kind}"
        );
    }
}

#[test]
fn sentinel_is_a_record_with_or_without_newline() {
    let server = Setup::new()
        .cgiplus("mailbox = \"record\", max = 1")
        .python(
            "ends",
            r#"
count = 0
while variables := accept():
    count += 1
    put(HEAD)
    put(b"%d" % count)
    put(b"not " + EOF)
    put(EOF + b" either")
    put(EOF[:9])
    put(EOF[9:])
    put(EOF + {"none": b"", "lf": b"\n", "crlf": b"\r\n"}[variables["QUERY_STRING"]])
"#,
        )
        .start();
    for (count, way) in ["none", "lf", "crlf", "none"].into_iter().enumerate() {
        let response = server.get(&format!("/cgiplus-bin/ends?{way}"));
        let lines: Vec<_> = response.text().lines().collect();
        assert_eq!(lines[0], (count + 1).to_string(), "{way}");
        let sentinel = lines[1].strip_prefix("not ").unwrap();
        let expected = [format!("not {sentinel}"), format!("{sentinel} either")];
        assert_eq!(lines[1..3], expected, "{way}: only a separate record is a sentinel");
        assert_eq!(
            (lines.len(), lines[3].len(), lines[4].len()),
            (5, 9, 19),
            "{way}: nor are two halves"
        );
    }
}

#[test]
fn record_over_the_announced_size_is_refused() {
    let server = Setup::new()
        .cgiplus("mailbox = \"record\", record_size = \"4k\"")
        .python(
            "large",
            r#"
while variables := accept():
    largest = int(variables["WWW_GATEWAY_MRS"])
    if variables["QUERY_STRING"] == "head":
        put(b"Content-Type: text/plain\nX-Long: " + b"x" * largest)
    put(b"Content-Type: application/octet-stream\n\n")
    put(b"a" * largest)
    if variables["QUERY_STRING"]:
        wait_at("go")
        put(b"b" * (largest + 1))
    put(EOF)
"#,
        )
        .start();
    let mut gate = server.setup().gate("go");
    let full = server.get("/cgiplus-bin/large");
    assert_eq!((full.ending, full.body), (Ending::Complete, vec![b'a'; 4096]));
    let head = server.get("/cgiplus-bin/large?head");
    assert_eq!(head.status, 502);
    let line = server.log_line("status=502");
    assert!(
        line.contains("large, pid ") && line.contains("the largest is 4096"),
        "{line}"
    );
    let mut client = server.connect();
    client.get("/cgiplus-bin/large?body");
    let head = client.head();
    assert_eq!(client.chunk().len(), 4096);
    gate.open();
    let line = server.log_line("response aborted");
    assert!(line.contains("a record of 4097 bytes, the largest is 4096"), "{line}");
    assert_eq!(client.body(head.framing("GET")).1, Ending::Truncated);
    server.wait_for_processes(0);
}

/// Writes as many bytes as the query says: with the sentinel in one write to a pipe, in records to a socket.
const LONG: &str = r#"
import stat
is_pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
while variables := accept():
    length = int(variables["QUERY_STRING"])
    body = (b"".join(b"%d-$Z\n" % number for number in range(length // 8)) + b"." * length)[:length]
    put(b"Content-Type: application/octet-stream\n\n")
    if is_pipe:
        put(body + EOF)
    else:
        for start in range(0, length, 60000):
            put(body[start:start + 60000])
        put(EOF)
"#;

#[test]
fn a_long_stream_arrives_as_records_do_wherever_its_sentinel_stands() {
    let start = |mailbox| {
        let keys = format!("max = 1, mailbox = \"{mailbox}\"");
        Setup::new().cgiplus(&keys).python("long", LONG).start()
    };
    let servers = [start("stream"), start("record")];
    let lengths: Vec<_> = (0..=28).step_by(7).map(|before| (3 << 20) - before).collect();
    for length in &lengths {
        let path = format!("/cgiplus-bin/long?{length}");
        let [stream, records] = servers.each_ref().map(|server| server.get(&path));
        assert_eq!((stream.status, stream.body.len()), (200, *length));
        assert!(stream.body == records.body, "{length}");
    }
    // All but the time and the id of the request.
    let logged = servers.map(|server| {
        let lines = server.access_lines(lengths.len());
        let words = |line: &String| line.split(' ').skip(5).take(6).map(str::to_owned).collect::<Vec<_>>();
        lines.iter().map(words).collect::<Vec<_>>()
    });
    assert_eq!(logged[0], logged[1]);
}

/// Sends its standard input along with the head. The kernel refuses that, or the server does.
const SENDS_DESCRIPTORS: &str = "
import array, socket
mailbox = socket.socket(fileno=os.dup(1))
try:
    mailbox.sendmsg([HEAD + b'sent'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
except PermissionError:
    put(HEAD + b'refused')
";

#[test]
fn descriptors_that_a_script_sends_along_are_not_taken() {
    for mailbox in ["stream", "record"] {
        let keys = format!("mailbox = \"{mailbox}\"");
        let server = Setup::new().cgi(&keys).python("sends", SENDS_DESCRIPTORS).start();
        let response = server.get("/cgi-bin/sends");
        if response.status == 502 {
            server.log_line("it has sent descriptors along (SCM_RIGHTS)");
        } else {
            assert_eq!(response.text().trim_end(), "refused");
        }
        server.assert_idle();
    }
}
