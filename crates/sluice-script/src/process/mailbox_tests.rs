//! The tests of the mailbox.

use std::fs::File;
use std::future::poll_fn;
use std::io::Write;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use sluice_gateway::{EndMark, MailboxKind, Output, Scanner, Sentinels};
use sluice_launch::refuse_descriptors;

use super::*;

/// A record mailbox, and the script's end of it.
fn records(record_bytes_max: usize) -> (Mailbox, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, script) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    refuse_descriptors(&own);
    let mailbox = Mailbox::new(own, settings::Mailbox::Record, record_bytes_max, 0).unwrap();
    (mailbox, script)
}

fn write(script: &OwnedFd, record: &[u8]) {
    // Unlike send(2), write(2) is what scripts use.
    assert_eq!(rustix::io::write(script, record).unwrap(), record.len());
}

#[tokio::test]
async fn next_record_is_seen_and_stays() {
    let (mut mailbox, script) = records(1000);
    assert!(!mailbox.has_next_record());
    write(&script, b"\n");
    assert!(!mailbox.has_next_record());
    assert_eq!(mailbox.read_now().unwrap().unwrap(), "\n");
    write(&script, b"another reply");
    assert!(mailbox.has_next_record());
    assert_eq!(mailbox.read_now().unwrap().unwrap(), "another reply");
    drop(script);
    assert!(!mailbox.has_next_record());
}

#[tokio::test]
async fn empty_records_are_not_the_end() {
    let (mut mailbox, script) = records(1000);
    for record in [&b""[..], b"a", b"", b""] {
        write(&script, record);
    }
    drop(script);
    for record in ["", "a", "", ""] {
        assert_eq!(mailbox.read_now().unwrap().unwrap(), record);
    }
    assert!(mailbox.read_now().unwrap().is_none());
}

#[tokio::test]
async fn records_share_memory_and_have_their_limit() {
    let (mut mailbox, script) = records(1000);
    for length in [1000, 1, 1001] {
        write(&script, &vec![b'a'; length]);
    }
    let (first, second) = (
        mailbox.read_now().unwrap().unwrap(),
        mailbox.read_now().unwrap().unwrap(),
    );
    assert_eq!((first.len(), second.len()), (1000, 1));
    assert_eq!(first.as_ptr().wrapping_add(1000), second.as_ptr());
    let error = mailbox.read_now().unwrap_err().to_string();
    assert!(
        error.contains("1001 bytes, the largest is 1000 (record_size"),
        "{error}"
    );
}

/// A new socket, and the script's end of it.
fn new_stream() -> (Mailbox, File) {
    let (own, script) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::io::ioctl_fionbio(&own, true).unwrap();
    refuse_descriptors(&own);
    (
        Mailbox::new(own, settings::Mailbox::Stream, 0, 0).unwrap(),
        File::from(script),
    )
}

/// A mailbox during a long reply, and the script's end of it.
fn long_stream() -> (Mailbox, File) {
    let (mut mailbox, script) = new_stream();
    let stream = stream_of(&mut mailbox);
    stream.chunk_bytes = CHUNK_BYTES_MAX;
    (mailbox, script)
}

fn stream_of(mailbox: &mut Mailbox) -> &mut Stream {
    match mailbox {
        Mailbox::Stream(stream) => stream,
        Mailbox::Record(_) | Mailbox::Pipe(_) => panic!("another mailbox"),
    }
}

async fn next_chunk(mailbox: &mut Mailbox) -> Option<Bytes> {
    poll_fn(|context| mailbox.poll_read(context)).await.unwrap()
}

/// Bytes that fit into a socket.
const MANY: usize = 150_000;

#[tokio::test]
async fn a_chunk_is_in_the_memory_of_the_last_one_that_was_sent() {
    let (mut mailbox, mut script) = long_stream();
    let mut write = |byte| script.write_all(&vec![byte; MANY]).unwrap();
    write(b'a');
    let sent = next_chunk(&mut mailbox).await.unwrap();
    assert_eq!(sent.len(), MANY);
    stream_of(&mut mailbox).chunk_bytes = CHUNK_BYTES_MAX;
    let memory = sent.as_ptr();
    drop(sent);
    write(b'b');
    let kept = next_chunk(&mut mailbox).await.unwrap();
    assert_eq!(kept.as_ptr(), memory);
    write(b'c');
    let other = next_chunk(&mut mailbox).await.unwrap();
    assert!(other.len() == MANY && other.iter().all(|byte| *byte == b'c'));
    assert!(kept.iter().all(|byte| *byte == b'b'));
    drop(script);
    assert!(next_chunk(&mut mailbox).await.is_none());
}

