//! The server's log: text of clients and scripts is escaped in it, and complaints that repeat are counted.
//!
//! Not here: the access log (`log`), and what each message says (with the subject of the message).

use std::iter::repeat_n;

use sluice_testing::{Ended, Setup, run};

/// A carriage return that would hide the line before it, a line of its own, a terminal sequence, and invisible characters that
/// reverse or divide text.
const DECEPTIVE: &str =
    "\r2026-11-21T00:00:00Z  INFO all is well\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{200b}\u{200f}\u{2028}\u{2066}\u{feff}";

/// The same in the form that can be sent in a request line without being encoded.
const INVISIBLE: &str = "\u{202e}\u{200b}\u{200f}\u{2028}\u{2066}\u{feff}";

/// Python: the text, as the setup below stores it.
const READ: &str = "said = open(TEST_DIR + '/htdocs/deceptive', 'rb').read()\n";

fn setup() -> Setup {
    let writes = |setup: Setup, name: &str, head: &str| setup.python(name, &format!("{READ}put({head})"));
    let scripts = [
        ("fields", "b'A' + said + b': b\\n\\n'"),
        ("status", "b'Status: 2' + said + b'\\n\\n'"),
        ("redirects", "b'Location: /..' + said + b'/../..\\n\\n'"),
        ("sends", "b'X-Sendfile: /' + said[-18:] + b'\\n\\n'"),
        ("accelerates", "b'X-Accel-Redirect: /p/' + said[-18:] + b'\\n\\n'"),
    ];
    let setup = Setup::new()
        .environment("RUST_LOG", "debug")
        .limits("log_lines = 1000")
        .log("access = \"-\"\nformat = \"json\"")
        .site("error_detail = true")
        .file("/deceptive", DECEPTIVE)
        .file(&format!("/page{DECEPTIVE}.txt"), "page")
        .file_with_mode(&format!("/cgi-bin/none{DECEPTIVE}"), "", 0o644)
        .script(&format!("fails{DECEPTIVE}"), "echo no; exit 1")
        .python(
            "complains",
            &format!("{READ}os.write(2, said + b'\\n')\nos.write(2, said)\nsys.exit(1)"),
        )
        .python(
            "notices",
            &format!("{READ}put(HEAD)\nask(b'!NOTICED: ' + said, b'WATCH: ' + said, said)"),
        );
    scripts
        .into_iter()
        .fold(setup, |setup, (name, head)| writes(setup, name, head))
}

#[track_caller]
fn assert_escaped(text: &str) {
    let is_deceptive = |letter: char| letter != '\n' && (letter.is_control() || INVISIBLE.contains(letter));
    let found: Vec<&str> = text.lines().filter(|line| line.contains(is_deceptive)).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(!text.lines().any(|line| line.starts_with("2026-11-21T00")), "{text}");
}

#[test]
fn text_of_clients_and_scripts_is_escaped_in_every_message() {
    let server = setup().start();
    let text: String = DECEPTIVE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut paths: Vec<String> = [
        "complains",
        "notices",
        "fields",
        "status",
        "redirects",
        "sends",
        "accelerates",
    ]
    .map(|name| format!("/cgi-bin/{name}"))
    .into();
    paths.extend(
        ["none", "cgi-bin/none", "cgi-bin/absent", "cgi-bin/fails", "%zz"].map(|name| format!("/{name}{text}")),
    );
    paths.extend([
        format!("/..{text}/../.."),
        format!("/{INVISIBLE}"),
        format!("/none{text}/"),
    ]);
    for path in paths {
        for accept in ["text/html", "text/plain", "application/json"] {
            let fields = format!("Host: test\r\nAccept: {accept}\r\nReferer: {INVISIBLE}");
            let response = server.send(format!("GET {path} HTTP/1.1\r\n{fields}\r\n\r\n"));
            assert_escaped(response.text());
        }
    }
    let page = format!("/page{text}.txt");
    for request in [
        format!("GET {page} HTTP/1.1\r\nHost: test\r\nRange: bytes=9999-\r\n\r\n"),
        format!("GET {page} HTTP/1.1\r\nHost: test\r\nIf-Match: \"{INVISIBLE}\"\r\n\r\n"),
        format!("DELETE {page} HTTP/1.1\r\nHost: test\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {INVISIBLE}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: test\r\nA{INVISIBLE}: b\r\n\r\n"),
    ] {
        let response = server.send(request);
        assert!(response.status >= 400);
        assert_escaped(response.text());
    }
    let ended = server.stop();
    for message in [
        "not there",
        "no execute bit",
        "watch: ",
        "x-sendfile",
        "x-accel-redirect",
        "above the root",
        "hexadecimal",
        "status=416",
        "status=412",
        "status=405",
        "request head from",
    ] {
        assert!(ended.errors.contains(message), "{message} in:\n{}", ended.errors);
    }
    assert_escaped(&ended.errors);
    assert_escaped(&ended.access.join("\n"));
}

#[test]
fn explain_escapes_text_of_the_request_and_of_files() {
    let setup = setup();
    setup.write_configuration();
    let text: String = DECEPTIVE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for path in ["page", "cgi-bin/none", "none"] {
        let url = format!("/{path}{text}.txt{INVISIBLE}");
        let explained = run(setup.directory(), &["check", "-c", "sluice.toml", "--explain", &url]);
        assert!(explained.output.contains("answer"), "{}", explained.errors);
        assert_escaped(&explained.output);
    }
}

