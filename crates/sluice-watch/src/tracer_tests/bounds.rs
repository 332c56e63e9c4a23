//! Bounds: bytes that are scanned, events that wait, watches at once.

use std::task::{Context, Poll, Waker};

use super::*;
use crate::Scanned;

#[test]
fn bytes_are_bounded_per_request() {
    let server = Server::new();
    let watch = server.watch(Spec { octets_max: 10, ..all() });
    let exchange = server.exchange(&server.connection(), "/");
    for _ in 0..3 {
        exchange.note_bytes(Item::Mailbox, "script", Direction::Sent, || vec![b'x'; 8]);
    }
    let lengths: Vec<_> = take(&watch).events.iter().map(|event| event.content.clone()).collect();
    let bytes = |length: usize, omitted| Content::Bytes {
        direction: Direction::Sent,
        bytes: vec![b'x'; length],
        omitted,
    };
    assert_eq!(lengths, [bytes(8, 0), bytes(2, 6)]);
}

#[test]
fn bytes_that_nobody_is_shown_are_not_scanned() {
    let server = Server::new();
    let watch = server.watch(Spec { octets_max: 10, ..all() });
    let connection = server.connection();
    let mut masked = 0;
    let mut note = |length: usize| {
        let bytes = vec![b'x'; length];
        let (first, rest) = bytes.split_at(length / 2);
        connection.note_copy(Item::Octets, "net", Direction::Sent, &[first, rest], |bytes| {
            masked += bytes.len();
        })
    };
    let scanned = [note(8), note(1 << 20), note(1 << 20)];
    assert_eq!(scanned, [Scanned::All, Scanned::Part, Scanned::Part]);
    assert_eq!(masked, 10);
    let shown = take(&watch)
        .events
        .iter()
        .map(|event| event.content.clone())
        .collect::<Vec<_>>();
    let bytes = |length: usize, omitted| Content::Bytes {
        direction: Direction::Sent,
        bytes: vec![b'x'; length],
        omitted,
    };
    assert_eq!(shown, [bytes(8, 0), bytes(2, (1 << 20) - 2)]);
}

#[test]
fn bytes_that_a_trigger_is_searched_in_wait_once_the_worker_has_scanned_enough() {
    let server = Server::new();
    let _watch = server.watch(Spec {
        items: Items::of(&[Item::Log]),
        trigger: Some(Trigger { bytes: Some("needle".into()), ..Trigger::default() }),
        ..all()
    });
    let octets = Items::of(&[Item::Octets]);
    let (connection, other) = (server.connection(), server.connection());
    assert_eq!(connection.bytes_wait(octets), None);
    connection.note_copy(Item::Octets, "net", Direction::Sent, &[&[b'x'; 256 << 10]], |_| {});
    // A small request does not wait for it. One that has many bytes itself does, once for each time, so that it has its share.
    assert_eq!(other.bytes_wait(octets), None);
    assert!(connection.bytes_wait(octets).is_some());
    assert_eq!(connection.bytes_wait(octets), None);
    let note_of_other = |bytes: &[u8]| other.note_copy(Item::Octets, "net", Direction::Sent, &[bytes], |_| {});
    note_of_other(&[b'x'; 16 << 10]);
    assert_eq!(other.bytes_wait(octets), None);
    note_of_other(b"x");
    assert_eq!(other.bytes_wait(Items::of(&[Item::Mailbox])), None);
    note_of_other(&[b'x'; 17 << 10]);
    assert!(other.bytes_wait(octets).is_some());
    assert_eq!(Tracer::NONE.bytes_wait(octets), None);
}

#[test]
fn a_watcher_that_reads_nothing_learns_what_it_lost() {
    let server = Server::new();
    let watch = server.watch(all());
    let exchange = server.exchange(&server.connection(), "/");
    for _ in 0..100 {
        note(&exchange, &"x".repeat(100_000));
    }
    let taken = take(&watch);
    assert_eq!(taken.events.len() as u64 + taken.lost, 100);
    assert!(taken.lost > 0);
    note(&exchange, "again");
    assert_eq!((texts(&take(&watch)), take(&watch).lost), (vec!["again"], 0));
}

#[test]
fn what_waits_for_pages_that_read_nothing_is_bounded_whatever_the_events_take() {
    const PAGE_QUEUE_BYTES_MAX: usize = 2 << 20;
    for text in ["", &"x".repeat(1000)] {
        let server = Server::new();
        let pages: Vec<Watch> = (0..Hub::PAGE_WATCHES_MAX)
            .map(|_| server.hub.watch_of_page(all()).unwrap())
            .collect();
        let exchange = server.exchange(&server.connection(), "/");
        for _ in 0..40_000 {
            // What is allocated counts, not what is used of it.
            exchange.note(Item::Log, "test", || {
                let mut longer = String::with_capacity(2 * text.len());
                longer.push_str(text);
                longer
            });
        }
        for page in &pages {
            let taken = take(page);
            // An event has a head, two counts, and a place in the queue; its text has another allocation.
            let of_event = size_of::<crate::Event>() + 2 * size_of::<usize>() + size_of::<Arc<crate::Event>>();
            let bytes = taken.events.len() * (of_event + 2 * text.len());
            assert!(
                (PAGE_QUEUE_BYTES_MAX / 2..=PAGE_QUEUE_BYTES_MAX).contains(&bytes),
                "{bytes}"
            );
            assert_eq!(taken.events.len() as u64 + taken.lost, 40_000);
        }
    }
}

#[test]
fn a_watcher_takes_a_bounded_part_at_once_and_learns_of_a_loss_where_it_is() {
    let server = Server::new();
    let watch = server.watch(all());
    let exchange = server.exchange(&server.connection(), "/");
    note(&exchange, &"x".repeat(100_000));
    for _ in 0..50 {
        note(&exchange, &"x".repeat(100_000));
    }
    let Poll::Ready(first) = watch.poll_take(&Context::from_waker(Waker::noop())) else {
        panic!("there are events")
    };
    assert_eq!((first.events.len(), first.lost), (1, 0));
    // There is room again, but what comes now comes after the loss.
    note(&exchange, "late");
    let rest = take(&watch);
    assert_eq!(first.events.len() as u64 + rest.events.len() as u64 + rest.lost, 52);
    assert!(!texts(&rest).contains(&"late"));
}

#[test]
fn the_ring_of_an_undecided_request_is_bounded() {
    let server = Server::new();
    let mut spec = all();
    spec.filter.status = Some(Pattern::new("500"));
    let watch = server.watch(spec);
    let exchange = server.exchange(&server.connection(), "/");
    for index in 0..10_000 {
        note(&exchange, &index.to_string());
    }
    exchange.know(|attributes| attributes.status = Some(500));
    let taken = take(&watch);
    assert_eq!(taken.events.len() as u64 + taken.lost, 10_000);
    assert_eq!(texts(&taken).last(), Some(&"9999"));
    exchange.end();
    drop(exchange);
    assert_eq!(server.hub.ring_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn the_number_of_watches_is_bounded() {
    let server = Server::new();
    let watches: Vec<Watch> = (0..16).map(|_| server.watch(all())).collect();
    assert!(server.hub.watch(all()).is_err());
    drop(watches);
    assert!(server.hub.watch(all()).is_ok());
}
