//! A script's output on its way to the client: the reply's head, then its body as a response body; and, whatever happens,
//! the right end for the process.
//!
//! Here: counting against Content-Length, the newlines of records, what is a complete reply and what is a cut one, and
//! what becomes of process and lease in each case. Not here: where the output comes from (`relay`).
//!
//! | the session ends | CGI process | CGIplus process |
//! |---|---|---|
//! | complete | may end by itself | back to its pool |
//! | all announced bytes are out | is heard to its end in the background, then as above | the same |
//! | nobody wants the body (HEAD) | the same, for no longer than `client_grace` | the same |
//! | a fault | stopped | stopped |
//! | the client left | stopped | may finish its reply within `client_grace`, then back to its pool or stopped |

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use sluice_gateway::{HeadFault, HeadLimits, HeadParser, RecordAdjustment, Reply, ReplyHead};
use sluice_http::body::Source;
use sluice_http::fault::{Fault, ScriptFault};
use sluice_http::tasks::yield_now;
use sluice_settings::{Mailbox, Mode};

use crate::lease::{IdleProcess, Lease};
use crate::process_fault::Violation;
use crate::pump::{Input, Pump};
use crate::relay::{Relay, ReplyEvent};
use crate::route::ScriptRoute;
use crate::scripts::Scripts;

/// Fields in the head of a reply.
const HEAD_FIELDS_MAX: usize = 200;

/// Chunks thrown away until the other tasks of the worker have their turn.
const CHUNKS_MAX: usize = 32;

/// How long a process that wrote a bad head may take to end, so that its status can be told.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A reply that is complete and no larger than this is sent in one chunk, with its length.
const GATHER_BYTES_MAX: usize = 128 << 10;

/// One exchange with one script process, from its request to the end of its reply.
pub(crate) struct Session {
    scripts: Rc<Scripts>,
    route: Arc<ScriptRoute>,
    /// Both are there until the session has ended.
    relay: Option<Relay>,
    lease: Option<Lease>,
    progress: Progress,
    /// Body bytes that came with the head.
    rest: Bytes,
    /// What was gathered of the body.
    first: VecDeque<Bytes>,
    /// What the script still owes of the Content-Length that it announced.
    owed: Option<u64>,
    adjustment: RecordAdjustment,
    surplus_bytes: u64,
    /// What has gone wrong in the body. It is told one turn later, so that all the script said before leaves first.
    fault: Option<Fault>,
    /// What has gone wrong while gathering: `poll_body` returns it when the body is asked for.
    gathered: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Under way, and somebody waits for the output.
    Wanted,
    /// Under way, but nobody wants the output.
    Unwanted,
    /// Something went wrong.
    Failed,
}

impl Session {
    pub(crate) fn new(scripts: &Rc<Scripts>, route: &Arc<ScriptRoute>, relay: Relay, lease: Lease) -> Box<Session> {
        Box::new(Session {
            scripts: Rc::clone(scripts),
            route: Arc::clone(route),
            relay: Some(relay),
            lease: Some(lease),
            progress: Progress::Wanted,
            rest: Bytes::new(),
            first: VecDeque::new(),
            owed: None,
            adjustment: RecordAdjustment::Unchanged,
            surplus_bytes: 0,
            fault: None,
            gathered: None,
        })
    }

    /// Waits for the head of the reply. The fault is the script's (502, 504) or the client's (its body is bad).
    pub(crate) async fn head(&mut self) -> Result<Reply, Fault> {
        let settings = &self.route.settings;
        let mut parser = HeadParser::new(HeadLimits {
            bytes_max: settings.output.head_bytes_max,
            fields_max: HEAD_FIELDS_MAX,
        });
        let is_stream = settings.output.mailbox == Mailbox::Stream;
        loop {
            let event = poll_fn(|context| self.poll_event(context)).await?;
            let parsed = match event {
                ReplyEvent::Mailbox(bytes) if is_stream => parser.push(bytes),
                ReplyEvent::Mailbox(record) => parser.push_record(record),
                ReplyEvent::Bulk(_) => continue,
                ReplyEvent::End => return Err(self.fail_head(parser.finish()).await),
            };
            match parsed {
                Ok(None) => {}
                Ok(Some((reply, rest))) => {
                    self.rest = rest;
                    return Ok(reply);
                }
                Err(fault) => return Err(self.fail_head(fault).await),
            }
        }
    }

