//! Content of cached files: in sealed memory where that is faster, in ordinary memory otherwise.
//!
//! The kernel sends sealed memory (a sealed memfd) to a socket without a copy.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use rustix::process::{Resource, getrlimit};
use sluice_http::body::Content;
use sluice_membuf::SealedMemfd;

use crate::body::read_part;

/// Bytes of content that is kept in sealed memory. Below, a copy is faster than the second system call. Above, a copy is faster than the kernel's work for
/// each page, when several clients fetch the file (2 MB, ten clients: sealed memory reaches 0.8 of the rate of a copy).
pub(super) const SEALED_BYTES: RangeInclusive<u64> = 16 << 10..=256 << 10;

/// Contents in sealed memory at most, because each has a descriptor; and at most one part in `SEALED_SHARE` of the descriptors that the process may open.
const SEALED_MAX: usize = 4096;
const SEALED_SHARE: u64 = 8;

/// Makes content, within the bound on descriptors. Clones share the bound.
#[derive(Clone)]
pub(super) struct ContentStore {
    /// Each content in sealed memory holds a clone, so its strong count counts them.
    sealed: Arc<()>,
    pub(super) sealed_max: usize,
}

impl ContentStore {
    pub(super) fn new() -> ContentStore {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(descriptors / SEALED_SHARE);
        ContentStore {
            sealed: Arc::default(),
            sealed_max: share.map_or(SEALED_MAX, |share| share.min(SEALED_MAX)),
        }
    }

    /// Reads the first `bytes` bytes of a file whose offset is still 0. Fails if the file is shorter by now.
    pub(super) fn read(&self, file: &File, bytes: u64) -> io::Result<Content> {
        match self.seal(bytes, || SealedMemfd::read(file, bytes)) {
            Ok(content) => Ok(content),
            Err(Some(error)) if error.kind() == ErrorKind::UnexpectedEof => Err(error),
            Err(_) => read_part(file, 0, bytes).map(Content::from),
        }
    }

    pub(super) fn store(&self, bytes: Vec<u8>) -> Content {
        let sealed = self.seal(bytes.len() as u64, || SealedMemfd::copy_of(&bytes));
        sealed.unwrap_or_else(|_| Bytes::from(bytes).into())
    }

    /// Makes content in sealed memory. Fails with `None` if the size is unsuitable or the bound is reached, with an error if
    /// the system refuses, for example for lack of descriptors; the caller then uses ordinary memory.
    fn seal(&self, bytes: u64, make: impl FnOnce() -> io::Result<SealedMemfd>) -> Result<Content, Option<io::Error>> {
        let has_room = Arc::strong_count(&self.sealed) <= self.sealed_max;
        if !SEALED_BYTES.contains(&bytes) || !has_room {
            return Err(None);
        }
        match make() {
            Ok(sealed) => Ok(Content::sealed(sealed, Arc::clone(&self.sealed))),
            Err(error) => {
                tracing::debug!("sealed memory for {bytes} bytes: {error}");
                Err(Some(error))
            }
        }
    }
}
