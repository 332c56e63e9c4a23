//! The request body as the client sends it: counted, with a limit and timeouts, and stored first if a script needs its length.
//!
//! A body that nobody has read to its end when it is dropped is discarded in the background, within bounds, because the next request of an
//! HTTP/1 connection comes after it: otherwise the connection would have to be closed, although the response has not said so.

use std::fs::File;
use std::io::{self, SeekFrom};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use sluice_http::counter::Counter;
use sluice_http::fault::{Activity, BodyFailure, ClientFault, Fault, ServerFault, SlowBody};
use sluice_http::progress::Progress;
use sluice_http::received::Receiver;
use sluice_http::request_stream::Incoming;
use sluice_http::tasks::Tasks;
use sluice_membuf::{OverBudget, Reservation};
use sluice_settings::limits::Limits;
use sluice_settings::rule::BodyBounds;
use sluice_watch::mask::{BodyMask, Masks};
use sluice_watch::{Direction, Item, Subject};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, Sleep};

use crate::framing::Framing;
use crate::resources::{DroppedElsewhere, Resources};

/// Bodies up to this size, bytes, are stored in memory, larger ones in a file without a name.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// Chunks of a body are collected up to this size, bytes, before a thread writes them to its file.
const WRITE_BYTES_MIN: usize = 64 << 10;

/// Bytes of an unread body that are read for the sake of the connection. With more to come, the connection is closed.
const DISCARD_BYTES_MAX: u64 = 1 << 20;

/// How long the client may take to send them.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a request.
pub struct RequestBody {
    /// `None` after a local redirect.
    incoming: Option<Incoming>,
    announced: Option<u64>,
    received: u64,
    /// Where its bytes are counted for reports; `None` without a body.
    progress: Option<Rc<Progress>>,
    bytes_max: u64,
    timeout: Duration,
    bytes_per_second_min: u64,
    /// Total time of past waits for the client.
    waited: Duration,
    /// How long the server still waits for the client at the least rate: bytes add to it, waits subtract from it. Never more than
    /// the timeout, so that bytes sent fast do not pay for a long trickle.
    allowance: Duration,
    /// Since when the server waits for the client.
    waiting_since: Option<Instant>,
    /// Set again only when it has fired: chunks may come by the million.
    timer: Option<Pin<Box<Sleep>>>,
    /// `None` unless it is chunked.
    framing: Option<Framing>,
    /// Shows it to WATCH.
    watched: Option<Box<WatchedBody>>,
    /// Where its bytes are counted.
    counter: Option<Arc<Counter>>,
    /// Where the rest is discarded. `None` if the connection does not need that, or after a fault of the body.
    discarding: Option<Tasks>,
}

/// What shows a body to WATCH.
struct WatchedBody {
    subject: Subject,
    mask: BodyMask,
}

/// The part of the server that events of a body name.
const MODULE: &str = "body";

impl WatchedBody {
    fn note(&mut self, chunk: &[u8]) {
        let mask = |copy: &mut [u8]| self.mask.apply(copy);
        self.subject
            .note_copy(Item::RequestBody, MODULE, Direction::Received, chunk, mask);
    }
}

/// A body that was stored.
pub(crate) enum Stored {
    /// In memory.
    Memory(Bytes, Reservation),
    /// In a file, whose position is the beginning.
    File(StoredFile),
}

/// A file without a name that holds a body. A thread closes it, because the system then frees its blocks.
pub(crate) struct StoredFile(DroppedElsewhere<(File, Reservation)>);

/// A body that is being stored in memory: copied, because a chunk of the client's keeps the whole block alive that the connection was
/// read into, and a client may send single bytes.
struct InMemory {
    bytes: Vec<u8>,
    /// Of the capacity of `bytes`.
    reservation: Reservation,
}

/// A body that is being stored in a file.
struct Spool {
    /// A thread closes it if the client leaves.
    file: DroppedElsewhere<(tokio::fs::File, Reservation)>,
    /// Chunks that are not written yet, copied together: a thread is asked for each write.
    collected: Vec<u8>,
}

