//! Scripts that break the rules: no head, an incomplete head, too much output, too slow, crashed, noisy.
//!
//! In every case the client gets 502 or 504 or a truncated body, the log has one line that names the culprit, nothing
//! is left behind, and the next request is served. Here: unusable replies. Submodules: truncated bodies (`bodies`),
//! scripts that take too long or leave processes behind (`lingering`), or start them outside their process group (`strays`),
//! and the pages and log lines about scripts that failed (`failures`) or run in the
//! wrong mode (`modes`).

mod bodies;
mod failures;
mod lingering;
mod modes;
mod strays;

use sluice_testing::{Response, Server, Setup, warnings_and_errors};

/// Words that the log line of a bad script must contain beside its name; `PID` stands for `, pid <number>`.
type Words = &'static [&'static str];

/// A bad script: its name, its text (Python if its first line says so), and the words of its log line.
type Bad = (&'static str, &'static str, Words);

/// The first line of a shell script that begins to read its request in CGIplus: what it writes is then its reply.
const READ_IN_SHELL: &str = "#!/bin/sh\n[ -z \"$CGIPLUSEOF\" ] || read -r request <&3\n";

/// The same for a script in Python that does not call `accept` itself.
const READ_IN_PYTHON: &str = "begin()\n";

/// Requests each script once per mode; each must be answered with this status and leave one line in each log.
#[track_caller]
fn assert_refused(setup: Setup, status: u16, modes: &[&str], scripts: &[Bad]) {
    let setup = scripts
        .iter()
        .fold(setup, |setup, (name, text, _)| match text.strip_prefix("python\n") {
            Some(python) => setup.python(name, &format!("{READ_IN_PYTHON}{python}")),
            None => {
                let text = text.replacen("#!/bin/sh\n", READ_IN_SHELL, 1);
                setup.file_with_mode(&format!("cgi-bin/{name}"), text, 0o755)
            }
        });
    let server = setup.start();
    let mut expected_log = Vec::new();
    for mode in modes {
        for (name, _, words) in scripts {
            let response = server.get(&format!("/{mode}-bin/{name}"));
            assert_eq!(response.status, status, "{mode} {name}\n{}", server.log());
            assert_page_reveals_nothing(&server, &response);
            expected_log.push((format!("{mode}-bin/{name}"), request_id(&response), *words));
        }
    }
    server.assert_idle();
    let ended = server.stop();
    for (path, id, words) in &expected_log {
        let lines: Vec<_> = warnings_and_errors(&ended.errors)
            .into_iter()
            .filter(|line| line.contains(id))
            .collect();
        assert_eq!(lines.len(), 1, "{path}: {lines:#?}\n{}", ended.errors);
        assert!(lines[0].contains(&path[path.find('/').unwrap()..]), "{}", lines[0]);
        for word in *words {
            let is_found = match *word {
                "PID" => has_pid(&lines[0]),
                word => lines[0].contains(word),
            };
            assert!(is_found, "{path}: no {word} in {}", lines[0]);
        }
        let lines: Vec<_> = ended.access.iter().filter(|line| line.contains(id)).collect();
        assert_eq!(lines.len(), 1, "{path}: {lines:#?}");
        assert!(lines[0].contains(&format!(" {status} ")), "{}", lines[0]);
    }
    let all = warnings_and_errors(&ended.errors);
    assert_eq!(all.len(), expected_log.len(), "one line for each request: {all:#?}");
    assert_eq!(ended.access.len(), expected_log.len());
}

fn has_pid(line: &str) -> bool {
    let digit = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    line.split(", pid ").nth(1).is_some_and(digit)
}

/// Asserts that the error page reveals no files or processes.
#[track_caller]
fn assert_page_reveals_nothing(server: &Server, response: &Response) {
    let page = response.text();
    for secret in [server.setup().directory().to_str().unwrap(), "cgi-bin", "pid"] {
        assert!(!page.contains(secret), "{secret} in {page}");
    }
}

/// The request id on an error page.
#[track_caller]
fn request_id(response: &Response) -> String {
    let page = response.text();
    let (_, rest) = page.split_once("Request ").expect("the page names the request");
    rest.trim_end().to_owned()
}

