//! The script's side of the ring, for scripts in Rust and for the tests of the server's side.
//!
//! The libraries in sdk/ do the same in other languages, by the specification in `docs/internals/memory-buffer.md`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use crate::cursor::WriteCursor;
use crate::futex;
use crate::layout::{CONTROL_BYTES, MAGIC, PAGE_BYTES, RING_BYTES_MIN};
use crate::mapping::{Control, WritableData};
use crate::sync::Ordering;

/// Longest sleep before the writer checks whether the server still runs.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Why a write failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The client is gone or the server has ended the exchange. Not an error of the script: it should stop writing.
    #[error("the client is gone or the exchange was ended")]
    Closed,
    /// The server is gone.
    #[error("the server is gone")]
    ServerGone,
    /// The control page contains impossible counters: something else in this script wrote to it.
    #[error("the control page of the memory buffer was overwritten")]
    Corrupt,
    /// More bytes were committed than were reserved: the caller's fault.
    #[error("more bytes were committed than were reserved")]
    NotReserved,
    /// The doorbell could not be written to the mailbox.
    #[error("the server cannot be notified: {0}")]
    Doorbell(#[source] io::Error),
}

/// The script's side of a ring. Open a new one after each BUFFER-BEGIN, because the size may have changed.
#[derive(Debug)]
pub struct RingWriter {
    control: Control,
    data: WritableData,
    cursor: WriteCursor,
    reserved_bytes: usize,
    mailbox: File,
    parent: u32,
    sleep_max: Duration,
}

impl RingWriter {
    /// Opens the ring in `memory` (descriptor 4), after the answer to BUFFER-BEGIN. Doorbells go to `mailbox` (a duplicate of descriptor 1).
    ///
    /// # Errors
    /// `InvalidData`: the memory contains no ring. Otherwise what fstat(2) or mmap(2) says.
    pub fn open(memory: BorrowedFd<'_>, mailbox: OwnedFd) -> io::Result<RingWriter> {
        let file_bytes = File::from(memory.try_clone_to_owned()?).metadata()?.len();
        let data_bytes = file_bytes.checked_sub(CONTROL_BYTES as u64).ok_or_else(no_ring)?;
        let control = Control::map(memory)?;
        // Acquire: pairs with the Release store of the magic at BEGIN.
        if control.magic.load(Ordering::Acquire) != u64::from_ne_bytes(MAGIC) {
            return Err(no_ring());
        }
        let capacity = control.capacity.load(Ordering::Relaxed);
        if capacity < RING_BYTES_MIN || !capacity.is_multiple_of(PAGE_BYTES) || capacity > data_bytes {
            return Err(no_ring());
        }
        let total_bytes = usize::try_from(capacity).map_err(|_| no_ring())? + CONTROL_BYTES;
        Ok(RingWriter {
            control,
            data: WritableData::map(memory, total_bytes)?,
            cursor: WriteCursor::new(capacity),
            reserved_bytes: 0,
            mailbox: File::from(mailbox),
            parent: parent_id(),
            sleep_max: SLEEP_MAX,
        })
    }