impl RequestBody {
    /// A body with the server's limits, until `bound` sets others.
    pub fn new(incoming: Incoming, limits: &Limits) -> RequestBody {
        RequestBody {
            announced: incoming.size_hint().exact(),
            incoming: Some(incoming),
            received: 0,
            progress: None,
            bytes_max: limits.body_bytes_max,
            timeout: limits.body_timeout,
            bytes_per_second_min: limits.body_bytes_per_second_min,
            waited: Duration::ZERO,
            allowance: limits.body_timeout,
            waiting_since: None,
            timer: None,
            framing: None,
            watched: None,
            counter: None,
            discarding: None,
        }
    }

    /// Shows it to those who watch its exchange.
    #[must_use]
    pub fn watched(mut self, subject: &Subject, mask: impl FnOnce(&Masks) -> BodyMask) -> RequestBody {
        if let Some(masks) = subject.masks().filter(|_| subject.wants(Item::RequestBody)) {
            let (subject, mask) = (subject.clone(), mask(masks));
            self.watched = Some(Box::new(WatchedBody { subject, mask }));
        }
        self
    }

    /// Bounds the framing of a chunked body, which `connection` receives from now on.
    #[must_use]
    pub fn chunked(mut self, connection: Rc<dyn Receiver>) -> RequestBody {
        self.framing = Some(Framing::new(connection));
        self
    }

    /// Counts its bytes as they are read.
    #[must_use]
    pub fn counting(mut self, counter: Arc<Counter>) -> RequestBody {
        self.counter = Some(counter);
        self
    }

    /// Counts its bytes for reports, too.
    #[must_use]
    pub fn counted(mut self, progress: &Rc<Progress>) -> RequestBody {
        self.progress = Some(Rc::clone(progress));
        self
    }

    /// Discards, in a task of the worker, what is not read of the body.
    #[must_use]
    pub fn discarding_rest(mut self, tasks: &Tasks) -> RequestBody {
        self.discarding = Some(tasks.clone());
        self
    }

    /// Sets the limits in `bounds`, and the server's where it has none. The client's fault: it announces more than the limit.
    pub fn bound(&mut self, bounds: BodyBounds, limits: &Limits) -> Result<(), Fault> {
        self.bytes_max = bounds.bytes_max.unwrap_or(limits.body_bytes_max);
        self.timeout = bounds.timeout.unwrap_or(limits.body_timeout);
        self.allowance = self.timeout;
        self.bytes_per_second_min = bounds.bytes_per_second_min.unwrap_or(limits.body_bytes_per_second_min);
        match self.announced {
            Some(bytes) if bytes > self.bytes_max => Err(too_large(self.bytes_max)),
            _ => Ok(()),
        }
    }

