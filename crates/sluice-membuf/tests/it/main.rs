//! The memory buffer through its public interface: its guarantees, also against a hostile script.
#![cfg(not(loom))]
// Helpers of tests may fail the test.
#![allow(clippy::unwrap_used)]

mod hostile_script;
mod memory;
mod model;
mod output_regions;
mod plain_buffer;
mod stress;

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use sluice_membuf::{REGION_BYTES, RingReader, RingWriter, Segment};

/// The time limit of every wait; a test that reaches it fails.
const DEADLINE: Duration = Duration::from_secs(30);

/// The limit of the buffers of most tests.
const BYTES_MAX: u64 = 1 << 20;

/// The length of the file of such a segment: the buffer and its control page, up to the largest page of any machine, and two regions.
const FILE_BYTES: u64 = (BYTES_MAX + 4096).next_multiple_of(64 << 10) + 2 * REGION_BYTES;

/// The server's end of a mailbox that carries doorbells.
struct Mailbox(UnixStream);

impl Mailbox {
    fn open() -> (Mailbox, OwnedFd) {
        let (server, script) = UnixStream::pair().unwrap();
        server.set_read_timeout(Some(DEADLINE)).unwrap();
        (Mailbox(server), script.into())
    }

    /// Waits for the next byte; `None` if the script has closed its end.
    fn wait(&mut self) -> Option<u8> {
        let mut byte = [0xff];
        match self.0.read(&mut byte) {
            Ok(0) => None,
            Ok(_) => Some(byte[0]),
            Err(error) => panic!("the doorbell was not rung: {error}"),
        }
    }

    /// Reads all available bytes and returns their number.
    fn drain(&mut self) -> usize {
        self.0.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let error = self.0.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "a doorbell is a NUL");
        bytes.len()
    }
}

/// A ring of at least `bytes` bytes with both of its sides.
fn ring(bytes: u64) -> (Segment, RingReader, RingWriter, Mailbox) {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let reader = segment.begin_ring(bytes).unwrap();
    let (mailbox, doorbell) = Mailbox::open();
    let writer = RingWriter::open(segment.fd(), doorbell).unwrap();
    (segment, reader, writer, mailbox)
}

/// The byte at `counter` in the body of every test: a pattern whose period divides no capacity.
fn byte_at(counter: u64) -> u8 {
    u8::try_from(counter % 251).expect("less than 251")
}

/// `bytes` bytes of the pattern from `counter` on.
fn pattern(counter: u64, bytes: usize) -> Vec<u8> {
    (counter..).map(byte_at).take(bytes).collect()
}

/// A small deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }
}
