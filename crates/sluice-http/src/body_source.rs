//! The source of a request body for a script or an upstream, and the rule by which another receiver may get the request.
//!
//! A request is repeated only if nothing of its body has gone out of the server's hands: none of it was consumed, or the consumed bytes are
//! still here. They are kept, up to `KEPT_BYTES_MAX`, until the receiver shows a sign of life.

use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use rustix::buffer::spare_capacity;

use crate::fault::{Activity, Fault, ServerFault};
use crate::request_body::RequestBody;
use crate::stored_body::StoredBody;

/// Bytes read at a time from a file; also the capacity of a pipe (pipe(7)).
const READ_BYTES: usize = 64 << 10;

/// Consumed bytes that are kept. A receiver that has taken more has read some of them, because a pipe and the queue before it hold no more.
const KEPT_BYTES_MAX: usize = 96 << 10;

/// The source of a body.
pub enum BodySource {
    /// The connection.
    Client(Box<RequestBody>),
    /// A stored body: memory, which is empty once it was taken, or a file from its position on.
    Stored(StoredBody),
}

impl From<StoredBody> for BodySource {
    fn from(stored: StoredBody) -> BodySource {
        BodySource::Stored(stored)
    }
}

impl BodySource {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        match self {
            BodySource::Client(body) => body.poll_chunk(context).map(Option::transpose),
            BodySource::Stored(StoredBody::Memory(bytes, _)) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready(Ok((!bytes.is_empty()).then_some(bytes)))
            }
            BodySource::Stored(StoredBody::File(file)) => {
                let mut chunk = Vec::with_capacity(READ_BYTES);
                let read = rustix::io::read(file.file(), spare_capacity(&mut chunk))
                    .map_err(|error| ServerFault::io(Activity::ReadStoredBody, error.into()))?;
                Poll::Ready(Ok((read > 0).then(|| chunk.into())))
            }
        }
    }
}

/// A body that is passed on to one receiver, and perhaps to another after it.
pub struct RepeatableBody {
    source: BodySource,
    chunk: Bytes,
    /// The bytes that the receiver has consumed. `None` once the body cannot be repeated.
    /// Copied, because a chunk keeps the whole block alive that the connection was read into, and a client may send single bytes.
    kept: Option<Vec<u8>>,
    consumed: u64,
}

impl RepeatableBody {
    /// A body for one receiver: none of it is kept.
    pub fn once(source: BodySource) -> RepeatableBody {
        RepeatableBody {
            source,
            chunk: Bytes::new(),
            kept: None,
            consumed: 0,
        }
    }

    /// A body for a receiver that may have ended meanwhile: until it shows a sign of life another can get the request.
    pub fn repeatable(source: BodySource) -> RepeatableBody {
        RepeatableBody {
            kept: Some(Vec::new()),
            ..RepeatableBody::once(source)
        }
    }

    /// Whether another receiver can get the whole body.
    pub fn is_repeatable(&self) -> bool {
        self.kept.is_some()
    }

    /// The receiver has shown a sign of life: nothing needs to be sent again.
    pub fn confirm(&mut self) {
        self.kept = None;
    }

    /// Bytes consumed by this receiver.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether the next bytes are to come from the client.
    pub fn awaits_client(&self) -> bool {
        self.chunk.is_empty() && matches!(self.source, BodySource::Client(_))
    }

    /// The next bytes, never empty; they stay the next until they are consumed. `None` at the end of the body. The fault is the client's (its
    /// body is bad) or the server's (it cannot read a stored body).
    pub fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, Fault>> {
        if self.chunk.is_empty() {
            match self.source.poll_chunk(context) {
                Poll::Ready(Ok(Some(chunk))) => self.chunk = chunk,
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(None)),
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(Some(&self.chunk)))
    }

    /// The receiver has taken so many of the next bytes. Panics if there are fewer.
    pub fn consume(&mut self, length: usize) {
        self.consumed += length as u64;
        self.kept = self.kept.take().filter(|kept| kept.len() + length <= KEPT_BYTES_MAX);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&self.chunk[..length]);
        }
        self.chunk.advance(length);
    }

    /// Begins again for another receiver. `None` if that is not possible.
    pub fn rewind(self) -> Option<RepeatableBody> {
        // At most `KEPT_BYTES_MAX` and a chunk.
        let mut chunk = self.kept?;
        chunk.extend_from_slice(&self.chunk);
        Some(RepeatableBody {
            chunk: chunk.into(),
            ..RepeatableBody::repeatable(self.source)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use sluice_membuf::{Budget, Reservation};

    use super::*;

    fn source(bytes: &[u8]) -> BodySource {
        let reservation = Reservation::empty(&Budget::new(0));
        BodySource::Stored(StoredBody::Memory(Bytes::copy_from_slice(bytes), reservation))
    }

    /// The next bytes; `None` at the end.
    fn next(body: &mut RepeatableBody) -> Option<Vec<u8>> {
        match body.poll_bytes(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(bytes)) => bytes.map(<[u8]>::to_vec),
            Poll::Ready(Err(fault)) => panic!("{fault}"),
            Poll::Pending => panic!("memory is always ready"),
        }
    }

    #[test]
    fn another_receiver_gets_the_consumed_bytes_and_the_others() {
        let mut body = RepeatableBody::repeatable(source(b"0123456789"));
        assert!(body.is_repeatable(), "nothing was consumed");
        for expected in [10, 7, 4] {
            assert_eq!(next(&mut body).map(|bytes| bytes.len()), Some(expected));
            body.consume(3);
        }
        assert!(body.is_repeatable(), "all that was consumed is still here");
        assert_eq!(body.consumed(), 9);
        let mut body = body.rewind().expect("the bytes are here");
        assert_eq!((body.consumed(), body.is_repeatable()), (0, true));
        assert_eq!(next(&mut body).as_deref(), Some(b"0123456789".as_slice()));
        body.consume(10);
        assert_eq!(next(&mut body), None);
        let mut body = body.rewind().expect("the end does not change that");
        assert_eq!(next(&mut body).as_deref(), Some(b"0123456789".as_slice()));
    }

    #[test]
    fn a_body_is_not_repeated_after_a_sign_of_life() {
        let mut body = RepeatableBody::repeatable(source(b"0123"));
        assert!(next(&mut body).is_some());
        body.consume(1);
        body.confirm();
        assert!(!body.is_repeatable() && body.rewind().is_none());
    }

    #[test]
    fn a_body_is_not_repeated_once_more_was_consumed_than_is_kept() {
        let mut body = RepeatableBody::repeatable(source(&vec![7; KEPT_BYTES_MAX + 2]));
        assert!(next(&mut body).is_some());
        body.consume(KEPT_BYTES_MAX);
        assert!(body.is_repeatable());
        body.consume(1);
        assert!(!body.is_repeatable(), "one byte is gone");
        assert_eq!(next(&mut body), Some(vec![7]));
        body.consume(1);
        assert_eq!((next(&mut body), body.consumed()), (None, KEPT_BYTES_MAX as u64 + 2));
        assert!(body.rewind().is_none());
    }

    #[test]
    fn a_body_for_one_receiver_is_never_repeated() {
        let body = RepeatableBody::once(source(b"0123"));
        assert!(!body.is_repeatable() && body.rewind().is_none());
    }
}
