//! Events and the watches that they are shown to: filters, triggers, bounds.

use std::sync::Arc;
use std::time::Instant;

use crate::{
    Content, Direction, Filter, Hub, Item, Items, Pattern, Secrets, Spec, Stage, Taken, Timing, TracedAttributes,
    Tracer, Trigger, Watch, WorkerHub,
};

mod bounds;

struct Server {
    hub: Arc<Hub>,
    worker: WorkerHub,
}

impl Server {
    fn new() -> Server {
        let hub = Hub::new();
        let worker = WorkerHub::new(&hub);
        Server { hub, worker }
    }

    fn watch(&self, spec: Spec) -> Watch {
        self.hub.watch(spec).unwrap()
    }

    fn connection(&self) -> Tracer {
        self.worker.connection(&Tracer::NONE, client)
    }

    fn exchange(&self, connection: &Tracer, path: &str) -> Tracer {
        self.worker.exchange(connection, || TracedAttributes {
            path: Some(path.into()),
            method: Some("GET".into()),
            ..client()
        })
    }
}

fn client() -> TracedAttributes {
    TracedAttributes {
        client: Some("192.0.2.1".into()),
        ..TracedAttributes::default()
    }
}

fn all() -> Spec {
    Spec { items: Items::ALL, ..Spec::default() }
}

fn of_path(path: &str) -> Spec {
    Spec {
        filter: Filter {
            path: Some(Pattern::new(path)),
            ..Filter::default()
        },
        ..all()
    }
}

fn texts(taken: &Taken) -> Vec<&str> {
    let shown = taken.events.iter().map(|event| match &event.content {
        Content::Text(shown) => shown.as_str(),
        Content::Bytes { .. } => "bytes",
    });
    shown.collect()
}

fn take(watch: &Watch) -> Taken {
    watch.take_until(Instant::now())
}

fn note(tracer: &Tracer, text: &str) {
    tracer.note(Item::Mapping, "test", || text.into());
}

#[test]
fn nothing_is_made_while_nobody_watches() {
    let server = Server::new();
    assert!(server.connection().is_none());
    let tracer = server.exchange(&Tracer::NONE, "/a");
    tracer.note(Item::Mapping, "test", || unreachable!("nobody watches"));
    drop(server.watch(all()));
    assert!(!server.hub.is_on() && server.connection().is_none());
}

#[test]
fn an_exchange_that_cannot_match_has_no_subject() {
    let server = Server::new();
    let watch = server.watch(of_path("/a/*"));
    let connection = server.connection();
    assert!(server.exchange(&connection, "/b").is_none());
    note(&server.exchange(&connection, "/a/1"), "shown");
    assert_eq!(texts(&take(&watch)), ["shown"]);
}

#[test]
fn only_the_items_of_the_watch_are_made() {
    let server = Server::new();
    let watch = server.watch(Spec {
        items: Items::of(&[Item::Mapping]),
        ..Spec::default()
    });
    let tracer = server.exchange(&server.connection(), "/");
    tracer.note(Item::Cache, "test", || unreachable!("nobody asked for it"));
    note(&tracer, "shown");
    assert_eq!(texts(&take(&watch)), ["shown"]);
}

#[test]
fn what_came_before_the_decision_is_shown_with_the_connection() {
    let server = Server::new();
    let mut spec = of_path("/a");
    spec.filter.status = Some(Pattern::new("5xx"));
    let watch = server.watch(spec);
    let connection = server.connection();
    connection.note(Item::Connection, "net", || "accepted".into());
    let good = server.exchange(&connection, "/a");
    note(&good, "good");
    good.know(|attributes| attributes.status = Some(200));
    good.end();
    let bad = server.exchange(&connection, "/a");
    note(&bad, "bad");
    assert!(take(&watch).events.is_empty());
    bad.know(|attributes| attributes.status = Some(502));
    note(&bad, "after");
    bad.end();
    connection.note(Item::Connection, "net", || "sent".into());
    connection.sent();
    connection.note(Item::Connection, "net", || "kept".into());
    assert_eq!(texts(&take(&watch)), ["accepted", "bad", "after", "sent"]);
}