    /// The head is on its way to the client: what follows is the body.
    pub(crate) fn begin_body(&mut self, head: &ReplyHead) {
        self.owed = head.content_length;
        self.adjustment = RecordAdjustment::for_head(head);
        let rest = std::mem::take(&mut self.rest);
        if let Some(relay) = &mut self.relay {
            relay.callouts.status = Some(head.status);
            relay.begin_body(rest, self.route.settings.timeouts.output);
        }
    }

    /// The head is on its way to the client, and no body may follow: what came with the head is dropped, too.
    pub(crate) fn begin_unwanted_body(&mut self, status: StatusCode) {
        if let Some(relay) = &mut self.relay {
            relay.callouts.status = Some(status);
            relay.begin_body(Bytes::new(), self.route.settings.timeouts.output);
        }
    }

    /// The whole body, if all of it is here already: a short reply then leaves in one write, and its process is free before
    /// the client has read it.
    pub(crate) fn gather(&mut self) -> Option<Bytes> {
        let mut bytes = 0;
        // Nobody needs to be woken: what is not here now is polled for again by the body.
        let mut context = Context::from_waker(Waker::noop());
        while self.relay.is_some() && bytes <= GATHER_BYTES_MAX {
            match self.poll_body(&mut context) {
                Poll::Ready(Some(Ok(chunk))) => {
                    bytes += chunk.len();
                    self.first.push_back(chunk);
                }
                Poll::Ready(None) => return Some(join(std::mem::take(&mut self.first), bytes)),
                Poll::Ready(Some(Err(fault))) => {
                    self.gathered = Some(fault);
                    return None;
                }
                Poll::Pending => return None,
            }
        }
        None
    }

    /// The client has left, or was sent elsewhere: the script may finish within `limit`, but its bulk writes fail.
    pub(crate) fn abandon(mut self: Box<Self>, limit: Duration) {
        if let Some(relay) = &mut self.relay {
            relay.client_gone(limit);
        }
        self.hear_out(limit);
    }

    /// The client has all that it needs. The script is heard to its end in the background: its last callouts are answered,
    /// and its process ends well or can serve again.
    fn hear_out(mut self: Box<Self>, limit: Duration) {
        self.progress = Progress::Unwanted;
        let scripts = Rc::clone(&self.scripts);
        scripts.tasks().spawn(async move {
            let rest = poll_fn(|context| self.poll_rest(context));
            match tokio::time::timeout(limit, rest).await {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => tracing::debug!("after its client has left: {fault}"),
                Err(_) => self.give_up(),
            }
        });
    }

    /// How long the script may go on after its client has left.
    pub(crate) fn client_grace(&self) -> Duration {
        self.route.settings.timeouts.client_grace
    }

    /// The process has ended without looking at its request.
    pub(crate) fn is_request_unread(&self) -> bool {
        self.relay.as_ref().is_some_and(Relay::is_request_unread)
    }

