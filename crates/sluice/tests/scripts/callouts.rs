//! Callouts: what a script asks the server in the middle of its response, and the answers.
//!
//! Here: the dialogue itself and every keyword except those of the memory buffer (`memory_buffer`). Callouts of
//! misbehaving scripts are in `bad_scripts`.

use sluice_testing::{Server, Setup, warnings_and_errors};

/// A script that sends each line of its request body as a callout and prints the answers.
///
/// The query says when: `head` before the response head, `body` within the body, `together` all lines as one
/// callout. Its output starts with PATH_INFO. Works as CGI too.
const ASKER: &str = r#"
def respond(variables):
    lines = body(int(variables.get("CONTENT_LENGTH", "0"))).split(b"\n")
    said = variables.get("PATH_INFO", "").encode()
    way = variables["QUERY_STRING"]
    if way == "head":
        answers = [answer for line in lines for answer in ask(line)]
        put(HEAD + said + b"".join(answers))
    elif way == "body":
        put(HEAD + said)
        for line in lines:
            for answer in ask(line):
                put(answer)
    elif way == "together":
        put(HEAD + said)
        put(b"".join(ask(*lines)))
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        finish()
else:
    respond(os.environ)
"#;

fn asker_setup() -> Setup {
    Setup::new().cgiplus("max = 1").python("ask", ASKER)
}

/// The answers to these lines, sent one by one within the body of a CGIplus script.
#[track_caller]
fn ask(server: &Server, lines: &str) -> Vec<String> {
    let response = server.post("/cgiplus-bin/ask?body", lines);
    assert_eq!(response.status, 200, "{}", server.log());
    response.text().lines().map(str::to_owned).collect()
}

#[test]
fn callout_is_answered_in_every_mode_and_position() {
    let server = asker_setup().start();
    for mode in ["cgi", "cgiplus"] {
        for way in ["head", "body", "together"] {
            for lines in [
                "NOOP:",
                "NOOP:\nnoop\nNoOp:  with parameters ",
                "NOOP:\nHTTP-STATUS:\nNOOP:",
            ] {
                let response = server.post(&format!("/{mode}-bin/ask/begin:?{way}"), lines);
                let status = if way == "head" { "000" } else { "200" };
                let answers = lines.split('\n').map(|line| {
                    let answer = if line.starts_with("HTTP") { status } else { "OK" };
                    format!("200 {answer}\n")
                });
                let expected = format!("/begin:{}", answers.collect::<String>());
                assert_eq!(response.text(), expected, "{mode} {way} {lines:?}");
            }
        }
    }
}

#[test]
fn callout_marked_for_no_answer_gets_none() {
    let server = asker_setup().start();
    assert_eq!(
        ask(
            &server,
            "!NOOP:\nNOOP:\n#NOOP:\nHTTP-STATUS:\n!FLY: to the moon\n#MAP-PATH: bad\nNOOP:"
        ),
        ["200 OK", "200 200", "200 OK"]
    );
    let response = server.post(
        "/cgiplus-bin/ask?together",
        "!NOOP:\nHTTP-STATUS:\n#NOOP:\n!FLY:\nNOOP:",
    );
    assert_eq!(response.text(), "200 200\n200 OK\n");
}

#[test]
fn map_path_skips_routes_with_conditions() {
    let server = asker_setup()
        .route("path = \"/r/*\"\nrewrite = \"/rewritten/*\"")
        .route("path = \"/secret/*\"\nwhen = { client = \"127.0.0.1\" }\nrefuse = {}")
        .route("path = \"/refused/*\"\nrefuse = {}")
        .start();
    let root = server.path("htdocs").canonicalize().unwrap().display().to_string();
    assert_eq!(
        ask(&server, "MAP-PATH: /r/x\nMAP-PATH: /secret/x\nMAP-PATH: /refused/x"),
        [
            format!("200 {root}/rewritten/x"),
            format!("200 {root}/secret/x"),
            "404 no file belongs to this path".to_owned()
        ]
    );
}

