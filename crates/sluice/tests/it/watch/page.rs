//! WATCH on the pages of the reports: the form, the server-sent events and the plain text.

use crate::harness::{Client, Response, Server, Setup, Watcher};

/// A route with the reports for this machine.
const REPORTS: &str = "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\"] }";

pub(super) fn setup() -> Setup {
    Setup::new().route(REPORTS).file("a.txt", "a")
}

fn head(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[track_caller]
fn get(server: &Server, path: &str) -> Response {
    server.connect().send(head(path)).response()
}

/// A connection on which a watch has begun.
#[track_caller]
fn watch(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(head(path));
    let head = client.head();
    assert_eq!(head.status, 200, "{path}");
    client.take_through(b"watching");
    client
}

#[test]
fn the_form_has_the_items_and_the_values_of_its_query() {
    let server = setup().start();
    let page = get(&server, "/-/watch?items=mapping&path=%2Fx%22*&start");
    for expected in [
        "value=\"mapping\" checked",
        "name=\"path\" value=\"/x&quot;*\"",
        "action=\"watch-text\" data-start",
        "<script src=\"watch.js\" defer>",
    ] {
        assert!(page.text().contains(expected), "no {expected} in {}", page.text());
    }
    assert!(!page.text().contains("value=\"timing\" checked"), "{}", page.text());
    for (name, kind) in [("watch.css", "text/css"), ("watch.js", "text/javascript")] {
        let file = get(&server, &format!("/-/{name}"));
        assert!(file.field("content-type").unwrap().starts_with(kind), "{name}");
    }
    let json = get(&server, "/-/watch.json");
    assert!(json.text().contains("\"watches_max\": 16"), "{}", json.text());
}

#[test]
fn events_are_sent_as_they_come_until_the_visitor_leaves() {
    let server = setup().start();
    let mut events = watch(&server, "/-/watch-events?items=request-head&items=timing&path=/a.txt");
    server.log_line("watch by client 127.0.0.1: request-head,timing of requests with path /a.txt");
    assert!(
        get(&server, "/-/watch")
            .text()
            .contains("<li>request-head,timing of requests with path /a.txt</li>")
    );
    server.get("/other");
    server.get("/a.txt");
    let text = String::from_utf8(events.take_through(b"\"phase\":\"end\"")).unwrap();
    for expected in [
        "event: events\ndata: [{",
        "\"item\":\"request-head\"",
        "GET /a.txt",
        "\"item\":\"timing\"",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    assert!(!text.contains("/other"), "{text}");
    drop(events);
    server.log_line("the watcher has left; 2 events, 0 lost");
}

#[test]
fn plain_text_of_one_request_ends_with_it() {
    let server = setup().start();
    let mut text = watch(
        &server,
        "/-/watch-text?items=mapping&path=/a*&once=on&user=&octets-max=4k",
    );
    server.get("/a.txt");
    let shown = String::from_utf8(text.take_through(b"\r\n0\r\n\r\n")).unwrap();
    assert!(
        shown.contains("route 1") && shown.contains("-- end: the request has ended\n"),
        "{shown}"
    );
    assert!(!shown.contains(":\n\n"), "{shown}");
    server.log_line("has ended after");
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_reason() {
    let server = setup().start();
    for (query, expected) in [
        ("items=mappings", "unknown item \"mappings\": write a list of"),
        ("path=a", "path: must begin with / or *"),
        ("trigger-slower=2", "trigger-slower: must be a time such as 500ms"),
        ("colour=red", "colour: unknown option"),
    ] {
        for name in ["watch-events", "watch-text"] {
            let refused = get(&server, &format!("/-/{name}?{query}"));
            assert_eq!(refused.status, 400, "{query}");
            assert!(refused.text().contains(expected), "{query}: {}", refused.text());
        }
    }
    let watching: Vec<Client> = (0..16).map(|_| watch(&server, "/-/watch-events")).collect();
    let refused = get(&server, "/-/watch-events");
    assert_eq!(refused.status, 503);
    assert!(
        refused.text().contains("16 watches are active already"),
        "{}",
        refused.text()
    );
    server.log_line("watch by client 127.0.0.1 was refused");
    drop(watching);
    server.log_lines(16, "the watcher has left");
    // Neither a HEAD nor another method begins a watch.
    let mut client = server.connect();
    client.send("HEAD /-/watch-events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    assert_eq!(server.log().matches("watch by client").count(), 33, "{}", server.log());
}

#[test]
fn the_events_of_a_watch_cause_no_others() {
    let server = setup().start();
    // The connections of both streams begin while somebody watches.
    let watcher = Watcher::start(&server, &["--json", "--items", "octets"]);
    let mut streams = [0, 1].map(|_| watch(&server, "/-/watch-events?items=octets,request-head"));
    for path in ["/a.txt?first", "/a.txt?second"] {
        server.get(path);
        for stream in &mut streams {
            stream.take_through(format!("GET {path} HTTP/1.1").as_bytes());
        }
        // What the server has sent before is shown before.
        watcher.line(path);
    }
    let shown = watcher.text();
    assert!(
        shown.contains("HTTP/1.1 200 OK") && !shown.contains("event: events"),
        "{shown}"
    );
}

#[test]
fn a_visitor_who_reads_nothing_loses_events_and_delays_nobody() {
    let server = Setup::new().route(REPORTS).file("large", vec![b'x'; 1 << 20]).start();
    let mut events = watch(&server, "/-/watch-events?items=response-body&octets-max=1M");
    let mut client = server.connect();
    for _ in 0..64 {
        assert_eq!(client.get("/large").response().body.len(), 1 << 20);
    }
    events.take_through(b"{\"lost\":");
}

#[test]
fn streams_do_not_delay_the_end_of_the_server() {
    let server = setup().start();
    let mut events = watch(&server, "/-/watch-events");
    let mut text = watch(&server, "/-/watch-text");
    let ended = server.stop();
    events.take_through(b"{\"ended\":\"server\"}");
    text.take_through(b"-- end: the server ends\n");
    assert_eq!(ended.errors.matches("the server ends; ").count(), 2, "{}", ended.errors);
}
