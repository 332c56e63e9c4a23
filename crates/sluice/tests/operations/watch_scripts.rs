//! WATCH of scripts and files: why a process is started, waited for and ended, what goes through its channels, and what must not be shown.
//!
//! Not here: the command and its options (`watch`).

use std::time::{Duration, SystemTime};

use sluice_testing::{Server, Setup, Watcher, write_script};

/// A CGIplus script that does what its query says; the callout says who it is.
const PLAYER: &str = r#"
while variables := accept():
    way = variables["QUERY_STRING"]
    if way == "twice":
        put(HEAD + b"twice" + EOF + b"\n" + b"more")
    elif way == "unended":
        put(HEAD + b"unended")
        sys.exit(0)
    elif way == "failed":
        put(HEAD + ESC + b"\n!FAILED: no luck\n" + EOT + b"\n")
        finish()
    elif way == "hang":
        put(HEAD + b"begun")
        ask(b"NOOP:")
        accept()
    elif way == "wait":
        report("entered")
        wait_at("gate")
        put(HEAD + b"waited")
        finish()
    else:
        ask(b"WATCH: [player] number one", b"NOOP:", b"BOGUS: 1")
        put(HEAD + variables.get("WATCH_SCRIPT", "unwatched").encode())
        finish()
"#;

fn player(keys: &str) -> Setup {
    Setup::new().cgiplus(keys).python("player", PLAYER)
}

/// Waits for one line with each of these texts.
#[track_caller]
fn assert_shown(watcher: &Watcher, texts: &[&str]) {
    for text in texts {
        watcher.line(text);
    }
}

#[test]
fn the_life_of_a_kept_process_is_shown() {
    let server = player("max = 1, processes = 1, requests = 3, memory_buffer_max = \"1MiB\"").start();
    assert_eq!(server.get("/cgiplus-bin/player").text(), "unwatched");
    let watcher = Watcher::start(&server, &["--items", "script"]);
    assert_eq!(server.get("/cgiplus-bin/player").text(), "1");
    assert_shown(
        &watcher,
        &[
            "cgi-bin/player: 1 process of at most 1, 1 of them idle; 0 requests wait",
            "is used: 1 request served, started ",
            "SCRIPT_NAME=/cgiplus-bin/player",
            "received ",
            "WATCH: [player] number one",
            "answer: 200 OK",
            "BOGUS: 1",
            "answer: 400 unknown callout",
            "the script has read its request",
            "head of the reply is complete: status 200, a body of unknown length announced",
            "the end sentinel (CGIPLUSEOF): the reply is complete",
            "reads of the mailbox, 3 callouts",
            "is kept, idle",
        ],
    );
    server.get("/cgiplus-bin/player");
    watcher.line("is retired: served its number of requests");
    watcher.line("has ended: exit code 0");
    server.get("/cgiplus-bin/player");
    assert_shown(
        &watcher,
        &[
            "a new process, because none runs; the last one that left: retired: served its number of requests",
            "the environment of the new process",
            "CGIPLUSEOF=…(28 bytes)",
            "starts \"",
        ],
    );
}

#[test]
fn a_request_that_waits_is_shown_with_its_place_and_its_time() {
    let setup = player("max = 1");
    let (entered, mut gate) = (setup.event_fifo("entered"), setup.gate("gate"));
    let server = setup.start();
    let watcher = Watcher::start(&server, &["--items", "process"]);
    let mut first = server.connect();
    first.get("/cgiplus-bin/player?wait");
    entered.line();
    let mut second = server.connect();
    second.get("/cgiplus-bin/player");
    watcher.line("waits for a process, as number 1 in the queue: all 1 are busy (max = 1)");
    gate.open();
    assert_eq!(
        (first.response().text(), second.response().text()),
        ("waited", "unwatched")
    );
    assert_shown(
        &watcher,
        &[
            "and serves a request that waits",
            "waited ",
            "is used: 1 request served",
        ],
    );
}