    /// Reads the whole body into memory. The faults are the client's: it is larger than `bytes_max` (413), or as of `poll_chunk`.
    pub async fn read(mut self, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        self.bytes_max = self.bytes_max.min(bytes_max as u64);
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// No body, as after a local redirect.
    pub fn none() -> RequestBody {
        RequestBody {
            incoming: None,
            announced: None,
            received: 0,
            progress: None,
            bytes_max: 0,
            timeout: Duration::ZERO,
            bytes_per_second_min: 0,
            waited: Duration::ZERO,
            allowance: Duration::ZERO,
            waiting_since: None,
            timer: None,
            framing: None,
            watched: None,
            counter: None,
            discarding: None,
        }
    }

    /// Its length, if the client announced it.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Whether there is no body, or no more of it.
    pub(crate) fn is_over(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    /// The next chunk, never empty. The client's faults: too large, too slow, truncated, too much framing.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let polled = self.poll_checked(context);
        if let Poll::Ready(Some(Err(_))) = polled {
            self.discarding = None;
        }
        polled
    }

    fn poll_checked(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            let Some(incoming) = &mut self.incoming else {
                return Poll::Ready(None);
            };
            let Poll::Ready(frame) = Pin::new(incoming).poll_frame(context) else {
                if self.framing.as_mut().is_some_and(Framing::is_excessive) {
                    return Poll::Ready(Some(Err(ClientFault::TooMuchFraming(self.received).into())));
                }
                let fault = ready!(self.poll_overdue(context));
                return Poll::Ready(Some(Err(fault.into())));
            };
            if let Some(since) = self.waiting_since.take() {
                // A longer wait is not the client's: nobody polled the body meanwhile.
                let waited = since.elapsed().min(self.timeout);
                self.waited += waited;
                self.allowance = self.allowance.saturating_sub(waited);
            }
            match frame {
                None => return Poll::Ready(None),
                Some(Err(error)) => {
                    let (received, error) = (self.received, Arc::new(error));
                    let failure = Box::new(BodyFailure { received, error });
                    return Poll::Ready(Some(Err(ClientFault::BadBody(failure).into())));
                }
                // CGI cannot represent trailers.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) if !chunk.is_empty() => return Poll::Ready(Some(self.count(chunk))),
                    _ => {}
                },
            }
        }
    }

    /// Stores the whole body. Returns its length, too. The fault is the client's (as of `poll_chunk`) or the server's: there is no
    /// room for another body (503), or a file cannot be written.
    pub(crate) async fn store(mut self, resources: &Resources) -> Result<(Stored, u64), Fault> {
        let mut memory = InMemory::new(resources.stored_body());
        let last = loop {
            let Some(chunk) = self.chunk().await? else {
                return Ok((memory.finish(), self.received));
            };
            if self.received > MEMORY_BYTES_MAX as u64 {
                break chunk;
            }
            memory.push(&chunk)?;
        };
        let mut spool = Spool::create(resources, memory).await?;
        spool.push(&last).await?;
        drop(last);
        while let Some(chunk) = self.chunk().await? {
            spool.push(&chunk).await?;
        }
        Ok((Stored::File(spool.finish().await?), self.received))
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        std::future::poll_fn(|context| self.poll_chunk(context))
            .await
            .transpose()
    }

    fn count(&mut self, chunk: Bytes) -> Result<Bytes, Fault> {
        self.received += chunk.len() as u64;
        if let Some(counter) = &self.counter {
            counter.add(chunk.len() as u64);
        }
        if let Some(progress) = &self.progress {
            progress.count_received(chunk.len());
        }
        self.earn(chunk.len());
        if let Some(framing) = &mut self.framing {
            framing.cover(chunk.len());
        }
        if let Some(watched) = &mut self.watched {
            watched.note(&chunk);
        }
        if self.received > self.bytes_max {
            return Err(too_large(self.bytes_max));
        }
        Ok(chunk)
    }

    /// Ready when the server has waited for the client too long.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<ClientFault> {
        let limit = match self.bytes_per_second_min {
            0 => self.timeout,
            _ => self.allowance,
        };
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let ends = since + limit;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if timer.deadline() > ends || timer.is_elapsed() {
            timer.as_mut().reset(ends);
        }
        ready!(timer.as_mut().poll(context));
        while ends > Instant::now() {
            // It was set for an earlier wait.
            timer.as_mut().reset(ends);
            ready!(timer.as_mut().poll(context));
        }
        Poll::Ready(if limit < self.timeout {
            ClientFault::BodyTooSlow(Box::new(SlowBody {
                received: self.received,
                waited: self.waited + since.elapsed(),
            }))
        } else {
            ClientFault::BodySilent(self.timeout)
        })
    }

    /// Adds to the allowance the time that these bytes take at the least rate.
    fn earn(&mut self, bytes: usize) {
        let nanos = (bytes as u64).saturating_mul(1_000_000_000);
        if let Some(nanos) = nanos.checked_div(self.bytes_per_second_min) {
            let allowance = self.allowance.saturating_add(Duration::from_nanos(nanos));
            self.allowance = allowance.min(self.timeout);
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(WatchedBody { subject, .. }) = self.watched.take().as_deref() {
            let end = if self.is_over() { "complete" } else { "not read further" };
            subject.note(Item::RequestBody, MODULE, || {
                format!("{} bytes received, {end}", self.received)
            });
        }
        let Some(tasks) = self.discarding.take().filter(|_| !self.is_over()) else {
            return;
        };
        let rest = self.announced.map_or(0, |bytes| bytes.saturating_sub(self.received));
        if rest <= DISCARD_BYTES_MAX {
            let mut body = std::mem::replace(self, RequestBody::none());
            body.progress = None;
            tasks.spawn(discard(body));
        }
    }
}

/// Reads a body to its end, within bounds.
async fn discard(mut body: RequestBody) {
    body.bytes_max = body.bytes_max.min(body.received + DISCARD_BYTES_MAX);
    let end = async { while let Ok(Some(_)) = body.chunk().await {} };
    // When its time is over the body is dropped, and the connection is closed.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, end).await;
}

impl InMemory {
    fn new(reservation: Reservation) -> InMemory {
        InMemory {
            bytes: Vec::new(),
            reservation,
        }
    }

