//! Scripts that take too long, and scripts that leave processes behind.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{Bad, assert_refused, request_id};
use sluice_testing::{DEADLINE, Ending, Server, Setup, spawn, warnings_and_errors};

/// Enough time for a shell to start, even on a busy machine.
const IMPATIENT: &str = "reply_timeout = \"500ms\", output_timeout = \"500ms\", kill_grace = \"100ms\"";

/// The first command of a shell script: it reads the request so that, in CGIplus, the output is the reply to it.
const READ: &str = "[ -z \"$CGIPLUSEOF\" ] || read -r request <&3; ";

#[test]
fn script_without_a_head_in_time_is_killed_with_its_children() {
    let scripts: &[Bad] = &[
        (
            "silent",
            "#!/bin/sh\necho last words >&2\nsleep 1000\n",
            &["PID", "silent for 500ms", "\"last words\""],
        ),
        (
            "half",
            "#!/bin/sh\necho 'Content-Type: text/plain'\nexec sleep 1000\n",
            &["PID", "silent for 500ms"],
        ),
        (
            "stubborn",
            "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n",
            &["PID", "silent for 500ms"],
        ),
        (
            "parent",
            "#!/bin/sh\nsleep 1000 & sleep 1000 >&- & (sleep 1000 & exec sleep 1000) &\nwait\n",
            &["PID", "silent for 500ms"],
        ),
        (
            "stubborn-parent",
            "#!/bin/sh\ntrap '' TERM\nsleep 1000 & (trap '' TERM; sleep 1000) >/dev/null 2>&1 &\nwait; wait; sleep 1000\n",
            &["PID", "silent for 500ms"],
        ),
        ("stopped", "#!/bin/sh\nkill -STOP $$\n", &["PID", "silent for 500ms"]),
    ];
    assert_refused(
        Setup::new().cgi(IMPATIENT).cgiplus(IMPATIENT),
        504,
        &["cgi", "cgiplus"],
        scripts,
    );
}

#[test]
fn deadline_applies_to_scripts_that_are_never_silent() {
    let scripts: &[Bad] = &[(
        "talks",
        "python\nwhile True:\n    ask(b'!NOOP:')",
        &["PID", "(deadline = "],
    )];
    let keys = "deadline = \"300ms\", kill_grace = \"100ms\"";
    assert_refused(Setup::new().cgi(keys).cgiplus(keys), 504, &["cgi", "cgiplus"], scripts);
}

#[test]
fn time_out_names_its_key_and_asks_what_the_script_has_forgotten() {
    let keys = "reply_timeout = \"700ms\", output_timeout = \"500ms\", kill_grace = \"100ms\"";
    let server = Setup::new()
        .cgi(keys)
        .cgiplus(keys)
        .script("silent", "exec sleep 1000")
        .script(
            "unfinished",
            &format!("{READ}printf 'Content-Type: text/plain\\n\\nbody'; exec sleep 1000"),
        )
        .start();
    for (path, status, words) in [
        (
            "cgi-bin/silent",
            504,
            ["(reply_timeout = \"700ms\")", "has it flushed its output?"],
        ),
        (
            "cgiplus-bin/silent",
            504,
            ["(reply_timeout = \"700ms\")", "neither read its request (CGIPLUSIN)"],
        ),
        (
            "cgi-bin/unfinished",
            200,
            ["(output_timeout = \"500ms\")", "has it flushed its output?"],
        ),
        (
            "cgiplus-bin/unfinished",
            200,
            ["(output_timeout = \"500ms\")", "has it written CGIPLUSEOF"],
        ),
    ] {
        let count = server.log().matches("silent for").count();
        assert_eq!(server.get(&format!("/{path}")).status, status, "{path}");
        let line = server.log_lines(count + 1, "silent for").swap_remove(count);
        assert!(words.iter().all(|word| line.contains(word)), "{path}: {line}");
    }
    server.assert_idle();
}

