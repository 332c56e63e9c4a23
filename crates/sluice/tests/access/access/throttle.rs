//! Rates and throttles: how many requests are answered.

use std::sync::mpsc;
use std::thread;

use super::{WAITING_SCRIPT, basic, request, setup, status};
use sluice_testing::{DEADLINE, FifoReader, Gate, Server, run};

#[test]
fn a_client_gets_as_many_answers_as_the_rate_allows() {
    let server = setup()
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .route("path = \"/a.txt\"\nrate = \"3/h\"")
        .route("path = \"/missing\"\nrate = \"1/h\"")
        .start();
    let from = |address: &str| format!("X-Forwarded-For: {address}\r\n");
    for _ in 0..3 {
        assert_eq!(status(&server, "GET", "/a.txt", &from("192.0.2.1")), 200);
    }
    let refused = server.send(request("GET", "/a.txt", &from("192.0.2.1")));
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("Too many requests;"), "{}", refused.text());
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!(wait > 1100 && wait <= 1200, "{wait}");
    server.log_line("more requests than 3/h of the route at sluice.toml:");
    assert_eq!(
        status(&server, "GET", "/a.txt", &from("192.0.2.2")),
        200,
        "another client"
    );
    assert_eq!(status(&server, "GET", "/missing", &from("192.0.2.1")), 404);
    assert_eq!(
        status(&server, "GET", "/missing", &from("192.0.2.1")),
        429,
        "errors count, too"
    );
    assert_eq!(
        status(&server, "GET", "/health.txt", &from("192.0.2.1")),
        200,
        "another route"
    );
}

#[test]
fn a_rate_counts_before_passwords_are_verified() {
    let server = setup()
        .route("path = \"/secret/*\"\nrate = \"2/h\"\naccess = { users = \"users\" }")
        .start();
    // A password that must be hashed is counted once, although the request passes the gate twice.
    for expected in [200, 200, 429] {
        assert_eq!(
            status(&server, "GET", "/secret/a.txt", &basic("ann", "open sesame")),
            expected
        );
    }
}

#[test]
fn the_log_says_how_long_a_request_has_waited() {
    let setup = setup()
        .script("wait", WAITING_SCRIPT)
        .route("path = \"/cgi-bin/wait\"\nthrottle = { at_once = 1, queue = 1, queue_timeout = \"10ms\" }");
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut first = server.connect();
    first.get("/cgi-bin/wait");
    assert_eq!(events.line(), "begun");
    assert_eq!(server.get("/cgi-bin/wait").status, 503);
    let line = server.log_line("no room after 10.0ms in the queue: 1 request at once");
    assert!(line.contains("throttle of the route at sluice.toml:"), "{line}");
    gate.open();
    assert_eq!(first.response().text(), "done");
}

#[test]
fn requests_wait_for_a_permit_and_too_many_are_refused() {
    let setup = setup()
        .script("wait", WAITING_SCRIPT)
        .route("path = \"/cgi-bin/wait\"\nthrottle = { at_once = 1, queue = 1, queue_timeout = \"1m\" }");
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut first = server.connect();
    first.get("/cgi-bin/wait");
    assert_eq!(events.line(), "begun");
    let (sender, responses) = mpsc::channel();
    thread::scope(|scope| {
        // One of them waits, the other one is refused.
        for _ in 0..2 {
            let (server, sender) = (&server, sender.clone());
            scope.spawn(move || sender.send(server.get("/cgi-bin/wait")).unwrap());
        }
        let refused = responses.recv_timeout(DEADLINE).unwrap();
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("5")));
        server.log_line("no room nor a place in the queue: 1 request at once");
        assert_eq!(server.get("/a.txt").status, 200);
        gate.open();
        assert_eq!(first.response().text(), "done");
        assert_eq!(events.line(), "begun", "the one that waits has got the permit");
        gate.open();
        assert_eq!(responses.recv_timeout(DEADLINE).unwrap().text(), "done");
    });
    assert_eq!(
        ask_with_gate(&server, &events, &mut gate),
        "done",
        "the permit is free again"
    );
}

