//! The body of a script's reply, as the response takes it: a `Source`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use sluice_gateway::{ChunkFault, ReplyHead};
use sluice_http::body::Source;
use sluice_http::fault::Fault;
use sluice_http::tasks::yield_now;

use super::{Conversation, Link};
use crate::exchange::{Ending, Relay, ReplyEvent};
use crate::process::Violation;

/// A reply that is complete and no larger than this, bytes, is sent in one chunk, with its length.
const COLLECT_BYTES_MAX: usize = 128 << 10;

/// How long the head of a reply waits for the first byte of its body. A script that fails meanwhile is answered with 502; later its response can only
/// be aborted. A client that acts on the head alone sees it later by this time, so the head of a stream does not wait (`serve`).
const HEAD_WAIT: Duration = Duration::from_millis(300);

impl Conversation {
    /// The head is on its way to the client, and the body follows.
    pub(crate) fn begin_body(&mut self, head: &ReplyHead) {
        self.filter.begin(head);
        self.is_counted = head.content_length.is_some();
        self.expects_body = head.status.is_success();
        self.decoder = head.is_chunked.then(Box::default);
        let rest = std::mem::take(&mut self.rest);
        self.begin(head.status, rest);
    }

    /// The head is on its way to the client, without a body: bytes that came with it are dropped, too.
    pub(crate) fn begin_unwanted_body(&mut self, status: StatusCode) {
        self.begin(status, Bytes::new());
    }

    fn begin(&mut self, status: StatusCode, rest: Bytes) {
        if let Some(Link { relay, .. }) = &mut self.link {
            relay.callouts.status = Some(status);
            relay.begin_body(rest, self.route.settings.timeouts.output);
        }
    }

    /// The whole body, if all of it is here already: a short reply then leaves in one write, and its process is free before
    /// the client has read it. The fault is the script's, and nothing of its reply may be sent.
    pub(crate) fn collect_whole(&mut self) -> Result<Option<Bytes>, Fault> {
        let mut bytes = self.collected.iter().map(Bytes::len).sum();
        // No waker is needed: the body polls again for what is not here now.
        let mut context = Context::from_waker(Waker::noop());
        while self.link.is_some() && bytes <= COLLECT_BYTES_MAX {
            match self.poll_body(&mut context) {
                Poll::Ready(Some(Ok(chunk))) => {
                    bytes += chunk.len();
                    self.collected.push_back(chunk);
                }
                Poll::Ready(None) => return Ok(Some(join(std::mem::take(&mut self.collected), bytes))),
                Poll::Ready(Some(Err(fault))) if self.collected.is_empty() || self.may_send_nothing() => {
                    return Err(fault);
                }
                Poll::Ready(Some(Err(fault))) => {
                    self.fault = Some(fault);
                    return Ok(None);
                }
                Poll::Pending => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Waits a little for the first chunk, so that a script that fails after the head is not answered with its status. Then as `collect_whole`.
    pub(crate) async fn wait_for_body(&mut self) -> Result<Option<Bytes>, Fault> {
        if !self.collected.is_empty() {
            return Ok(None);
        }
        let waited = tokio::time::timeout(HEAD_WAIT, poll_fn(|context| self.poll_body(context))).await;
        let first = match waited {
            Ok(first) => first,
            // Its exit status decides, and comes soon.
            Err(_) if self.relay().is_some_and(Relay::is_closed) => poll_fn(|context| self.poll_body(context)).await,
            Err(_) => return Ok(None),
        };
        match first.transpose()? {
            Some(chunk) => {
                self.collected.push_back(chunk);
                self.collect_whole()
            }
            None => Ok(Some(Bytes::new())),
        }
    }

    /// Waits for the fault of a script that has said that it has failed. `None` if it has not.
    pub(crate) async fn failure(&mut self) -> Option<Fault> {
        if !self.relay().is_some_and(Relay::is_failing) {
            return None;
        }
        loop {
            // What the script has written before is not sent either.
            if let Err(fault) = poll_fn(|context| self.poll_body(context)).await? {
                return Some(fault);
            }
        }
    }

    /// Whether the bytes that are here may be those of another reply, or the script has said that it has failed.
    fn may_send_nothing(&self) -> bool {
        self.relay()
            .is_some_and(|relay| relay.has_two_replies() || relay.has_failed_well())
    }

    /// Whether the reply lacks the body that its head promises. An error or a redirect may have none, nor may a reply of length 0.
    pub(crate) fn lacks_body(&self) -> bool {
        self.expects_body && !self.has_body && !self.filter.is_satisfied()
    }

    /// The next bytes of the body. `None` once the exchange is over, or has failed.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        if self.link.is_none() || self.culprit.is_some() {
            return Poll::Ready(None);
        }
        // The client does not wait for the end of a CGI script that has written all that it announced.
        let has_all = self.filter.is_satisfied() && self.block.bytes.is_empty();
        if has_all && !self.settings().mode.keeps_process() {
            Ending::Drain(self.settings().timeouts.output).carry_out(self);
            return Poll::Ready(None);
        }
        let ending = match ready!(self.poll_output(context)) {
            Some(Ok(chunk)) => return Poll::Ready(Some(Ok(chunk))),
            Some(Err(fault)) => Err(fault),
            None => Ending::of_written(self),
        };
        match ending {
            Ok(ending) => {
                ending.carry_out(self);
                Poll::Ready(None)
            }
            Err(fault) => {
                self.culprit = Some(fault.culprit());
                Poll::Ready(Some(Err(fault)))
            }
        }
    }

    /// The next bytes to send, or to discard in the background. `None` once the script has written all; the exchange is not over yet.
    pub(crate) fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let buffers = |relay: &Relay| relay.callouts.control.buffers_records == Some(true);
        if self.block.bytes.is_empty() && !self.relay().is_some_and(buffers) {
            return self.poll_written(context);
        }
        loop {
            if let Some(block) = self.block.take_complete() {
                return Poll::Ready(Some(Ok(block)));
            }
            match self.poll_written(context) {
                Poll::Ready(Some(Ok(chunk))) => {
                    let bytes_max = self.route.settings.output.record_bytes_max;
                    self.block.add(&chunk, bytes_max);
                    if self.filter.is_satisfied() {
                        self.block.complete();
                    }
                }
                Poll::Ready(None) if !self.block.bytes.is_empty() => self.block.complete(),
                Poll::Pending => ready!(self.block.poll_complete(context)),
                end => return end,
            }
        }
    }

    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            let chunk = match self.poll_framed(context) {
                Some(decoded) => ready!(decoded)?,
                None => {
                    let Some(Link { relay, .. }) = &mut self.link else {
                        return Poll::Ready(None);
                    };
                    match ready!(relay.poll_event(context))? {
                        ReplyEvent::Mailbox(bytes) => self.filter.apply(bytes, &relay.callouts.control),
                        ReplyEvent::Bulk(bytes) | ReplyEvent::Region(bytes) => self.filter.limit(bytes),
                        // The relay reports the end again.
                        ReplyEvent::End => match self.filter.end(&relay.callouts.control) {
                            None => return Poll::Ready(None),
                            last => last,
                        },
                    }
                }
            };
            if let Some(chunk) = chunk {
                self.has_body = true;
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
    }