#[test]
fn endless_body_is_truncated_at_the_deadline() {
    let keys = "deadline = \"1s\", kill_grace = \"100ms\"";
    let server = Setup::new()
        .cgi(keys)
        .cgiplus(keys)
        .script(
            "endless",
            &format!("{READ}printf 'Content-Type: text/plain\\n\\n'; exec yes"),
        )
        .start();
    for (turn, mode) in ["cgi", "cgiplus"].into_iter().enumerate() {
        let response = server.get(&format!("/{mode}-bin/endless"));
        assert_eq!((response.status, response.ending), (200, Ending::Truncated));
        let lines = server.log_lines(turn + 1, "response aborted");
        assert!(
            lines[turn].contains("endless, pid ") && lines[turn].contains("deadline"),
            "{}",
            lines[turn]
        );
        server.assert_idle();
    }
    assert_eq!(warnings_and_errors(&server.stop().errors).len(), 2);
}

/// Asserts that every worker answers: each of many new connections may be handled by another worker.
#[track_caller]
fn assert_all_workers_answer(server: &Server) {
    for _ in 0..12 {
        let mut client = server.connect();
        client.get("/health.txt");
        assert!(!client.is_silent_for(DEADLINE), "a worker is blocked");
        assert_eq!(client.response().text(), "well");
    }
}

#[test]
fn endless_callouts_do_not_block_a_worker() {
    let server = Setup::new()
        .cgi("kill_grace = \"100ms\"")
        .script_route(
            "/hasty/*",
            "directory = \"htdocs/cgi-bin\", deadline = \"1s\", kill_grace = \"100ms\"",
        )
        .python(
            "asks",
            "report('up')\nwhile True:\n    put(ESC + b'!NOOP:\\n' * 2000 + EOT)",
        )
        .start();
    let up = server.setup().event_fifo("up");
    let mut client = server.connect();
    client.get("/cgi-bin/asks");
    up.line();
    assert_all_workers_answer(&server);
    drop(client);
    server.assert_idle();
    assert_eq!(server.get("/hasty/asks").status, 504);
    server.assert_idle();
}

#[test]
fn endless_unwanted_body_does_not_block_a_worker() {
    let keys = "output_timeout = \"500ms\", client_grace = \"500ms\", kill_grace = \"100ms\"";
    let server = Setup::new()
        .cgi(keys)
        .cgiplus(keys)
        .script(
            "endless",
            &format!("{READ}printf 'Content-Type: text/plain\\n\\n'; exec yes"),
        )
        .start();
    for mode in ["cgi", "cgiplus"] {
        let mut client = server.connect();
        client.send(format!("HEAD /{mode}-bin/endless HTTP/1.1\r\nHost: test\r\n\r\n"));
        assert_eq!(client.response_to("HEAD").status, 200);
        assert_all_workers_answer(&server);
        server.wait_for_processes(0);
        let mut leaver = server.connect();
        leaver.get(&format!("/{mode}-bin/endless"));
        leaver.head();
        drop(leaver);
        assert_all_workers_answer(&server);
        server.wait_for_processes(0);
    }
}

#[test]
fn stalled_reply_is_truncated_after_the_output_timeout() {
    let server = Setup::new()
        .cgi(IMPATIENT)
        .cgiplus(IMPATIENT)
        .script(
            "hangs",
            &format!("{READ}printf 'Content-Type: text/plain\\n\\npartial'; sleep 1000 & wait"),
        )
        .script(
            "hangs-counted",
            &format!("{READ}printf 'Content-Type: text/plain\\nContent-Length: 10\\n\\npartial'; sleep 1000"),
        )
        .start();
    let mut count = 0;
    for mode in ["cgi", "cgiplus"] {
        for script in ["hangs", "hangs-counted"] {
            let mut client = server.connect();
            client.get(&format!("/{mode}-bin/{script}"));
            let head = client.head();
            let (body, ending) = client.body(head.framing("GET"));
            assert_eq!(
                (String::from_utf8_lossy(&body).as_ref(), ending),
                ("partial", Ending::Truncated),
                "{mode} {script}"
            );
            count += 1;
            let line = server.log_lines(count, "response aborted").pop().unwrap();
            assert!(
                line.contains(script) && line.contains(", pid ") && line.contains("silent for 500ms"),
                "{line}"
            );
            drop(client);
            server.assert_idle();
        }
    }
    assert_eq!(server.access_lines(count).len(), count);
    assert_eq!(warnings_and_errors(&server.stop().errors).len(), count);
}