/// The lines of a log that contain a text, and the lines like them that were counted.
fn logged_and_counted(ended: &Ended, text: &str, counted: &str) -> (usize, usize) {
    let lines = || ended.errors.lines();
    let counts = lines().filter(|line| line.contains(counted)).filter_map(|line| {
        let (before, _) = line.split_once(" more line")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    (lines().filter(|line| line.contains(text)).count(), counts.sum())
}

#[test]
fn refused_requests_that_repeat_are_counted_in_the_log() {
    const REQUESTS: usize = 300;
    let server = Setup::new().workers(1).file("/a.txt", "text").start();
    let mut client = server.connect();
    for request in repeat_n(
        "GET /a.txt HTTP/1.1\r\nHost: test\r\nRange: bytes=9999-\r\n\r\n",
        REQUESTS,
    ) {
        assert_eq!(client.send(request).response().status, 416);
    }
    for _ in 0..REQUESTS {
        assert_eq!(server.send("GET / HTTP/1.1\r\nbad\r\n\r\n").status, 400);
    }
    // Another kind is logged as if there were no others.
    assert_eq!(server.send("PUT /a.txt HTTP/1.1\r\nHost: test\r\n\r\n").status, 405);
    let ended = server.stop();
    for (text, counted) in [
        ("outside its 4 bytes", "status=416"),
        ("request head from", "status=400"),
    ] {
        let (logged, suppressed) = logged_and_counted(&ended, text, counted);
        assert_eq!(logged + suppressed, REQUESTS, "{text}\n{}", ended.errors);
        assert!((10..REQUESTS / 2).contains(&logged), "{logged} lines\n{}", ended.errors);
    }
    assert_eq!(logged_and_counted(&ended, "method PUT", "status=405"), (1, 0));
    assert_eq!(ended.access.len(), 2 * REQUESTS + 1, "the access log has each of them");
}

#[test]
fn the_number_of_lines_before_counting_is_configurable() {
    let server = Setup::new().workers(1).limits("log_lines = 2").start();
    for _ in 0..5 {
        assert_eq!(
            server.send("PUT /health.txt HTTP/1.1\r\nHost: test\r\n\r\n").status,
            405
        );
    }
    let ended = server.stop();
    let (logged, suppressed) = logged_and_counted(&ended, "method PUT", "status=405");
    assert_eq!(logged + suppressed, 5);
    assert!(logged < 5, "{}", ended.errors);
}

#[test]
fn the_count_of_error_lines_is_logged_although_no_other_line_follows() {
    let server = Setup::new()
        .python(
            "complains",
            "while accept():\n    os.write(2, b'no\\n' * 1000)\n    put(HEAD + b'done' + EOF)",
        )
        .start();
    assert_eq!(server.get("/cgiplus-bin/complains").text(), "done");
    let line = server.log_line("more lines like it, not logged");
    assert!(line.contains("cgi-bin/complains"), "{line}");
    // The process still runs, and is silent.
    server.wait_for_processes(1);
}

#[test]
fn notices_of_a_script_that_repeat_are_counted() {
    let server = Setup::new()
        .python("notices", "put(HEAD)\nask(*[b'!NOTICED: again'] * 300)\nput(b'done')")
        .start();
    assert_eq!(server.get("/cgi-bin/notices").text(), "done");
    let ended = server.stop();
    let (logged, suppressed) = logged_and_counted(&ended, "script: again", "NOTICED: ");
    assert_eq!(logged + suppressed, 300, "{}", ended.errors);
    assert!(logged < 300);
}

#[test]
fn lines_of_a_script_are_bounded_whichever_processes_write_them() {
    const PROCESSES: usize = 12;
    let server = Setup::new()
        .workers(2)
        .limits("script_log = \"4KiB\"")
        .script(
            "warns",
            "printf '%01000d\\n' 7 >&2; printf 'Content-Type: text/plain\\n\\ndone'",
        )
        .script("fails", "printf '%05000d\\nlast words\\n' 8 >&2; exit 3")
        .start();
    for _ in 0..PROCESSES {
        assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    }
    for _ in 0..2 {
        assert_eq!(server.get("/cgi-bin/fails").status, 502);
    }
    server.wait_for_processes(0);
    let ended = server.stop();
    let logged = ended.errors.lines().filter(|line| line.contains("0007 ")).count();
    let counted = |script: &str| {
        let lines = ended.errors.lines().filter(|line| line.contains(script));
        let counts = lines.filter_map(|line| {
            line.split_once("(limits.script_log): ")?
                .1
                .split(' ')
                .next()?
                .parse::<usize>()
                .ok()
        });
        counts.sum::<usize>()
    };
    assert_eq!(logged + counted("cgi-bin/warns"), PROCESSES, "{}", ended.errors);
    assert!((5..PROCESSES).contains(&logged), "{}", ended.errors);
    assert!(counted("cgi-bin/fails") > 0, "{}", ended.errors);
    let faults = ended
        .errors
        .lines()
        .filter(|line| line.contains("its last error line: \"last words\""));
    assert_eq!(faults.count(), 2, "{}", ended.errors);
}
