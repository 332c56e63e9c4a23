//! The body of a response: one type for everything that can be sent.
//!
//! A body that fails returns its fault.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_membuf::SealedMemfd;

use crate::fault::Fault;

/// Largest chunk of a file or of bytes in memory: few system calls, and other tasks of the worker need not wait long.
pub const CHUNK_BYTES: usize = 256 << 10;

/// A source of body bytes: a file, a script. It ends with `None`; a fault aborts the response.
pub trait Source {
    /// Returns the next chunk, never empty, or `None` at the end.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>>;

    /// Sets the largest size of the chunks to come, which wait in memory for the client, as far as the source can choose.
    fn limit_chunks(&mut self, _bytes_max: usize) {}

    /// Notes that its chunks will be encrypted or compressed: small ones are still in the processor's cache then.
    fn prefer_small_chunks(&mut self) {}

    /// Bytes still to come, if known; becomes Content-Length.
    fn length(&self) -> Option<u64>;

    /// The memory that holds the chunks, if the kernel can send from it without a copy.
    fn sealed(&self) -> Option<Arc<SealedMemfd>> {
        None
    }

    /// Ends the source without sending its chunks (HEAD, 304), with no error for its producer.
    fn discard(self: Box<Self>) {}
}

/// A body of which all bytes are in memory. Clones share the memory.
#[derive(Clone)]
pub struct Content {
    bytes: Bytes,
    /// The memory that holds the bytes, if the kernel can send from it without a copy.
    sealed: Option<Arc<SealedMemfd>>,
}

impl Content {
    /// Bytes not sent yet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A range of the content, which shares its memory; shorter if the content ends within the range.
    pub fn slice(&self, range: &Range<u64>) -> Content {
        let bytes = self.bytes.len();
        let within = |at: u64| usize::try_from(at).map_or(bytes, |at| at.min(bytes));
        Content {
            bytes: self.bytes.slice(within(range.start)..within(range.end)),
            sealed: self.sealed.clone(),
        }
    }

    /// Content in sealed memory; `guard` is dropped with its last clone.
    pub fn sealed(sealed: SealedMemfd, guard: Arc<()>) -> Content {
        let sealed = Arc::new(sealed);
        Content {
            bytes: Bytes::from_owner(Owner(Arc::clone(&sealed), guard)),
            sealed: Some(sealed),
        }
    }

    /// Whether the bytes are in sealed memory.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// The bytes not sent yet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Content {
        Content { bytes, sealed: None }
    }
}

/// The owner of sealed bytes, and the guard that lives as long as they do.
struct Owner(
    Arc<SealedMemfd>,
    #[expect(dead_code, reason = "held, not used")] Arc<()>,
);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The body of a response.
pub enum ResponseBody {
    /// No body.
    Empty,
    /// All bytes are in memory.
    Whole(Content),
    /// The bytes are produced while they are sent.
    Source(Box<dyn Source>),
}

impl ResponseBody {
    /// Returns the next chunk, never empty, or `None` at the end.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        match self {
            ResponseBody::Empty => Poll::Ready(None),
            ResponseBody::Whole(Content { bytes, .. }) => {
                let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
                if bytes.is_empty() {
                    *self = ResponseBody::Empty;
                }
                Poll::Ready((!chunk.is_empty()).then_some(Ok(chunk)))
            }
            ResponseBody::Source(source) => source.poll_chunk(context),
        }
    }

    /// Sets the largest number of bytes of the chunks to come, as far as their source can choose.
    pub fn limit_chunks(&mut self, bytes_max: usize) {
        if let ResponseBody::Source(source) = self {
            source.limit_chunks(bytes_max);
        }
    }

    /// Notes that its chunks will be encrypted or compressed.
    pub fn prefer_small_chunks(&mut self) {
        if let ResponseBody::Source(source) = self {
            source.prefer_small_chunks();
        }
    }

    /// Bytes still to come, if known.
    pub fn length(&self) -> Option<u64> {
        match self {
            ResponseBody::Empty => Some(0),
            ResponseBody::Whole(content) => Some(content.len() as u64),
            ResponseBody::Source(source) => source.length(),
        }
    }

    /// The memory that holds the bytes, if the kernel can send from it without a copy.
    pub fn sealed(&self) -> Option<Arc<SealedMemfd>> {
        match self {
            ResponseBody::Empty => None,
            ResponseBody::Whole(content) => content.sealed.clone(),
            ResponseBody::Source(source) => source.sealed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_sealed_content_is_the_same_memory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), "0123456789").unwrap();
        let file = std::fs::File::open(directory.path().join("f")).unwrap();
        let content = Content::sealed(SealedMemfd::read(file, 10).unwrap(), Arc::default());
        let part = content.slice(&(2..5));
        assert_eq!((part.bytes(), part.is_sealed()), (&b"234"[..], true));
        let body = ResponseBody::Whole(part.clone());
        let memory = body.sealed().unwrap();
        assert_eq!(memory.offset_of(part.bytes()), Some(2));
        assert_eq!(content.slice(&(8..20)).bytes(), b"89");
        assert_eq!(content.slice(&(20..30)).bytes(), b"");
    }
}
