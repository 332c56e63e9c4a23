//! The directives of `Script-Control`, as a field of the reply and as a callout; those of records are in `record_mailbox` and
//! `cgiplus::mailboxes`.

use std::time::Duration;

use sluice_testing::{Ending, Setup};

/// Replies with the directives in its query, percent-encoded: as a field (`?field=`), or as a callout before the head (`?callout=`),
/// whose answer is the body.
const CONTROLLED: &str = r#"
import urllib.parse
def respond(variables):
    kind, _, directives = variables["QUERY_STRING"].partition("=")
    directives = urllib.parse.unquote(directives).encode()
    if kind == "callout":
        answer = ask(b"SCRIPT-CONTROL: " + directives)[0]
        put(HEAD + answer)
    else:
        put(b"Status: 404 Not Found\nContent-Type: text/plain\nScript-Control: " + directives + b"\n\nthe body of the script\n")
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        finish()
else:
    respond(os.environ)
"#;

#[test]
fn script_may_ask_for_the_error_page() {
    let server = Setup::new().python("page", CONTROLLED).cgiplus("max = 1").start();
    let text = "X-error-text=%22No%20such%20%3cthing%3e;%20really%22;%20X-error-module=FIND;%20X-error-line=12";
    for mode in ["cgi", "cgiplus", "cgiplus"] {
        let response = server.get(&format!("/{mode}-bin/page?field={text}"));
        assert_eq!(
            (response.status, response.ending),
            (404, Ending::Complete),
            "{}",
            server.log()
        );
        let lines: Vec<_> = response.text().lines().collect();
        assert_eq!(lines[..2], ["404 Not Found", "No such <thing>; really"]);
        assert_eq!(response.field("script-control"), None);
    }
    let line = server.log_line("asked for an error page (404)");
    assert!(
        line.contains("module FIND line 12") && line.contains("No such <thing>; really"),
        "{line}"
    );
    // The script names no status in a callout, and the status of OpenVMS decides.
    for (directive, status) in [
        ("X-error-vms-status=%25X00000910", 404),
        ("X-error-text=no", 500),
        ("X-error-text=no;X-http-status=409", 409),
    ] {
        for mode in ["cgi", "cgiplus"] {
            let response = server.get(&format!("/{mode}-bin/page?callout={directive}"));
            assert_eq!(response.status, status, "{mode} {directive}\n{}", server.log());
            assert!(response.text().contains("Request "), "{}", response.text());
        }
    }
    assert_eq!(server.get("/cgiplus-bin/page?callout=X-stream-mode").text(), "200 OK\n");
}

#[test]
fn unknown_directives_are_logged_once_for_a_script() {
    let server = Setup::new().python("odd", CONTROLLED).start();
    for (query, status) in [
        ("field=X-odd=1;X-stream-mode;X-lifetime=soon", 404),
        ("callout=X-odd=1;X-stream-mode", 200),
    ] {
        for _ in 0..3 {
            assert_eq!(server.get(&format!("/cgi-bin/odd?{query}")).status, status);
        }
    }
    let answer = server.get("/cgi-bin/odd?callout=X-odd=1");
    assert_eq!(
        answer.text(),
        "400 X-odd=1: unknown directive, or its value is invalid\n"
    );
    let answer = server.get("/cgi-bin/odd?callout=X-odd=1;X-stream-mode");
    assert_eq!(answer.text(), "200 OK, but X-odd=1 has no effect\n");
    for number in 0..30 {
        server.get(&format!("/cgi-bin/odd?field=X-odd-{number}"));
    }
    server.log_line("Script-Control: X-lifetime=soon has no effect");
    let log = server.log();
    assert_eq!(log.matches("Script-Control: X-odd=1 has no effect").count(), 1, "{log}");
    assert_eq!(
        log.matches("has no effect").count(),
        16,
        "a script that makes up names is bounded: {log}"
    );
}

#[test]
fn lifetime_is_a_directive_too() {
    let script = |name: &str, directive: &str| {
        format!(
            "while accept():\n    put(b'Content-Type: text/plain\\nScript-Control: {directive}\\n\\n')\n    finish()\nreport('ended', '{name}')"
        )
    };
    let server = Setup::new()
        .cgiplus("idle = \"10m\"")
        .python("long", &script("long", "no-abort"))
        .python("short", &script("short", "X-lifetime=1s"))
        .start();
    let ended = server.setup().event_fifo("ended");
    for name in ["long", "short"] {
        assert_eq!(server.get(&format!("/cgiplus-bin/{name}")).status, 200);
    }
    assert_eq!(ended.line(), "short");
    server.wait_for_processes(1);
}

/// Writes a line, is silent until the gate opens, and writes another one.
const SILENT: &str = r#"
import urllib.parse
begin()
put(b"Content-Type: text/plain\nScript-Control: " + urllib.parse.unquote(os.environ["QUERY_STRING"]).encode() + b"\n\none\n")
wait_at("gate")
put(b"two\n")
"#;

