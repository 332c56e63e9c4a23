//! A fault: who is at fault and what happened. The kinds decide status, response fields and log level.
//!
//! A fault holds data, not text: `Display` makes the line for the log when it is written. Stages return faults and write nothing themselves.
//!
//! ```text
//! Fault ─┬─ Client(ClientFault)   bad request, too large, too slow, nothing there, refused by a route
//!        ├─ Script(ScriptFault)   no valid reply, silent, not executable, no process free
//!        └─ Server(ServerFault)   input or output failed, no memory, a mistake in the server
//! ```

mod client;
mod detail;
mod forbidden;
mod script;
mod server;

use std::fmt::{self, Display, Write};
use std::time::Duration;

use http::{Method, StatusCode};

use crate::escape::Escaping;
pub use crate::fault::client::{
    Absent, BodyFailure, ClientFault, Credentials, LimitReached, LinkProblem, MethodMismatch, Misdirected,
    NotPermitted, RangeMismatch, RefusedByRoute, RefusedLink, RefusedUser, RewriteMismatch, SlowBody, Unauthorized,
};
pub use crate::fault::detail::{Detail, ProcessDetail, ProcessReport};
pub use crate::fault::forbidden::Forbidden;
pub use crate::fault::script::{
    AgentFailure, Awaited, BackOff, DeadlineExceeded, FullPool, NotExecutable, RequestedPage, ScriptFault, SentFile,
    Silence,
};
pub use crate::fault::server::{Activity, IoFailure, ServerFault};
use crate::host::HostError;
use crate::target::TargetError;

/// The party that caused a fault, and therefore must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The client.
    Client,
    /// The script or its author.
    Script,
    /// The server or its machine: no memory, no descriptors, a bad configuration.
    Server,
}

/// Why a request gets no response of the kind that it asks for, or why a body ends early.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The client is at fault.
    Client(ClientFault),
    /// The script is at fault.
    Script(ScriptFault),
    /// The server is at fault.
    Server(ServerFault),
}

impl Fault {
    /// The party at fault.
    pub fn culprit(&self) -> Culprit {
        match self {
            // A script that its user may not run: its administrator must act.
            Fault::Client(ClientFault::Forbidden(Forbidden::Unreadable(failure)))
                if matches!(failure.activity, Activity::Script(_)) =>
            {
                Culprit::Script
            }
            Fault::Client(_) => Culprit::Client,
            Fault::Script(_) => Culprit::Script,
            Fault::Server(_) => Culprit::Server,
        }
    }

    /// The status of the error page, if the head of the response was not sent yet.
    pub fn status(&self) -> StatusCode {
        match self {
            Fault::Client(fault) => fault.status(),
            Fault::Script(fault) => fault.status(),
            Fault::Server(fault) => fault.status(),
        }
    }

    /// Whether the client has left before the end of its request body: hardly anybody reads the response.
    pub fn is_departure(&self) -> bool {
        matches!(self, Fault::Client(ClientFault::BadBody(body)) if body.has_left)
    }