/// Gets a path, and waits for the reason that is shown.
#[track_caller]
fn assert_reason(server: &Server, path: &str, reasons: &[&str]) {
    let watcher = Watcher::start(server, &["--items", "process,mailbox"]);
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    client.rest();
    for reason in reasons {
        watcher.line(reason);
    }
}

#[test]
fn the_end_of_a_process_is_shown_with_its_reason() {
    let head = "printf 'Content-Type: text/plain\\n";
    let server = player("max = 2, reply_timeout = \"6s\", output_timeout = \"6s\", kill_grace = \"1s\"")
        .cgi("reply_timeout = \"3s\", output_timeout = \"3s\", kill_grace = \"1s\"")
        .script("exits", "echo bad luck >&2; exit 3")
        .script("killed", &format!("{head}\\nbegun'; kill -9 $$"))
        .script("short", &format!("{head}Content-Length: 100\\n\\nshort'"))
        .script("long", &format!("{head}Content-Length: 1\\n\\nlong'"))
        .script("silent", "sleep 1000")
        .script("no_interpreter", "#!/none/at/all\n")
        .script("waits", "read -r line <&3; sleep 1000")
        .start();
    for (path, reasons) in [
        (
            "/cgi-bin/exits",
            &[
                "standard error: bad luck",
                "exit code 3; its last error line: \"bad luck\"",
                "has ended: exit code 3; it ran for ",
            ][..],
        ),
        (
            "/cgi-bin/killed",
            &["ended within its body", "has ended: ended by signal 9 (SIGKILL)"],
        ),
        ("/cgi-bin/short", &["ended 95 bytes short of its Content-Length"]),
        (
            "/cgi-bin/long",
            &[
                "all bytes that were announced have come",
                "3 bytes over its Content-Length",
            ],
        ),
        (
            "/cgi-bin/silent",
            &[
                "is stopped: silent for 3.0 s",
                "SIGTERM, then SIGKILL",
                "ended by signal 15 (SIGTERM)",
            ],
        ),
        ("/cgi-bin/no_interpreter", &["not started: "]),
        ("/cgi-bin/waits", &["waits for a request on CGIPLUSIN"]),
        (
            "/cgiplus-bin/player?twice",
            &["is stopped: it wrote after the end sentinel (CGIPLUSEOF)"],
        ),
        (
            "/cgiplus-bin/player?unended",
            &["end-of-file", "did not end with the sentinel", "exit code 0"],
        ),
        ("/cgiplus-bin/player?failed", &["failed: no luck"]),
        ("/cgiplus-bin/player?hang", &["is stopped: silent for 6.0 s"]),
    ] {
        assert_reason(&server, path, reasons);
    }
}

#[test]
fn a_changed_script_and_a_client_that_leaves_are_shown() {
    let setup = player("max = 1");
    let entered = setup.event_fifo("entered");
    let mut gate = setup.gate("gate");
    let server = setup.start();
    server.get("/cgiplus-bin/player");
    let file = server.path("htdocs/cgi-bin/player");
    let changed = std::fs::File::options().append(true).open(&file).unwrap();
    changed
        .set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    // A program that is open for writing cannot be started.
    drop(changed);
    let watcher = Watcher::start(&server, &["--items", "process"]);
    let mut client = server.connect();
    client.get("/cgiplus-bin/player?wait");
    watcher.line("the last one that left: retired: its file has changed");
    entered.line();
    drop(client);
    assert_shown(
        &watcher,
        &[
            "the client has left, or the response was aborted",
            "and nobody gets it: the client has left, or is sent elsewhere",
        ],
    );
    gate.open();
    watcher.line("is kept, idle");
}

#[test]
fn what_a_silent_script_waits_for_is_shown() {
    let server = player("max = 1")
        .script("slow", "printf 'Content-Type: text/plain\\n\\n'; sleep 1000")
        .start();
    let watcher = Watcher::start(&server, &["--items", "process"]);
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    let line = watcher.line("has been silent for 1 s: it waits in wait4, for a child process");
    assert!(
        line.contains("(sleep)") && line.contains("its reply has not ended"),
        "{line}"
    );
    watcher.line("has been silent for 2 s");
    drop(client);
    let mut client = server.connect();
    client.get("/cgiplus-bin/player?hang");
    let line = watcher.line("it waits in read(3): CGIPLUSIN");
    assert!(
        line.contains("has not ended its reply: has it flushed its output"),
        "{line}"
    );
}