#[test]
fn a_trigger_in_the_bytes_of_a_connection_shows_its_exchange() {
    let server = Server::new();
    let watch = server.watch(Spec {
        items: Items::of(&[Item::Mapping]),
        trigger: Some(Trigger { bytes: Some("needle".into()), ..Trigger::default() }),
        ..Spec::default()
    });
    let connection = server.connection();
    let octets =
        |bytes: &'static [u8]| connection.note_bytes(Item::Octets, "net", Direction::Received, || bytes.to_vec());
    octets(b"GET /?nee");
    octets(b"dle HTTP/1.1");
    let exchange = server.exchange(&connection, "/");
    note(&exchange, "shown");
    exchange.end();
    note(&server.exchange(&connection, "/"), "the next one");
    assert_eq!(texts(&take(&watch)), ["shown"]);
}

#[test]
fn a_trigger_in_a_request_that_does_not_match_shows_no_later_one() {
    let server = Server::new();
    let watch = server.watch(Spec {
        trigger: Some(Trigger { bytes: Some("needle".into()), ..Trigger::default() }),
        ..of_path("/a")
    });
    let connection = server.connection();
    for path in ["/b", "/a"] {
        connection.note_bytes(Item::Octets, "net", Direction::Received, || match path {
            "/b" => b"GET /b?needle".to_vec(),
            _ => b"GET /a".to_vec(),
        });
        let exchange = server.exchange(&connection, path);
        note(&exchange, path);
        exchange.end();
        connection.sent();
        connection.forget_bytes();
    }
    assert!(take(&watch).events.is_empty());
}

#[test]
fn a_watch_for_one_request_ends_with_it() {
    let server = Server::new();
    let watch = server.watch(Spec { once: true, ..all() });
    let connection = server.connection();
    let (first, second) = (server.exchange(&connection, "/1"), server.exchange(&connection, "/2"));
    note(&second, "second");
    note(&first, "first");
    first.end();
    connection.sent();
    let taken = take(&watch);
    assert_eq!((texts(&taken), taken.is_ended), (vec!["first"], true));
}

#[test]
fn what_comes_after_the_end_is_shown_while_somebody_holds_the_subject() {
    let server = Server::new();
    let watch = server.watch(Spec { once: true, ..all() });
    let mut spec = all();
    spec.filter.status = Some(Pattern::new("500"));
    let undecided = server.watch(spec);
    let connection = server.connection();
    let exchange = server.exchange(&connection, "/");
    let (first, second) = (exchange.hold(), exchange.hold());
    exchange.end();
    connection.sent();
    connection.forget_bytes();
    drop(first);
    note(&exchange, "after the end");
    let taken = take(&watch);
    assert_eq!((texts(&taken), taken.is_ended), (vec!["after the end"], false));
    drop(second);
    note(&exchange, "too late");
    let taken = take(&watch);
    assert_eq!((texts(&taken), taken.is_ended), (vec![], true));
    assert!(take(&undecided).events.is_empty());
    drop(Tracer::NONE.hold());
}

#[test]
fn a_watch_for_one_request_ends_when_its_response_is_sent_or_its_connection_closed() {
    let server = Server::new();
    for is_sent in [true, false] {
        let watch = server.watch(Spec { once: true, ..all() });
        let connection = server.connection();
        server.exchange(&connection, "/1").end();
        note(&connection, "the end of the response");
        let taken = take(&watch);
        assert_eq!(
            (texts(&taken), taken.is_ended),
            (vec!["the end of the response"], false)
        );
        if is_sent {
            connection.sent();
        } else {
            drop(connection);
        }
        assert!(take(&watch).is_ended);
    }
}