    /// Some bytes of a body that the script has framed itself, without its framing. `None` if it has not, or the body is complete.
    fn poll_framed(&mut self, context: &mut Context<'_>) -> Option<Poll<Result<Option<Bytes>, Fault>>> {
        let (decoder, Link { relay, .. }) = (self.decoder.as_mut()?, self.link.as_mut()?);
        let fault = match decoder.decode(&mut self.framed) {
            Ok(bytes) if !bytes.is_empty() => return Some(Poll::Ready(Ok(Some(bytes)))),
            Ok(_) if decoder.is_complete() => {
                self.decoder = None;
                // What follows is surplus.
                self.filter.missing_bytes = Some(0);
                let surplus = std::mem::take(&mut self.framed);
                return Some(Poll::Ready(Ok(self.filter.limit(surplus))));
            }
            Ok(_) => match relay.poll_event(context) {
                Poll::Pending => return Some(Poll::Pending),
                Poll::Ready(Err(fault)) => return Some(Poll::Ready(Err(fault))),
                Poll::Ready(Ok(ReplyEvent::Mailbox(bytes))) => {
                    self.framed = bytes;
                    return Some(Poll::Ready(Ok(None)));
                }
                // The decoder reads its bytes more than once.
                Poll::Ready(Ok(ReplyEvent::Region(bytes))) => {
                    self.framed = Bytes::copy_from_slice(&bytes);
                    return Some(Poll::Ready(Ok(None)));
                }
                Poll::Ready(Ok(ReplyEvent::Bulk(_))) => ChunkFault::MemoryBuffer,
                Poll::Ready(Ok(ReplyEvent::End)) => ChunkFault::Unfinished,
            },
            Err(fault) => fault,
        };
        Some(Poll::Ready(Err(relay.fault(Violation::Chunks(fault)))))
    }
}

impl Source for Conversation {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let chunk = match self.collected.pop_front() {
            Some(chunk) => chunk,
            None => match ready!(self.poll_body(context)) {
                Some(Ok(chunk)) => chunk,
                Some(Err(fault)) if !self.has_yielded => {
                    self.fault = Some(fault);
                    self.has_yielded = true;
                    yield_now(context);
                    return Poll::Pending;
                }
                end => return Poll::Ready(end),
            },
        };
        // hyper drops a counted body with its last byte. If the sentinel is here already, the process is free at once.
        if self.length() == Some(0)
            && let Poll::Ready(Some(Err(fault))) = self.poll_body(&mut Context::from_waker(Waker::noop()))
        {
            self.scripts.warn(format_args!("after a complete reply: {fault}"));
        }
        Poll::Ready(Some(Ok(chunk)))
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        if let Some(relay) = self.relay_mut() {
            relay.limit_reads(bytes_max);
        }
    }

    fn length(&self) -> Option<u64> {
        if !self.is_counted {
            return None;
        }
        let collected: u64 = self.collected.iter().map(|chunk| chunk.len() as u64).sum();
        // At the end of the exchange no byte is missing.
        Some(self.filter.missing_bytes.unwrap_or(0) + collected + self.block.bytes.len() as u64)
    }

    fn discard(mut self: Box<Self>) {
        if self.culprit.is_none() {
            Ending::Drain(self.settings().timeouts.client_grace()).carry_out(&mut self);
        }
    }
}

/// One chunk of all, `bytes` long.
fn join(chunks: VecDeque<Bytes>, bytes: usize) -> Bytes {
    if chunks.len() <= 1 {
        return chunks.into_iter().next().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(bytes);
    for chunk in chunks {
        whole.extend_from_slice(&chunk);
    }
    whole.freeze()
}
