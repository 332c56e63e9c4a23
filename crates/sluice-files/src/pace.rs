//! How many bytes of a file are read at once for a client: more for one that takes them fast.
//!
//! With small chunks a fast client sleeps after each, and waking it costs the worker more than a copy. A slow one would hold large chunks in memory.

use std::cell::Cell;
use std::time::Duration;

use sluice_http::body::CHUNK_BYTES;
use tokio::time::Instant;

/// Bytes that are read at once for a fast client.
pub(crate) const LARGE_CHUNK_BYTES: usize = 1 << 20;

/// Bytes that are left when a body gets large chunks: for fewer it costs more than it gains to allocate the memory.
const LARGE_BODY_BYTES: u64 = 4 << 20;

/// Bytes that are read at once if they are encrypted or compressed (over TLS, 100 MB, ten clients: 0.95 of the processor time with 256 KiB).
const SMALL_CHUNK_BYTES: usize = 64 << 10;

/// The time within which a fast client takes [`CHUNK_BYTES`].
const FAST_CHUNK_TIME: Duration = Duration::from_millis(50);

/// Bodies of a worker with large chunks at once. A client seems fast until its connection's buffers are full, so this bounds the memory of many slow clients.
const LARGE_BODIES_MAX: usize = 16;

thread_local! {
    static LARGE_BODIES: Cell<usize> = const { Cell::new(0) };
}

#[derive(Default)]
pub(crate) struct Pace {
    asked: Option<Instant>,
    prefers_small_chunks: bool,
    large_chunks: Option<LargeChunks>,
}

impl Pace {
    /// Notes that the chunks will be encrypted or compressed.
    pub(crate) fn prefer_small_chunks(&mut self) {
        self.prefers_small_chunks = true;
    }

    /// The size of the chunk that is asked for now, of a body of which `left` bytes are left. `may_be_large` if the connection allows large chunks.
    pub(crate) fn chunk_bytes(&mut self, left: u64, may_be_large: bool) -> usize {
        if self.prefers_small_chunks {
            return SMALL_CHUNK_BYTES;
        }
        let now = Instant::now();
        let asked = self.asked.replace(now);
        let is_fast = asked.is_some_and(|asked| now.duration_since(asked) < FAST_CHUNK_TIME);
        let kept = self.large_chunks.take().filter(|_| is_fast && may_be_large);
        self.large_chunks = match is_fast && may_be_large && left >= LARGE_BODY_BYTES {
            true => kept.or_else(LargeChunks::take),
            false => kept,
        };
        match self.large_chunks {
            Some(_) => LARGE_CHUNK_BYTES,
            None => CHUNK_BYTES,
        }
    }
}

/// The right of a body to have large chunks.
struct LargeChunks;

impl LargeChunks {
    /// `None` if as many bodies of this worker as may have it have it.
    fn take() -> Option<LargeChunks> {
        let taken = LARGE_BODIES.get();
        (taken < LARGE_BODIES_MAX).then(|| {
            LARGE_BODIES.set(taken + 1);
            LargeChunks
        })
    }
}

impl Drop for LargeChunks {
    fn drop(&mut self) {
        // A worker that ends may have dropped the count before the last of its bodies.
        let _ = LARGE_BODIES.try_with(|taken| taken.set(taken.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_fast_clients_of_large_bodies_get_large_chunks() {
        let mut pace = Pace::default();
        assert_eq!(
            pace.chunk_bytes(LARGE_BODY_BYTES, true),
            CHUNK_BYTES,
            "nothing is known of the client yet"
        );
        assert_eq!(
            pace.chunk_bytes(LARGE_BODY_BYTES - 1, true),
            CHUNK_BYTES,
            "not worth the memory"
        );
        assert_eq!(
            pace.chunk_bytes(LARGE_BODY_BYTES, false),
            CHUNK_BYTES,
            "the connection allows none"
        );
        assert_eq!(pace.chunk_bytes(LARGE_BODY_BYTES, true), LARGE_CHUNK_BYTES);
        assert_eq!(pace.chunk_bytes(1, true), LARGE_CHUNK_BYTES, "the memory is there");
        tokio::time::advance(FAST_CHUNK_TIME).await;
        assert_eq!(
            pace.chunk_bytes(LARGE_BODY_BYTES, true),
            CHUNK_BYTES,
            "the client was slow"
        );
        assert_eq!(LARGE_BODIES.get(), 0);
        pace.prefer_small_chunks();
        for _ in 0..2 {
            assert_eq!(pace.chunk_bytes(LARGE_BODY_BYTES, true), SMALL_CHUNK_BYTES);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_bodies_than_may_have_large_chunks() {
        let mut paces: Vec<_> = (0..=LARGE_BODIES_MAX).map(|_| Pace::default()).collect();
        let mut ask = |pace: &mut Pace| pace.chunk_bytes(LARGE_BODY_BYTES, true);
        paces.iter_mut().for_each(|pace| assert_eq!(ask(pace), CHUNK_BYTES));
        let sizes: Vec<_> = paces.iter_mut().map(&mut ask).collect();
        assert!(sizes[..LARGE_BODIES_MAX].iter().all(|&size| size == LARGE_CHUNK_BYTES));
        assert_eq!(sizes[LARGE_BODIES_MAX], CHUNK_BYTES);
        paces.remove(0);
        assert_eq!(
            ask(paces.last_mut().unwrap()),
            LARGE_CHUNK_BYTES,
            "another body is over"
        );
        drop(paces);
        assert_eq!(LARGE_BODIES.get(), 0);
    }
}
