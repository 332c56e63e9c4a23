//! The request body as the client sends it: counted, with a limit and timeouts.
//!
//! A body that nobody has read to its end when it is dropped is discarded in the background, within bounds. In HTTP/1.1 the next request of the
//! connection comes after it: otherwise the connection would have to be closed, although the response has not said so. In HTTP/2 the stream
//! of a body that is dropped is reset. RFC 9113 §8.1 permits that after a complete response, but curl 7.88 drops a response that it reads
//! together with the reset, and the reset is written together with the response unless it waits for the client.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
pub use hyper::body::Incoming;
use sluice_watch::mask::{BodyMask, Masks};
use sluice_watch::{Direction, Item, Items, Scanned, Tracer};
use tokio::time::{Instant, Sleep};

use crate::counter::Counter;
use crate::fault::{BodyFailure, ClientFault, Fault, SlowBody};
use crate::framing::Framing;
use crate::progress::Progress;
use crate::received::Receiver;
use crate::tasks::Tasks;
use crate::watch_pause::WatchPause;

/// Bytes of an unread body that are read and discarded. With more to come, the connection is closed (HTTP/1.1) or the stream is reset. In
/// HTTP/2 a client that sends so much has read since the response was sent, because its windows are smaller.
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
    limits: BodyLimits,
    /// Total time of past waits for the client.
    waited: Duration,
    /// How long the server still waits at the least rate: bytes add, waits subtract; at most the timeout, so that fast bytes do not pay for a long trickle.
    allowance: Duration,
    /// The time since which the server waits for the client.
    waiting_since: Option<Instant>,
    /// Set again only when it has fired: chunks may come by the million.
    timer: Option<Pin<Box<Sleep>>>,
    /// `None` unless it is chunked.
    framing: Option<Framing>,
    watched: Option<Box<WatchedBody>>,
    counter: Option<Arc<Counter>>,
    /// Where the rest is discarded. `None` if it is not, or after a fault of the body in HTTP/1.1.
    discarding: Option<Tasks>,
    /// Whether it has a stream of its own (HTTP/2), so that other requests do not need its end.
    has_stream: bool,
}

/// The limits of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Largest body, bytes, announced or counted.
    pub bytes_max: u64,
    /// Longest time without a byte.
    pub timeout: Duration,
    /// Lowest rate, bytes per second; 0 disables it.
    pub bytes_per_second_min: u64,
}

struct WatchedBody {
    tracer: Tracer,
    /// `None` once it has missed bytes that nobody was shown.
    mask: Option<BodyMask>,
    pause: WatchPause,
}

/// The part of the server that events of a body name.
const MODULE: &str = "body";

impl WatchedBody {
    fn note(&mut self, chunk: &[u8]) {
        let Some(mask) = &mut self.mask else { return };
        let mask = |copy: &mut [u8]| mask.apply(copy);
        let scanned = self
            .tracer
            .note_copy(Item::RequestBody, MODULE, Direction::Received, &[chunk], mask);
        if scanned == Scanned::Part {
            self.mask = None;
        }
    }

    /// Waits until more bytes may be scanned.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let wait = || self.tracer.bytes_wait(Items::of(&[Item::RequestBody]));
        self.pause.poll(context, || self.mask.as_ref().and_then(|_| wait()))
    }
}

impl RequestBody {
    /// A body with the server's limits, until `bound` sets others.
    pub fn new(incoming: Incoming, limits: BodyLimits) -> RequestBody {
        RequestBody::with(Some(incoming), limits)
    }

    fn with(incoming: Option<Incoming>, limits: BodyLimits) -> RequestBody {
        RequestBody {
            announced: incoming.as_ref().and_then(|incoming| incoming.size_hint().exact()),
            incoming,
            received: 0,
            progress: None,
            limits,
            waited: Duration::ZERO,
            allowance: limits.timeout,
            waiting_since: None,
            timer: None,
            framing: None,
            watched: None,
            counter: None,
            discarding: None,
            has_stream: false,
        }
    }

