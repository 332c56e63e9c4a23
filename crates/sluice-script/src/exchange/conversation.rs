//! The conversation with a script process in one exchange: the relay is driven until the head of the reply is complete, then
//! for each chunk of the body.
//!
//! Here: the head, and the parts that the exchange holds until its end. Not here: what the channels carry (`relay`), who reads
//! the body (`session`), and what happens to the process afterwards (`ending`).
//!
//! ```text
//!                  ┌─ until the head is complete ─▶ HeadParser ─▶ head; body bytes that came with it return to the relay
//!   relay events ──┤
//!                  └─ from then on ──────────────▶ BodyFilter ─▶ chunks of the body, until the script has written all
//!                     (a body that the script has framed itself: ChunkDecoder)
//! ```

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sluice_gateway::{ChunkDecoder, ChunkFault, HeadFault, HeadLimits, HeadParser, Reply, ReplyHead, ScriptControl};
use sluice_http::fault::Fault;
use sluice_http::progress::Progress;
use sluice_launch::Exit;
use sluice_settings::ScriptSettings;

use crate::exchange::block::Block;
use crate::exchange::body_filter::BodyFilter;
use crate::exchange::job::Job;
use crate::exchange::relay::{Relay, ReplyEvent};
use crate::pool::lease::Lease;
use crate::process::process_fault::{Violation, WrongMode};
use crate::process::shebang;
use crate::route::ScriptRoute;
use crate::scripts::Scripts;

/// Fields in the head of a reply.
const HEAD_FIELDS_MAX: usize = 200;

/// How long the server waits for the end of a process that wrote a bad head, so that its exit status can be logged.
const EXIT_STATUS_WAIT: Duration = Duration::from_millis(100);

/// The parts of one exchange that live until the script has written all, in the background if need be.
pub(crate) struct Conversation {
    pub scripts: Rc<Scripts>,
    pub route: Arc<ScriptRoute>,
    pub relay: Box<Relay>,
    pub lease: Lease,
    pub filter: BodyFilter,
    progress: Rc<Progress>,
    /// Removes the framing of a body that the script has framed itself. `None` if it has not, or the body is complete.
    decoder: Option<Box<ChunkDecoder>>,
    /// Bytes of such a body that are not decoded yet.
    framed: Bytes,
    /// The reply is successful, and a body is part of it.
    expects_body: bool,
    /// The filter has passed bytes of the body.
    has_body: bool,
    /// Body bytes that came with the head.
    rest: Bytes,
    /// Output that is collected, because the script has asked for it.
    block: Block,
}

impl Conversation {
    pub(crate) fn new(job: &Job, relay: Box<Relay>, lease: Lease) -> Conversation {
        let route = &job.route;
        Conversation {
            scripts: Rc::clone(&job.scripts),
            route: Arc::clone(route),
            progress: Rc::clone(&job.request.progress),
            relay,
            lease,
            filter: BodyFilter::new(route.settings.output.mailbox),
            decoder: None,
            framed: Bytes::new(),
            expects_body: false,
            has_body: false,
            rest: Bytes::new(),
            block: Block::default(),
        }
    }

    /// Whether the administrator has ended its request.
    pub(crate) fn is_ended(&self) -> bool {
        self.progress.is_ended()
    }

    pub(crate) fn settings(&self) -> &ScriptSettings {
        &self.route.settings
    }