#[test]
fn slow_script_is_served_while_it_writes() {
    let server = Setup::new()
        .cgi("reply_timeout = \"1s\", output_timeout = \"700ms\"")
        .script(
            "slow",
            "printf 'Content-Type: text/plain\\n\\n'; for i in 1 2 3 4 5 6 7 8; do sleep 0.15; echo $i; done",
        )
        .start();
    let begin = Instant::now();
    assert_eq!(server.get("/cgi-bin/slow").text(), "1\n2\n3\n4\n5\n6\n7\n8\n");
    assert!(begin.elapsed() > Duration::from_secs(1));
}

#[test]
fn slow_client_does_not_trigger_the_reply_timeout() {
    let server = Setup::new()
        .cgi("reply_timeout = \"1s\"")
        .cgiplus("reply_timeout = \"1s\"")
        .script(
            "reader",
            r#"length=$CONTENT_LENGTH
if [ "${CGIPLUSEOF+kept}" ]; then
  while read -r line <&3 && [ "$line" ]; do case $line in CONTENT_LENGTH=*) length=${line#*=};; esac; done
fi
body=$(head -c "$length")
printf 'Content-Type: text/plain\n\n%s' "$body"
printf %s "$CGIPLUSEOF""#,
        )
        .start();
    for mode in ["cgi", "cgiplus"] {
        let mut client = server.connect();
        client.send(format!(
            "POST /{mode}-bin/reader HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n"
        ));
        for chunk in ["01234", "56789"] {
            let is_waiting = client.is_silent_for(Duration::from_millis(1300));
            assert!(
                is_waiting,
                "{mode}: {} while the client still sends\n{}",
                client.response().status,
                server.log()
            );
            client.send(chunk);
        }
        assert_eq!(client.response().text(), "0123456789", "{mode}");
    }
}

#[test]
fn children_are_killed_with_their_script_without_delay() {
    let server = Setup::new()
        .script(
            "leaves",
            "printf 'Content-Type: text/plain\\n\\ndone'; sleep 1000 & sleep 1000 2>&- >&- <&- &",
        )
        .script(
            "leaves-counted",
            "printf 'Content-Type: text/plain\\nContent-Length: 4\\n\\ndone'; (trap '' TERM HUP; sleep 1000; :) &",
        )
        .python(
            "keeps",
            r#"
import subprocess
while accept():
    subprocess.Popen(["sleep", "1000"])
    put(HEAD + b"%d" % os.getpid())
    finish()
"#,
        )
        .start();
    let begin = Instant::now();
    for script in ["leaves", "leaves-counted"] {
        assert_eq!(server.get(&format!("/cgi-bin/{script}")).text(), "done", "{script}");
        server.assert_idle();
    }
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "the server waited for the children"
    );
    let pid = server.get("/cgiplus-bin/keeps").text().to_owned();
    server.wait_for_processes(2);
    let mut kill = spawn(Command::new("kill").arg(&pid)).unwrap();
    assert!(kill.wait().unwrap().success());
    server.wait_for_processes(0);
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn daemon_is_not_awaited_and_ends_with_its_script() {
    let server = Setup::new()
        .script(
            "daemon",
            r#"printf 'Content-Type: text/plain\n\ndone'
setsid sh -c 'trap "" TERM HUP; echo up > "$TEST_DIR/up"; read -r line < "$TEST_DIR/never"' &
read -r line < "$TEST_DIR/up""#,
        )
        .start();
    let (_up, _never) = (server.setup().gate("up"), server.setup().gate("never"));
    let response = server.get("/cgi-bin/daemon");
    assert_eq!((response.status, response.text()), (200, "done"));
    server.assert_idle();
}

