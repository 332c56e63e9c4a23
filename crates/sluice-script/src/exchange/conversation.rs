//! The conversation with a script process in one exchange, as its handler and then the response hold it: first the head of the reply, then the body.
//!
//! ```text
//!                  ┌─ until the head is complete ─▶ HeadParser ─▶ head; body bytes that came with it return to the relay
//!   relay events ──┤
//!                  └─ from then on ──────────────▶ BodyFilter ─▶ chunks of the body, until the script has written all
//!                     (a body that the script has framed itself: ChunkDecoder)
//!
//!   new ──▶ head ──▶ begin_body ──▶ collect_whole ──▶ poll_chunk … ──▶ the last chunk   Ending::of_written
//!             │           │           ├─ all is here ──▶ one chunk                       Ending::of_written
//!             │           │           └─ nothing is here ──▶ wait_for_body ──▶ as before
//!             │           └─ begin_unwanted_body ──▶ discard                             Ending::Drain
//!             ├─ the client is sent elsewhere ──▶ abandon                                Ending::ClientGone
//!             └─ dropped at any point                                                    Ending::of_dropped
//! ```

mod body;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sluice_gateway::{ChunkDecoder, HeadFault, HeadLimits, HeadParser, Reply, ReplyHead, ScriptControl};
use sluice_http::fault::{Culprit, Fault};
use sluice_http::progress::Progress;
use sluice_launch::Exit;
use sluice_settings::ScriptSettings;

use crate::exchange::{Audience, Block, BodyFilter, Ending, Job, Relay, ReplyEvent};
use crate::pool::Lease;
use crate::process::{Violation, shebang};
use crate::route::ScriptRoute;
use crate::scripts::Scripts;

const HEAD_FIELDS_MAX: usize = 200;

/// How long the server waits for the end of a process that wrote a bad head, so that its exit status can be logged.
const EXIT_STATUS_WAIT: Duration = Duration::from_millis(100);

/// One exchange with one script process, from its request to the end of its reply, perhaps in the background; the source of the response's body.
pub(crate) struct Conversation {
    pub scripts: Rc<Scripts>,
    pub route: Arc<ScriptRoute>,
    /// `None` once the exchange is over, or goes on in the background.
    pub link: Option<Link>,
    pub audience: Audience,
    pub filter: BodyFilter,
    pub progress: Rc<Progress>,
    /// Whose fault there was, if any: no more of the body is read, and the exchange ends when the conversation is dropped.
    pub culprit: Option<Culprit>,
    /// Removes the framing of a body that the script has framed itself. `None` if it has not, or the body is complete.
    decoder: Option<Box<ChunkDecoder>>,
    /// Bytes of such a body that are not decoded yet.
    framed: Bytes,
    /// The reply is successful, and a body is part of it.
    expects_body: bool,
    /// The filter has passed bytes of the body.
    has_body: bool,
    is_counted: bool,
    /// The task has yielded before `fault`, so that the bytes before it leave first.
    has_yielded: bool,
    /// Body bytes that came with the head.
    rest: Bytes,
    /// Output that is collected, because the script has asked for it.
    block: Block,
    /// Chunks to send before all others.
    collected: VecDeque<Bytes>,
    /// A fault that was met while bytes before it were still to be sent.
    fault: Option<Fault>,
}

/// The process of a conversation: the relay to it, and the right to use it.
pub(crate) struct Link {
    pub relay: Box<Relay>,
    pub lease: Lease,
}

impl Conversation {
    pub(crate) fn new(job: &Job, relay: Box<Relay>, lease: Lease, audience: Audience) -> Box<Conversation> {
        let (scripts, route) = (Rc::clone(&job.scripts), Arc::clone(&job.route));
        let (link, progress) = (Link { relay, lease }, Rc::clone(&job.request.progress));
        Box::new(Conversation::of(Some(link), audience, scripts, route, progress))
    }

    fn of(
        link: Option<Link>,
        audience: Audience,
        scripts: Rc<Scripts>,
        route: Arc<ScriptRoute>,
        progress: Rc<Progress>,
    ) -> Conversation {
        let filter = BodyFilter::new(route.settings.output.mailbox);
        Conversation {
            scripts,
            route,
            link,
            audience,
            filter,
            progress,
            culprit: None,
            decoder: None,
            framed: Bytes::new(),
            expects_body: false,
            has_body: false,
            is_counted: false,
            has_yielded: false,
            rest: Bytes::new(),
            block: Block::default(),
            collected: VecDeque::new(),
            fault: None,
        }
    }

    /// The conversation over `link`, which was taken from it, for the background. What is collected for the client stays here.
    pub(crate) fn detach(&mut self, link: Link) -> Conversation {
        let (scripts, route) = (Rc::clone(&self.scripts), Arc::clone(&self.route));
        let mut husk = Conversation::of(None, self.audience, scripts, route, Rc::clone(&self.progress));
        husk.is_counted = self.is_counted;
        husk.collected = std::mem::take(&mut self.collected);
        let mut detached = std::mem::replace(self, husk);
        detached.link = Some(link);
        detached.audience = Audience::Gone;
        detached
    }

    /// The relay to the process. `None` once the exchange is over.
    pub(crate) fn relay(&self) -> Option<&Relay> {
        self.link.as_ref().map(|link| &*link.relay)
    }

    pub(crate) fn relay_mut(&mut self) -> Option<&mut Relay> {
        self.link.as_mut().map(|link| &mut *link.relay)
    }

    pub(crate) fn settings(&self) -> &ScriptSettings {
        &self.route.settings
    }