#[test]
fn malformed_callout_is_answered_400() {
    let server = asker_setup().start();
    let lines = "FLY: to the moon\n:\nNOOP NOOP\nMAP-PATH: relative\nMAP-PATH:\nMAP-FILE:\nLIFETIME: soon\nLIFETIME: -1\n\
                 CGIPLUS: maybe\nSCRIPT-CONTROL: X-nonsense\nBUFFER-BEGIN: many\nNOTICED\u{1}: x\nNOOP:";
    let answers = ask(&server, lines);
    assert_eq!(answers.len(), lines.lines().count());
    let (last, bad) = answers.split_last().unwrap();
    assert_eq!(last, "200 OK");
    for (answer, line) in bad.iter().zip(lines.lines()) {
        assert!(answer.starts_with("400 ") && answer.len() > 8, "{line:?}: {answer:?}");
    }
    assert_eq!(bad[0], "400 unknown callout");
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn paths_and_files_are_mapped_both_ways() {
    let server = asker_setup()
        .file("sub/page.html", "x")
        .route("path = \"/pictures/*\"\nfiles = { directory = \"gallery\" }")
        .route("path = \"/elsewhere/*\"\nredirect = { to = \"https://example.org/*\" }");
    std::fs::create_dir(server.path("gallery")).unwrap();
    let server = server.start();
    let directory = server.setup().directory().canonicalize().unwrap();
    let directory = directory.to_str().unwrap();
    let pairs = [
        ("/sub/page.html", "htdocs/sub/page.html"),
        ("/not/there%20yet", "htdocs/not/there yet"),
        ("/pictures/a/b.png", "gallery/a/b.png"),
        ("/cgi-bin/ask", "htdocs/cgi-bin/ask"),
    ];
    for (path, file) in pairs {
        let answers = ask(&server, &format!("MAP-PATH: {path}"));
        assert_eq!(answers, [format!("200 {directory}/{file}")], "{path}");
    }
    for (path, file) in &pairs[..3] {
        let answer = ask(&server, &format!("MAP-FILE: {directory}/{file}")).remove(0);
        let found = answer
            .strip_prefix("200 ")
            .unwrap_or_else(|| panic!("{file}: {answer}"));
        let again = ask(&server, &format!("MAP-PATH: {found}"));
        assert_eq!(again, [format!("200 {directory}/{file}")], "{path} by {found}");
    }
    let answers = ask(
        &server,
        "MAP-PATH: /elsewhere/x\nMAP-FILE: /etc/passwd\nMAP-PATH: /../x\nMAP-FILE: relative",
    );
    for answer in &answers {
        assert!(answer.starts_with("404 "), "{answers:?}");
    }
}

#[test]
fn lifetime_is_answered_in_seconds() {
    let server = asker_setup().start();
    assert_eq!(
        ask(
            &server,
            "LIFETIME: 5\nLIFETIME: 10s\nLIFETIME: 5m\nLIFETIME: 2h\nLIFETIME: 01:02:03\nLIFETIME: none"
        ),
        ["200 300", "200 10", "200 300", "200 7200", "200 3723", "200 none"]
    );
}

#[test]
fn lifetime_shortens_or_lifts_the_idle_limit() {
    let script = |lifetime: &str| {
        format!(
            "while accept():\n    put(HEAD + ask(b'LIFETIME: {lifetime}')[0])\n    finish()\nreport('ended', '{lifetime}')"
        )
    };
    let server = Setup::new()
        .cgiplus("idle = \"1s\"")
        .python("forever", &script("none"))
        .python("long", &script("1h"))
        .python(
            "usual",
            "while accept():\n    put(HEAD)\n    finish()\nreport('ended', 'usual')",
        )
        .script_route(
            "/patient/*",
            "directory = \"htdocs/cgi-bin\", mode = \"cgiplus\", idle = \"10m\"",
        )
        .python("short", &script("1s"))
        .start();
    let ended = server.setup().event_fifo("ended");
    for path in [
        "/cgiplus-bin/forever",
        "/cgiplus-bin/long",
        "/cgiplus-bin/usual",
        "/patient/short",
    ] {
        assert_eq!(server.get(path).status, 200);
    }
    let mut answers = [ended.line(), ended.line()];
    answers.sort();
    assert_eq!(answers, ["1s", "usual"]);
    server.wait_for_processes(2);
    assert!(ended.is_silent());
}

#[test]
fn cgiplus_callout_changes_the_record_format_of_the_next_request() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "form",
            r#"
while first := os.read(3, 3):
    if first == b"!\nS" or first == b"!\nW":
        form, rest = "lines", b""
        while not rest.endswith(b"\n\n"):
            rest += os.read(3, 1)
    else:
        count = first[2:]
        while not count.endswith(b"\n"):
            count += os.read(3, 1)
        form, left = "block", int(count)
        rest = b""
        while len(rest) < left:
            rest += os.read(3, left - len(rest))
    query = [part for part in rest.replace(b"\n", b"\0").split(b"\0") if part.count(b"QUERY_STRING=")][0]
    answer = b""
    if wanted := query.split(b"QUERY_STRING=")[1]:
        put(ESC + b"CGIPLUS: " + wanted + b"\n" + EOT)
        while not answer.endswith(b"\n"):
            answer += os.read(3, 1)
    put(HEAD + form.encode() + b" " + answer)
    finish()
"#,
        )
        .start();
    let get = |query: &str| server.get(&format!("/cgiplus-bin/form?{query}")).text().to_owned();
    assert_eq!(get("struct"), "lines 200 OK\n");
    assert_eq!(get(""), "block ");
    assert_eq!(
        get("maybe"),
        "block 400 CGIPLUS wants struct or record, socket, or both, separated by a blank\n"
    );
    assert_eq!(get("RECORD"), "block 200 OK\n");
    assert_eq!(get("record"), "lines 200 OK\n");
    assert_eq!(get(""), "lines ");
}

