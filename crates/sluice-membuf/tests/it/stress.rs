//! Script and server at full speed on two to four threads, with a real memfd, futex and mailbox.

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

/// Takes the whole body and passes each chunk, with its offset in the body, to `send`; passes `None` before it sleeps.
fn read_body(reader: &mut RingReader, mailbox: &mut Mailbox, mut send: impl FnMut(Option<BodyChunk>)) {
    let mut numbers = Numbers(2);
    let mut taken = 0;
    while taken < BODY_BYTES {
        if let Some(chunk) = reader.take(1 + numbers.below(7000)).unwrap() {
            let start = taken;
            taken += chunk.len() as u64;
            send(Some(BodyChunk { start, bytes: chunk }));
        } else if reader.prepare_sleep() {
            send(None);
            mailbox.wait();
        }
    }
    assert!(reader.take(1).unwrap().is_none());
}

/// A chunk and its offset in the body.
struct BodyChunk {
    start: u64,
    bytes: Bytes,
}

impl BodyChunk {
    /// Asserts that the bytes are those of the body, then drops the chunk.
    fn check(self) {
        let mut expected = (self.start..).map(byte_at);
        let is_intact = self.bytes.iter().all(|byte| expected.next() == Some(*byte));
        assert!(is_intact, "the chunk at {} has wrong bytes", self.start);
    }
}

#[test]
fn body_is_intact_when_chunks_are_dropped_out_of_order() {
    for capacity in [8 << 10, 12 << 10, 1 << 20] {
        let (_segment, mut reader, writer, mut mailbox) = ring(capacity);
        let script = thread::spawn(move || write_body(writer));
        let mut in_flight = Vec::new();
        let mut numbers = Numbers(3);
        read_body(&mut reader, &mut mailbox, |chunk| match chunk {
            Some(chunk) => {
                in_flight.push(chunk);
                if in_flight.len() > 3 {
                    in_flight.swap_remove(numbers.below(4)).check();
                }
            }
            // The script may be waiting for room held here, so drop everything: otherwise both sides would wait
            // forever.
            None => in_flight.drain(..).for_each(BodyChunk::check),
        });
        drop(in_flight);
        script.join().unwrap();
        assert!(reader.is_drained());
        assert_eq!(reader.sent_bytes(), BODY_BYTES);
    }
}

#[test]
fn body_is_intact_when_two_other_threads_drop_the_chunks() {
    let (_segment, mut reader, writer, mut mailbox) = ring(16 << 10);
    let script = thread::spawn(move || write_body(writer));
    let freed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&freed);
    reader.set_on_free(Box::new(move || {
        _ = counter.fetch_add(1, Ordering::Relaxed);
    }));
    let senders = [(); 2].map(|()| {
        let (chunks, queue) = mpsc::channel::<BodyChunk>();
        let sender = thread::spawn(move || queue.into_iter().for_each(BodyChunk::check));
        (chunks, sender)
    });
    let mut chunks = 0;
    read_body(&mut reader, &mut mailbox, |chunk| {
        if let Some(chunk) = chunk {
            senders[chunks % 2].0.send(chunk).unwrap();
            chunks += 1;
        }
    });
    for (queue, sender) in senders {
        drop(queue);
        sender.join().unwrap();
    }
    script.join().unwrap();
    assert!(reader.is_drained());
    assert_eq!(
        freed.load(Ordering::Relaxed),
        chunks as u64,
        "on_free is called for each chunk"
    );
}
