//! Faults of a script or its author, and reasons why no process is free for a request.

use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use crate::fault::client::ClientFault;
use crate::fault::detail::{Detail, ProcessDetail, ProcessReport};
use crate::path_text::{Quoted, ShownPath};
use crate::target::TargetError;

/// After this time a client may retry that found all processes busy.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(2);

/// A fault of the script. Large data is boxed, so that a result with a fault stays small.
#[derive(Clone, Debug, Error)]
pub enum ScriptFault {
    /// 502: the reply is malformed or incomplete; process and violation.
    #[error("{0}")]
    BadReply(Arc<dyn ProcessDetail>),
    /// The script says that it has failed, and has chosen the status of the error page, 500 to 599.
    #[error("{process}")]
    Failed {
        /// The status.
        status: StatusCode,
        /// The process and the reason.
        process: Arc<dyn ProcessDetail>,
    },
    /// 502: the reply is a 101, but nothing is served that a connection could switch to.
    #[error("the script wants to switch protocols, which is not served")]
    SwitchesProtocols,
    /// 502: the process was not started because of its file, `#!` line or directory.
    #[error("{0}")]
    NotStarted(Arc<dyn Detail>),
    /// 500: it may not run as the user that its route wants.
    #[error("{0}")]
    Refused(Arc<dyn Detail>),
    /// 502: the reply names a file to send that the route does not declare, or names it in a wrong way.
    #[error("{0}")]
    BadSendFile(Arc<dyn Detail>),
    /// The file's own status (404, 403): a file to send that is not there or may not be read.
    #[error("{}: {}", .0.field, .0.fault)]
    SentFile(Box<SentFile>),
    /// The status that the script has chosen: it asked for an error page of the server.
    #[error("{0}")]
    Requested(Box<RequestedPage>),
    /// 502: the target of a local redirect is not a path.
    #[error("local redirect: {0}")]
    BadLocalRedirect(Box<TargetError>),
    /// 502: more local redirects than followed.
    #[error("more than {redirects_max} local redirects, the last one to {last:?}")]
    TooManyLocalRedirects {
        /// Local redirects followed for one request.
        redirects_max: u16,
        /// The target of the last one.
        last: Box<str>,
    },
    /// 502: an authentication agent has failed, or has said nothing of the user.
    #[error("authentication agent {}: {}", ShownPath(&.0.script), Quoted(&.0.reason))]
    Agent(Box<AgentFailure>),
    /// 403: the file exists and cannot be executed.
    #[error("script {}: {problem}", file.display())]
    NotExecutable {
        /// The file.
        file: Box<Path>,
        /// Why not.
        problem: NotExecutable,
    },
    /// 504: neither input nor output for too long.
    #[error("{0}")]
    Silent(Box<Silence>),
    /// 504: the whole exchange took longer than its deadline.
    #[error("{}: the exchange took longer than {limit:?} (deadline = \"{limit:?}\", or X-timeout-output of the script)", .0.process, limit = .0.limit)]
    DeadlineExceeded(Box<DeadlineExceeded>),
    /// 503: all processes are busy, and as many requests wait as may.
    #[error("{0}, and {most} {wait} (queue = {most})", most = .0.queue_max, wait = if .0.queue_max == 1 { "request waits" } else { "requests wait" })]
    QueueFull(Box<FullPool>),
    /// 503: all processes are busy, and its client has its share of those and of the queue.
    #[error("{}, and its client has as many requests there as it may before others (requests_per_client = {}), and half of the queue is full \
             (queue = {})", .0, .0.client_requests_max.unwrap_or_default(), .0.queue_max)]
    ClientShare(Box<FullPool>),
    /// 503: no process became free in time.
    #[error("{0}: none became free within {time:?} (queue_timeout = \"{time:?}\")", time = .0.queue_timeout)]
    QueueTimeout(Box<FullPool>),
    /// 503: its last processes failed, and the next is started later.
    #[error("script {}: its last processes ended before their first reply, for the reasons logged before; the next start is in {:?}", .0.script.display(), .0.wait)]
    BackOff(Box<BackOff>),
}

/// Why a file cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotExecutable {
    /// The path is a directory, socket or device.
    #[error("is not a plain file")]
    NotAFile,
    /// The file has no execute permission, and its suffix has no interpreter.
    #[error("has no execute bit (chmod +x) and its route names no interpreter for its suffix")]
    NoExecutePermission,
    /// The route's engines do not run files with its name.
    #[error(
        "its route has no engine for its suffix; a file with another suffix than those of the engine's language needs an execute bit"
    )]
    NoEngine,
}

/// An authentication agent without an answer.
#[derive(Clone, Debug)]
pub struct AgentFailure {
    /// The script.
    pub script: Box<Path>,
    /// The agent's message, or a text that says that there is none.
    pub reason: Box<str>,
}

/// A file that a script names and that cannot be sent.
#[derive(Clone, Debug)]
pub struct SentFile {
    /// The field that names it, with its value.
    pub field: Box<str>,
    /// The fault that would be the client's if the client had named the file.
    pub fault: ClientFault,
}

/// An error page that a script has asked for.
#[derive(Clone, Debug)]
pub struct RequestedPage {
    /// The status.
    pub status: StatusCode,
    /// The script's text for the visitor.
    pub text: Option<Box<str>>,
    /// The process and its reason, for the log.
    pub detail: Arc<dyn Detail>,
}

/// A process that neither read nor wrote.
#[derive(Clone, Debug)]
pub struct Silence {
    /// The process.
    pub process: Arc<dyn ProcessDetail>,
    /// How long it may be silent.
    pub limit: Duration,
    /// The part of the reply that was awaited.
    pub awaited: Awaited,
    /// Whether its process serves further requests, so that a sentinel ends a reply.
    pub keeps_process: bool,
}