    /// Copies a chunk.
    fn push(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        let (before, needed) = (self.bytes.capacity(), self.bytes.len() + chunk.len());
        if needed > before {
            // Doubled, but no further than it may have to be.
            let capacity = (2 * before).min(MEMORY_BYTES_MAX).max(needed);
            self.bytes.reserve_exact(capacity - self.bytes.len());
            grow(&mut self.reservation, self.bytes.capacity() - before)?;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    fn finish(self) -> Stored {
        Stored::Memory(self.bytes.into(), self.reservation)
    }
}

impl Spool {
    /// A new file that begins with the bytes in memory.
    async fn create(resources: &Resources, memory: InMemory) -> Result<Spool, Fault> {
        let InMemory { bytes, mut reservation } = memory;
        let directory = resources.spool_directory();
        let created = spawn_blocking(move || tempfile::tempfile_in(directory)).await;
        let file = created
            .map_err(io::Error::other)
            .and_then(|file| file)
            .map_err(not_stored)?;
        let file = tokio::fs::File::from_std(file);
        // The bytes in memory are the first that are written.
        reservation.shrink_to(bytes.len() as u64);
        Ok(Spool {
            file: DroppedElsewhere::new((file, reservation)),
            collected: bytes,
        })
    }

    /// Adds a chunk. It is written at once only if it is large, or if enough has been collected.
    async fn push(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        grow(&mut self.file.1, chunk.len())?;
        if self.collected.len() + chunk.len() > WRITE_BYTES_MIN {
            self.write_collected().await?;
        }
        if chunk.len() >= WRITE_BYTES_MIN {
            return Ok(self.file.0.write_all(chunk).await.map_err(not_stored)?);
        }
        self.collected.extend_from_slice(chunk);
        Ok(())
    }

    async fn write_collected(&mut self) -> Result<(), Fault> {
        // Empty, there is nothing to ask a thread for.
        if !self.collected.is_empty() {
            self.file.0.write_all(&self.collected).await.map_err(not_stored)?;
            self.collected.clear();
        }
        Ok(())
    }

    /// The file, at its beginning.
    async fn finish(mut self) -> Result<StoredFile, Fault> {
        self.write_collected().await?;
        let file = &mut self.file.0;
        file.flush().await.map_err(not_stored)?;
        file.seek(SeekFrom::Start(0)).await.map_err(not_stored)?;
        let (file, reservation) = self.file.into_inner();
        Ok(StoredFile(DroppedElsewhere::new((file.into_std().await, reservation))))
    }
}

impl StoredFile {
    /// The file, to read from its position on.
    pub(crate) fn file(&self) -> &File {
        &self.0.0
    }

    /// The file and the reservation of its bytes, for a process that reads it.
    pub(crate) fn into_parts(self) -> (OwnedFd, Reservation) {
        let (file, reservation) = self.0.into_inner();
        (file.into(), reservation)
    }
}

fn grow(reservation: &mut Reservation, bytes: usize) -> Result<(), Fault> {
    let full = |over: OverBudget| {
        if over.is_too_large() {
            too_large(over.bytes_max)
        } else {
            ServerFault::StoredBodiesFull(over.bytes_max).into()
        }
    };
    reservation.grow(bytes as u64).map_err(full)
}

fn not_stored(error: io::Error) -> ServerFault {
    ServerFault::io(Activity::StoreBody, error)
}

fn too_large(bytes_max: u64) -> Fault {
    ClientFault::BodyTooLarge(bytes_max).into()
}

#[cfg(test)]
mod tests {
    use sluice_membuf::Budget;

    use super::*;

    #[test]
    fn bytes_in_memory_keep_no_block_of_the_connection_alive_and_their_capacity_is_counted() {
        let budget = Budget::new(1000);
        let mut memory = InMemory::new(Reservation::empty(&budget));
        for length in [1, 1, 100, 7, 300] {
            let block = Bytes::from(vec![7; 8192]);
            memory.push(&block.slice(..length)).unwrap();
            assert!(block.is_unique());
            assert_eq!(budget.used_bytes(), memory.bytes.capacity() as u64);
        }
        assert!(memory.push(&[7; 1000]).is_err(), "more than the budget");
        let Stored::Memory(bytes, reservation) = memory.finish() else {
            unreachable!("finish stores in memory");
        };
        assert_eq!(bytes, [7; 409].as_slice());
        drop(reservation);
        assert_eq!(budget.used_bytes(), 0);
    }
}
