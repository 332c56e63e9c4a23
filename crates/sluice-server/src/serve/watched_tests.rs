//! Tests of the events of WATCH for the exchanges of a running server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_settings::{AccessLog, ListenAddress, LogTarget, Settings, WatchSettings};
use sluice_watch::{Event, Filter, Item, Items, Line, Pattern, Phase, Spec, Timing, Trigger, Watch};

use super::gate_tests::{REQUESTS, settings};
use crate::server::Server;

const DEADLINE: Duration = Duration::from_secs(30);

struct Running {
    server: Server,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Running {
    fn new(change: impl FnOnce(&mut Settings)) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(directory.path());
        settings.access_log = AccessLog::new(LogTarget::File(directory.path().join("access.log")));
        change(&mut settings);
        let server = Server::start(&settings).unwrap();
        let ListenAddress::Inet(address) = server.addresses()[0] else {
            panic!("no port")
        };
        Running { server, address, _directory: directory }
    }

    fn watch(&self, spec: Spec) -> Watch {
        self.server.watches().watch(spec).unwrap()
    }

    /// Sends a request line, with these fields and body, and returns the response.
    fn send(&self, request: &str, fields: &str, body: &str) -> String {
        let mut client = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n"
        );
        // In two chunks, so that a mask meets the end of one.
        let (first, second) = body.split_at(length / 2);
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(first.as_bytes()).unwrap();
        client.flush().unwrap();
        std::thread::yield_now();
        // It may have answered and closed already.
        let _ = client.write_all(second.as_bytes());
        let mut response = Vec::new();
        let _ = client.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.drain();
    }
}

fn all() -> Spec {
    Spec { items: Items::ALL, ..Spec::default() }
}

fn of(filter: Filter) -> Spec {
    Spec { filter, ..all() }
}

/// The events up to the end of so many exchanges.
fn exchanges(watch: &Watch, count: usize) -> Vec<Arc<Event>> {
    let deadline = Instant::now() + DEADLINE;
    let mut events = Vec::new();
    let ends = |events: &[Arc<Event>]| events.iter().filter(|event| event.item == Item::Timing).count();
    while ends(&events) < count {
        let taken = watch.take_until(deadline);
        assert_eq!(taken.lost, 0);
        events.extend(taken.events);
        assert!(Instant::now() < deadline, "{}", text(&events));
    }
    events
}

fn text(events: &[Arc<Event>]) -> String {
    events.iter().map(|event| Line(event).to_string()).collect()
}

/// The lines of an item.
fn item(events: &[Arc<Event>], item: Item) -> String {
    let events: Vec<_> = events.iter().filter(|event| event.item == item).cloned().collect();
    text(&events)
}

#[test]
fn every_stage_is_shown_of_every_kind_of_answer() {
    let running = Running::new(|_| {});
    let watch = running.watch(all());
    for (request, status) in REQUESTS {
        running.send(request, "", "");
        let events = exchanges(&watch, 1);
        let shown = text(&events);
        let has = |of: Item, part: &str| assert!(item(&events, of).contains(part), "{request}, {part}: {shown}");
        let (method, target) = request.split_once(' ').unwrap();
        has(Item::RequestHead, &format!("{method} {target} HTTP/1.1"));
        has(Item::RequestHead, "host: a.test");
        has(Item::Mapping, "host \"a.test\": site * (test)");
        has(Item::Mapping, "answer: ");
        has(Item::ResponseHead, &status.to_string());
        has(Item::Log, "access log: 127.0.0.1 - - [");
        has(Item::Log, &format!("\"{method} {target} HTTP/1.1\" {status} "));
        let timing = events.iter().find(|event| event.item == Item::Timing).unwrap();
        // Not those of the script of the request before, which may end later than that.
        let of_exchange = events.iter().filter(|event| event.id == timing.id);
        let mut numbers: Vec<u64> = of_exchange.map(|event| event.number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), 1, "{request}: {shown}");
        let sluice_watch::Content::Text(timing) = &timing.content else {
            panic!("no text")
        };
        let timing: Timing = timing.parse().unwrap();
        let phases: Vec<Phase> = timing.moments.iter().map(|moment| moment.phase).collect();
        assert_eq!(phases.first(), Some(&Phase::Decided), "{request}");
        assert_eq!(phases.last(), Some(&Phase::End), "{request}");
        assert!(phases.contains(&Phase::Head), "{request}");
        assert_eq!(
            phases.contains(&Phase::FirstByte),
            shown.contains("answer: script"),
            "{request}"
        );
        assert!(timing.moments.is_sorted_by_key(|moment| moment.at_us), "{request}");
    }
}

