//! Script and server at full speed on two or three threads, over a real memfd, futex and mailbox.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use sluice_membuf::{RingReader, RingWriter};

use crate::{Mailbox, Numbers, byte_at, pattern, ring};

const BODY_BYTES: u64 = 6 << 20;

fn write_body(mut writer: RingWriter) {
    let mut numbers = Numbers(1);
    while writer.committed_bytes() < BODY_BYTES {
        let rest = usize::try_from(BODY_BYTES - writer.committed_bytes()).unwrap();
        let bytes = (1 + numbers.below(9000)).min(rest);
        writer.write(&pattern(writer.committed_bytes(), bytes)).unwrap();
    }
}

/// Takes the whole body and gives each piece, with its place in the body, to `send`; `None` before it sleeps.
fn read_body(reader: &mut RingReader, mailbox: &mut Mailbox, mut send: impl FnMut(Option<(u64, Bytes)>)) {
    let mut numbers = Numbers(2);
    let mut taken = 0;
    while taken < BODY_BYTES {
        if let Some(piece) = reader.take(1 + numbers.below(7000)).unwrap() {
            let start = taken;
            taken += piece.len() as u64;
            send(Some((start, piece)));
        } else if reader.prepare_sleep() {
            send(None);
            mailbox.wait();
        }
    }
    assert!(reader.take(1).unwrap().is_none());
}

fn assert_intact((start, piece): (u64, Bytes)) {
    let is_intact = (start..).zip(&piece).all(|(counter, byte)| byte_at(counter) == *byte);
    assert!(is_intact, "the piece at {start} was overwritten or never written");
}

#[test]
fn body_arrives_whole_when_pieces_are_dropped_out_of_order() {
    for capacity in [8 << 10, 12 << 10, 1 << 20] {
        let (_segment, mut reader, writer, mut mailbox) = ring(capacity);
        let script = thread::spawn(move || write_body(writer));
        let mut in_flight = Vec::new();
        let mut numbers = Numbers(3);
        read_body(&mut reader, &mut mailbox, |piece| match piece {
            Some(piece) => {
                in_flight.push(piece);
                if in_flight.len() > 3 {
                    assert_intact(in_flight.swap_remove(numbers.below(4)));
                }
            }
            // The script may be waiting for the room of what is held here: two that wait for each other.
            None => in_flight.drain(..).for_each(assert_intact),
        });
        drop(in_flight);
        script.join().unwrap();
        assert!(reader.is_drained());
        assert_eq!(reader.sent_bytes(), BODY_BYTES);
    }
}

#[test]
fn body_arrives_whole_when_two_other_threads_drop_the_pieces() {
    let (_segment, mut reader, writer, mut mailbox) = ring(16 << 10);
    let script = thread::spawn(move || write_body(writer));
    let freed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&freed);
    reader.set_on_free(Box::new(move || {
        _ = counter.fetch_add(1, Ordering::Relaxed);
    }));
    let senders = [(); 2].map(|()| {
        let (pieces, queue) = mpsc::channel::<(u64, Bytes)>();
        let sender = thread::spawn(move || queue.into_iter().for_each(assert_intact));
        (pieces, sender)
    });
    let mut pieces = 0;
    read_body(&mut reader, &mut mailbox, |piece| {
        if let Some(piece) = piece {
            senders[pieces % 2].0.send(piece).unwrap();
            pieces += 1;
        }
    });
    for (queue, sender) in senders {
        drop(queue);
        sender.join().unwrap();
    }
    script.join().unwrap();
    assert!(reader.is_drained());
    assert_eq!(freed.load(Ordering::Relaxed), pieces as u64, "each free was reported");
}
