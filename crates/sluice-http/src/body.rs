//! The body of a response: one type over everything that can be sent.
//!
//! Here: `ResponseBody` (empty, bytes, or a source such as a file or a script's output). A body that fails returns its
//! fault. Not here: what is counted and logged while it is sent.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_membuf::SealedMemfd;

use crate::fault::Fault;

/// Bytes of a chunk of a file: enough to make the system calls cheap, little enough to leave the worker to others.
pub const CHUNK_BYTES: usize = 256 << 10;

/// A source of body bytes: a file, a script. Endpoints with `None`; a fault cuts the response.
pub trait Source {
    /// The next chunk, never empty.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>>;

    /// Bytes still to come, where that is known; becomes Content-Length.
    fn length(&self) -> Option<u64>;

    /// The memory that chunks lie in, where the kernel can send from it without a copy.
    fn sealed(&self) -> Option<Arc<SealedMemfd>> {
        None
    }

    /// Nobody wants the chunks (HEAD, 304): end in good order, as if they had been taken.
    fn discard(self: Box<Self>) {}
}

/// Bytes that are all there. Clones share them.
#[derive(Clone)]
pub struct Content {
    bytes: Bytes,
    /// The memory that they lie in, where the kernel can send from it without a copy.
    sealed: Option<Arc<SealedMemfd>>,
}

impl Content {
    /// Bytes left.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A part of it, which shares its memory; as much of the range as there is.
    pub fn slice(&self, range: &Range<u64>) -> Content {
        let bytes = self.bytes.len();
        let within = |at: u64| usize::try_from(at).map_or(bytes, |at| at.min(bytes));
        Content {
            bytes: self.bytes.slice(within(range.start)..within(range.end)),
            sealed: self.sealed.clone(),
        }
    }

    /// Content in sealed memory; `guard` is dropped with the last clone of it.
    pub fn sealed(sealed: SealedMemfd, guard: Arc<()>) -> Content {
        let sealed = Arc::new(sealed);
        Content {
            bytes: Bytes::from_owner(Owner(Arc::clone(&sealed), guard)),
            sealed: Some(sealed),
        }
    }

    /// Whether the bytes lie in sealed memory.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Content {
        Content { bytes, sealed: None }
    }
}

/// What sealed bytes belong to.
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
    Empty,
    Whole(Content),
    Source(Box<dyn Source>),
}

impl ResponseBody {
    /// The next chunk, never empty.
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

    /// Bytes still to come, where that is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            ResponseBody::Empty => Some(0),
            ResponseBody::Whole(content) => Some(content.len() as u64),
            ResponseBody::Source(source) => source.length(),
        }
    }

    /// The memory that its bytes lie in, where the kernel can send from it without a copy.
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
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("f"), "0123456789").unwrap();
        let file = std::fs::File::open(place.path().join("f")).unwrap();
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