#[test]
fn the_bytes_of_earlier_exchanges_are_not_shown_with_a_later_one() {
    let server = Server::new();
    let watch = server.watch(of_path("/a"));
    let connection = server.connection();
    note(&connection, "accepted");
    for (path, bytes) in [("/b", b"first"), ("/a", b"other")] {
        connection.note_bytes(Item::Octets, "net", Direction::Received, || bytes.to_vec());
        connection.note(Item::Http2, "net", || format!("frame of {path}"));
        server.exchange(&connection, path).end();
        connection.sent();
        connection.forget_bytes();
    }
    let shown = take(&watch).events;
    let bytes: Vec<_> = shown.iter().map(|event| event.content.clone()).collect();
    let other = Content::Bytes {
        direction: Direction::Received,
        bytes: b"other".to_vec(),
        omitted: 0,
    };
    let text = |text: &str| Content::Text(text.into());
    assert_eq!(bytes, [text("accepted"), other, text("frame of /a")]);
    drop(connection);
    assert_eq!(server.hub.ring_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn a_request_line_says_whether_some_watch_may_be_shown_its_request() {
    let server = Server::new();
    let _watch = server.watch(of_path("/a*"));
    let connection = server.connection();
    assert!(connection.may_show("GET", "/ab") && !connection.may_show("GET", "/b"));
    let _other = server.watch(all());
    assert!(server.worker.connection(&connection, client).may_show("GET", "/b"));
    assert!(!Tracer::NONE.may_show("GET", "/"));
}

#[test]
fn the_connection_of_a_proxy_is_shown_with_the_exchanges_of_the_client_that_is_watched() {
    let server = Server::new();
    let mut spec = all();
    spec.filter.client = Some(Pattern::new("192.0.2.1"));
    let watch = server.watch(spec);
    let connection = server.worker.connection(&Tracer::NONE, TracedAttributes::default);
    note(&connection, "accepted");
    let other = server.worker.exchange(&connection, || TracedAttributes {
        client: Some("192.0.2.2".into()),
        ..TracedAttributes::default()
    });
    assert!(other.is_none() && take(&watch).events.is_empty());
    note(&server.exchange(&connection, "/"), "shown");
    assert_eq!(texts(&take(&watch)), ["accepted", "shown"]);
    let named = server.worker.connection(&Tracer::NONE, TracedAttributes::default);
    note(&named, "accepted");
    named.know(|attributes| attributes.client = client().client);
    assert_eq!(texts(&take(&watch)), ["accepted"]);
}

#[test]
fn a_connection_without_a_watch_has_no_subject_any_more() {
    let server = Server::new();
    let (other, watch) = (server.watch(of_path("/")), server.watch(of_path("/a")));
    let connection = server.connection();
    drop(watch);
    let connection = server.worker.connection(&connection, client);
    assert!(!connection.is_none());
    drop(other);
    let mut of_another_client = all();
    of_another_client.filter.client = Some(Pattern::new("192.0.2.9"));
    let _watch = server.watch(of_another_client);
    assert!(server.worker.connection(&connection, client).is_none());
}

#[test]
fn hidden_secrets_are_in_no_event_of_the_exchange_nor_of_its_connection() {
    let server = Server::new();
    let watch = server.watch(all());
    let connection = server.connection();
    let exchange = server.exchange(&connection, "/");
    exchange.hide_secrets(&Secrets::new([b"hunter22".as_slice()]));
    exchange.hide_secrets(&Secrets::new([b"0123456789ab".as_slice()]));
    note(&exchange, "a=hunter22 b=0123456789ab");
    note(&connection, "hunter22");
    for bytes in [&b"x hunt"[..], b"er22 y"] {
        connection.note_bytes(Item::Octets, "test", Direction::Sent, || bytes.to_vec());
        connection.note_bytes(Item::Octets, "test", Direction::Received, || b"er22 y".to_vec());
    }
    let shown: Vec<_> = take(&watch).events.iter().map(|event| event.content.clone()).collect();
    let bytes = |direction, bytes: &[u8]| Content::Bytes { direction, bytes: bytes.to_vec(), omitted: 0 };
    let expected = [
        Content::Text("a=******** b=************".into()),
        Content::Text("********".into()),
        bytes(Direction::Sent, b"x ****"),
        bytes(Direction::Received, b"er22 y"),
        bytes(Direction::Sent, b"**** y"),
        bytes(Direction::Received, b"er22 y"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_watch_that_begins_later_joins_a_kept_connection() {
    let server = Server::new();
    let early = server.watch(of_path("/none"));
    let connection = server.connection();
    let late = server.watch(of_path("/a"));
    let connection = server.worker.connection(&connection, client);
    let exchange = server.exchange(&connection, "/a");
    connection.note(Item::Connection, "net", || "seen".into());
    exchange.end();
    assert_eq!(texts(&take(&late)), ["seen"]);
    assert!(take(&early).events.is_empty());
}

#[test]
fn a_slow_request_is_shown_by_the_tick() {
    let server = Server::new();
    let mut spec = all();
    spec.filter.slower_than_ms = Some(0);
    let watch = server.watch(spec);
    let exchange = server.exchange(&server.connection(), "/");
    note(&exchange, "waits");
    server.worker.tick();
    assert_eq!(texts(&take(&watch)), ["waits"]);
    server.hub.end();
    assert!(take(&watch).is_ended);
}

/// The names of the moments of an exchange that goes through these stages.
fn moments(stages: &[Stage]) -> Vec<&'static str> {
    let hub = Hub::new();
    let items = Items::ALL;
    let watch = hub.watch(Spec { items, ..Spec::default() }).unwrap();
    let tracer = WorkerHub::new(&hub).exchange(&Tracer::NONE, TracedAttributes::default);
    stages.iter().for_each(|stage| tracer.stage(*stage));
    tracer.end_stages("test");
    let event = watch.take_until(Instant::now()).events.remove(0);
    let Content::Text(text) = &event.content else {
        panic!("the timing is a text")
    };
    let timing: Timing = text.parse().unwrap();
    timing.moments.iter().map(|moment| moment.phase.name()).collect()
}

#[test]
fn a_change_of_the_stage_ends_the_one_before_it() {
    use Stage::*;
    assert_eq!(
        moments(&[Checking, Responding, Sending, Producing, Sending, Sent]),
        ["decided", "granted", "head", "last-byte", "end"]
    );
    assert_eq!(
        moments(&[Checking, Password, Delaying, Checking, Sending, Aborted]),
        ["decided", "identified", "delayed", "head", "aborted", "end"]
    );
    assert_eq!(
        moments(&[Checking, Throttle, Checking, Responding, ReadingBody, AwaitingProcess]),
        ["decided", "admitted", "granted", "stored", "end"]
    );
    assert_eq!(
        moments(&[
            AwaitingProcess,
            StartingProcess,
            Running,
            Replying,
            Checking,
            Preparing,
            Sending
        ]),
        ["process", "first-byte", "decided", "head", "end"]
    );
}

#[test]
fn a_request_asks_its_agent_whatever_the_script_of_the_agent_does() {
    use Stage::*;
    let tracer = Tracer::vacant();
    tracer.stage(Agent);
    for stage in [AwaitingProcess, StartingProcess, Running, Replying] {
        tracer.stage(stage);
        assert_eq!(tracer.current_stage(), Agent);
    }
    tracer.stage(Checking);
    assert_eq!(tracer.current_stage(), Checking);
    assert_eq!(
        moments(&[Checking, Agent, AwaitingProcess, Running, Replying, Checking]),
        ["decided", "process", "first-byte", "identified", "end"]
    );
}

#[test]
fn without_a_place_there_is_no_stage() {
    Tracer::NONE.stage(Stage::Sending);
    assert_eq!(Tracer::NONE.current_stage(), Stage::Deciding);
    assert!(Stage::Producing.has_head() && !Stage::Replying.has_head());
}

#[test]
fn an_exchange_names_its_connection() {
    let server = Server::new();
    let watch = server.watch(all());
    let connection = server.connection();
    connection.note(Item::Connection, "net", || "accepted".into());
    let exchange = server.exchange(&connection, "/a");
    exchange.note(Item::Mapping, "decide", || "matches".into());
    let events = take(&watch).events;
    let [of_connection, of_exchange] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(of_connection.connection, None);
    assert_eq!(of_exchange.connection, Some(of_connection.number));
    // A connection that nobody watches has no number.
    let alone = server.exchange(&Tracer::NONE, "/b");
    alone.note(Item::Mapping, "decide", || "matches".into());
    assert_eq!(take(&watch).events[0].connection, None);
}