    /// Waits for the head of the reply. The fault is the script's (502, 504) or the client's (its body is bad).
    pub(crate) async fn head(&mut self) -> Result<Reply, Fault> {
        let reply = self.read_head().await;
        if let Err(fault) = &reply {
            self.culprit = Some(fault.culprit());
        }
        reply
    }

    async fn read_head(&mut self) -> Result<Reply, Fault> {
        let Some(Link { relay, .. }) = &mut self.link else {
            return Err(Fault::unexpected("the exchange with the script is over"));
        };
        let mut parser = HeadParser::new(HeadLimits {
            bytes_max: self.route.settings.output.head_bytes_max,
            fields_max: HEAD_FIELDS_MAX,
        });
        loop {
            let event = poll_fn(|context| relay.poll_event(context)).await;
            let event = match event {
                Ok(event) => event,
                Err(fault) => return Err(Box::pin(wrong_mode_or(&self.route, relay, fault)).await),
            };
            let bytes = match event {
                ReplyEvent::Mailbox(bytes) => bytes,
                ReplyEvent::Bulk(_) | ReplyEvent::Region(_) => continue,
                ReplyEvent::End if relay.callouts.control.error.is_some() => return Ok(without_head(relay)),
                // An agent writes lines of callouts alone. What they lack is said by `agent`.
                ReplyEvent::End if relay.callouts.agent.as_ref().is_some_and(|agent| agent.is_heard) => {
                    return Ok(without_head(relay));
                }
                ReplyEvent::End => return Err(Box::pin(bad_head(&self.route, relay, parser.finish())).await),
            };
            let missing = self.filter.next_of_head(&bytes);
            let parsed = match missing {
                None => parser.push(bytes),
                Some(missing) => parser.push_record(bytes, missing),
            };
            match parsed {
                Ok(None) => {}
                Ok(Some((mut reply, rest))) => {
                    obey(relay, &mut reply);
                    self.filter.end_head(&reply, missing.filter(|_| !rest.is_empty()));
                    self.rest = rest;
                    relay.events.process(|| head_text(&reply));
                    return Ok(reply);
                }
                Err(fault) => return Err(Box::pin(bad_head(&self.route, relay, fault)).await),
            }
        }
    }

    /// The client was sent elsewhere: the script may finish within `client_grace`.
    pub(crate) fn abandon(mut self: Box<Self>) {
        Ending::ClientGone(self.settings().timeouts.client_grace()).carry_out(&mut self);
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some(ending) = Ending::of_dropped(self) {
            ending.carry_out(self);
        }
    }
}

/// Obeys the Script-Control of a reply; adds the callouts of that name, which take precedence.
fn obey(relay: &mut Relay, reply: &mut Reply) {
    let (head, is_parsed) = match reply {
        Reply::Document(head) | Reply::ClientRedirect(head) => (head, true),
        Reply::NonParsed(head) => (head, false),
        Reply::LocalRedirect(_) => return,
    };
    let is_empty = |control: &ScriptControl| control.is_empty() && control.ignored.is_empty();
    if is_empty(&head.control) && is_empty(&relay.callouts.control) {
        return;
    }
    relay.limit_times(&head.control);
    let callouts = &mut relay.callouts;
    if head.status == StatusCode::OK && is_parsed {
        head.status = callouts.control.http_status.unwrap_or(StatusCode::OK);
    }
    let before = std::mem::take(&mut callouts.control);
    callouts.obey(std::mem::take(&mut head.control));
    callouts.obey(before);
    head.control = callouts.control.clone();
}

/// The reply of a script that has asked for an error page by a callout, and has written nothing.
fn without_head(relay: &Relay) -> Reply {
    let control = relay.callouts.control.clone();
    Reply::Document(ReplyHead {
        status: control.http_status.unwrap_or(StatusCode::OK),
        fields: HeaderMap::new(),
        content_length: None,
        is_chunked: false,
        control,
        names_file: false,
    })
}

/// The fault of a bad head. The exit status and the last error line belong in its log line, and may come a moment later.
async fn bad_head(route: &ScriptRoute, relay: &mut Relay, fault: HeadFault) -> Fault {
    relay.learn_what_is_read().await;
    let process = &relay.process;
    let exit = poll_fn(|context| process.poll_exit(context));
    let exit = tokio::time::timeout(EXIT_STATUS_WAIT, exit).await.ok();
    // An interpreter or env(1) that could not do what the `#!` line says.
    let problem = match (&fault, exit) {
        (HeadFault::Empty, Some(Exit::Code(1..))) if process.spec.interpreter.is_none() => {
            shebang::diagnose(process.script().into_owned().into()).await
        }
        _ => None,
    };
    match problem {
        Some(problem) => relay.fault(Violation::Shebang(fault, problem)),
        None => wrong_mode(route, relay).unwrap_or_else(|| relay.fault(Violation::Head(fault))),
    }
}

async fn wrong_mode_or(route: &ScriptRoute, relay: &mut Relay, fault: Fault) -> Fault {
    relay.learn_what_is_read().await;
    wrong_mode(route, relay).unwrap_or(fault)
}

/// The fault of a script that is made for the other mode. `None` if it has not shown that, or is run by an engine.
fn wrong_mode(route: &ScriptRoute, relay: &Relay) -> Option<Fault> {
    if route.settings.mode.has_engine() {
        return None;
    }
    let how = relay.wrong_mode()?;
    let advice = route.mode_advice(&relay.process.script());
    Some(relay.fault(Violation::WrongMode(how, advice)))
}

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