/// The part of a reply that a script owed when its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The head of its reply; it had not even read its request.
    Start,
    /// The head of its reply.
    Head,
    /// More of the body, or its end.
    Body,
    /// The same, within a limit that it has set itself (`Script-Control: X-timeout-noprogress`).
    BodyInOwnTime,
    /// The end of a reply whose client has left.
    EndWithoutClient,
}

/// An exchange that took too long.
#[derive(Clone, Debug)]
pub struct DeadlineExceeded {
    /// The process.
    pub process: Arc<dyn ProcessDetail>,
    /// How long the exchange may take.
    pub limit: Duration,
}

/// A script whose last processes ended before their first reply.
#[derive(Clone, Debug)]
pub struct BackOff {
    /// The file of the script.
    pub script: Box<Path>,
    /// Time until its next process is started.
    pub wait: Duration,
}

/// A pool whose processes are all busy, and its settings.
#[derive(Clone, Debug)]
pub struct FullPool {
    /// The file of the script.
    pub script: Box<Path>,
    /// Processes that it has.
    pub processes: usize,
    /// Processes that it may have.
    pub max: usize,
    /// Requests that may wait for one of them.
    pub queue_max: usize,
    /// How long they may wait.
    pub queue_timeout: Duration,
    /// Requests of one client that do not wait behind those of others, if that is bounded.
    pub client_requests_max: Option<usize>,
}

impl ScriptFault {
    /// An authentication agent has failed.
    pub fn agent(script: &Path, reason: &str) -> ScriptFault {
        ScriptFault::Agent(Box::new(AgentFailure { script: script.into(), reason: reason.into() }))
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            ScriptFault::BadReply(_)
            | ScriptFault::SwitchesProtocols
            | ScriptFault::NotStarted(_)
            | ScriptFault::BadSendFile(_)
            | ScriptFault::BadLocalRedirect(_)
            | ScriptFault::Agent(_)
            | ScriptFault::TooManyLocalRedirects { .. } => StatusCode::BAD_GATEWAY,
            ScriptFault::Refused(_) => StatusCode::INTERNAL_SERVER_ERROR,
            ScriptFault::SentFile(file) => file.fault.status(),
            ScriptFault::Requested(page) => page.status,
            ScriptFault::Failed { status, .. } => *status,
            ScriptFault::NotExecutable { .. } => StatusCode::FORBIDDEN,
            ScriptFault::Silent(_) | ScriptFault::DeadlineExceeded(_) => StatusCode::GATEWAY_TIMEOUT,
            ScriptFault::QueueFull(_)
            | ScriptFault::ClientShare(_)
            | ScriptFault::QueueTimeout(_)
            | ScriptFault::BackOff(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The process that the fault is about, if one was started.
    pub(super) fn process(&self) -> Option<ProcessReport> {
        match self {
            ScriptFault::BadReply(detail) | ScriptFault::Failed { process: detail, .. } => Some(detail.report()),
            ScriptFault::Silent(silence) => Some(silence.process.report()),
            ScriptFault::DeadlineExceeded(exceeded) => Some(exceeded.process.report()),
            _ => None,
        }
    }

    pub(super) fn visitor_text(&self) -> Option<&str> {
        match self {
            ScriptFault::Requested(page) => page.text.as_deref(),
            _ => None,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            ScriptFault::QueueFull(_) | ScriptFault::ClientShare(_) | ScriptFault::QueueTimeout(_) => {
                Some(BUSY_RETRY_AFTER)
            }
            ScriptFault::BackOff(back_off) => Some(back_off.wait),
            _ => None,
        }
    }
}

impl Display for RequestedPage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(out, "{}: {text:?}", self.detail),
            None => Display::fmt(&self.detail, out),
        }
    }
}

/// Names the key, its value, and what the author of the script may have forgotten.
impl Display for Silence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Silence { process, limit, .. } = self;
        let (key, what) = match self.awaited {
            Awaited::Start => (
                "reply_timeout",
                "it has neither read its request (CGIPLUSIN) nor written anything",
            ),
            Awaited::Head => ("reply_timeout", "it has not written a head"),
            Awaited::Body => ("output_timeout", "its body has not ended, and no more of it came"),
            Awaited::BodyInOwnTime => ("X-timeout-noprogress", "its body has not ended, and no more of it came"),
            Awaited::EndWithoutClient => ("client_grace", "its client has left, and its reply has not ended"),
        };
        let question = match (self.awaited, self.keeps_process) {
            (Awaited::Start, _) => "does it read CGIPLUSIN? A script that does not has mode = \"cgi\"",
            (Awaited::Head, true) => "has it flushed its output, and written CGIPLUSEOF at the end of its last reply?",
            (Awaited::Body, true) => "has it written CGIPLUSEOF at its end, and flushed it?",
            (Awaited::Head | Awaited::Body, false) => "has it flushed its output?",
            (Awaited::BodyInOwnTime, _) => "is the limit that it has set itself long enough?",
            (Awaited::EndWithoutClient, _) => "does it end when a write fails?",
        };
        write!(
            out,
            "{process}: silent for {limit:?} ({key} = \"{limit:?}\"): {what}; {question}"
        )
    }
}

impl Display for FullPool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FullPool { script, processes, max, .. } = self;
        write!(out, "script {}: ", script.display())?;
        match *processes {
            // A bound that it shares with other scripts is reached, which has a log line of its own.
            fewer if fewer < *max => write!(
                out,
                "no more than {fewer} of max = {max} processes have room (processes of the route, or limits.processes)"
            ),
            1 => out.write_str("its process is busy (max = 1)"),
            all => write!(out, "all {all} processes are busy (max = {max})"),
        }
    }
}
