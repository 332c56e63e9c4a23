//! The bound on files that are open while they are sent.
//!
//! A connection sends one file in HTTP/1.1, but up to 128 in HTTP/2, for as long as its client is slow. Without a bound few
//! clients could take all descriptors of the process. So a body that is read while it is sent ([`Sent`]) needs a permit.
//! So does one that is open while its request waits at the gate. Files that are in the cache, or are read at once, need none. The bound is one of the process, as the descriptors are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use sluice_http::body::Source;
use sluice_http::fault::{Fault, ServerFault};
use sluice_membuf::SealedMemfd;

static FILES: OpenFiles = OpenFiles::new(usize::MAX);

/// Sets how many files may be open while they are sent. Those that are sent already go on.
pub fn set_max(files: usize) {
    // Relaxed, here and below, because the count orders no other memory.
    FILES.max.store(files, Ordering::Relaxed);
}

/// The count of files that are open while they are sent.
struct OpenFiles {
    count: AtomicUsize,
    max: AtomicUsize,
}

/// The right to have a file open. Dropping this returns it.
pub(crate) struct Permit(&'static OpenFiles);

impl OpenFiles {
    const fn new(max: usize) -> OpenFiles {
        OpenFiles {
            count: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
        }
    }

    /// Takes a permit; the error is 503, because too many files are being sent.
    fn take(&'static self) -> Result<Permit, Fault> {
        let max = self.max.load(Ordering::Relaxed);
        // Counted before it is compared, so that two threads cannot both take the last one.
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(self);
        if before >= max {
            return Err(ServerFault::FilesBusy(max).into());
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) struct Sent<S> {
    source: S,
    _permit: Permit,
}

impl<S: Source> Sent<S> {
    /// Takes the permit of a body.
    ///
    /// # Errors
    /// 503: too many files are being sent.
    pub(crate) fn new(source: S) -> Result<Sent<S>, Fault> {
        Ok(Sent { source, _permit: FILES.take()? })
    }
}

impl<S: Source> Source for Sent<S> {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        self.source.poll_chunk(context)
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        self.source.limit_chunks(bytes_max);
    }

    fn prefer_small_chunks(&mut self) {
        self.source.prefer_small_chunks();
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }

    fn sealed(&self) -> Option<Arc<SealedMemfd>> {
        self.source.sealed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_return_when_they_are_dropped_or_refused() {
        static TWO: OpenFiles = OpenFiles::new(2);
        let first = TWO.take().ok().unwrap();
        let _second = TWO.take().ok().unwrap();
        for _ in 0..3 {
            let fault = TWO.take().err().unwrap();
            assert_eq!(fault.status().as_u16(), 503);
            assert!(fault.retry_after().is_some());
        }
        drop(first);
        assert!(TWO.take().is_ok());
    }
}