#[tokio::test]
async fn a_short_reply_leaves_its_room_to_the_next_one_of_any_process() {
    let (mut one, mut one_script) = new_stream();
    let (mut other, mut other_script) = new_stream();
    let spare = Cell::default();
    one_script.write_all(b"one").unwrap();
    let first = next_chunk(&mut one).await.unwrap();
    let memory = first.as_ptr();
    one.end_reply(&spare);
    other.begin_reply(&spare);
    other_script.write_all(b"other").unwrap();
    let second = next_chunk(&mut other).await.unwrap();
    // The first is not sent yet, and keeps its bytes.
    assert_eq!((&*first, &*second), (&b"one"[..], &b"other"[..]));
    assert_eq!(second.as_ptr(), memory.wrapping_add(first.len()));
    drop((first, second));
    other.end_reply(&spare);
    one.begin_reply(&spare);
    one_script.write_all(b"third").unwrap();
    let third = next_chunk(&mut one).await.unwrap();
    assert_eq!((&*third, third.as_ptr()), (&b"third"[..], memory));
}

#[tokio::test]
async fn a_long_reply_neither_leaves_nor_takes_room() {
    let (mut mailbox, mut script) = new_stream();
    let spare = Cell::default();
    script.write_all(&[b'a'; READ_BYTES_MIN]).unwrap();
    assert_eq!(next_chunk(&mut mailbox).await.unwrap().len(), READ_BYTES_MIN);
    mailbox.end_reply(&spare);
    assert_eq!(spare.replace(BytesMut::with_capacity(100)).capacity(), 0);
    mailbox.begin_reply(&spare);
    script.write_all(&[b'a'; READ_BYTES_MIN + 1]).unwrap();
    assert_eq!(next_chunk(&mut mailbox).await.unwrap().len(), READ_BYTES_MIN + 1);
    assert!(spare.take().capacity() >= 100);
}

#[tokio::test]
async fn chunks_are_no_larger_than_the_limit_and_end_with_the_output() {
    let (mut mailbox, mut script) = long_stream();
    script.write_all(&[b'a'; MANY]).unwrap();
    mailbox.limit_reads(100_000);
    assert_eq!(next_chunk(&mut mailbox).await.unwrap().len(), 100_000);
    mailbox.limit_reads(CHUNK_BYTES_MAX);
    drop(script);
    assert_eq!(next_chunk(&mut mailbox).await.unwrap().len(), MANY - 100_000);
    assert!(next_chunk(&mut mailbox).await.is_none());
}

#[tokio::test]
async fn a_small_chunk_is_not_a_part_of_large_memory() {
    let (mut mailbox, mut script) = long_stream();
    script.write_all(&[b'a'; MANY]).unwrap();
    assert_eq!(next_chunk(&mut mailbox).await.unwrap().len(), MANY);
    mailbox.limit_reads(READ_BYTES_MIN);
    for _ in 0..20 {
        script.write_all(&[b'a'; READ_BYTES_MIN]).unwrap();
        assert_eq!(next_chunk(&mut mailbox).await.unwrap().len(), READ_BYTES_MIN);
        let stream = stream_of(&mut mailbox);
        // What a read of few bytes found says nothing about the script.
        assert_eq!(
            (stream.chunk_bytes, stream.buffer_bytes),
            (CHUNK_BYTES_MAX, READ_BYTES_MIN)
        );
    }
}

#[tokio::test]
async fn a_script_that_writes_little_holds_little_memory() {
    let (mut mailbox, mut script) = long_stream();
    for _ in 0..3 {
        script.write_all(b"a").unwrap();
        assert_eq!(next_chunk(&mut mailbox).await.unwrap(), "a");
    }
    let stream = stream_of(&mut mailbox);
    assert_eq!((stream.chunk_bytes, stream.buffer.capacity()), (ROOMY_BYTES, 0));
}

#[tokio::test]
async fn a_sentinel_is_found_wherever_reads_and_chunks_end() {
    let sentinels = Sentinels::from_random([0xab; 12]);
    let sentinel = sentinels.end().as_bytes();
    for boundary in [ROOMY_BYTES, CHUNK_BYTES_MAX] {
        for before in 0..=sentinel.len() {
            let (mut mailbox, mut script) = long_stream();
            let body = vec![b'-'; boundary - before];
            let output = [&body, sentinel].concat();
            let writer = std::thread::spawn(move || script.write_all(&output).unwrap());
            let mut scanner = Scanner::new(&sentinels, MailboxKind::Stream, EndMark::Sentinel);
            let mut sent = Vec::new();
            let has_ended = 'output: loop {
                let Some(chunk) = next_chunk(&mut mailbox).await else {
                    break false;
                };
                scanner.push(chunk);
                while let Some(output) = scanner.next() {
                    match output {
                        Output::Bytes(bytes) => sent.extend_from_slice(&bytes),
                        Output::End => break 'output true,
                        other => panic!("{other:?}"),
                    }
                }
            };
            writer.join().unwrap();
            assert!(has_ended && sent == body, "{before} bytes before {boundary}");
        }
    }
}
