//! Record mailboxes with programs that do not think in records: those that collect their output, and those of OpenVMS that
//! were compiled with the headers of sdk/c/wasd.

use sluice_testing::{Ending, Setup};

/// Programs of several languages and buffer sizes, in one reply. None of them writes whole lines.
const BUFFERED: &str = r#"
printf 'Content-Type: text/plain\n\n'
seq 1 20000
awk 'BEGIN { for (i = 0; i < 3000; i++) print "line " i " of a text whose lines do not fit in blocks" }'
python3 -SE -c '
for i in range(900):
    print("x" * (i % 89), i, "y" * 40)
print("long " * 4000)
print("after the long line")'
if command -v perl > /dev/null; then perl -e 'print "line $_ of perl\n" for 1 .. 2000'; fi
seq 1 9000 | tr '\n' ' '
echo 'the end'
"#;

#[test]
fn lines_of_programs_that_buffer_their_output_stay_whole() {
    let setup = || Setup::new().script("buffered", BUFFERED);
    let expected = setup().start().get("/cgi-bin/buffered");
    let records = setup().cgi("mailbox = \"record\"").start();
    let response = records.get("/cgi-bin/buffered");
    assert_eq!(response.ending, Ending::Complete, "{}", records.log());
    for (number, (line, expected)) in response.text().lines().zip(expected.text().lines()).enumerate() {
        assert_eq!(line, expected, "line {number}");
    }
    assert_eq!(response.body.len(), expected.body.len());
}

/// CPython writes its buffer before a part that no longer fits: 8175 to 8191 bytes, most of them without any newline.
#[test]
fn parts_of_a_long_line_of_python_get_no_newlines() {
    const SCRIPT: &str = r#"
printf 'Content-Type: text/plain\n\n'
python3 -SE -c '
import json, sys
json.dump([{"id": i, "name": "user number %d" % i} for i in range(2000)], sys.stdout)
print()
for i in range(4000):
    sys.stdout.write("<td class=cell title=\"row %05d\">x</td>" % i)
print()
for i in range(240):
    sys.stdout.buffer.write(b"<td class=cell>%d</td>" % i)'
echo; echo 'the end'
"#;
    let setup = || Setup::new().script("parts", SCRIPT);
    let expected = setup().start().get("/cgi-bin/parts");
    let server = setup().cgi("mailbox = \"record\"").start();
    let response = server.get("/cgi-bin/parts");
    assert_eq!(response.ending, Ending::Complete, "{}", server.log());
    assert_eq!(
        response.text().lines().map(str::len).collect::<Vec<_>>(),
        expected.text().lines().map(str::len).collect::<Vec<_>>()
    );
    assert_eq!(response.body, expected.body);
}

#[test]
fn records_after_one_full_buffer_are_lines_again() {
    const SCRIPT: &str = r#"
begin()
os.write(1, b"Content-Type: text/plain\n\n")
for record in (b"a" * 4096, b"0", b"1", b"", b"x" * 1199 + b"\nb", b"2", b"3", b"4"):
    os.write(1, record)
"#;
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .python("records", SCRIPT)
        .start();
    let (a, x) = ("a".repeat(4096), "x".repeat(1199));
    assert_eq!(
        server.get("/cgi-bin/records").text(),
        format!("{a}0\n1\n\n{x}\nb2\n3\n4\n")
    );
}

#[test]
fn buffered_cgiplus_scripts_may_end_their_reply_within_a_block() {
    const SCRIPT: &str = r#"
import io
while variables := accept():
    out = io.BufferedWriter(io.FileIO(1, "w", closefd=False), 4096)
    out.write(b"Content-Type: text/plain\n\n")
    for i in range(int(variables["QUERY_STRING"])):
        out.write(b"line %d\n" % i)
    out.write(ESC + b"\n!NOOP:\n" + EOT + b"\n" + b"the last\n" + EOF + b"\n")
    out.flush()
"#;
    let server = Setup::new()
        .cgiplus("mailbox = \"record\", max = 1")
        .python("buffered", SCRIPT)
        .start();
    // The sentinels stand at all places around the end of a block.
    for count in (454..468).chain([1, 1000]) {
        let response = server.get(&format!("/cgiplus-bin/buffered?{count}"));
        assert_eq!(response.status, 200, "{count}: {}", server.log());
        let lines: Vec<_> = response.text().lines().collect();
        assert_eq!(
            (response.status, lines.len(), lines[count]),
            (200, count + 1, "the last"),
            "{count}: {}",
            server.log()
        );
    }
}