#[test]
fn the_memory_buffer_is_shown() {
    let text = r#"
ask(b"BUFFER-BEGIN: 1")
os.pwrite(4, b"x" * 1000, 0)
put(HEAD)
ask(b"BUFFER-WRITE: 1000")
ask(b"BUFFER-END:")
"#;
    let server = Setup::new().python("bulk", text).start();
    let watcher = Watcher::start(&server, &["--items", "buffer"]);
    assert_eq!(server.get("/cgi-bin/bulk").text().len(), 1000);
    assert_shown(
        &watcher,
        &[
            "BUFFER-BEGIN: 1",
            "answer: 200 /dev/fd/4 1048576",
            "BUFFER-WRITE: 1000",
            "1000 bytes for the client, 1000 in all",
            "answer: 200 1000",
        ],
    );
}

/// Prints all that it knows, wherever it can.
const BLABBER: &str = r#"
def blab(variables):
    secrets = " ".join(f"{name}={value}" for name, value in variables.items())
    with open(f"{TEST_DIR}/sentinels", "w") as file:
        file.write((EOF + ESC + EOT).decode())
    said = body(int(variables.get("CONTENT_LENGTH", "0")))
    sys.stderr.write(secrets + "\n")
    sys.stderr.flush()
    # The sentinels themselves would end the callout.
    text = secrets.encode().replace(EOT, b"").replace(ESC, b"").replace(EOF, EOF[3:])
    ask(b"WATCH: " + text, b"NOOP: " + said)
    put(b"Content-Type: text/plain\nSet-Cookie: id=cookie-of-response\n\n")
    for byte in secrets.encode() + EOF[:-1] + said:
        put(bytes([byte]))
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        blab(variables)
        finish()
else:
    blab(os.environ)
"#;

#[test]
fn secrets_are_in_no_line_whatever_a_script_prints() {
    let server = Setup::new()
        .python("blabber", BLABBER)
        .cgi("environment = { DB_PASSWORD = \"database-word\" }")
        .route("path = \"/*\"\npass_authorization = true")
        .start();
    let watcher = Watcher::start(&server, &["--items", "all", "--octets-max", "1000000"]);
    for (mode, last) in [("cgi", "has ended: exit code 0"), ("cgiplus", "is kept, idle")] {
        let form = "user=ann&password=form-password";
        let response = server.send(format!(
            "POST /{mode}-bin/blabber?token=query-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nAuthorization: Basic YXV0aG9yaXphdGlvbg==\r\n\
             Cookie: session=cookie-of-request\r\nX-Api-Key: key-of-field\r\n\r\n{form}",
            form.len()
        ));
        assert_eq!(response.status, 200, "{}", server.log());
        watcher.line(last);
        let sentinels = std::fs::read_to_string(server.path("sentinels")).unwrap();
        let shown = watcher.text();
        for secret in [
            "YXV0aG9yaXphdGlvbg",
            "cookie-of-request",
            "cookie-of-response",
            "key-of-field",
            "form-password",
            "query-token",
            "database-word",
            &sentinels[3..27],
        ] {
            assert!(!shown.contains(secret), "{mode}: {secret} is shown:\n{shown}");
        }
        assert!(shown.contains(&format!("SCRIPT_NAME=/{mode}-bin/blabber")), "{shown}");
    }
}

