//! What a script or its author does wrong, and why no process is free for a request.

use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::fault::client::ClientFault;
use crate::fault::detail::Detail;
use crate::target::TargetError;

/// After this time a client may retry that found all processes busy.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(2);

/// A fault of the script. Large data is boxed, so that a result with a fault stays small.
#[derive(Clone, Debug)]
pub enum ScriptFault {
    /// 502: the reply is malformed or incomplete; process and violation.
    BadReply(Arc<dyn Detail>),
    /// 502: the reply is a 101, but nothing is served that a connection could switch to.
    SwitchesProtocols,
    /// 502: the process was not started because of its file, `#!` line or directory.
    NotStarted(Arc<dyn Detail>),
    /// 502: the reply names a file to send that the route does not declare, or names it in a wrong way.
    BadSendFile(Arc<dyn Detail>),
    /// The file's own status (404, 403): a file to send that is not there or may not be read.
    SentFile(Box<SentFile>),
    /// 502: the target of a local redirect is not a path.
    BadLocalRedirect(Box<TargetError>),
    /// 502: more local redirects than followed.
    TooManyLocalRedirects {
        /// Local redirects followed for one request.
        redirects_max: u16,
        /// The target of the last one.
        last: Box<str>,
    },
    /// 403: the file exists and cannot be executed.
    NotExecutable {
        /// The file.
        file: Box<Path>,
        /// Why not.
        problem: NotExecutable,
    },
    /// 504: neither input nor output for too long.
    Silent(Box<Silence>),
    /// 504: the whole exchange took longer than its deadline; the process.
    DeadlineExceeded(Arc<dyn Detail>),
    /// 503: all processes are busy, and this many requests wait, which is the limit.
    QueueFull(usize),
    /// 503: no process became free for this long.
    QueueTimeout(Duration),
    /// 503: its last processes failed, and the next is started after this time.
    BackOff(Duration),
}

/// Why a file cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotExecutable {
    /// It is a directory, socket or device.
    NotAFile,
    /// It has no execute permission, and its suffix has no interpreter.
    NoExecutePermission,
}

/// A file that a script names and that cannot be sent.
#[derive(Clone, Debug)]
pub struct SentFile {
    /// The field that names it, with its value.
    pub field: Box<str>,
    /// What would be the client's fault if the client had named it.
    pub fault: ClientFault,
}

/// A process that neither read nor wrote.
#[derive(Clone, Debug)]
pub struct Silence {
    /// The process.
    pub process: Arc<dyn Detail>,
    /// How long it may be silent.
    pub limit: Duration,
}

impl ScriptFault {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            ScriptFault::BadReply(_)
            | ScriptFault::SwitchesProtocols
            | ScriptFault::NotStarted(_)
            | ScriptFault::BadSendFile(_)
            | ScriptFault::BadLocalRedirect(_)
            | ScriptFault::TooManyLocalRedirects { .. } => StatusCode::BAD_GATEWAY,
            ScriptFault::SentFile(file) => file.fault.status(),
            ScriptFault::NotExecutable { .. } => StatusCode::FORBIDDEN,
            ScriptFault::Silent(_) | ScriptFault::DeadlineExceeded(_) => StatusCode::GATEWAY_TIMEOUT,
            ScriptFault::QueueFull(_) | ScriptFault::QueueTimeout(_) | ScriptFault::BackOff(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            ScriptFault::QueueFull(_) | ScriptFault::QueueTimeout(_) => Some(BUSY_RETRY_AFTER),
            ScriptFault::BackOff(wait) => Some(*wait),
            _ => None,
        }
    }
}

impl Display for ScriptFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptFault::BadReply(detail) | ScriptFault::NotStarted(detail) | ScriptFault::BadSendFile(detail) => {
                Display::fmt(detail, out)
            }
            ScriptFault::SwitchesProtocols => {
                out.write_str("the script wants to switch protocols, which is not served")
            }
            ScriptFault::SentFile(file) => write!(out, "{}: {}", file.field, file.fault),
            ScriptFault::BadLocalRedirect(error) => write!(out, "local redirect: {error}"),
            ScriptFault::TooManyLocalRedirects { redirects_max, last } => write!(
                out,
                "more than {redirects_max} local redirects, the last one to {last:?}"
            ),
            ScriptFault::NotExecutable { file, problem } => write!(out, "script {}: {problem}", file.display()),
            ScriptFault::Silent(silence) => write!(
                out,
                "{}: silent for {:?} (reply_timeout or output_timeout)",
                silence.process, silence.limit
            ),
            ScriptFault::DeadlineExceeded(process) => {
                write!(out, "{process}: the exchange took longer than its deadline")
            }
            ScriptFault::QueueFull(queue_max) => {
                let wait = if *queue_max == 1 {
                    "request waits"
                } else {
                    "requests wait"
                };
                write!(
                    out,
                    "all processes are busy and {queue_max} {wait} (queue of the script)"
                )
            }
            ScriptFault::QueueTimeout(timeout) => write!(
                out,
                "no process became free within {timeout:?} (queue_timeout of the script; max and processes bound how many there are)"
            ),
            ScriptFault::BackOff(wait) => write!(
                out,
                "its last processes ended before their first reply; the next start is in {wait:?}"
            ),
        }
    }
}

impl Display for NotExecutable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            NotExecutable::NotAFile => "is not a plain file",
            NotExecutable::NoExecutePermission => {
                "has no execute bit (chmod +x) and its route names no interpreter for its suffix"
            }
        })
    }
}