    /// The request body, for another process.
    pub(crate) fn take_pump(&mut self) -> Option<Pump> {
        self.relay.as_mut().and_then(Relay::take_pump)
    }

    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        for _ in 0..CHUNKS_MAX {
            match ready!(self.poll_body(context)) {
                Some(Ok(_)) => {}
                Some(Err(fault)) => return Poll::Ready(Err(fault)),
                None => return Poll::Ready(Ok(())),
            }
        }
        yield_now(context);
        Poll::Pending
    }

    /// The next body bytes; after the last, process and lease have gone where they belong.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            if let Some(fault) = self.gathered.take() {
                return Poll::Ready(Some(Err(fault)));
            }
            if self.relay.is_none() || self.progress == Progress::Failed {
                return Poll::Ready(None);
            }
            // A CGI script that has kept its word about the length is not waited for.
            if self.owed == Some(0) && self.route.settings.mode == Mode::Cgi && self.progress == Progress::Wanted {
                self.detach().hear_out(self.route.settings.timeouts.output);
                return Poll::Ready(None);
            }
            let chunk = match ready!(self.poll_event(context)) {
                Ok(ReplyEvent::Mailbox(bytes) | ReplyEvent::Bulk(bytes)) => self.shape(bytes),
                Ok(ReplyEvent::End) => return Poll::Ready(self.end().err().map(Err)),
                Err(fault) => return Poll::Ready(Some(Err(fault))),
            };
            if let Some(chunk) = chunk {
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<ReplyEvent, Fault>> {
        let Some(relay) = &mut self.relay else {
            return Poll::Ready(Ok(ReplyEvent::End));
        };
        let event = ready!(relay.poll_event(context));
        if event.is_err() {
            self.progress = Progress::Failed;
        }
        Poll::Ready(event)
    }

    /// A record gets the newline that it lacks; what is over the announced length is dropped.
    fn shape(&mut self, chunk: Bytes) -> Option<Bytes> {
        let is_record = self.route.settings.output.mailbox == Mailbox::Record;
        let adjustment = match &self.relay {
            Some(relay) => self.adjustment.with_control(relay.callouts.control),
            None => self.adjustment,
        };
        let mut chunk = match chunk {
            chunk if is_record && adjustment.needs_newline(&chunk) => {
                let mut line = BytesMut::with_capacity(chunk.len() + 1);
                line.extend_from_slice(&chunk);
                line.extend_from_slice(b"\n");
                line.freeze()
            }
            chunk => chunk,
        };
        if let Some(owed) = &mut self.owed {
            let kept = usize::try_from(*owed).unwrap_or(usize::MAX).min(chunk.len());
            self.surplus_bytes += (chunk.len() - kept) as u64;
            chunk.truncate(kept);
            *owed -= kept as u64;
        }
        (!chunk.is_empty()).then_some(chunk)
    }

    /// The script has said all: is it a complete reply?
    fn end(&mut self) -> Result<(), Fault> {
        let Some(relay) = &self.relay else { return Ok(()) };
        let is_counted = self.owed == Some(0);
        if let Some(bytes) = self
            .owed
            .filter(|bytes| *bytes > 0 && self.progress == Progress::Wanted)
        {
            return Err(self.fail(Violation::Short(bytes)));
        }
        match self.route.settings.mode {
            Mode::Cgi => {
                if let Some(sluice_launch::Exit::Signal(_)) = relay.process.exit()
                    && !is_counted
                {
                    return Err(self.fail(Violation::EndedWithinBody));
                }
            }
            Mode::Cgiplus if relay.has_ended_well() => {}
            // The client has got all that was announced; the process is of no more use.
            Mode::Cgiplus if is_counted => {
                tracing::warn!(
                    "{}: its reply did not end with the sentinel (CGIPLUSEOF)",
                    relay.process.describe()
                );
                self.progress = Progress::Failed;
                self.give_up();
                return Ok(());
            }
            Mode::Cgiplus => return Err(self.fail(Violation::NoSentinel)),
        }
        self.complete();
        Ok(())
    }

    /// The reply has no good head. How the process endpoints, and its last words, belong in the log line: they come in a moment.
    async fn fail_head(&mut self, fault: HeadFault) -> Fault {
        if let Some(relay) = &self.relay {
            let exit = poll_fn(|context| relay.process.poll_exit(context));
            let _ = tokio::time::timeout(LAST_WORDS, exit).await;
        }
        self.fail(Violation::Head(fault))
    }

    fn fail(&mut self, violation: Violation) -> Fault {
        self.progress = Progress::Failed;
        match &self.relay {
            Some(relay) => relay.fault(violation),
            None => ScriptFault::BadReply(Arc::new(violation)).into(),
        }
    }

    /// The reply is complete: the process ends by itself, or goes back to its pool.
    fn complete(&mut self) {
        let (Some(relay), Some(lease)) = (self.relay.take(), self.lease.take()) else {
            return;
        };
        if self.surplus_bytes > 0 {
            let process = relay.process.describe();
            tracing::warn!(
                "{process}: {} bytes over its Content-Length were not sent",
                self.surplus_bytes
            );
        }
        relay.process.end_exchange();
        match self.route.settings.mode {
            Mode::Cgi => {
                relay.process.finish(self.route.settings.timeouts.output);
                drop(lease);
            }
            Mode::Cgiplus => return_to_pool(&self.scripts, relay, lease),
        }
    }

    /// The process is of no more use.
    fn give_up(&mut self) {
        if let Some(relay) = self.relay.take() {
            // Its input stays open until it has ended: half a body must not look like a whole one to it.
            relay.process.stop_holding(relay.channels.input);
        }
        self.lease = None;
    }

    /// Takes everything out of a session that is being dropped.
    fn detach(&mut self) -> Box<Session> {
        Box::new(Session {
            scripts: Rc::clone(&self.scripts),
            route: Arc::clone(&self.route),
            relay: self.relay.take(),
            lease: self.lease.take(),
            progress: self.progress,
            rest: Bytes::new(),
            first: VecDeque::new(),
            owed: self.owed,
            adjustment: self.adjustment,
            surplus_bytes: self.surplus_bytes,
            fault: None,
            gathered: None,
        })
    }
}

