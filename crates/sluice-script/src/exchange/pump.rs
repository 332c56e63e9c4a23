//! The pump: copies a request body to a script's standard input while the reply is read.
//!
//! Here: the copying, chunk by chunk as the pipe accepts it, and the bytes that were written before the script showed a sign of
//! life, so that another process can get the request if this one never read it. Not here: the source of the body
//! (`request_body`), and the pipe (`input`).

use std::io::ErrorKind;
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_http::tasks::yield_now;
use sluice_membuf::Reservation;

use crate::exchange::request_body::{RequestBody, Stored, StoredFile};
use crate::process::input::Input;

/// Bytes read at a time from a stored body; also the capacity of a pipe (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// Steps after which the other tasks of the worker get their turn.
const STEPS_MAX: usize = 64;

/// The source of a body.
pub(crate) enum BodySource {
    /// The connection.
    Client(Box<RequestBody>),
    /// Memory. Empty once it was taken.
    Memory { bytes: Bytes, _reservation: Reservation },
    /// A file, from its position on.
    File(StoredFile),
}

impl From<Stored> for BodySource {
    fn from(stored: Stored) -> BodySource {
        match stored {
            Stored::Memory(bytes, reservation) => BodySource::Memory {
                bytes,
                _reservation: reservation,
            },
            Stored::File(file) => BodySource::File(file),
        }
    }
}

/// A body that is copied to a script.
pub(crate) struct Pump {
    source: BodySource,
    /// Bytes from the source that are not written yet.
    chunk: Bytes,
    /// Bytes that were written before the script showed a sign of life. `None` once it has: it wrote something, or read so much
    /// that more than a pipe's capacity was written.
    /// Copied, because a chunk keeps the whole block alive that the connection was read into, and a client may send single bytes.
    unconfirmed: Option<Vec<u8>>,
    /// Bytes written so far.
    written: u64,
    is_done: bool,
}

impl Pump {
    /// For a process that was started for this request.
    pub(crate) fn once(source: BodySource) -> Pump {
        Pump {
            source,
            chunk: Bytes::new(),
            unconfirmed: None,
            written: 0,
            is_done: false,
        }
    }

    /// For a process that may have ended meanwhile: until it shows a sign of life another process can get the request.
    pub(crate) fn repeatable(source: BodySource) -> Pump {
        Pump {
            unconfirmed: Some(Vec::new()),
            ..Pump::once(source)
        }
    }

    /// Whether everything was written, or the script has closed its input.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// The script has shown a sign of life: nothing needs to be sent again.
    pub(crate) fn confirm(&mut self) {
        self.unconfirmed = None;
    }

    /// Whether all written bytes are still known.
    pub(crate) fn can_rewind(&self) -> bool {
        self.unconfirmed.is_some()
    }

    /// Whether it waits for the client.
    pub(crate) fn awaits_client(&self) -> bool {
        !self.is_done && self.chunk.is_empty() && matches!(self.source, BodySource::Client(_))
    }

    /// Begins again for another process, with the bytes that this one was sent.
    pub(crate) fn rewind(self) -> Pump {
        // At most a pipe's capacity and a chunk.
        let mut chunk = self.unconfirmed.unwrap_or_default();
        chunk.extend_from_slice(&self.chunk);
        Pump {
            chunk: chunk.into(),
            ..Pump::repeatable(self.source)
        }
    }

    /// Copies as much as the pipe accepts now. True if bytes were written. The fault is the client's (its body is bad) or the
    /// server's (it cannot read a stored body).
    pub(crate) fn poll(&mut self, input: &Input, context: &mut Context<'_>) -> Result<bool, Fault> {
        let mut has_moved = false;
        for _ in 0..STEPS_MAX {
            if self.is_done {
                return Ok(has_moved);
            }
            if self.chunk.is_empty() {
                match self.poll_source(context)? {
                    Poll::Ready(Some(chunk)) => self.chunk = chunk,
                    Poll::Ready(None) => self.is_done = true,
                    Poll::Pending => return Ok(has_moved),
                }
                continue;
            }
            match input.try_write(&self.chunk) {
                Ok(length) => {
                    has_moved = true;
                    self.written += length as u64;
                    let written = self.chunk.split_to(length);
                    self.note_written(&written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !matches!(input.poll_write_ready(context), Poll::Ready(Ok(()))) {
                        return Ok(has_moved);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The script has closed its input, which is no error.
                Err(_) => self.is_done = true,
            }
        }
        yield_now(context);
        Ok(has_moved)
    }

    fn note_written(&mut self, written: &[u8]) {
        if let Some(unconfirmed) = &mut self.unconfirmed {
            if unconfirmed.len() + written.len() > PIPE_BYTES {
                self.unconfirmed = None;
            } else {
                unconfirmed.extend_from_slice(written);
            }
        }
    }

    fn poll_source(&mut self, context: &mut Context<'_>) -> Result<Poll<Option<Bytes>>, Fault> {
        match &mut self.source {
            BodySource::Client(body) => match body.poll_chunk(context) {
                Poll::Ready(chunk) => chunk.transpose().map(Poll::Ready),
                Poll::Pending => Ok(Poll::Pending),
            },
            BodySource::Memory { bytes, .. } => {
                let bytes = std::mem::take(bytes);
                Ok(Poll::Ready((!bytes.is_empty()).then_some(bytes)))
            }
            BodySource::File(file) => {
                let mut chunk = Vec::with_capacity(PIPE_BYTES);
                let read = rustix::io::read(file.file(), spare_capacity(&mut chunk))
                    .map_err(|error| ServerFault::io(Activity::ReadStoredBody, error.into()))?;
                Ok(Poll::Ready((read > 0).then(|| chunk.into())))
            }
        }
    }
}
