//! WATCH of access: why a login fails, and why a request waits.

use super::{WAITING_SCRIPT, ask_as, base64, basic, setup, status};
use sluice_testing::Watcher;

/// The password of every user, as WATCH must never show it.
fn secrets() -> [String; 2] {
    ["open sesame".to_owned(), base64(b"ann:open sesame")]
}

#[test]
fn a_login_is_explained_and_no_password_is_shown() {
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\", groups = \"groups\", allow = [\"group:editors\"] }")
        .start();
    let watcher = Watcher::start(&server, &["--items", "all"]);
    assert_eq!(server.get("/secret/a.txt").status, 401);
    watcher.line("the request has no Authorization: the client is asked for a password");
    assert_eq!(status(&server, "GET", "/secret/a.txt", &basic("ann", "wrong")), 401);
    watcher.line("user \"ann\": the password is hashed by a thread");
    let line = watcher.line("user \"ann\": the password is wrong: that of the user in ");
    let file = server.path("users");
    assert!(line.contains(file.to_str().unwrap()), "{line}");
    assert!(
        line.ends_with("is another one; the answer was delayed by 300.0ms"),
        "{line}"
    );
    watcher.line("delay of the answer to a wrong password");
    assert_eq!(status(&server, "GET", "/secret/a.txt", &basic("nosuch", "wrong")), 401);
    watcher.line("user \"nosuch\": the password is not compared: there is no such user in ");
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 200);
    watcher.line("user \"ann\": the password is right");
    watcher.line("access for group:editors: user \"ann\": granted by the group \"editors\"");
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 200);
    watcher.line("user \"ann\": the password was verified lately, which is remembered");
    assert_eq!(ask_as(&server, "bob", "GET", "/secret/a.txt").status, 403);
    watcher.line("access for group:editors: user \"bob\": denied");
    assert_eq!(
        status(&server, "GET", "/secret/a.txt", "Authorization: Bearer open-sesame\r\n"),
        401
    );
    watcher.line("Authorization is neither a name and password (Basic) nor a token that an agent takes");
    watcher.lines(7, "access log: ");
    let shown = watcher.text();
    assert!(shown.contains("verification of the password"), "{shown}");
    // Three of the seven have waited for a password: none is decided on twice.
    assert_eq!(shown.matches("answer: file ").count(), 7, "{shown}");
    for secret in secrets()
        .iter()
        .map(String::as_str)
        .chain(["open-sesame", &base64(b"ann:wrong")])
    {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

#[test]
fn a_refused_user_is_shown_for_how_long() {
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\", failures = 1 }")
        .start();
    let watcher = Watcher::start(&server, &["--items", "authorization"]);
    assert_eq!(status(&server, "GET", "/secret/a.txt", &basic("ann", "wrong")), 401);
    assert_eq!(
        status(&server, "GET", "/secret/a.txt", &basic("ann", "open sesame")),
        429
    );
    watcher.line("user \"ann\": the password is not verified: too many were wrong, refused for ");
}

#[test]
fn a_watch_of_one_user_shows_the_requests_that_are_granted_to_them() {
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .start();
    let watcher = Watcher::start(&server, &["--user", "b*", "--items", "request-head,authorization,log"]);
    for user in ["ann", "bob", "eve"] {
        assert_eq!(ask_as(&server, user, "GET", "/secret/a.txt").status, 200);
    }
    assert_eq!(server.get("/a.txt").status, 200);
    watcher.line("access log: ");
    let shown = watcher.text();
    assert!(
        shown.contains("user \"bob\": granted") && !shown.contains("\"ann\""),
        "{shown}"
    );
    assert_eq!(shown.matches("GET /secret/a.txt HTTP/1.1\n").count(), 1, "{shown}");
}

#[test]
fn rates_and_the_queue_of_a_throttle_are_shown() {
    let setup = setup()
        .script("wait", WAITING_SCRIPT)
        .route("path = \"/cgi-bin/wait\"\nthrottle = { at_once = 1, queue = 1, queue_timeout = \"1m\" }")
        .route("path = \"/a.txt\"\nrate = \"1/h\"");
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let watcher = Watcher::start(&server, &["--items", "authorization,timing"]);
    assert_eq!(server.get("/a.txt").status, 200);
    watcher.line("rate 1/h (sluice.toml:");
    assert_eq!(server.get("/a.txt").status, 429);
    watcher.line("the client has sent too many, refused for ");
    let (mut first, mut second) = (server.connect(), server.connect());
    first.get("/cgi-bin/wait");
    assert_eq!(events.line(), "begun");
    watcher.line("1 request at once, 1 more waits: there is room");
    second.get("/cgi-bin/wait");
    watcher.line("there is no room: the request waits");
    assert_eq!(server.get("/cgi-bin/wait").status, 503);
    watcher.line("there is no room, nor a place in the queue: refused");
    gate.open();
    assert_eq!(first.response().text(), "done");
    assert_eq!(events.line(), "begun");
    gate.open();
    assert_eq!(second.response().text(), "done");
    watcher.line("in the queue");
    watcher.line("queue of the throttle");
}
