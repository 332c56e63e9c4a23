//! The request body as the client sends it: counted, with a limit and timeouts, and stored first if a script needs its length.

use std::io::{Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use sluice_http::fault::{Activity, BodyFailure, ClientFault, Fault, ServerFault, SlowBody};
use sluice_settings::limits::Limits;
use sluice_settings::rule::BodyBounds;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, Sleep};

/// Bodies up to this size, bytes, are stored in memory, larger ones in a file without a name.
const MEMORY_BYTES_MAX: u64 = 64 << 10;

/// The body of a request.
pub struct RequestBody {
    /// `None` after a local redirect.
    incoming: Option<Incoming>,
    announced: Option<u64>,
    received: u64,
    bytes_max: u64,
    timeout: Duration,
    bytes_per_second_min: u64,
    /// Total time of past waits for the client.
    waited: Duration,
    wait: Option<Wait>,
}

/// The present wait for the client.
struct Wait {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

/// A body that was stored.
pub(crate) enum Stored {
    /// In memory.
    Memory(Vec<Bytes>),
    /// In a file, whose position is the beginning.
    File(std::fs::File),
}

impl RequestBody {
    /// A body with the server's limits, until `bound` sets others.
    pub fn new(incoming: Incoming, limits: &Limits) -> RequestBody {
        RequestBody {
            announced: incoming.size_hint().exact(),
            incoming: Some(incoming),
            received: 0,
            bytes_max: limits.body_bytes_max,
            timeout: limits.body_timeout,
            bytes_per_second_min: limits.body_bytes_per_second_min,
            waited: Duration::ZERO,
            wait: None,
        }
    }

    /// Sets the limits in `bounds`, and the server's where it has none. The client's fault: it announces more than the limit.
    pub fn bound(&mut self, bounds: BodyBounds, limits: &Limits) -> Result<(), Fault> {
        self.bytes_max = bounds.bytes_max.unwrap_or(limits.body_bytes_max);
        self.timeout = bounds.timeout.unwrap_or(limits.body_timeout);
        self.bytes_per_second_min = bounds.bytes_per_second_min.unwrap_or(limits.body_bytes_per_second_min);
        match self.announced {
            Some(bytes) if bytes > self.bytes_max => Err(too_large(self.bytes_max)),
            _ => Ok(()),
        }
    }

    /// No body, as after a local redirect.
    pub fn none() -> RequestBody {
        RequestBody {
            incoming: None,
            announced: None,
            received: 0,
            bytes_max: 0,
            timeout: Duration::ZERO,
            bytes_per_second_min: 0,
            waited: Duration::ZERO,
            wait: None,
        }
    }

    /// Its length, if the client announced it.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Whether there is no body, or no more of it.
    pub(crate) fn is_over(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    /// The next chunk, never empty. The client's faults: too large, too slow, truncated.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            let Some(incoming) = &mut self.incoming else {
                return Poll::Ready(None);
            };
            let Poll::Ready(frame) = Pin::new(incoming).poll_frame(context) else {
                let fault = ready!(self.poll_overdue(context));
                return Poll::Ready(Some(Err(fault.into())));
            };
            if let Some(wait) = self.wait.take() {
                // A longer wait is not the client's: nobody polled the body meanwhile.
                self.waited += wait.since.elapsed().min(self.timeout);
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

    /// Stores the whole body. Returns its length, too.
    pub(crate) async fn store(mut self) -> Result<(Stored, u64), Fault> {
        let mut chunks = Vec::new();
        while self.received <= MEMORY_BYTES_MAX {
            match self.chunk().await? {
                Some(chunk) => chunks.push(chunk),
                None => return Ok((Stored::Memory(chunks), self.received)),
            }
        }
        let failed = |error| ServerFault::io(Activity::StoreBody, error);
        let file = tempfile::tempfile().map_err(failed)?;
        let mut file = tokio::fs::File::from_std(file);
        for chunk in chunks {
            file.write_all(&chunk).await.map_err(failed)?;
        }
        while let Some(chunk) = self.chunk().await? {
            file.write_all(&chunk).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        let mut file = file.into_std().await;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok((Stored::File(file), self.received))
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        std::future::poll_fn(|context| self.poll_chunk(context))
            .await
            .transpose()
    }

    fn count(&mut self, chunk: Bytes) -> Result<Bytes, Fault> {
        self.received += chunk.len() as u64;
        if self.received > self.bytes_max {
            return Err(too_large(self.bytes_max));
        }
        Ok(chunk)
    }

    /// Ready when the server has waited for the client too long.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<ClientFault> {
        let limit = self.timeout.min(self.rest_of_rate());
        let wait = self.wait.get_or_insert_with(|| {
            let since = Instant::now();
            let timer = Box::pin(tokio::time::sleep_until(since + limit));
            Wait { since, timer }
        });
        ready!(wait.timer.as_mut().poll(context));
        Poll::Ready(if limit < self.timeout {
            ClientFault::BodyTooSlow(Box::new(SlowBody {
                received: self.received,
                waited: self.waited + wait.since.elapsed(),
            }))
        } else {
            ClientFault::BodySilent(self.timeout)
        })
    }

    /// How long the server may still wait for the client at the least rate.
    fn rest_of_rate(&self) -> Duration {
        match self.received.checked_div(self.bytes_per_second_min) {
            Some(seconds) => {
                let allowed = self.timeout.saturating_add(Duration::from_secs(seconds));
                allowed.saturating_sub(self.waited)
            }
            None => Duration::MAX,
        }
    }
}

fn too_large(bytes_max: u64) -> Fault {
    ClientFault::BodyTooLarge(bytes_max).into()
}