    /// Shows it to those who watch its exchange.
    #[must_use]
    pub fn watched(mut self, tracer: &Tracer, mask: impl FnOnce(&Masks) -> BodyMask) -> RequestBody {
        if let Some(masks) = tracer.masks().filter(|_| tracer.wants(Item::RequestBody)) {
            self.watched = Some(Box::new(WatchedBody {
                tracer: tracer.clone(),
                mask: Some(mask(masks)),
                pause: WatchPause::default(),
            }));
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
        progress.expect_body(self.announced);
        self.progress = Some(Rc::clone(progress));
        self
    }

    /// Discards the unread rest of the body, in a task of the worker. `has_stream`: whether it has a stream of its own (HTTP/2).
    #[must_use]
    pub fn discarding_rest(mut self, tasks: &Tasks, has_stream: bool) -> RequestBody {
        self.discarding = Some(tasks.clone());
        self.has_stream = has_stream;
        self
    }

    /// Sets other limits. The client's fault: it announces more than they allow.
    pub fn bound(&mut self, limits: BodyLimits) -> Result<(), Fault> {
        self.limits = limits;
        self.allowance = limits.timeout;
        match self.announced {
            Some(bytes) if bytes > limits.bytes_max => Err(too_large(limits.bytes_max)),
            _ => Ok(()),
        }
    }

    /// Reads the whole body into memory. The faults are the client's: it is larger than `bytes_max` (413), or as of `poll_chunk`.
    pub async fn read(mut self, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        self.limits.bytes_max = self.limits.bytes_max.min(bytes_max as u64);
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// A request body without bytes, as after a local redirect.
    pub fn none() -> RequestBody {
        let limits = BodyLimits {
            bytes_max: 0,
            timeout: Duration::ZERO,
            bytes_per_second_min: 0,
        };
        RequestBody::with(None, limits)
    }

    /// The length, if the client announced it.
    pub fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Bytes read so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether there is no body, or no more of it.
    pub fn is_over(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    /// The next chunk, never empty. The client's faults: too large, too slow, truncated, too much framing.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let polled = self.poll_checked(context);
        if matches!(polled, Poll::Ready(Some(Err(_)))) && !self.has_stream {
            self.discarding = None;
        }
        polled
    }

    fn poll_checked(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if let Some(watched) = &mut self.watched {
            ready!(watched.poll_pause(context));
        }
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
                let waited = since.elapsed().min(self.limits.timeout);
                self.waited += waited;
                self.allowance = self.allowance.saturating_sub(waited);
            }
            match frame {
                None => {
                    self.progress.iter().for_each(|progress| progress.complete_body());
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    let failure = Box::new(BodyFailure {
                        received: self.received,
                        announced: self.announced,
                        has_left: has_left(&error),
                        error: Arc::new(error),
                    });
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

    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
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
            progress.received_bytes.update(|received| received + chunk.len() as u64);
        }
        self.earn(chunk.len());
        if let Some(framing) = &mut self.framing {
            framing.cover(chunk.len());
        }
        if let Some(watched) = &mut self.watched {
            watched.note(&chunk);
        }
        if self.received > self.limits.bytes_max {
            return Err(too_large(self.limits.bytes_max));
        }
        Ok(chunk)
    }

    /// Ready when the server has waited for the client too long.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<ClientFault> {
        let limit = match self.limits.bytes_per_second_min {
            0 => self.limits.timeout,
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
        Poll::Ready(if limit < self.limits.timeout {
            ClientFault::BodyTooSlow(Box::new(SlowBody {
                received: self.received,
                waited: self.waited + since.elapsed(),
            }))
        } else {
            ClientFault::BodySilent(self.limits.timeout)
        })
    }

    /// Adds to the allowance the time that these bytes take at the least rate.
    fn earn(&mut self, bytes: usize) {
        let nanos = (bytes as u64).saturating_mul(1_000_000_000);
        if let Some(nanos) = nanos.checked_div(self.limits.bytes_per_second_min) {
            let allowance = self.allowance.saturating_add(Duration::from_nanos(nanos));
            self.allowance = allowance.min(self.limits.timeout);
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(WatchedBody { tracer, .. }) = self.watched.take().as_deref() {
            let end = if self.is_over() { "complete" } else { "not read further" };
            tracer.note(Item::RequestBody, MODULE, || {
                format!("{} bytes received, {end}", self.received)
            });
        }
        let Some(tasks) = self.discarding.take().filter(|_| !self.is_over()) else {
            return;
        };
        let rest = self.announced.map_or(0, |bytes| bytes.saturating_sub(self.received));
        let is_useful = if self.has_stream {
            // A stream whose response is incomplete is reset at once: the exchange was ended, or its client takes too little.
            let is_incomplete = |progress: &Rc<Progress>| progress.is_ended() || progress.is_given_up.get();
            !self.progress.as_ref().is_some_and(is_incomplete)
        } else {
            rest <= DISCARD_BYTES_MAX
        };
        if is_useful {
            let mut body = std::mem::replace(self, RequestBody::none());
            body.progress = None;
            tasks.spawn(discard(body));
        }
    }
}

/// Reads a body to its end, within bounds.
async fn discard(mut body: RequestBody) {
    body.limits.bytes_max = body.received + DISCARD_BYTES_MAX;
    let end = async { while let Ok(Some(_)) = body.chunk().await {} };
    // When its time is over the body is dropped, and the connection is closed or the stream is reset.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, end).await;
}

pub(crate) fn too_large(bytes_max: u64) -> Fault {
    ClientFault::BodyTooLarge(bytes_max).into()
}

/// Whether an error of a body is that the client has closed the connection or reset the stream: a body that is malformed has none of these.
fn has_left(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |cause| {
        cause.source()
    });
    causes.any(|cause| {
        let of_system = cause.downcast_ref::<std::io::Error>();
        // Errors of HTTP/2 have no source, also where they are those of the system.
        let of_http2 = cause.downcast_ref::<h2::Error>();
        of_system.is_some_and(|error| is_end(error.kind()))
            || of_http2.is_some_and(|error| error.is_remote() || error.get_io().is_some_and(|io| is_end(io.kind())))
    })
}

/// Whether the system says so where the other side has closed.
fn is_end(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