    /// The value of Retry-After in seconds (RFC 9110 §10.2.3), rounded up: a client that waits for as long is not refused again.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Fault::Client(ClientFault::Refused(refused)) => refused.retry_after,
            Fault::Client(ClientFault::TooManyFailures(refused)) => Some(refused.wait),
            Fault::Client(ClientFault::TooManyRequests(reached) | ClientFault::Throttled(reached)) => {
                Some(reached.wait)
            }
            Fault::Client(_) => None,
            Fault::Script(fault) => fault.retry_after(),
            Fault::Server(fault) => fault.retry_after(),
        }
        .map(seconds_rounded_up)
    }

    /// The value of Allow (RFC 9110 §10.2.1), which a 405 must have.
    pub fn allow(&self) -> Option<&'static [Method]> {
        match self {
            Fault::Client(ClientFault::MethodNotAllowed(mismatch)) => Some(mismatch.allow),
            _ => None,
        }
    }

    /// The values of WWW-Authenticate (RFC 9110 §11.6.1), of which a 401 must have one.
    pub fn challenges(&self) -> Vec<String> {
        match self {
            Fault::Client(ClientFault::Unauthorized(unauthorized)) => unauthorized.challenges(),
            _ => Vec::new(),
        }
    }

    /// Whether the request names no user where one is needed: the first request of every browser that will then ask for a password.
    pub fn is_first_challenge(&self) -> bool {
        matches!(self, Fault::Client(ClientFault::Unauthorized(unauthorized)) if unauthorized.credentials == Credentials::Missing)
    }

    /// The length of the file for the Content-Range of a 416 (RFC 9110 §15.5.17).
    pub fn content_range_length(&self) -> Option<u64> {
        match self {
            Fault::Client(ClientFault::RangeNotSatisfiable(mismatch)) => Some(mismatch.length),
            _ => None,
        }
    }

    /// The text for the visitor, a route's, a script's or that of the fault, instead of the usual sentence of the error page.
    pub fn visitor_text(&self) -> Option<&str> {
        match self {
            Fault::Client(fault) => fault.visitor_text(),
            Fault::Script(fault) => fault.visitor_text(),
            Fault::Server(_) => None,
        }
    }

    /// The sentence of the error page, where that of the status would say something else.
    pub fn sentence(&self) -> Option<&'static str> {
        match self {
            Fault::Client(ClientFault::TooManyRequests(_)) => Some("Too many requests; please try again later."),
            Fault::Script(ScriptFault::Failed { .. }) => Some("The program behind this address has failed."),
            Fault::Server(ServerFault::NoEngine(_) | ServerFault::Missing(_) | ServerFault::Closed(_)) => {
                Some("Something that this address needs is missing on the server; its log says what.")
            }
            _ => None,
        }
    }

    /// The script process that the fault is about, if one was started.
    pub fn process(&self) -> Option<ProcessReport> {
        match self {
            Fault::Script(fault) => fault.process(),
            Fault::Client(_) | Fault::Server(_) => None,
        }
    }

    /// Whether there is nothing at the path that the client requested, or a route says so.
    pub fn is_not_found(&self) -> bool {
        match self {
            Fault::Client(ClientFault::NotFound(_)) => true,
            Fault::Client(ClientFault::Refused(refused)) => refused.status == StatusCode::NOT_FOUND,
            _ => false,
        }
    }

    /// Whether nothing is at the path that the client requested, and no route says so by itself.
    pub fn is_absent(&self) -> bool {
        matches!(self, Fault::Client(ClientFault::NotFound(_)))
    }

    /// Whether the configuration decides that something does not exist: a route refuses it, or a link is not followed.
    pub fn is_of_configuration(&self) -> bool {
        let is_absence =
            matches!(self, Fault::Client(ClientFault::NotFound(absent)) if matches!(absent, Absent::Link(_)));
        is_absence || matches!(self, Fault::Client(ClientFault::Refused(_)))
    }

    /// Whether the connection must be closed, because the end of the request is in doubt (RFC 9112 §6.1).
    pub fn ends_connection(&self) -> bool {
        matches!(
            self,
            Fault::Client(ClientFault::UnknownTransferCoding(_) | ClientFault::ChunkedTwice)
        )
    }

    /// Whether the administrator has ended the request, which is nobody's fault.
    pub fn is_order(&self) -> bool {
        matches!(self, Fault::Server(ServerFault::Ended))
    }

    /// A mistake in the server itself: a state that its code excludes.
    pub fn unexpected(what: &'static str) -> Fault {
        Fault::Server(ServerFault::Unexpected(what))
    }
}