#[test]
fn closing_the_output_ends_the_reply() {
    let server = Setup::new()
        .script(
            "works-on",
            "printf 'Content-Type: text/plain\\n\\ndone'; exec >&-; echo closed > \"$TEST_DIR/events\"; read -r line < \"$TEST_DIR/go\"; echo worked > \"$TEST_DIR/events\"",
        )
        .start();
    let (events, mut gate) = (server.setup().event_fifo("events"), server.setup().gate("go"));
    assert_eq!(server.get("/cgi-bin/works-on").text(), "done");
    assert_eq!(events.line(), "closed");
    gate.open();
    assert_eq!(events.line(), "worked");
    server.assert_idle();
}

#[test]
fn script_may_leave_its_input_unread_or_close_it() {
    let server = Setup::new()
        .script("closes", "exec <&-; printf 'Content-Type: text/plain\\n\\nclosed'")
        .script("ignores", "printf 'Content-Type: text/plain\\n\\nignored'")
        .python(
            "kept",
            "while variables := accept():\n    if 'close' in variables['QUERY_STRING']:\n        os.close(0)\n    put(HEAD + b'kept')\n    finish()",
        )
        .cgiplus("max = 1")
        .start();
    for size in [10, 100_000, 3_000_000] {
        let body = vec![b'x'; size];
        for (path, text) in [
            ("/cgi-bin/closes", "closed"),
            ("/cgi-bin/ignores", "ignored"),
            ("/cgiplus-bin/kept", "kept"),
        ] {
            let mut client = server.connect();
            let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n");
            client.try_send([head.as_bytes(), &body].concat());
            let response = client.response();
            assert_eq!((response.status, response.text()), (200, text), "{path} {size}");
        }
    }
    assert_eq!(
        server.post("/cgiplus-bin/kept?close", vec![b'x'; 100_000]).text(),
        "kept"
    );
    assert_eq!(server.get("/cgiplus-bin/kept").text(), "kept");
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn flood_on_standard_error_is_limited_in_the_log() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "floods",
            r#"
def respond():
    line = b"x" * 99 + b"\n"
    put(HEAD)
    for at in range(100):
        put(b"%02d " % at)
        noise = line * 1049
        while noise:
            noise = noise[os.write(2, noise) :]
    os.write(2, b"last words\n")
if "CGIPLUSEOF" in os.environ:
    while accept():
        respond()
        finish()
else:
    respond()
"#,
        )
        .start();
    let expected: String = (0..100).map(|at| format!("{at:02} ")).collect();
    for mode in ["cgi", "cgiplus", "cgiplus"] {
        assert_eq!(server.get(&format!("/{mode}-bin/floods")).text(), expected, "{mode}");
    }
    let line = server.log_line("more lines like it, not logged");
    assert!(line.contains("cgi-bin/floods") && line.contains("pid="), "{line}");
    let lines = server.log().lines().count();
    assert!(lines < 5_000, "{lines} log lines for three times 10 MB of errors");
    server.wait_for_processes(1);
}

#[test]
fn error_page_and_logs_share_the_request_id() {
    let server = Setup::new().script("fails", "echo why >&2; exit 1").start();
    let response = server.get("/cgi-bin/fails");
    let id = request_id(&response);
    let lines = server.log_lines(2, &id);
    assert!(
        lines[0].contains(" script: why ") && lines[1].contains("status=502"),
        "{lines:#?}"
    );
    assert!(server.access_lines(1)[0].contains(&id));
}
