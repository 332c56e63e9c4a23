//! One exchange with a script process, as its handler and then the response hold it: the head of the reply first, then the
//! body as a `Source`.
//!
//! Here: chunks collected so that a short reply leaves in one write, the order of faults and bytes, and the moment when the
//! exchange is over. Not here: how the next chunk is made (`conversation`), and what happens to the process (`ending`).
//!
//! ```text
//!   new ──▶ head ──▶ begin_body ──▶ collect_whole ──▶ poll_chunk … ──▶ the last chunk   Ending::of_written
//!             │           │           ├─ all is here ──▶ one chunk                       Ending::of_written
//!             │           │           └─ nothing is here ──▶ wait_for_body ──▶ as before
//!             │           └─ begin_unwanted_body ──▶ discard                             Ending::Drain
//!             ├─ the client is sent elsewhere ──▶ abandon                                Ending::ClientGone
//!             └─ dropped at any point                   Ending::of_failed after a fault, otherwise Ending::of_left
//! ```

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use sluice_gateway::{AgentAnswer, ErrorRequest, Reply, ReplyHead};
use sluice_http::body::Source;
use sluice_http::fault::{Culprit, Fault};
use sluice_http::tasks::yield_now;

use crate::exchange::conversation::Conversation;
use crate::exchange::ending::{Audience, Ending};
use crate::exchange::pump::Pump;
use crate::process::process_fault::RequestedError;
use crate::process::script_process::Process;

/// A reply that is complete and no larger than this, bytes, is sent in one chunk, with its length.
const COLLECT_BYTES_MAX: usize = 128 << 10;

/// How long the head of a reply waits for the first byte of its body. A script that fails meanwhile is answered with 502; later its
/// response can only be aborted. A client that acts on the head alone sees it later by this time, so the head of a stream does not
/// wait (`serve`).
const HEAD_WAIT: Duration = Duration::from_millis(300);

/// One exchange with one script process, from its request to the end of its reply.
pub(crate) struct Session {
    /// `None` once the exchange is over.
    conversation: Option<Conversation>,
    /// There was a fault: the process is stopped when the session is dropped.
    has_failed: bool,
    /// Whose fault it was.
    culprit: Culprit,
    /// The reply has a Content-Length.
    is_counted: bool,
    /// Chunks to send before all others.
    collected: VecDeque<Bytes>,
    /// A fault that was met while bytes before it were still to be sent.
    fault: Option<Fault>,
    /// The task has yielded before the fault, so that these bytes leave first.
    has_yielded: bool,
}

impl Session {
    pub(crate) fn new(conversation: Conversation) -> Box<Session> {
        Box::new(Session {
            conversation: Some(conversation),
            has_failed: false,
            culprit: Culprit::Script,
            is_counted: false,
            collected: VecDeque::new(),
            fault: None,
            has_yielded: false,
        })
    }

    /// Waits for the head of the reply. The fault is the script's (502, 504) or the client's (its body is bad).
    pub(crate) async fn head(&mut self) -> Result<Reply, Fault> {
        let Some(conversation) = &mut self.conversation else {
            return Err(Fault::unexpected("the exchange with the script is over"));
        };
        let reply = conversation.head().await;
        if let Err(fault) = &reply {
            (self.has_failed, self.culprit) = (true, fault.culprit());
        }
        reply
    }

    /// The process, if it has written before it read its request.
    pub(crate) fn overtaken(&self) -> Option<&Process> {
        let relay = &self.conversation.as_ref()?.relay;
        relay.is_overtaken().then_some(&*relay.process)
    }

    /// Takes the request back from a process that did not read it, so that another can be tried. False if that is not possible.
    pub(crate) fn take_request_back(&mut self) -> bool {
        let conversation = self.conversation.as_mut();
        conversation.is_some_and(|conversation| conversation.relay.take_request_back())
    }

    /// The request body, for another process.
    pub(crate) fn take_pump(&mut self) -> Option<Pump> {
        self.conversation.as_mut()?.relay.take_pump()
    }

    /// The fault of a script that has asked for the server's error page with this status; the process is not at fault.
    pub(crate) fn requested_error(&self, status: StatusCode, error: ErrorRequest) -> Fault {
        let process = self
            .conversation
            .as_ref()
            .map(|conversation| conversation.relay.process.describe());
        RequestedError { process, status, error }.into()
    }

    /// The head is on its way to the client, and the body follows.
    pub(crate) fn begin_body(&mut self, head: &ReplyHead) {
        self.is_counted = head.content_length.is_some();
        if let Some(conversation) = &mut self.conversation {
            conversation.begin_body(head);
        }
    }

    /// The head is on its way to the client, without a body.
    pub(crate) fn begin_unwanted_body(&mut self, status: StatusCode) {
        if let Some(conversation) = &mut self.conversation {
            conversation.begin_unwanted_body(status);
        }
    }