impl Source for Session {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let chunk = match self.first.pop_front() {
            Some(chunk) => Ok(chunk),
            None if self.fault.is_some() => return Poll::Ready(self.fault.take().map(Err)),
            None => match ready!(self.poll_body(context)) {
                Some(Ok(chunk)) => Ok(chunk),
                Some(Err(fault)) => {
                    self.fault = Some(fault);
                    yield_now(context);
                    return Poll::Pending;
                }
                None => return Poll::Ready(None),
            },
        };
        // hyper drops a counted body with its last byte. If the sentinel is here already, the process is free at once.
        if self.owed == Some(0)
            && self.first.is_empty()
            && self.relay.is_some()
            && let Poll::Ready(Some(Err(fault))) = self.poll_body(&mut Context::from_waker(Waker::noop()))
        {
            tracing::warn!("after a complete reply: {fault}");
        }
        Poll::Ready(Some(chunk))
    }

    fn length(&self) -> Option<u64> {
        let here: u64 = self.first.iter().map(|chunk| chunk.len() as u64).sum();
        self.owed.map(|owed| owed + here)
    }

    fn discard(self: Box<Self>) {
        let limit = self.route.settings.timeouts.client_grace;
        self.hear_out(limit);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.relay.is_none() {
            return;
        }
        let settings = &self.route.settings;
        let has_all = self.owed == Some(0);
        match (self.progress, settings.mode) {
            (Progress::Wanted, _) if has_all => {
                let limit = settings.timeouts.output;
                self.detach().hear_out(limit);
            }
            (Progress::Wanted, Mode::Cgiplus) => {
                let limit = settings.timeouts.client_grace;
                self.detach().abandon(limit);
            }
            _ => self.give_up(),
        }
    }
}

/// Gives a process back to its pool, clean for its next request.
fn return_to_pool(scripts: &Scripts, relay: Relay, lease: Lease) {
    let Relay {
        process,
        mut channels,
        mut scanner,
        callouts,
        has_body,
        ..
    } = relay;
    if let Some(lifetime) = callouts.lifetime {
        lease.set_lifetime(lifetime);
    }
    if scanner.has_trailing_output() {
        tracing::warn!(
            "{}: wrote after the sentinel that ended its reply (CGIPLUSEOF)",
            process.describe()
        );
        process.stop();
        return;
    }
    if has_body && let Some(Err(error)) = channels.input.as_ref().map(Input::drain) {
        tracing::warn!(
            "{}: the rest of its request body cannot be taken out: {error}",
            process.describe()
        );
        process.stop();
        return;
    }
    scanner.restart();
    channels.mailbox.rest();
    let kept = IdleProcess {
        process,
        channels,
        worker: scripts.worker,
        form: callouts.form.unwrap_or_default(),
        scanner,
    };
    lease.release(kept);
}

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