    /// Waits for the head of the reply. The fault is the script's (502, 504) or the client's (its body is bad).
    pub(crate) async fn head(&mut self) -> Result<Reply, Fault> {
        let output = &self.route.settings.output;
        let mut parser = HeadParser::new(HeadLimits {
            bytes_max: output.head_bytes_max,
            fields_max: HEAD_FIELDS_MAX,
        });
        loop {
            let event = poll_fn(|context| self.relay.poll_event(context)).await;
            let event = event.map_err(|fault| self.wrong_mode().unwrap_or(fault))?;
            let bytes = match event {
                ReplyEvent::Mailbox(bytes) => bytes,
                ReplyEvent::Bulk(_) | ReplyEvent::Region(_) => continue,
                ReplyEvent::End if self.relay.callouts.control.error.is_some() => return Ok(self.without_head()),
                // An agent writes lines of callouts alone. What they lack is said by `agent`.
                ReplyEvent::End if self.relay.callouts.agent.as_ref().is_some_and(|agent| agent.is_heard) => {
                    return Ok(self.without_head());
                }
                ReplyEvent::End => return Err(Box::pin(self.bad_head(parser.finish())).await),
            };
            let missing = self.filter.next_of_head(&bytes);
            let parsed = match missing {
                None => parser.push(bytes),
                Some(missing) => parser.push_record(bytes, missing),
            };
            match parsed {
                Ok(None) => {}
                Ok(Some((mut reply, rest))) => {
                    self.obey(&mut reply);
                    self.filter.end_head(&reply, missing.filter(|_| !rest.is_empty()));
                    self.rest = rest;
                    self.relay.events.process(|| head_text(&reply));
                    return Ok(reply);
                }
                Err(fault) => return Err(Box::pin(self.bad_head(fault)).await),
            }
        }
    }

    /// Obeys the Script-Control of a reply; adds the callouts of that name, which take precedence.
    fn obey(&mut self, reply: &mut Reply) {
        let (head, is_parsed) = match reply {
            Reply::Document(head) | Reply::ClientRedirect(head) => (head, true),
            Reply::NonParsed(head) => (head, false),
            Reply::LocalRedirect(_) => return,
        };
        let is_empty = |control: &ScriptControl| control.is_empty() && control.ignored.is_empty();
        if is_empty(&head.control) && is_empty(&self.relay.callouts.control) {
            return;
        }
        self.relay.limit_times(&head.control);
        let callouts = &mut self.relay.callouts;
        if head.status == StatusCode::OK && is_parsed {
            head.status = callouts.control.http_status.unwrap_or(StatusCode::OK);
        }
        let before = std::mem::take(&mut callouts.control);
        callouts.obey(std::mem::take(&mut head.control));
        callouts.obey(before);
        head.control = callouts.control.clone();
    }

    /// The reply of a script that has asked for an error page by a callout, and has written nothing.
    fn without_head(&self) -> Reply {
        let control = self.relay.callouts.control.clone();
        Reply::Document(ReplyHead {
            status: control.http_status.unwrap_or(StatusCode::OK),
            fields: HeaderMap::new(),
            content_length: None,
            is_chunked: false,
            control,
            dropped: Vec::new(),
            names_file: false,
        })
    }

    /// The fault of a bad head. The exit status and the last error line belong in its log line, and may come a moment later.
    async fn bad_head(&self, fault: HeadFault) -> Fault {
        let process = &self.relay.process;
        let exit = poll_fn(|context| process.poll_exit(context));
        let exit = tokio::time::timeout(EXIT_STATUS_WAIT, exit).await.ok();
        // An interpreter or env(1) that could not do what the `#!` line says.
        let problem = match (&fault, exit) {
            (HeadFault::Empty, Some(Exit::Code(1..))) if !process.has_interpreter => {
                shebang::diagnose(process.script().into_owned().into()).await
            }
            _ => None,
        };
        match problem {
            Some(problem) => self.relay.fault(Violation::Shebang(fault, problem)),
            None => self
                .wrong_mode()
                .unwrap_or_else(|| self.relay.fault(Violation::Head(fault))),
        }
    }

    /// The fault of a script that is made for the other mode. `None` if it has not shown that, or is run by an engine.
    fn wrong_mode(&self) -> Option<Fault> {
        if self.settings().mode.has_engine() {
            return None;
        }
        let how = self.relay.wrong_mode()?;
        // Its own error says more than the advice.
        if how == WrongMode::EndedUnasked && self.relay.process.describe().has_failed() {
            return None;
        }
        let advice = self.route.mode_advice(&self.relay.process.script());
        Some(self.relay.fault(Violation::WrongMode(how, advice)))
    }

