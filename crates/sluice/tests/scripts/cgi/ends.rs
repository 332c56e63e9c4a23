//! How script processes are stopped: the client has left, the script is too slow, or it leaves children behind.
//!
//! The script and its children open the test's FIFO; when no process has it open any more, they have all exited.

use sluice_testing::{Ending, Server, Setup};

/// Opens the listener's FIFO and keeps it open, together with two children.
const WITH_CHILDREN: &str = r#"exec 9> "$TEST_DIR/events"; sleep 1000 & sleep 1000 & echo started >&9"#;

#[track_caller]
fn assert_stopped(server: &Server, events: &sluice_testing::FifoReader) {
    events.end();
    server.assert_idle();
}

#[test]
fn client_leaving_before_the_head_stops_the_script_and_its_children() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup.script("slow", &format!("{WITH_CHILDREN}; wait")).start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    assert_eq!(events.line(), "started");
    drop(client);
    assert_stopped(&server, &events);
    let line = server.access_lines(1).swap_remove(0);
    assert!(line.contains("\"GET /cgi-bin/slow HTTP/1.1\" 499 "), "{line}");
}

#[test]
fn client_leaving_within_the_body_stops_the_script_and_its_children() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "slow",
            &format!("{WITH_CHILDREN}; printf 'Content-Type: text/plain\\n\\nbody'; wait"),
        )
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow").head();
    assert_eq!(client.chunk(), b"body");
    drop(client);
    assert_eq!(events.end(), ["started"]);
    server.assert_idle();
}

#[test]
fn client_leaving_an_endless_body_stops_the_script() {
    let server = Setup::new()
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/endless").head();
    for _ in 0..10 {
        assert!(!client.chunk().is_empty());
    }
    drop(client);
    server.assert_idle();
}

#[test]
fn script_that_ignores_sigterm_is_killed() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "stubborn",
            &format!("trap '' TERM; {WITH_CHILDREN}; while :; do wait; done"),
        )
        .cgi("kill_grace = \"100ms\"")
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/stubborn");
    assert_eq!(events.line(), "started");
    drop(client);
    assert_stopped(&server, &events);
}

#[test]
fn script_may_clean_up_when_its_client_has_left() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    // Blocked and waited for, so that the signal cannot arrive outside of sigwait.
    let server = setup
        .python(
            "tidy",
            r#"
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
report("events", "started")
signal.sigwait([signal.SIGTERM])
report("events", "cleaned")
"#,
        )
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/tidy");
    assert_eq!(events.line(), "started");
    drop(client);
    assert_eq!(events.line(), "cleaned");
    server.assert_idle();
}

#[test]
fn script_that_exceeds_the_reply_timeout_is_stopped_with_its_children() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script("slow", &format!("{WITH_CHILDREN}; wait"))
        .cgi("reply_timeout = \"700ms\"")
        .start();
    let response = server.get("/cgi-bin/slow");
    assert_eq!(response.status, 504);
    assert_eq!(events.end(), ["started"]);
    server.log_line("silent for 700ms");
    server.assert_idle();
}

#[test]
fn script_that_exceeds_the_output_timeout_is_truncated() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "slow",
            &format!("{WITH_CHILDREN}; printf 'Content-Type: text/plain\\n\\nbody'; wait"),
        )
        .cgi("output_timeout = \"200ms\"")
        .start();
    let response = server.get("/cgi-bin/slow");
    assert_eq!(
        (response.status, response.body.as_slice(), response.ending),
        (200, b"body".as_slice(), Ending::Truncated)
    );
    assert_eq!(events.end(), ["started"]);
    server.assert_idle();
}

#[test]
fn children_left_behind_are_killed() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "leaves",
            &format!("{WITH_CHILDREN}; printf 'Content-Type: text/plain\\n\\nbody'"),
        )
        .start();
    assert_eq!(server.get("/cgi-bin/leaves").text(), "body");
    assert_eq!(events.end(), ["started"]);
    server.assert_idle();
}

#[test]
fn child_with_its_own_session_ends_with_its_script() {
    let setup = Setup::new();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let daemon =
        r#"setsid sh -c 'echo settled > "$TEST_DIR/events"; exec sleep 1000' < /dev/null > /dev/null 2>&1 3>&- 4>&-"#;
    let server = setup
        .script(
            "founds",
            &format!(r#"{daemon} & read -r line < "$TEST_DIR/gate"; printf 'Content-Type: text/plain\n\nbody'"#),
        )
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/founds");
    assert_eq!(events.line(), "settled");
    gate.open();
    assert_eq!(client.response().text(), "body");
    drop(client);
    server.assert_idle();
}

#[test]
fn many_clients_leaving_at_once_leave_no_process() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script("slow", r#"echo started > "$TEST_DIR/events"; exec sleep 1000"#)
        .start();
    let clients: Vec<_> = (0..30)
        .map(|_| {
            let mut client = server.connect();
            client.get("/cgi-bin/slow");
            client
        })
        .collect();
    for _ in &clients {
        assert_eq!(events.line(), "started");
    }
    drop(clients);
    server.assert_idle();
}

#[test]
fn clients_leaving_during_script_start_leave_no_process() {
    let server = Setup::new().script("slow", "exec sleep 1000").start();
    for _ in 0..50 {
        server.connect().get("/cgi-bin/slow");
    }
    // Not all 50: `log` tests that every request is logged.
    let lines = server.access_lines(20);
    assert!(lines.iter().all(|line| line.contains(" 499 ")), "{lines:#?}");
    server.assert_idle();
}

#[test]
fn client_leaving_during_an_unread_upload_stops_the_script() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "slow",
            r#"exec 9> "$TEST_DIR/events"; echo started >&9; exec sleep 1000"#,
        )
        .cgi("reply_timeout = \"5s\"")
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/slow HTTP/1.1\r\nHost: test\r\nContent-Length: 300000\r\n\r\n");
    assert_eq!(events.line(), "started");
    // More than the script's pipe holds, and little enough for the kernel to accept all of it: only then does the
    // server see that the client has closed.
    client.send(vec![b'x'; 120_000]);
    drop(client);
    events.end();
    let line = server.access_lines(1).swap_remove(0);
    assert!(line.contains(" 499 "), "the script ran until its own timeout: {line}");
}

#[test]
fn client_leaving_with_a_pipelined_request_stops_the_script() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "slow",
            r#"exec 9> "$TEST_DIR/events"; echo started >&9; exec sleep 1000"#,
        )
        .cgi("reply_timeout = \"5s\"")
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow").get("/health.txt");
    assert_eq!(events.line(), "started");
    drop(client);
    events.end();
    let line = server.access_lines(1).swap_remove(0);
    assert!(line.contains(" 499 "), "the script ran until its own timeout: {line}");
}