    /// The whole body, if all of it is here already: a short reply then leaves in one write, and its process is free before
    /// the client has read it. The fault is the script's, and nothing of its reply may be sent.
    pub(crate) fn collect_whole(&mut self) -> Result<Option<Bytes>, Fault> {
        let mut bytes = self.collected.iter().map(Bytes::len).sum();
        // No waker is needed: the body polls again for what is not here now.
        let mut context = Context::from_waker(Waker::noop());
        while self.conversation.is_some() && bytes <= COLLECT_BYTES_MAX {
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

    /// Waits a little for the first chunk if none is collected, so that a script that fails after the head is not answered with
    /// its status. Then as `collect_whole`.
    pub(crate) async fn wait_for_body(&mut self) -> Result<Option<Bytes>, Fault> {
        if !self.collected.is_empty() {
            return Ok(None);
        }
        let waited = tokio::time::timeout(HEAD_WAIT, poll_fn(|context| self.poll_body(context))).await;
        let first = match waited {
            Ok(first) => first,
            // Its exit status decides, and comes soon.
            Err(_) if self.is_mailbox_closed() => poll_fn(|context| self.poll_body(context)).await,
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
        let conversation = self.conversation.as_ref();
        if !conversation.is_some_and(|conversation| conversation.relay.is_failing()) {
            return None;
        }
        loop {
            // What the script has written before is not sent either.
            if let Err(fault) = poll_fn(|context| self.poll_body(context)).await? {
                return Some(fault);
            }
        }
    }

    fn is_mailbox_closed(&self) -> bool {
        let conversation = self.conversation.as_ref();
        conversation.is_some_and(|conversation| conversation.relay.is_closed())
    }

    /// Whether the bytes that are here are not the begin of a reply: they may be those of another one, or the script has said that it
    /// has failed.
    fn may_send_nothing(&self) -> bool {
        let relay = self.conversation.as_ref().map(|conversation| &conversation.relay);
        relay.is_some_and(|relay| relay.has_two_replies() || relay.has_failed_well())
    }

    /// What an authentication agent has said of the user.
    pub(crate) fn take_agent_answer(&mut self) -> Option<AgentAnswer> {
        self.conversation.as_mut()?.relay.callouts.agent.take()
    }

    /// The client was sent elsewhere: the script may finish within `client_grace`.
    pub(crate) fn abandon(mut self: Box<Self>) {
        if let Some(conversation) = &self.conversation {
            let grace = conversation.settings().timeouts.client_grace();
            self.end(Ending::ClientGone(grace));
        }
    }

    /// The next bytes of the body. `None` once the exchange is over, or has failed.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        let Some(conversation) = self.conversation.as_mut().filter(|_| !self.has_failed) else {
            return Poll::Ready(None);
        };
        // The client does not wait for the end of a CGI script that has written all that it announced.
        let has_all = conversation.filter.is_satisfied() && conversation.collected_bytes() == 0;
        if has_all && !conversation.settings().mode.keeps_process() {
            let limit = conversation.settings().timeouts.output;
            self.end(Ending::Drain(limit));
            return Poll::Ready(None);
        }
        let ending = match ready!(conversation.poll_chunk(context)) {
            Some(Ok(chunk)) => return Poll::Ready(Some(Ok(chunk))),
            Some(Err(fault)) => Err(fault),
            None => Ending::of_written(conversation, Audience::Waiting),
        };
        match ending {
            Ok(ending) => {
                self.end(ending);
                Poll::Ready(None)
            }
            Err(fault) => {
                (self.has_failed, self.culprit) = (true, fault.culprit());
                Poll::Ready(Some(Err(fault)))
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        if let Some(conversation) = self.conversation.take() {
            ending.carry_out(conversation);
        }
    }
}

impl Source for Session {
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
            && let Some(scripts) = self
                .conversation
                .as_ref()
                .map(|conversation| Rc::clone(&conversation.scripts))
            && let Poll::Ready(Some(Err(fault))) = self.poll_body(&mut Context::from_waker(Waker::noop()))
        {
            scripts.warn(format_args!("after a complete reply: {fault}"));
        }
        Poll::Ready(Some(Ok(chunk)))
    }

    fn limit_chunks(&mut self, bytes_max: usize) {
        if let Some(conversation) = &mut self.conversation {
            conversation.relay.limit_reads(bytes_max);
        }
    }

    fn length(&self) -> Option<u64> {
        if !self.is_counted {
            return None;
        }
        let collected: u64 = self.collected.iter().map(|chunk| chunk.len() as u64).sum();
        // At the end of the exchange no byte was missing.
        let conversation = self.conversation.as_ref();
        let missing = conversation.and_then(|conversation| conversation.filter.missing_bytes());
        let block = conversation.map_or(0, |conversation| conversation.collected_bytes() as u64);
        Some(missing.unwrap_or(0) + collected + block)
    }

    /// Nobody wants the body.
    fn discard(mut self: Box<Self>) {
        if let Some(conversation) = self.conversation.as_ref().filter(|_| !self.has_failed) {
            let grace = conversation.settings().timeouts.client_grace();
            self.end(Ending::Drain(grace));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversation.take() {
            if !self.has_failed {
                let events = &conversation.relay.events;
                events.process(|| "the client has left, or the response was aborted".into());
            }
            let ending = if self.has_failed {
                Ending::of_failed(&conversation, self.culprit)
            } else {
                Ending::of_left(&conversation)
            };
            ending.carry_out(conversation);
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