/// One line: what clients, scripts and file names contribute to it is escaped here.
impl Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Escaping::new(out);
        match self {
            Fault::Client(fault) => write!(out, "{fault}"),
            Fault::Script(fault) => write!(out, "{fault}"),
            Fault::Server(fault) => write!(out, "{fault}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<ClientFault> for Fault {
    fn from(fault: ClientFault) -> Fault {
        Fault::Client(fault)
    }
}

impl From<ScriptFault> for Fault {
    fn from(fault: ScriptFault) -> Fault {
        Fault::Script(fault)
    }
}

impl From<ServerFault> for Fault {
    fn from(fault: ServerFault) -> Fault {
        Fault::Server(fault)
    }
}

impl From<HostError> for Fault {
    fn from(error: HostError) -> Fault {
        Fault::Client(ClientFault::BadHost(error))
    }
}

impl From<Box<TargetError>> for Fault {
    fn from(error: Box<TargetError>) -> Fault {
        Fault::Client(ClientFault::BadTarget(error))
    }
}

/// At least one second.
pub(crate) fn seconds_rounded_up(time: Duration) -> u64 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    whole.max(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_fault_is_small() {
        assert!(size_of::<Fault>() <= 32, "{}", size_of::<Fault>());
    }

    #[test]
    fn the_kind_decides_what_the_response_says() {
        let refused = Fault::from(ClientFault::Refused(Box::new(RefusedByRoute {
            status: StatusCode::GONE,
            origin: "sluice.toml:7".into(),
            retry_after: Some(Duration::from_secs(9)),
            text: Some("Moved out.".into()),
        })));
        assert_eq!(
            (refused.culprit(), refused.status()),
            (Culprit::Client, StatusCode::GONE)
        );
        assert_eq!(refused.retry_after(), Some(9));
        assert_eq!(refused.visitor_text(), Some("Moved out."));
        assert_eq!(refused.to_string(), "refused by the route at sluice.toml:7");

        let too_many = |user: &str| {
            let (user, wait) = (user.into(), Duration::from_millis(298_100));
            Fault::from(ClientFault::TooManyFailures(Box::new(RefusedUser { user, wait }))).to_string()
        };
        assert_eq!(
            too_many("eve"),
            "too many wrong passwords for user \"eve\" from this client's address: \
             the server verifies no password of \"eve\" from there for 299 s"
        );
        assert_eq!(
            too_many(""),
            "too many wrong tokens from this client's address: the server verifies no token from there for 299 s"
        );

        let method = Fault::from(ClientFault::method_not_allowed(&Method::PUT, &[Method::GET]));
        assert_eq!(method.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(method.allow(), Some(&[Method::GET][..]));

        let name = "a".into();
        let range = Fault::from(ClientFault::RangeNotSatisfiable(Box::new(RangeMismatch {
            name,
            length: 5,
        })));
        assert_eq!(range.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(range.content_range_length(), Some(5));

        let (script, wait) = (Path::new("/s/a").into(), Duration::from_secs(3));
        let busy = Fault::from(ScriptFault::BackOff(Box::new(BackOff { script, wait })));
        assert_eq!(
            (busy.culprit(), busy.status()),
            (Culprit::Script, StatusCode::SERVICE_UNAVAILABLE)
        );
        assert_eq!(busy.retry_after(), Some(3));
    }

    #[test]
    fn a_file_that_a_script_names_and_that_is_absent_is_the_scripts_fault() {
        let absent = || ClientFault::NotFound(Absent::File("a".into()));
        assert!(Fault::from(absent()).is_not_found());
        let sent = Fault::from(ScriptFault::SentFile(Box::new(SentFile {
            field: "x-sendfile: \"/a\"".into(),
            fault: absent(),
        })));
        assert_eq!(
            (sent.culprit(), sent.status()),
            (Culprit::Script, StatusCode::NOT_FOUND)
        );
        assert!(!sent.is_not_found());
        assert_eq!(sent.to_string(), "x-sendfile: \"/a\": file \"a\": not there");
    }

    #[test]
    fn text_is_made_of_the_data() {
        let denied = IoFailure::shared(
            Activity::Script(Path::new("/s/a b").into()),
            std::io::ErrorKind::PermissionDenied.into(),
        );
        let fault = Fault::from(ClientFault::Forbidden(Forbidden::Unreadable(denied)));
        assert_eq!(fault.status(), StatusCode::FORBIDDEN);
        assert_eq!(fault.to_string(), "script /s/a b: permission denied");
        assert_eq!(Fault::unexpected("no").to_string(), "no");
    }

    #[test]
    fn text_of_clients_and_file_names_is_escaped() {
        let name = "/s/\r2026 \u{202e}";
        let absent = Fault::from(ClientFault::NotFound(Absent::Script(Path::new(name).into())));
        assert_eq!(absent.to_string(), r"script /s/\r2026 \u{202e}: not there");
        let denied = IoFailure::shared(
            Activity::Script(Path::new(name).into()),
            std::io::ErrorKind::PermissionDenied.into(),
        );
        let denied = Fault::from(ClientFault::Forbidden(Forbidden::Unreadable(denied)));
        assert_eq!(denied.to_string(), r"script /s/\r2026 \u{202e}: permission denied");
    }
}