#[test]
fn script_sets_its_own_time_limits() {
    let server = Setup::new()
        .cgi("output_timeout = \"300ms\"")
        .script_route("/patient/*", "directory = \"htdocs/cgi-bin\", mode = \"cgi\"")
        .script_route(
            "/bounded/*",
            "directory = \"htdocs/cgi-bin\", mode = \"cgi\", deadline = \"6s\"",
        )
        .python("silent", SILENT)
        .start();
    let mut gate = server.setup().gate("gate");
    for directive in ["no-abort", "X-timeout-noprogress=none", "X-timeout-noprogress=1"] {
        let mut client = server.connect();
        client.get(&format!("/cgi-bin/silent?{directive}"));
        let head = client.head();
        assert_eq!(client.chunk(), b"one\n");
        assert!(client.is_silent_for(Duration::from_millis(500)), "{directive}");
        gate.open();
        assert_eq!(
            client.body(head.framing("GET")),
            (b"two\n".to_vec(), Ending::Complete),
            "{directive}"
        );
    }
    for path in [
        "/cgi-bin/silent?x",
        "/patient/silent?X-timeout-noprogress=1s",
        "/patient/silent?X-timeout-output=1s",
        "/bounded/silent?no-abort;X-timeout-output=9",
    ] {
        let response = server.get(path);
        assert_eq!(
            (response.body, response.ending),
            (b"one\n".to_vec(), Ending::Truncated),
            "{path}"
        );
    }
    server.log_line("(X-timeout-noprogress = \"1s\")");
    server.log_line("X-timeout-output of the script");
    server.wait_for_processes(0);
}

#[test]
fn records_are_sent_in_blocks() {
    const SCRIPT: &str = r#"
import urllib.parse
begin()
put(b"Content-Type: text/plain\nScript-Control: " + os.environ["QUERY_STRING"].encode() + b"\n\n")
for number in range(30000):
    put(b"record %05d" % number)
put(b"before the gate")
wait_at("gate")
put(b"after the gate")
"#;
    let expected: String = (0..30000)
        .map(|number| format!("record {number:05}\n"))
        .collect::<String>()
        + "before the gate\n";
    let server = Setup::new()
        .cgi("mailbox = \"record\", record_size = \"16k\"")
        .python("records", SCRIPT)
        .start();
    let mut gate = server.setup().gate("gate");
    let mut counts = Vec::new();
    for directive in ["X-buffer-records", "X-buffer-records=0"] {
        let mut client = server.connect();
        client.get(&format!("/cgi-bin/records?{directive}"));
        client.head();
        let (mut text, mut count) = (Vec::new(), 0);
        // The last block is sent although the script pauses.
        while text.len() < expected.len() {
            text.extend(client.chunk());
            count += 1;
        }
        assert!(text == expected.as_bytes(), "{directive}");
        gate.open();
        assert_eq!(client.chunk(), b"after the gate\n");
        assert_eq!(client.chunk(), b"");
        counts.push(count);
    }
    assert!(counts[0] < 300, "{counts:?}: blocks of 16 KiB, and one for each 250 ms");
    assert!(counts[1] > 3000, "{counts:?}: many records are sent one by one");
}

#[test]
fn counted_body_in_blocks_is_complete() {
    const SCRIPT: &str = r#"
begin()
put(b"Content-Type: text/plain\nContent-Length: 30\nScript-Control: X-buffer-records\n\n")
for number in range(10):
    put(b"%d%d\n" % (number, number))
if "CGIPLUSEOF" in os.environ:
    finish()
"#;
    let server = Setup::new().python("counted", SCRIPT).start();
    let expected: String = (0..10).map(|number| format!("{number}{number}\n")).collect();
    for mode in ["cgi", "cgiplus"] {
        let response = server.get(&format!("/{mode}-bin/counted"));
        assert_eq!(
            (response.text(), response.ending),
            (expected.as_str(), Ending::Complete),
            "{mode}"
        );
    }
}

#[test]
fn script_decides_on_compression() {
    let reply = "printf \"Content-Type: $1\\nScript-Control: $2\\n\\n\"; seq 1 1000";
    let server = Setup::new()
        .compress_scripts()
        .script("usual", &reply.replace("$1", "text/plain").replace("$2", "no-abort"))
        .script(
            "never",
            &reply
                .replace("$1", "text/plain")
                .replace("$2", "X-content-encoding-gzip=0"),
        )
        .script(
            "octets",
            &reply
                .replace("$1", "application/octet-stream")
                .replace("$2", "no-abort"),
        )
        .script(
            "always",
            &reply
                .replace("$1", "application/octet-stream")
                .replace("$2", "X-content-encoding-gzip=1"),
        )
        .start();
    for (name, encoding) in [
        ("usual", Some("gzip")),
        ("never", None),
        ("octets", None),
        ("always", Some("gzip")),
    ] {
        let response = server.send(format!(
            "GET /cgi-bin/{name} HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        assert_eq!(response.field("content-encoding"), encoding, "{name}");
    }
}
