//! Bounds on script processes that several scripts share: of the server, and of a route.

use std::collections::HashSet;

use super::{COUNTER, MOMENT, WAITER, ask, pid_and_count};
use sluice_testing::{Client, FifoReader, Gate, Server, Setup};

/// A server with three waiter scripts, the FIFO that they report to and the gate that they wait at.
fn start_waiters(setup: Setup) -> (Server, FifoReader, Gate) {
    let server = ["one", "two", "three"]
        .into_iter()
        .fold(setup, |setup, name| setup.python(name, WAITER))
        .start();
    let (begun, gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    (server, begun, gate)
}

#[test]
fn all_scripts_together_have_no_more_processes_than_the_server_allows() {
    for mode in ["cgi", "cgiplus"] {
        let (server, begun, mut gate) = start_waiters(Setup::new().limits("processes = 2"));
        let mut clients: Vec<_> = ["one", "two", "three", "one", "two", "three"]
            .iter()
            .map(|name| ask(&server, &format!("/{mode}-bin/{name}?x")))
            .collect();
        begun.line();
        begun.line();
        for _ in 0..4 {
            assert_eq!(begun.line_within(MOMENT), None, "{mode}: a third process runs");
            assert!(server.processes().len() <= 2, "{:?}", server.processes());
            gate.open();
            begun.line();
        }
        gate.open();
        gate.open();
        for client in &mut clients {
            assert_eq!(client.response().status, 200, "{}", server.log());
        }
        let line = server.log_line("the limit is reached");
        assert!(line.contains("limits.processes = 2"), "{line}");
        let lines = server.log().matches("the limit is reached").count();
        assert!(lines < 4, "{lines} lines for four requests that waited");
    }
}

#[test]
fn request_that_finds_no_room_in_time_gets_503() {
    let keys = "queue_timeout = \"100ms\"";
    let (server, begun, mut gate) = start_waiters(Setup::new().limits("processes = 1").cgi(keys).cgiplus(keys));
    let mut first = ask(&server, "/cgi-bin/one?x");
    begun.line();
    for path in ["/cgi-bin/two?x", "/cgiplus-bin/two?x"] {
        let response = server.get(path);
        assert_eq!(response.status, 503);
        assert!(response.field("retry-after").is_some());
    }
    gate.open();
    assert_eq!(first.response().status, 200);
    let mut next = ask(&server, "/cgi-bin/two?x");
    begun.line();
    gate.open();
    assert_eq!(next.response().status, 200);
}

#[test]
fn idle_process_of_another_script_makes_room() {
    let server = Setup::new()
        .limits("processes = 1")
        .python("one", COUNTER)
        .python("two", COUNTER)
        .start();
    for _ in 0..3 {
        for path in ["/cgiplus-bin/one", "/cgiplus-bin/two"] {
            assert_eq!(pid_and_count(&server, path).1, 1, "a new process");
            assert_eq!(pid_and_count(&server, path).1, 2, "the same process");
            assert!(server.processes().len() <= 1, "{:?}", server.processes());
        }
    }
}

#[test]
fn route_bounds_the_processes_of_its_scripts_together() {
    let keys = "directory = \"htdocs/cgi-bin\", mode = \"cgiplus\", processes = 1";
    let (server, begun, mut gate) = start_waiters(Setup::new().script_route("/narrow/*", keys));
    let narrow = |name: &str| ask(&server, &format!("/narrow/{name}?x"));
    let mut clients: Vec<Client> = vec![narrow("one")];
    begun.line();
    clients.extend(["two", "three"].map(narrow));
    assert_eq!(begun.line_within(MOMENT), None, "a second process of the route");
    clients.push(ask(&server, "/cgiplus-bin/two?x"));
    begun.line();
    for _ in 0..2 {
        gate.open();
        gate.open();
        begun.line();
    }
    gate.open();
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200, "{}", server.log());
    }
}

#[test]
fn reload_changes_the_bound_for_requests_that_wait() {
    let (server, begun, mut gate) = start_waiters(Setup::new().limits("processes = 1"));
    let mut clients: Vec<_> = ["one", "two", "three"]
        .iter()
        .map(|name| ask(&server, &format!("/cgi-bin/{name}?x")))
        .collect();
    begun.line();
    assert_eq!(begun.line_within(MOMENT), None);
    let file = server.path("sluice.toml");
    let wider = std::fs::read_to_string(&file)
        .unwrap()
        .replace("processes = 1", "processes = 3");
    std::fs::write(&file, wider).unwrap();
    server.signal("HUP");
    begun.line();
    begun.line();
    for _ in 0..3 {
        gate.open();
    }
    let answers: HashSet<u16> = clients.iter_mut().map(|client| client.response().status).collect();
    assert_eq!(answers, HashSet::from([200]));
}