    /// The head is sent, and the body follows.
    pub(crate) fn begin_body(&mut self, head: &ReplyHead) {
        self.filter.begin(head);
        self.expects_body = head.status.is_success();
        self.decoder = head.is_chunked.then(Box::default);
        let rest = std::mem::take(&mut self.rest);
        self.begin(head.status, rest);
    }

    /// The head is sent without a body: bytes that came with it are dropped, too.
    pub(crate) fn begin_unwanted_body(&mut self, status: StatusCode) {
        self.begin(status, Bytes::new());
    }

    /// Whether the reply lacks the body that its head promises. An error or a redirect may have none, nor may a reply of length 0.
    pub(crate) fn lacks_body(&self) -> bool {
        self.expects_body && !self.has_body && !self.filter.is_satisfied()
    }

    fn begin(&mut self, status: StatusCode, rest: Bytes) {
        self.relay.callouts.status = Some(status);
        self.relay.begin_body(rest, self.route.settings.timeouts.output);
    }

    /// Bytes of the body that were written, and are collected before they are sent.
    pub(crate) fn collected_bytes(&self) -> usize {
        self.block.len()
    }

    /// The next chunk to send. `None` once the script has written all. Faults are those of `Relay::poll_event`.
    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if self.relay.callouts.control.buffers_records != Some(true) && self.block.is_empty() {
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
                Poll::Ready(None) if !self.block.is_empty() => self.block.complete(),
                Poll::Pending => ready!(self.block.poll_complete(context)),
                end => return end,
            }
        }
    }

    /// The next bytes of the body, as the script writes them.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        loop {
            let chunk = match self.poll_framed(context) {
                Some(decoded) => ready!(decoded)?,
                None => match ready!(self.relay.poll_event(context))? {
                    ReplyEvent::Mailbox(bytes) => self.filter.apply(bytes, &self.relay.callouts.control),
                    ReplyEvent::Bulk(bytes) | ReplyEvent::Region(bytes) => self.filter.limit(bytes),
                    // The relay reports the end again.
                    ReplyEvent::End => match self.filter.end(&self.relay.callouts.control) {
                        None => return Poll::Ready(None),
                        last => last,
                    },
                },
            };
            if let Some(chunk) = chunk {
                self.has_body = true;
                return Poll::Ready(Some(Ok(chunk)));
            }
        }
    }

    /// Some bytes of a body that the script has framed itself, without its framing. `None` if it has not, or the body is complete.
    fn poll_framed(&mut self, context: &mut Context<'_>) -> Option<Poll<Result<Option<Bytes>, Fault>>> {
        let decoder = self.decoder.as_mut()?;
        let fault = match decoder.decode(&mut self.framed) {
            Ok(bytes) if !bytes.is_empty() => return Some(Poll::Ready(Ok(Some(bytes)))),
            Ok(_) if decoder.is_complete() => {
                self.decoder = None;
                self.filter.set_complete();
                let surplus = std::mem::take(&mut self.framed);
                return Some(Poll::Ready(Ok(self.filter.limit(surplus))));
            }
            Ok(_) => match self.relay.poll_event(context) {
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
        Some(Poll::Ready(Err(self.relay.fault(Violation::Chunks(fault)))))
    }
}

/// What WATCH shows of a head that is complete.
fn head_text(reply: &Reply) -> String {
    let (kind, head) = match reply {
        Reply::LocalRedirect(target) => return format!("local redirect to {target}"),
        Reply::Document(head) => ("head of the reply", head),
        Reply::ClientRedirect(head) => ("redirect of the client", head),
        Reply::NonParsed(head) => ("head of a whole response (NPH)", head),
    };
    let length = match head.content_length {
        Some(bytes) => format!("a body of {bytes} bytes"),
        None if head.is_chunked => "a chunked body".into(),
        None => "a body of unknown length".into(),
    };
    format!(
        "{kind} is complete: status {}, {length} announced",
        head.status.as_u16()
    )
}