#[test]
fn notices_are_logged_with_script_pid_and_request_id() {
    let server = asker_setup().start();
    let answers = ask(
        &server,
        "NOTICED: the wind is up\nOPCOM: the tape is full\n!NOTICED: a \u{1b}[31mred\u{7f} line\u{85}",
    );
    assert_eq!(answers, ["200 OK", "200 OK"]);
    let id = server.access_lines(1)[0].split(' ').next_back().unwrap().to_owned();
    let pid = server.processes()[0].pid;
    for text in ["the wind is up", "the tape is full", "a  [31mred"] {
        let line = server.log_line(text);
        assert!(
            line.contains("cgi-bin/ask") && line.contains(&format!("pid={pid}")),
            "{line}"
        );
        assert!(line.contains(&id), "{line}");
        assert!(!line.contains(['\u{1b}', '\u{7f}', '\u{85}']), "{line:?}");
    }
}

#[test]
fn watch_is_answered_and_logged_at_debug_level() {
    let server = asker_setup().environment("RUST_LOG", "watch=debug,info").start();
    assert_eq!(
        ask(&server, "WATCH: [SCRIPT:0042] here I am\n!WATCH: and here"),
        ["200 OK"]
    );
    for text in ["[SCRIPT:0042] here I am", "and here"] {
        let line = server.log_line(text);
        assert!(line.contains("cgi-bin/ask") && line.contains("pid="), "{line}");
    }
}

#[test]
fn http_status_callout_reports_the_response_status() {
    let server = Setup::new()
        .python(
            "status",
            r#"
while accept():
    before = ask(b"HTTP-STATUS:")[0]
    put(b"Status: 418 Teapot\n")
    between = ask(b"HTTP-STATUS:")[0]
    put(b"Content-Type: text/plain\n\n" + before + between)
    put(ask(b"HTTP-STATUS:")[0])
    finish()
"#,
        )
        .start();
    let response = server.get("/cgiplus-bin/status");
    assert_eq!((response.status, response.text()), (418, "200 000\n200 000\n200 418\n"));
}

#[test]
fn callout_may_arrive_in_any_chunks() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "pieces",
            r#"
def each(data):
    for at in range(len(data)):
        put(data[at : at + 1])
while accept():
    each(ESC + b"\nNOOP:\r\nMAP-PATH: $x\n\nHTTP-STATUS:\n" + EOT + b"\n")
    answers = [cgiplusin.readline() for _ in range(3)]
    put(HEAD + b"|".join(answer.strip() for answer in answers))
    put(ESC + b"!NOOP:" + EOT + b"|joined" + ESC + b"NOOP:" + EOT)
    put(b"|" + cgiplusin.readline().strip() + b"|" + ESC + EOT)
    put(ESC + b"\n" + EOT + b"\n\n|empty")
    finish()
