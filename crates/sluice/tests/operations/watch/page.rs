//! WATCH on the pages of the reports: the form, the server-sent events and the plain text.

use sluice_testing::{Client, Response, Server, Setup, Watcher, run};

/// A route with the reports for this machine.
const REPORTS: &str =
    "path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\"], allow_write = [\"net:127.0.0.0/8\"] }";

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
        ("items=mappings", "unknown item \"mappings\": did you mean mapping?"),
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
    let watching: Vec<Client> = (0..12).map(|_| watch(&server, "/-/watch-events")).collect();
    let refused = get(&server, "/-/watch-events");
    assert_eq!(refused.status, 503);
    assert!(
        refused.text().contains("12 watches of pages are active already"),
        "{}",
        refused.text()
    );
    // The others are for the terminal.
    Watcher::start(&server, &[]);
    server.log_line("watch by client 127.0.0.1 was refused");
    drop(watching);
    server.log_lines(13, "the watcher has left");
    // Neither a HEAD nor another method begins a watch.
    let mut client = server.connect();
    client.send("HEAD /-/watch-events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    assert_eq!(server.log().matches("watch by client").count(), 25, "{}", server.log());
}

#[test]
fn a_page_of_another_site_begins_no_watch_and_no_live_page() {
    let server = setup().start();
    let ask = |path: &str, field: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n");
        server.connect().send(head).head().status
    };
    for path in [
        "/-/watch-events",
        "/-/watch-text?items=all",
        "/-/?live",
        "/-/requests?live",
    ] {
        for field in [
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
            "Origin: http://evil.test",
        ] {
            assert_eq!(ask(path, field), 403, "{path} {field}");
        }
        for field in [
            "Sec-Fetch-Site: same-origin",
            "Sec-Fetch-Site: none",
            "Origin: http://localhost",
        ] {
            assert_eq!(ask(path, field), 200, "{path} {field}");
        }
    }
    // Nor does the page begin one by itself after a link of another site.
    let page = |field: &str| {
        let head = format!("GET /-/watch?start HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n");
        server.connect().send(head).response().text().contains("data-start")
    };
    assert!(page("Sec-Fetch-Site: none") && !page("Sec-Fetch-Site: cross-site"));
}

#[test]
fn the_streams_of_a_replaced_configuration_end() {
    let server = setup().start();
    let mut events = watch(&server, "/-/watch-events");
    let mut text = watch(&server, "/-/watch-text");
    let mut live = server.connect();
    live.send(head("/-/?live"));
    live.take_through(b"event: content\n");
    // An empty cache is no other configuration.
    assert!(run(server.setup().directory(), &["purge"]).status.success());
    live.take_through(b"event: content\n");
    live.take_through(b"event: content\n");
    assert!(run(server.setup().directory(), &["reload"]).status.success());
    events.take_through(b"{\"ended\":\"replaced\"}");
    text.take_through(b"-- end: the configuration was replaced: begin the watch again\n");
    for stream in [&mut events, &mut text, &mut live] {
        stream.take_through(b"\r\n0\r\n\r\n");
    }
    watch(&server, "/-/watch-events");
}

#[test]
fn once_needs_no_value_and_may_be_off() {
    let server = setup().start();
    for once in ["once", "once=true"] {
        let mut text = watch(&server, &format!("/-/watch-text?items=mapping&{once}"));
        server.get("/a.txt");
        text.take_through(b"-- end: the request has ended\n");
    }
    let mut text = watch(&server, "/-/watch-text?items=mapping&once=off");
    for _ in 0..2 {
        server.get("/a.txt");
        text.take_through(b"route 1");
    }
    assert!(
        get(&server, "/-/watch-text?once=perhaps")
            .text()
            .contains("once: must be on or off")
    );
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