    /// Copies all of `bytes` into the ring; waits for room while the server runs.
    ///
    /// A large write is committed in quarters of the ring, so that the server sends while the script copies.
    ///
    /// # Errors
    /// See [`WriteError`]; some of the bytes may have been committed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let chunk_bytes_max = usize::try_from(self.cursor.capacity() / 4).unwrap_or(usize::MAX);
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.reserve(rest.len().min(chunk_bytes_max))?;
            let (chunk, after) = rest.split_at(room.len());
            room.copy_from_slice(chunk);
            self.commit(chunk.len())?;
            rest = after;
        }
        Ok(())
    }

    /// Contiguous room to fill in place: at least one byte, at most `bytes_max` (0 counts as 1). Waits until there is room.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn reserve(&mut self, bytes_max: usize) -> Result<&mut [u8], WriteError> {
        let span = loop {
            if self.control.is_closed() {
                return Err(WriteError::Closed);
            }
            let span = self.cursor.room(self.control.freed()).ok_or(WriteError::Corrupt)?;
            if span.bytes > 0 {
                break span;
            }
            self.wait_for_room()?;
        };
        let narrow = |bytes: u64| usize::try_from(bytes).expect("the ring is mapped, so its size fits");
        self.reserved_bytes = narrow(span.bytes).min(bytes_max.max(1));
        Ok(self
            .data
            .slice_mut(CONTROL_BYTES + narrow(span.position), self.reserved_bytes))
    }

    /// Commits the first `bytes` bytes of the reserved room, so the server can send them; gives the rest of the room back.
    ///
    /// # Errors
    /// [`WriteError::NotReserved`], [`WriteError::ServerGone`] or [`WriteError::Doorbell`].
    pub fn commit(&mut self, bytes: usize) -> Result<(), WriteError> {
        if bytes > self.reserved_bytes {
            return Err(WriteError::NotReserved);
        }
        self.reserved_bytes = 0;
        if self.control.commit(self.cursor.advance(bytes as u64)) {
            self.ring_doorbell()?;
        }
        Ok(())
    }

    /// Whether the client is gone or the exchange has ended, so that further writes will fail.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.control.is_closed()
    }

    /// Bytes committed since BUFFER-BEGIN.
    #[must_use]
    pub fn committed_bytes(&self) -> u64 {
        self.cursor.head()
    }

    /// Bytes in the data area.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.cursor.capacity()
    }

    fn wait_for_room(&self) -> Result<(), WriteError> {
        if self.control.announce_wait(self.cursor.wake_at()) {
            futex::wait(&self.control.writer_waits, 1, self.sleep_max);
            self.control.withdraw_wait();
            if self.is_server_gone() {
                return Err(WriteError::ServerGone);
            }
        }
        Ok(())
    }

    fn ring_doorbell(&mut self) -> Result<(), WriteError> {
        match self.mailbox.write_all(&[0]) {
            Ok(()) => Ok(()),
            Err(error) => match error.kind() {
                io::ErrorKind::BrokenPipe => Err(WriteError::ServerGone),
                // The mailbox is full, so the server will read it anyway.
                io::ErrorKind::WouldBlock => Ok(()),
                _ => Err(WriteError::Doorbell(error)),
            },
        }
    }

    /// Whether the parent process has changed, or the mailbox has no reader (which also works if a shell started the script).
    fn is_server_gone(&self) -> bool {
        let mut mailbox = [PollFd::new(&self.mailbox, PollFlags::empty())];
        let has_none = poll(&mut mailbox, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && mailbox[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        parent_id() != self.parent || has_none
    }
}

fn no_ring() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no ring has begun in this memory buffer")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::ring_reader::RingReader;
    use crate::segment::Segment;

    /// So long that a wake-up by time-out fails the test.
    const FOREVER: Duration = Duration::from_secs(3600);
    const DEADLINE: Duration = Duration::from_secs(30);

    fn full_ring() -> (Segment, RingReader, RingWriter, io::PipeReader) {
        let mut segment = Segment::create(8192).unwrap();
        let reader = segment.begin_ring(8192).unwrap();
        let (mailbox, doorbell) = io::pipe().unwrap();
        let mut writer = RingWriter::open(segment.fd(), doorbell.into()).unwrap();
        writer.sleep_max = FOREVER;
        writer.write(&[1; 8192]).unwrap();
        (segment, reader, writer, mailbox)
    }

    /// Writes one more byte on another thread; returns when that thread has announced that it waits for room.
    fn write_when_full(segment: &Segment, mut writer: RingWriter) -> mpsc::Receiver<Result<(), WriteError>> {
        let control = Control::map(segment.fd()).unwrap();
        let (done, result) = mpsc::channel();
        thread::spawn(move || done.send(writer.write(&[2])));
        while control.writer_waits.load(Ordering::Relaxed) == 0 {
            assert!(
                matches!(result.try_recv(), Err(mpsc::TryRecvError::Empty)),
                "the writer must wait"
            );
            thread::yield_now();
        }
        result
    }

    #[test]
    fn waiting_script_is_woken_when_a_quarter_is_free() {
        let (segment, mut reader, writer, _mailbox) = full_ring();
        let result = write_when_full(&segment, writer);
        let control = Control::map(segment.fd()).unwrap();
        drop(reader.take(2047).unwrap());
        assert_eq!(
            control.writer_waits.load(Ordering::Relaxed),
            1,
            "less than a quarter is free"
        );
        drop(reader.take(1).unwrap());
        result.recv_timeout(DEADLINE).unwrap().unwrap();
        assert_eq!(control.head.load(Ordering::Relaxed), 8193);
    }

    #[test]
    fn waiting_script_is_woken_when_the_ring_is_closed() {
        let (segment, mut reader, writer, _mailbox) = full_ring();
        let result = write_when_full(&segment, writer);
        reader.close();
        assert!(matches!(
            result.recv_timeout(DEADLINE).unwrap(),
            Err(WriteError::Closed)
        ));
    }

    #[test]
    fn waiting_script_is_woken_when_the_reader_is_dropped() {
        let (segment, reader, writer, _mailbox) = full_ring();
        let result = write_when_full(&segment, writer);
        drop(reader);
        assert!(matches!(
            result.recv_timeout(DEADLINE).unwrap(),
            Err(WriteError::Closed)
        ));
    }

    #[test]
    fn waiting_script_detects_a_mailbox_without_reader() {
        let (_segment, _reader, mut writer, mailbox) = full_ring();
        writer.sleep_max = Duration::from_millis(1);
        drop(mailbox);
        assert!(matches!(writer.write(&[2]), Err(WriteError::ServerGone)));
    }

    #[test]
    fn after_close_writes_fail_and_committed_bytes_remain() {
        let (_segment, mut reader, mut writer, _mailbox) = full_ring();
        drop(reader.take(4000).unwrap());
        reader.close();
        assert!(writer.is_closed());
        assert!(matches!(writer.write(&[2]), Err(WriteError::Closed)));
        assert_eq!(reader.take(usize::MAX).unwrap().unwrap().len(), 4192);
    }

    #[test]
    fn commit_is_limited_to_the_reserved_bytes() {
        let (_segment, mut reader, mut writer, _mailbox) = full_ring();
        drop(reader.take(8192).unwrap());
        assert_eq!(writer.reserve(10).unwrap().len(), 10);
        assert!(matches!(writer.commit(11), Err(WriteError::NotReserved)));
        writer.commit(4).unwrap();
        assert!(
            matches!(writer.commit(1), Err(WriteError::NotReserved)),
            "the rest was given back"
        );
        assert_eq!(reader.take(usize::MAX).unwrap().unwrap().len(), 4);
    }

    #[test]
    fn writes_fail_after_an_impossible_tail() {
        let (_segment, _reader, mut writer, _mailbox) = full_ring();
        for tail in [8193, u64::MAX] {
            writer.control.tail.store(tail, Ordering::Relaxed);
            assert!(
                matches!(writer.write(&[2]), Err(WriteError::Corrupt)),
                "{tail} of 8192 freed"
            );
        }
    }
}