#[test]
fn each_route_that_is_tried_is_shown_with_the_reason_why_it_does_not_match() {
    let running = Running::new(|_| {});
    let watch = running.watch(Spec {
        items: Items::of(&[Item::Mapping, Item::Errors, Item::Timing]),
        ..Spec::default()
    });
    let of = |request: &str| {
        running.send(request, "", "");
        text(&exchanges(&watch, 1))
    };
    let shown = of("GET /gone");
    for part in [
        "path \"/gone\"",
        "route 1 (",
        "\"/wiki/*\": skipped: the path does not match",
        "route 5 (",
        "\"/gone\": answers",
        "answer: error 410",
        "fault, the client's, status 410",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = of("GET /wiki/nothing");
    assert!(
        shown.contains("nothing there; its fallback is /wiki/index.cgi"),
        "{shown}"
    );
    let shown = of("GET /sub/");
    assert!(
        shown.contains("path \"/sub/index.html\"") && shown.contains("answer: file /"),
        "{shown}"
    );
    let shown = of("GET /cgi-bin/redirect");
    assert!(
        shown.contains("the script names another path (local redirect): /a.txt"),
        "{shown}"
    );
    let shown = of("GET /cgi-bin/send");
    assert!(
        shown.contains("the script names a file: x-accel-redirect: /private/secret.txt"),
        "{shown}"
    );
}

/// Sends secrets in every place that is masked.
fn send_secrets(running: &Running) {
    let fields = "Authorization: Basic s3cret\r\nCookie: a=s3cret\r\nX-Api-Key: s3cret\r\nReferer: http://a.test/?token=s3cret\r\n";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let parts = "Content-Type: multipart/form-data; boundary=b\r\n";
    let json = "Content-Type: application/json\r\n";
    let part = "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\ns3cret\r\n--b--\r\n";
    for (kind, body) in [
        (form, "user=ann&password=s3cret&x=1"),
        (parts, part),
        (json, r#"{"user":"ann","password":"s3cret"}"#),
    ] {
        let fields = format!("{fields}{kind}");
        running.send("POST /cgi-bin/hello?password=s3cret&x=1", &fields, body);
        running.send("POST /gone?password=s3cret", &fields, body);
        running.send("POST /a.txt?a=1;password=s3cret", &fields, body);
    }
}

#[test]
fn secrets_are_not_shown_unless_the_settings_say_so() {
    let running = Running::new(|_| {});
    let watch = running.watch(all());
    send_secrets(&running);
    let shown = text(&exchanges(&watch, 9));
    assert!(!shown.contains("s3cret"), "{shown}");
    for part in [
        "password=…(6 bytes)&x=1",
        "authorization: Basic …(6 bytes)",
        "cookie: …(8 bytes)",
        "x-api-key: …(6 bytes)",
        "token=…(6 bytes)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    drop(running);
    let unmasked = Running::new(|settings| settings.watch.is_unmasked = true);
    let watch = unmasked.watch(all());
    send_secrets(&unmasked);
    let shown = text(&exchanges(&watch, 9));
    assert!(
        shown.contains("authorization: Basic s3cret") && shown.contains("?password=s3cret"),
        "{shown}"
    );
}

#[test]
fn the_settings_name_what_is_secret() {
    let own = |words: &[&str]| WatchSettings {
        masked_fields: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        is_unmasked: false,
    };
    let running = Running::new(|settings| settings.watch = own(&["pin code"]));
    let watch = running.watch(all());
    // Letters, because times and ids have digits.
    running.send(
        "GET /a.txt?pin_code=opensesame&password=shown",
        "Cookie: a=opensesame\r\n",
        "",
    );
    let shown = text(&exchanges(&watch, 1));
    assert!(
        !shown.contains("opensesame") && shown.contains("password=shown"),
        "{shown}"
    );
}

#[test]
fn the_bodies_are_shown_as_they_pass() {
    let running = Running::new(|_| {});
    let watch = running.watch(Spec {
        items: Items::of(&[Item::RequestBody, Item::ResponseBody, Item::Timing]),
        ..Spec::default()
    });
    running.send("POST /cgi-bin/hello", "", "the body of the request");
    running.send("GET /a.txt", "", "");
    let events = exchanges(&watch, 2);
    assert!(
        item(&events, Item::RequestBody).contains("received "),
        "{}",
        text(&events)
    );
    let body = item(&events, Item::ResponseBody);
    assert!(
        body.contains("sent 5 bytes\n") && body.contains("hello\n") && body.contains("text\n"),
        "{body}"
    );
}

#[test]
fn a_watch_shows_only_the_requests_that_match() {
    let running = Running::new(|_| {});
    let with = |change: &dyn Fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        running.watch(of(filter))
    };
    let watches = [
        (with(&|filter| filter.status = Some(Pattern::new("4xx"))), "GET /gone"),
        (
            with(&|filter| filter.script = Some(Pattern::new("*/hello"))),
            "GET /cgi-bin/hello",
        ),
        (with(&|filter| filter.path = Some(Pattern::new("/sub/*"))), "GET /sub/"),
        (with(&|filter| filter.method = Some("OPTIONS".into())), "OPTIONS /a.txt"),
    ];
    let nothing = with(&|filter| filter.user = Some(Pattern::new("*")));
    for request in [
        "GET /gone",
        "GET /cgi-bin/hello",
        "GET /sub/",
        "OPTIONS /a.txt",
        "GET /a.txt",
    ] {
        running.send(request, "", "");
    }
    for (watch, request) in watches {
        let events = exchanges(&watch, 1);
        let heads = item(&events, Item::RequestHead);
        assert_eq!(heads.matches("host: a.test").count(), 1, "{request}: {heads}");
        assert!(heads.contains(&format!("{request} HTTP/1.1")), "{request}: {heads}");
        // Also what came before the status was known.
        assert!(item(&events, Item::Mapping).contains("answer: "));
    }
    let taken = nothing.take_until(Instant::now());
    assert!(
        taken.events.iter().all(|event| event.id.is_none()),
        "{}",
        text(&taken.events)
    );
}

#[test]
fn a_trigger_shows_what_came_before_it() {
    let running = Running::new(|_| {});
    let with = |trigger: Trigger| {
        running.watch(Spec {
            trigger: Some(trigger),
            items: Items::of(&[Item::RequestHead, Item::Timing]),
            ..Spec::default()
        })
    };
    let by_status = with(Trigger { status_min: Some(410), ..Trigger::default() });
    let by_bytes = with(Trigger { bytes: Some("hello".into()), ..Trigger::default() });
    for request in [
        "GET /a.txt",
        "GET /gone",
        "GET /nowhere",
        "GET /cgi-bin/hello",
        "GET /sub/",
    ] {
        running.send(request, "X-Name: value\r\n", "");
    }
    let shown = text(&exchanges(&by_status, 1));
    assert!(
        shown.contains("GET /gone HTTP/1.1") && !shown.contains("/nowhere"),
        "{shown}"
    );
    let shown = text(&exchanges(&by_bytes, 1));
    assert!(
        shown.contains("GET /cgi-bin/hello HTTP/1.1") && !shown.contains("/sub/"),
        "{shown}"
    );
}

#[test]
fn one_request_ends_a_watch_for_one() {
    let running = Running::new(|_| {});
    let watch = running.watch(Spec {
        once: true,
        ..of(Filter {
            path: Some(Pattern::new("/sub/*")),
            ..Filter::default()
        })
    });
    for request in ["GET /a.txt", "GET /sub/", "GET /sub/"] {
        running.send(request, "", "");
    }
    let events = exchanges(&watch, 1);
    assert!(item(&events, Item::RequestHead).contains("GET /sub/"));
    let deadline = Instant::now() + DEADLINE;
    loop {
        let taken = watch.take_until(deadline);
        assert!(
            taken.events.iter().all(|event| event.item != Item::Timing),
            "{}",
            text(&taken.events)
        );
        if taken.is_ended {
            break;
        }
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn a_request_that_takes_long_is_shown_before_it_ends() {
    let running = Running::new(|_| {});
    let watch = running.watch(of(Filter { slower_than_ms: Some(1), ..Filter::default() }));
    let mut client = TcpStream::connect(running.address).unwrap();
    // The script reads a body that does not come.
    write!(
        client,
        "POST /cgi-bin/hello HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n"
    )
    .unwrap();
    let deadline = Instant::now() + DEADLINE;
    let mut shown = String::new();
    while !shown.contains("answer: script") {
        assert!(Instant::now() < deadline, "{shown}");
        shown += &text(&watch.take_until(deadline).events);
    }
    assert!(!shown.contains("access log"), "{shown}");
}

#[test]
fn a_head_that_is_refused_is_shown() {
    let running = Running::new(|_| {});
    let watch = running.watch(all());
    running.send("GET /a b", "", "");
    let shown = text(&exchanges(&watch, 1));
    assert!(
        shown.contains("the head of a request was refused, status 400"),
        "{shown}"
    );
}