#[test]
fn a_file_that_changes_while_its_request_waits_is_sent_as_it_is_then() {
    // With a password, which must be hashed first, the request waits twice.
    for access in ["", "access = { users = \"users\" }\n"] {
        let setup = setup().script("wait", WAITING_SCRIPT).route(&format!(
            "path = \"/*\"\n{access}throttle = {{ at_once = 1, queue = 1, queue_timeout = \"1m\" }}"
        ));
        // Without the cache, which sends the old content until it revalidates.
        let setup = setup.route("path = \"/health.txt\"\naccess = false").cache("size = 0");
        let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
        let server = setup.start();
        let old = server.send(request("GET", "/a.txt", &basic("ann", "open sesame")));
        let mut first = server.connect();
        first.send(request("GET", "/cgi-bin/wait", &basic("ann", "open sesame")));
        assert_eq!(events.line(), "begun");
        let (sender, responses) = mpsc::channel();
        thread::scope(|scope| {
            // One of them waits in the queue, the other one is refused.
            for _ in 0..2 {
                let (server, sender) = (&server, sender.clone());
                let bob = basic("bob", "open sesame");
                scope.spawn(move || sender.send(server.send(request("GET", "/a.txt", &bob))).unwrap());
            }
            assert_eq!(responses.recv_timeout(DEADLINE).unwrap().status, 503, "{access}");
            std::fs::write(server.path("htdocs/a.txt"), "other and longer").unwrap();
            gate.open();
            assert_eq!(first.response().text(), "done");
            let response = responses.recv_timeout(DEADLINE).unwrap();
            assert_eq!(response.text(), "other and longer", "{access}");
            assert_ne!(response.field("etag"), old.field("etag"), "{access}");
            assert_eq!(response.field("content-length"), Some("16"), "{access}");
        });
    }
}

#[test]
fn a_reload_gives_no_permits_away() {
    let setup = setup()
        .script("wait", WAITING_SCRIPT)
        .route("path = \"/cgi-bin/wait\"\nthrottle = { at_once = 1, queue = 0 }");
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut first = server.connect();
    first.get("/cgi-bin/wait");
    assert_eq!(events.line(), "begun");
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/cgi-bin/wait").status, 503);
    gate.open();
    assert_eq!(first.response().text(), "done");
    assert_eq!(ask_with_gate(&server, &events, &mut gate), "done");
}

#[test]
fn clients_and_users_do_not_wait_for_each_other() {
    const FROM: fn(&str) -> String = |address| format!("X-Forwarded-For: {address}\r\nX-Forwarded-Proto: https\r\n");
    let as_user = |name: &str, address: &str| format!("{}{}", basic(name, "open sesame"), FROM(address));
    for (per, running, refused) in [
        (
            "per = \"client\" }",
            [FROM("192.0.2.1"), FROM("192.0.2.2"), FROM("2001:db8::1")],
            // The last one is in the network of the third.
            [FROM("192.0.2.1"), FROM("192.0.2.2"), FROM("2001:db8::2")],
        ),
        (
            "per = \"user\" }\naccess = { users = \"users\" }",
            [
                as_user("ann", "192.0.2.1"),
                as_user("bob", "192.0.2.1"),
                as_user("eve", "192.0.2.2"),
            ],
            [
                as_user("ann", "192.0.2.9"),
                as_user("bob", "2001:db8::1"),
                as_user("eve", "192.0.2.2"),
            ],
        ),
    ] {
        let setup = setup()
            .server("trusted_proxies = [\"127.0.0.1\"]")
            .script("wait", WAITING_SCRIPT)
            .route(&format!("path = \"/cgi-bin/wait\"\nthrottle = {{ at_once = 1, {per}"));
        let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
        let server = setup.start();
        let mut clients: Vec<_> = running.iter().map(|_| server.connect()).collect();
        for (client, fields) in clients.iter_mut().zip(&running) {
            client.send(request("GET", "/cgi-bin/wait", fields));
            assert_eq!(events.line(), "begun", "{fields}");
        }
        for fields in &refused {
            assert_eq!(status(&server, "GET", "/cgi-bin/wait", fields), 503, "{fields}");
        }
        // Each opens the gate for any of them.
        clients.iter().for_each(|_| gate.open());
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
    }
}

/// The body of a response for which the gate is opened once its script has begun.
fn ask_with_gate(server: &Server, events: &FifoReader, gate: &mut Gate) -> String {
    let mut client = server.connect();
    client.get("/cgi-bin/wait");
    assert_eq!(events.line(), "begun");
    gate.open();
    client.response().text().to_owned()
}

#[test]
fn check_shows_the_limits_and_reports_wrong_ones() {
    let setup =
        setup().route("path = \"/a.txt\"\nrate = \"20/s\"\nthrottle = { at_once = 4, queue = 9, per = \"user\" }");
    setup.write_configuration();
    let text = run(setup.directory(), &["check"]).output;
    assert!(text.contains("20/s requests of each client"), "{text}");
    assert!(text.contains("4 requests of each user at once, 9 more wait"), "{text}");
    for (keys, expected) in [
        ("rate = \"20\"", "must be a number of requests and a time"),
        ("throttle = { queue = 1 }", "lacks at_once"),
        ("throttle = { at_once = 0 }", "must be at least 1"),
    ] {
        let setup = super::setup().route(&format!("path = \"/a.txt\"\n{keys}"));
        setup.write_configuration();
        let errors = run(setup.directory(), &["check"]).errors;
        assert!(errors.contains(expected), "{errors}");
    }
}
