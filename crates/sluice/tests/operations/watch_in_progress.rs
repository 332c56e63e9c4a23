//! WATCH of requests that are in progress when the watch begins.

use sluice_testing::{Client, FifoReader, Gate, Server, Setup, Watcher};
use sluice_testing::{request, top};

/// A CGIplus script that hangs until the gate is opened, and then prints its cookie.
const HANGS: &str = r#"
while variables := accept():
    report("entered")
    wait_at("gate")
    put(HEAD + b"cookie " + variables.get("HTTP_COOKIE", "").encode())
    finish()
"#;

/// A server whose script hangs, for this query and with a cookie.
fn start_hanging(query: &str) -> (Server, Client, FifoReader, Gate) {
    let setup = Setup::new().cgiplus("max = 1").python("hangs", HANGS);
    let (entered, gate) = (setup.event_fifo("entered"), setup.gate("gate"));
    let server = setup.start();
    let client = begin(&server, query, &entered);
    (server, client, entered, gate)
}

/// A request that has reached the script.
fn begin(server: &Server, query: &str, entered: &FifoReader) -> Client {
    let mut client = server.connect();
    client.send(format!(
        "GET /cgiplus-bin/hangs?{query} HTTP/1.1\r\nHost: test\r\nCookie: session=topsecret\r\n\r\n"
    ));
    entered.line();
    client
}

#[test]
fn a_script_that_hangs_is_found_by_a_watch_that_begins_later() {
    let (server, mut client, _entered, mut gate) = start_hanging("password=hunter22");
    let watcher = Watcher::start(
        &server,
        &["--script", "*/hangs", "--site", "default", "--items", "all,-octets"],
    );
    let other = Watcher::start(&server, &["--script", "*/other", "--trigger", "status>=500"]);
    for expected in [
        "GET /cgiplus-bin/hangs?password=…(8 bytes) HTTP/1.1",
        " s when this watch began; from 127.0.0.1:",
        "state: script runs; answered by: script; script process ",
        "0 bytes of the request's body received, 0 bytes of the response's body sent",
        "not shown of it: what came before, its body, the bytes of its connection",
        "/hangs, pid ",
        " has the request; the head of its reply is not complete",
        "s of processor time so far",
    ] {
        watcher.line(expected);
    }
    gate.open();
    assert_eq!(client.response().text(), "cookie session=topsecret");
    for expected in [
        "head of the reply is complete: status 200",
        "200 OK",
        "cookie ",
        "the end sentinel (CGIPLUSEOF): the reply is complete",
        "unwatched   before the watch",
        "is kept, idle",
    ] {
        watcher.line(expected);
    }
    for secret in ["topsecret", "hunter22"] {
        assert!(!watcher.text().contains(secret), "{}", watcher.text());
    }
    drop(client);
    server.stop();
    assert!(!other.wait_end().output.contains("hangs"));
}

#[test]
fn the_id_of_a_request_in_progress_finds_it() {
    let (server, mut client, entered, mut gate) = start_hanging("a");
    let mut second = server.connect();
    second.get("/cgiplus-bin/hangs?b");
    let id = |target: &str| {
        let id = request(&top(&server), target).map(|request| request["id"].as_str().unwrap().to_owned());
        id.unwrap_or_else(|| panic!("no request {target}"))
    };
    let watcher = Watcher::start(&server, &["--id", &id("/cgiplus-bin/hangs?a"), "--once"]);
    // Its request is the next one, not one that is in progress.
    let next = Watcher::start(&server, &["--path", "/cgiplus-bin/*", "--once"]);
    watcher.line("state: script runs");
    gate.open();
    assert_eq!(client.response().text(), "cookie session=topsecret");
    let shown = watcher.wait_end();
    assert!(shown.status.success(), "{}", shown.errors);
    assert!(!shown.output.contains("hangs?b"), "{}", shown.output);
    entered.line();
    gate.open();
    second.response();
    let mut third = server.connect();
    third.get("/cgiplus-bin/hangs?c");
    entered.line();
    gate.open();
    third.response();
    let shown = next.wait_end().output;
    assert!(
        shown.contains("hangs?c") && !shown.contains("hangs?a") && !shown.contains("hangs?b"),
        "{shown}"
    );
}

#[test]
fn a_request_that_waits_for_a_process_is_shown_to_its_end() {
    let (server, mut client, entered, mut gate) = start_hanging("a");
    let mut waiting = server.connect();
    waiting.get("/cgiplus-bin/hangs?b");
    assert!(sluice_testing::wait_until(|| request(
        &top(&server),
        "/cgiplus-bin/hangs?b"
    )
    .is_some_and(|request| request["state"] == "waiting")));
    let watcher = Watcher::start(&server, &["--trigger", "slower=1ms", "--items", "process,timing"]);
    watcher.line("state: script runs");
    watcher.line("state: waiting for a process; answered by: script;");
    gate.open();
    client.response();
    entered.line();
    gate.open();
    waiting.response();
    watcher.lines(2, "unwatched   before the watch");
    watcher.line("process     script process found or started");
}

#[test]
fn a_response_that_is_being_sent_is_shown_with_what_was_sent() {
    let server = Setup::new().file("large", vec![b'x'; 32 << 20]).start();
    let mut client = server.connect();
    client.get("/large");
    let head = client.head();
    assert_eq!(head.status, 200);
    let watcher = Watcher::start(
        &server,
        &["--path", "/large", "--status", "2xx", "--items", "response,errors"],
    );
    watcher.line(
        "state: sending; answered by: file; the head of the response was sent, status 200; 0 bytes of the request's",
    );
    watcher.line("the bytes of its connection, the body of its response");
    drop(client);
    watcher.line("the client left before the response was complete");
}