#[test]
fn empty_record_is_an_empty_line() {
    const SCRIPT: &str = r#"
begin()
for record in (b"Content-Type: text/plain", b"", b"one", b"", b"", b"two", b""):
    os.write(1, record)
if "CGIPLUSEOF" in os.environ:
    put(EOF)
"#;
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .cgiplus("mailbox = \"record\"")
        .python("empty", SCRIPT)
        .start();
    for mode in ["cgi", "cgiplus"] {
        let response = server.get(&format!("/{mode}-bin/empty"));
        assert_eq!(response.text(), "one\n\n\ntwo\n\n", "{mode}: {}", server.log());
    }
}

#[test]
fn nph_replies_and_other_types_pass_unchanged() {
    const SCRIPT: &str = r#"
import urllib.parse
for record in (urllib.parse.unquote(os.environ["QUERY_STRING"]).encode(), b"", b"a", b"", b"b\n\nc", b"d" * 3000, b"e"):
    os.write(1, record)
"#;
    let server = Setup::new().cgi("mailbox = \"record\"").python("raw", SCRIPT).start();
    let expected = format!("ab\n\nc{}e", "d".repeat(3000));
    for head in [
        "HTTP/1.1%20200%20OK%0d%0aContent-Type:%20text/plain%0d%0a",
        "Content-Type:%20application/json",
        "Content-Type:%20image/png",
        "X-Type:%20none",
    ] {
        assert_eq!(server.get(&format!("/cgi-bin/raw?{head}")).text(), expected, "{head}");
    }
}

#[test]
fn record_over_the_limit_names_the_key() {
    let server = Setup::new()
        .cgi("mailbox = \"record\", record_size = \"4k\"")
        .script("large", "printf 'Content-Type: text/plain\\n'; head -c 5000 /dev/zero | tr '\\0' x | dd bs=5000 iflag=fullblock 2> /dev/null\n")
        .start();
    assert_eq!(server.get("/cgi-bin/large").status, 502);
    let line = server.log_line("a record of 5000 bytes");
    assert!(
        line.contains("the largest is 4096 (record_size of the route, WWW_GATEWAY_MRS)"),
        "{line}"
    );
}

#[test]
fn serve_has_the_record_mailbox_as_an_option() {
    let records = "printf 'Content-Type: text/plain\\n\\n'; printf one; printf two\n";
    for (mailbox, expected) in [("record", "one\ntwo\n"), ("stream", "onetwo")] {
        let server = Setup::new().script("records", records).start_with(&[
            "serve",
            "htdocs",
            "--listen",
            "127.0.0.1:0",
            "--workers",
            "1",
            "--host",
            "test",
            "--mailbox",
            mailbox,
        ]);
        assert_eq!(server.get("/cgi-bin/records").text(), expected);
    }
}

#[test]
fn write_that_the_system_refuses_names_the_key() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .python("huge", "begin()\nos.write(1, b'x' * (8 << 20))")
        .start();
    assert_eq!(server.get("/cgi-bin/huge").status, 502);
    let line = server.log_line("it wrote a record of more than 65536 bytes");
    assert!(line.contains("record_size of the route"), "{line}");
}

/// The same source as CGI in both mailboxes; the text has a newline at its end only where the server adds one.
#[test]
fn wasd_sources_write_lines_by_every_function_of_stdio() {
    let setup = || Setup::new().c_programs();
    let expected = setup().start().get("/cgi-bin/lines");
    assert!(expected.text().ends_with("\nno newline"), "{}", expected.text());
    for keys in [
        "mailbox = \"record\"",
        "mailbox = \"record\", record_size = \"4k\"",
        "mailbox = \"record\", record_size = \"1k\"",
    ] {
        let server = setup().cgi(keys).start();
        let response = server.get("/cgi-bin/lines");
        assert_eq!(response.ending, Ending::Complete, "{keys}\n{}", server.log());
        assert!(
            response.text() == format!("{}\n", expected.text()),
            "{keys}: {:.2000}",
            response.text()
        );
    }
}