"#,
        )
        .start();
    for _ in 0..2 {
        assert_eq!(
            server.get("/cgiplus-bin/pieces").text(),
            "200 OK|400 MAP-PATH wants a path that begins with /|200 000|joined|200 OK|\n|empty"
        );
    }
}

#[test]
fn each_line_is_answered_before_the_callout_ends() {
    let server = Setup::new()
        .cgi("reply_timeout = \"10s\"")
        .python(
            "talk",
            r#"
said = []
put(ESC)
for line in (b"NOOP:\n", b"HTTP-STATUS:\n", b"NOOP:", b"HTTP-STATUS:"):
    put(line)
    said.append(cgiplusin.readline())
put(EOT)
put(HEAD + b"".join(said))
"#,
        )
        .start();
    assert_eq!(server.get("/cgi-bin/talk").text(), "200 OK\n200 000\n200 OK\n200 000\n");
}

#[test]
fn callouts_leave_no_trace_in_the_body() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "between",
            r#"
while variables := accept():
    put(HEAD)
    for at in range(200):
        put(b"%d\n" % at + ESC + b"NOOP:\n" + EOT + b"\n" + (b"." * at))
        assert cgiplusin.readline() == b"200 OK\n"
    finish()
"#,
        )
        .start();
    let expected: String = (0..200).map(|at| format!("{at}\n{}", ".".repeat(at))).collect();
    assert_eq!(server.get("/cgiplus-bin/between").text(), expected);
    assert_eq!(server.get("/cgiplus-bin/between").text(), expected);
}

#[test]
fn record_mailbox_treats_each_record_of_a_callout_as_a_line() {
    let server = Setup::new()
        .cgi("mailbox = \"record\"")
        .cgiplus("mailbox = \"record\", max = 1")
        .python(
            "records",
            r#"
def respond():
    said = []
    put(ESC)
    for record, count in ((b"NOOP:", 1), (b"HTTP-STATUS:\n", 1), (b"!NOOP:", 0), (b"NOOP:\nFLY:", 2)):
        put(record)
        said += [cgiplusin.readline() for _ in range(count)]
    put(EOT)
    put(HEAD)
    put(b"".join(said))
    put(ESC + b"\n")
    put(b"NOOP:\r\n")
    put(EOT + b"\n")
    put(cgiplusin.readline())
if "CGIPLUSEOF" in os.environ:
    while accept():
        respond()
        put(EOF)
else:
    respond()
"#,
        )
        .start();
    for mode in ["cgi", "cgiplus", "cgiplus"] {
        assert_eq!(
            server.get(&format!("/{mode}-bin/records")).text(),
            "200 OK\n200 000\n200 OK\n400 unknown callout\n200 OK\n",
            "{mode}"
        );
    }
}

#[test]
fn shell_script_can_use_callouts() {
    let server = Setup::new()
        .script(
            "ask",
            r#"ask() { printf '%s\n%s\n%s\n' "$WWW_GATEWAY_ESC" "$1" "$WWW_GATEWAY_EOT"; read -r answer <&3; }
ask 'MAP-PATH: /health.txt'; file=$answer
printf 'Content-Type: text/plain\n\n'
ask 'HTTP-STATUS:'
echo "$file, $answer""#,
        )
        .start();
    let directory = server.path("htdocs").canonicalize().unwrap();
    let expected = format!("200 {}/health.txt, 200 200\n", directory.display());
    assert_eq!(server.get("/cgi-bin/ask").text(), expected);
}

#[test]
fn unread_answers_do_not_reach_the_next_request() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "forgetful",
            r#"
while variables := accept():
    put(ESC + b"NOOP:\nHTTP-STATUS:\n" + EOT + HEAD + variables["QUERY_STRING"].encode())
    finish()
"#,
        )
        .start();
    for query in ["one", "two", "three"] {
        assert_eq!(server.get(&format!("/cgiplus-bin/forgetful?{query}")).text(), query);
    }
}