#[test]
fn script_that_cannot_be_started_is_502() {
    let scripts: &[Bad] = &[
        (
            "no-interpreter",
            "#!/nonexistent/interpreter\n",
            &[
                "cannot be started",
                "the interpreter \"/nonexistent/interpreter\" of its #! line does not exist",
            ],
        ),
        (
            "windows",
            "#!/bin/sh\r\necho hello\r\n",
            &["cannot be started", "(\"#!/bin/sh\\r\")", "carriage return"],
        ),
        (
            "marked",
            "\u{feff}#!/bin/sh\necho hello\n",
            &["cannot be started", "byte order mark"],
        ),
        ("no-first-line", "echo hello\n", &["cannot be started", "#!"]),
        ("empty", "", &["cannot be started"]),
        ("binary", "\u{7f}ELF and then nothing", &["cannot be started"]),
        ("folder-as-interpreter", "#!/\n", &["cannot be started"]),
    ];
    assert_refused(Setup::new(), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn script_whose_interpreter_env_does_not_find_is_502() {
    let scripts: &[Bad] = &[
        (
            "windows",
            "#!/usr/bin/env sh\r\necho hello\r\n",
            &["PID", "exit code 127", "carriage return"],
        ),
        (
            "no-such-program",
            "#!/usr/bin/env no-such-program\n",
            &["PID", "exit code 127", "finds no program \"no-such-program\" in PATH"],
        ),
    ];
    assert_refused(Setup::new(), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn script_in_a_removed_directory_is_not_found() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python("sub/kept", "while accept():\n    put(HEAD + b'well')\n    finish()")
        .file("cgi-bin/sub/kit.py", sluice_testing::KIT)
        .start();
    assert_eq!(server.get("/cgiplus-bin/sub/kept").text(), "well");
    std::fs::remove_dir_all(server.path("htdocs/cgi-bin/sub")).unwrap();
    for mode in ["cgi", "cgiplus"] {
        assert_eq!(server.get(&format!("/{mode}-bin/sub/kept")).status, 404);
    }
}

#[test]
fn exit_before_the_reply_is_logged_with_status_and_last_words() {
    let scripts: &[Bad] = &[
        (
            "fails",
            "#!/bin/sh\necho first >&2; echo last words >&2; exit 7\n",
            &["PID", "exit code 7", "\"last words\"", "wrote no reply"],
        ),
        (
            "unfinished-line",
            "#!/bin/sh\nprintf 'no newline' >&2; exit 1\n",
            &["PID", "exit code 1", "\"no newline\""],
        ),
        (
            "silent",
            "#!/bin/sh\nexit 0\n",
            &["PID", "exit code 0", "wrote no reply"],
        ),
        (
            "killed",
            "#!/bin/sh\necho last words >&2; kill -KILL $$\n",
            &["PID", "signal 9", "SIGKILL", "\"last words\""],
        ),
        (
            "crashes",
            "#!/bin/sh\necho last words >&2; kill -SEGV $$\n",
            &["PID", "signal 11", "SIGSEGV", "\"last words\""],
        ),
        (
            "half-a-head",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\nX-Half'; echo last words >&2; exit 1\n",
            &["PID", "exit code 1", "\"last words\"", "inside its head"],
        ),
        (
            "closes-its-output",
            "#!/bin/sh\necho last words >&2; exec >&-; exit 5\n",
            &["PID", "exit code 5", "\"last words\"", "wrote no reply"],
        ),
    ];
    assert_refused(Setup::new(), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn request_is_not_repeated_once_a_cgiplus_process_has_read_it() {
    let scripts: &[Bad] = &[
        (
            "reads-and-fails",
            "python\naccept()\nprint('last words', file=sys.stderr)\nsys.exit(3)",
            &["PID", "exit code 3", "\"last words\"", "wrote no reply"],
        ),
        (
            "half-a-head",
            "python\naccept()\nput(b'Content-Type: text/plain\\n')\nos.kill(os.getpid(), 9)",
            &["PID", "signal 9", "inside its head"],
        ),
        (
            "only-the-sentinel",
            "python\nwhile accept():\n    finish()",
            &["PID", "wrote no reply"],
        ),
        (
            "half-a-head-and-the-sentinel",
            "python\nwhile accept():\n    put(b'Content-Type: text/plain\\n')\n    finish()",
            &["PID", "inside its head"],
        ),
    ];
    assert_refused(Setup::new(), 502, &["cgiplus"], scripts);
}

#[test]
fn malformed_head_is_refused() {
    let scripts: &[Bad] = &[
        (
            "page",
            "#!/bin/sh\necho '<html>hello'; echo\n",
            &["PID", "\"<html>hello\""],
        ),
        (
            "trace",
            "#!/bin/sh\necho 'Traceback (most recent call last):'; echo\n",
            &["PID", "Traceback"],
        ),
        ("blank", "#!/bin/sh\necho; echo hello\n", &["PID", "empty line"]),
        (
            "folded",
            "#!/bin/sh\nprintf 'X-A: 1\\n 2\\n\\n'\n",
            &["PID", "begins with a blank"],
        ),
        (
            "nul",
            "#!/bin/sh\nprintf 'X-A: \\000\\n\\n'\n",
            &["PID", "control character"],
        ),
        (
            "status",
            "#!/bin/sh\nprintf 'Status: fine\\n\\n'\n",
            &["PID", "\"fine\""],
        ),
        (
            "status-99",
            "#!/bin/sh\nprintf 'Status: 99\\n\\n'\n",
            &["PID", "\"99\""],
        ),
        (
            "length",
            "#!/bin/sh\nprintf 'Content-Length: -1\\n\\n'\n",
            &["PID", "\"-1\""],
        ),
        (
            "lengths",
            "#!/bin/sh\nprintf 'Content-Length: 1\\nContent-Length: 2\\n\\nx'\n",
            &["PID", "more than one"],
        ),
        (
            "framed",
            "#!/bin/sh\nprintf 'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: gzip\\r\\n\\r\\nbody'\n",
            &["PID", "another Transfer-Encoding than chunked: \"gzip\""],
        ),
        (
            "long",
            "#!/bin/sh\nprintf 'X-Long: %2000d\\n\\n' 1\n",
            &["PID", "1024 bytes"],
        ),
        (
            "endless",
            "#!/bin/sh\nwhile printf 'X-More: 1\\n'; do :; done\n",
            &["PID", "1024 bytes"],
        ),
        (
            "no-lines",
            "#!/bin/sh\nwhile printf 'xxxxxxxxxxxxxxxxxxxxxxxxxx'; do :; done\n",
            &["PID", "1024 bytes"],
        ),
    ];
    let keys = "head_size = \"1KiB\", kill_grace = \"500ms\"";
    assert_refused(Setup::new().cgi(keys).cgiplus(keys), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn too_many_fields_are_refused() {
    let scripts: &[Bad] = &[(
        "many",
        "#!/bin/sh\ni=0; while [ $i -lt 300 ]; do echo \"X-$i: 1\"; i=$((i + 1)); done; echo\n",
        &["PID", "fields"],
    )];
    assert_refused(Setup::new(), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn malformed_callouts_end_the_reply() {
    let scripts: &[Bad] = &[
        (
            "never-closed",
            "python\nput(ESC + b'NOOP:\\n')",
            &["PID", "inside a callout"],
        ),
        (
            "opened-twice",
            "python\nput(ESC + b'NOOP:\\n' + ESC)\nos.read(3, 1 << 20)\nos.read(3, 1)",
            &["PID", "inside a callout"],
        ),
        (
            "long-line",
            "python\nput(ESC + b'x' * 9000)\nos.read(3, 1 << 20)\nos.read(3, 1)",
            &["PID", "8192 bytes"],
        ),
        (
            "deaf",
            "python\nwhile True:\n    put(ESC + b'NOOP:\\n' * 1000 + EOT)",
            &["PID", "CGIPLUSIN"],
        ),
        (
            "page-in-a-callout",
            "python\nput(ESC + b'!NOOP:\\n')\nwhile True:\n    put(b'# a line of the page that follows\\n' * 100)",
            &["PID", "callout"],
        ),
    ];
    assert_refused(Setup::new(), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn end_sentinel_inside_a_callout_is_refused() {
    let scripts: &[Bad] = &[(
        "ends-inside",
        "python\nwhile accept():\n    put(ESC + b'NOOP:\\n')\n    put(EOF)",
        &["PID", "inside a callout"],
    )];
    assert_refused(Setup::new(), 502, &["cgiplus"], scripts);
}

#[test]
fn memory_buffer_without_a_head_is_no_reply() {
    let scripts: &[Bad] = &[
        ("begins", "python\nask(b'BUFFER-BEGIN: 4k')", &["PID", "wrote no reply"]),
        (
            "plain",
            "python\nask(b'BUFFER-BEGIN: 4k', b'!BUFFER-WRITE: 100')",
            &["PID", "wrote no reply"],
        ),
        (
            "ended",
            "python\nask(b'BUFFER-BEGIN: 4k', b'!BUFFER-WRITE: 100', b'!BUFFER-END:')",
            &["PID", "wrote no reply"],
        ),
        (
            "ring",
            "python\nask(b'BUFFER-BEGIN: 8k ring')\nos.pwrite(4, b'\\x64', 64)",
            &["PID", "wrote no reply"],
        ),
        (
            "half-a-head",
            "python\nask(b'BUFFER-BEGIN: 4k', b'!BUFFER-WRITE: 100')\nput(b'Content-Type: text/plain\\n')",
            &["PID", "inside its head"],
        ),
    ];
    let keys = "reply_timeout = \"10s\"";
    assert_refused(Setup::new().cgi(keys).cgiplus(keys), 502, &["cgi", "cgiplus"], scripts);
}

#[test]
fn endless_local_redirect_is_refused() {
    let server = Setup::new()
        .script("loops", "printf 'Location: /cgi-bin/loops\\n\\n'")
        .start();
    let response = server.get("/cgi-bin/loops");
    assert_eq!(response.status, 502);
    let line = server.log_line(&request_id(&response));
    assert!(line.contains("local redirects"), "{line}");
    server.assert_idle();
}

#[test]
fn failing_script_does_not_affect_others() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .script("bad", "echo no head")
        .python(
            "good",
            "while accept():\n    put(HEAD + b'%d' % os.getpid())\n    finish()",
        )
        .start();
    let pid = server.get("/cgiplus-bin/good").text().to_owned();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let mut client = server.connect();
                    assert!(matches!(client.get("/cgi-bin/bad").response().status, 502));
                    // The connection is still usable.
                    assert_eq!(client.get("/cgiplus-bin/good").response().text(), pid);
                }
            });
        }
    });
    server.wait_for_processes(1);
}