#[test]
fn the_password_that_an_agent_is_asked_about_is_never_shown() {
    let agent = r#"
while variables := accept():
    sys.stderr.write(variables["AUTH_PASSWORD"] + "\n")
    sys.stderr.flush()
    put(ESC + b"\n000 " + variables["AUTH_PASSWORD"].encode() + b"\n100 USER\n" + EOT + b"\n")
    finish()
"#;
    let setup = Setup::new()
        .python("agent", agent)
        .file("private/a.txt", "a")
        .route("path = \"/private/*\"\naccess = { agent = \"/cgiplus-bin/agent\", allow = [\"any-user\"] }");
    // Not even there.
    let server = setup.server("watch = { unmasked = true }").start();
    let watcher = Watcher::start(&server, &["--items", "all"]);
    // ann:agent-password
    let response = server.send(
        "GET /private/a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Basic YW5uOmFnZW50LXBhc3N3b3Jk\r\n\r\n",
    );
    assert_eq!(response.text(), "a", "{}", server.log());
    assert_shown(&watcher, &["AUTH_PASSWORD=…(14 bytes)", "REMOTE_USER=ann", "100 USER"]);
    let shown = watcher.text();
    assert!(!shown.contains("agent-password"), "it is shown:\n{shown}");
}

#[test]
fn files_are_shown_as_they_are_found() {
    let server = Setup::new()
        .file("old.txt", "old")
        .age("old.txt")
        .file(".hidden", "x")
        .file("list/a.txt", "a")
        .file("list/b.txt~", "b")
        .site("listing = true")
        .start();
    let watcher = Watcher::start(&server, &["--items", "cache"]);
    for path in ["/old.txt", "/old.txt", "/.hidden", "/none"] {
        server.get(path);
    }
    assert_shown(
        &watcher,
        &[
            "old.txt: opened, a file of 3 bytes; not in the cache",
            "read, and kept in the cache",
            "old.txt: from the cache, 3 bytes; last compared with the file",
            "the whole file, 3 bytes, entity tag \"",
            ".hidden: not opened: its name is hidden",
            "none: not opened: No such file",
        ],
    );
    server.send("GET /old.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0\r\nConnection: close\r\n\r\n");
    watcher.line("a range: bytes 0-0/3");
    let page = server.get("/list/");
    assert_eq!(page.status, 200, "{}", server.log());
    assert_shown(
        &watcher,
        &[
            "directory listing: 1 entries, 1 names left out",
            "b.txt~: its name is withheld",
        ],
    );
}

#[test]
fn a_script_that_cannot_be_started_again_and_again_is_refused_with_its_reason() {
    let server = Setup::new().cgiplus("max = 1").start();
    write_script(&server.path("htdocs/cgi-bin/ends"), "exit 1");
    let watcher = Watcher::start(&server, &["--items", "process"]);
    for _ in 0..5 {
        server.get("/cgiplus-bin/ends");
    }
    watcher.line("gets no process: ");
}

#[test]
fn the_libraries_have_a_function_for_those_who_watch() {
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk");
    let python = format!(
        "#!/usr/bin/env python3\nimport sys\nsys.path.insert(0, '{sdk}/python')\nimport sluice\nwhile sluice.accept():\n    \
         sluice.watch('seen\\nby python')\n    sluice.respond('text/plain')\n    sluice.write('python')\n"
    );
    let perl = format!(
        "#!/usr/bin/perl\nuse lib '{sdk}/perl/lib';\nuse Sluice;\nwhile (Sluice::accept()) {{\n    Sluice::watch(\"seen\\nby perl\");\n    \
         Sluice::respond('text/plain');\n    Sluice::write('perl');\n    Sluice::finish();\n}}\n"
    );
    let shell = format!(
        "#!/bin/sh\n. '{sdk}/shell/sluice.sh'\nwhile sluice_accept; do\n    sluice_watch 'seen\nby shell'\n    \
         sluice_respond text/plain\n    printf shell\ndone\n"
    );
    let server = Setup::new()
        .script("python", &python)
        .script("perl", &perl)
        .script("shell", &shell)
        .start();
    let get_all = || {
        for mode in ["cgi", "cgiplus"] {
            for language in ["python", "perl", "shell"] {
                let response = server.get(&format!("/{mode}-bin/{language}"));
                assert_eq!(response.text(), language, "{}", server.log());
            }
        }
    };
    get_all();
    let watcher = Watcher::start(&server, &["--items", "callouts"]);
    get_all();
    for language in ["python", "perl", "shell"] {
        watcher.lines(2, &format!("!WATCH: seen by {language}"));
    }
}
