//! Clients that leave during bulk output, or read slowly.

use std::time::Duration;

use super::assert_numbered;
use super::plain::PLAIN;
use sluice_testing::Setup;

#[test]
fn slow_client_blocks_the_script_and_gets_every_byte() {
    // More than all socket buffers on the way hold.
    const LENGTH: usize = 24 << 20;
    let server = Setup::new().c_programs().start();
    let half = server.setup().event_fifo("half");
    let mut gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get(&format!("/cgi-bin/bulk?{LENGTH}+65536+60000+cg"));
    assert!(
        half.is_silent_for(Duration::from_millis(300)),
        "12 MiB went to a client that reads nothing"
    );
    gate.open();
    assert_numbered(&client.response(), LENGTH, "", "a slow client");
    half.line();
}

#[test]
fn cgi_script_ends_with_its_client() {
    let server = Setup::new().c_programs().start();
    let half = server.setup().event_fifo("half");
    let _gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get("/cgi-bin/bulk?100000+65536+5000+g");
    half.line();
    server.wait_for_processes(1);
    drop(client);
    server.assert_idle();
    // 499 if the client left before the head was ready.
    let line = server.access_lines(1).remove(0);
    assert!(line.contains(" 200 ") || line.contains(" 499 "), "{line}");
}

#[test]
fn writes_of_a_cgiplus_script_fail_after_its_client_left() {
    let server = Setup::new()
        .cgiplus("max = 1, client_grace = \"1m\"")
        .c_programs()
        .start();
    let (half, failed) = (server.setup().event_fifo("half"), server.setup().event_fifo("failed"));
    let mut gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get("/cgiplus-bin/bulk?100000+65536+5000+g");
    half.line();
    let pid = server.processes()[0].pid;
    drop(client);
    server.access_lines(1);
    gate.open();
    assert_eq!(failed.line(), "Broken pipe");
    let response = server.get("/cgiplus-bin/bulk?100000+65536+5000+c");
    assert_numbered(&response, 100_000, "", "after a client that left");
    assert_eq!(
        response.field("x-pid"),
        Some(pid.to_string().as_str()),
        "the process is kept"
    );
}

#[test]
fn blocked_write_fails_when_the_client_leaves() {
    let server = Setup::new()
        .cgiplus("max = 1, client_grace = \"1m\"")
        .c_programs()
        .start();
    let failed = server.setup().event_fifo("failed");
    let mut client = server.connect();
    client.get(&format!("/cgiplus-bin/bulk?{}+8192+5000+c", 64 << 20));
    client.head();
    drop(client);
    assert_eq!(failed.line(), "Broken pipe");
    let response = server.get("/cgiplus-bin/bulk?1000+65536+50+c");
    assert_numbered(&response, 1000, "", "after a client that left");
    assert_eq!(response.field("x-usage"), Some("2"));
}

#[test]
fn cgiplus_script_without_a_client_is_killed_after_the_grace_period() {
    let server = Setup::new()
        .cgiplus("max = 1, client_grace = \"100ms\", kill_grace = \"100ms\"")
        .c_programs()
        .start();
    let half = server.setup().event_fifo("half");
    let _gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get("/cgiplus-bin/bulk?100000+65536+5000+g");
    half.line();
    drop(client);
    server.assert_idle();
}

#[test]
fn plain_buffer_writes_are_refused_after_the_client_left() {
    let server = Setup::new()
        .cgiplus("max = 1, client_grace = \"1m\"")
        .python(
            "left",
            r#"
while accept():
    ask(b"BUFFER-BEGIN: 4k")
    put(HEAD)
    first = ask(b"BUFFER-WRITE: 5")
    report("sent")
    wait_at("go")
    said = ask(b"BUFFER-WRITE: 5", b"NOOP:", b"BUFFER-END:")
    finish()
    report("said", b" ".join(answer.strip() for answer in first + said).decode())
"#,
        )
        .python("plain", PLAIN)
        .start();
    let (sent, said) = (server.setup().event_fifo("sent"), server.setup().event_fifo("said"));
    let mut gate = server.setup().gate("go");
    for turn in 1..=2 {
        let mut client = server.connect();
        client.get("/cgiplus-bin/left");
        sent.line();
        drop(client);
        server.access_lines(turn);
        gate.open();
        let line = said.line();
        assert!(
            line.starts_with("200 5 410 ") && line.contains(" 200 OK 200 "),
            "{line}"
        );
    }
    server.wait_for_processes(1);
}
