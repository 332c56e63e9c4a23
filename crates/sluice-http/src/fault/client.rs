//! Faults of a client: invalid requests, and requests for something that the client may not have.

use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use thiserror::Error;

use crate::fault::detail::Detail;
use crate::fault::forbidden::Forbidden;
use crate::fault::seconds_rounded_up;
use crate::host::HostError;
use crate::path_text::{Quoted, ShownPath};
use crate::progress::OpenBody;
use crate::target::TargetError;

/// A fault of the client. Large data is boxed, so that a result with a fault stays small.
#[derive(Clone, Debug, Error)]
pub enum ClientFault {
    /// 400: the host is missing, named twice, or malformed.
    #[error("{0}")]
    BadHost(HostError),
    /// 400: the request target is not a path.
    #[error("{0}")]
    BadTarget(Box<TargetError>),
    /// 400: a route rewrites the target to a path with a segment `.` or `..`.
    #[error("rewritten to {:?}, with a `.` or `..` segment, by the route at {}", .0.target, .0.origin)]
    BadRewrite(Box<RewriteMismatch>),
    /// 400: the redirect to https needs a host, and the request names none.
    #[error("names no host, which the redirect to https needs")]
    NoHostForHttps,
    /// 431: the head has this many fields, more than the limit.
    #[error("{0} fields in its head")]
    TooManyFields(usize),
    /// 501: the body has a transfer coding other than chunked.
    #[error("transfer coding {0:?} of the request body: only \"chunked\" is known")]
    UnknownTransferCoding(Box<str>),
    /// 400: the body is chunked more than once.
    #[error("the request body is chunked more than once")]
    ChunkedTwice,
    /// 405.
    #[error("method {} is not served here", .0.method)]
    MethodNotAllowed(Box<MethodMismatch>),
    /// 404.
    #[error("{0}")]
    NotFound(Absent),
    /// 403.
    #[error("{0}")]
    Forbidden(Forbidden),
    /// 412: the file with this name is not in the state that the request names (RFC 9110 §13.1).
    #[error("file {}: not the version that the request is for", Quoted(.0))]
    PreconditionFailed(Box<str>),
    /// 416.
    #[error("file {}: the requested range is outside its {} bytes", Quoted(&.0.name), .0.length)]
    RangeNotSatisfiable(Box<RangeMismatch>),
    /// 413: the request body is larger than this many bytes.
    #[error("the request body is larger than {0} bytes (limits.body_size)")]
    BodyTooLarge(u64),
    /// 408: no byte of the request body came for this long.
    #[error("no byte of the request body came for {0:?} (limits.body_timeout)")]
    BodySilent(Duration),
    /// 408: the request body came below the lowest rate.
    #[error("only {} bytes of the request body came in {:.1} s (limits.body_rate)", .0.received, .0.waited.as_secs_f64())]
    BodyTooSlow(Box<SlowBody>),
    /// 400: the request body ended early or is malformed.
    #[error("{0}")]
    BadBody(Box<BodyFailure>),
    /// 400: a chunked request body has more framing than data, after this many bytes of data.
    #[error("the chunked request body has too much framing (chunk sizes, extensions) for its {0} bytes of data")]
    TooMuchFraming(u64),
    /// 400: the value of this field begins or ends with white space (RFC 9113 §8.2.1).
    #[error("the value of field {0} begins or ends with white space")]
    PaddedField(Box<HeaderName>),
    /// 421: the request must be sent on another connection, or to another server.
    #[error("{0}")]
    Misdirected(Misdirected),
    /// The status of the route: a route refuses the request.
    #[error("refused by the route at {}", .0.origin)]
    Refused(Box<RefusedByRoute>),
    /// 401: the answer is for users, and the request names none, or the password is wrong.
    #[error("{0}")]
    Unauthorized(Box<Unauthorized>),
    /// 429: passwords of this user from this address are not verified for a time, because too many were wrong.
    #[error("{0}")]
    TooManyFailures(Box<RefusedUser>),
    /// 429: the client sends more requests than the rate of a route allows.
    #[error("{0}")]
    TooManyRequests(Box<LimitReached>),
    /// 503: as many requests are answered as the throttle of a route allows, and no further ones may wait, or have waited for too long.
    #[error("{0}")]
    Throttled(Box<LimitReached>),
}

/// A limit on requests that is reached.
#[derive(Clone, Debug, Error)]
#[error("{limit} of the route at {origin}")]
pub struct LimitReached {
    /// The limit that is reached, as the begin of a sentence that ends with the route.
    pub limit: Box<str>,
    /// Where it is written.
    pub origin: Box<str>,
    /// After this time the client may try again.
    pub wait: Duration,
}

/// A request without a user where one is needed.
#[derive(Clone, Debug)]
pub struct Unauthorized {
    /// The protected area.
    pub realm: Box<str>,
    /// The statement of the request about a user.
    pub credentials: Credentials,
    /// Whether a token would do, too (RFC 6750).
    pub takes_tokens: bool,
}

/// A request's statement about a user, of which nothing is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The request names no user.
    Missing,
    /// Something other than a name and a password (RFC 7617).
    Unusable,
    /// A token, if it is empty. Otherwise this name, which no user has, or with another password than theirs: the log does not say which, as neither does the response.
    Wrong(Box<str>),
}

/// A user whose password is not verified for a time.
#[derive(Clone, Debug)]
pub struct RefusedUser {
    /// The name of the request.
    pub user: Box<str>,
    /// How long.
    pub wait: Duration,
}

/// Why a request does not belong on its connection (RFC 9110 §15.5.20).
#[derive(Clone, Debug, Error)]
pub enum Misdirected {
    /// The site of this host is served on other addresses.
    #[error("the site of host {0:?} is not served on this address")]
    OtherAddress(Box<str>),
    /// No site has this name, and unknown hosts are refused.
    #[error("no site has the name {0:?}")]
    UnknownHost(Box<str>),
    /// The address answers only to names of this machine, and the host is another name.
    #[error("host {0:?} is not a name of this machine; --host {0:?} would allow it")]
    NotLocal(Box<str>),
    /// The target is an absolute form with this host, which is neither a name of a site nor of this machine.
    #[error("target with host {0:?}, which no site has in hosts: this server is no proxy")]
    OtherServer(Box<str>),
    /// The target is an absolute form with this scheme, which is neither http nor https.
    #[error("target with scheme {0:?}: this server is no proxy")]
    OtherScheme(Box<str>),
    /// The path needs a client certificate, and the handshake of the connection, if there was one, did not ask for it.
    #[error(
        "needs a client certificate, for which the connection did not ask (clear text, or a handshake for another host)"
    )]
    NoHandshake,
}

/// The thing that is not there. The server tells a client no more than that (404).
#[derive(Clone, Debug, Error)]
pub enum Absent {
    /// A file with this name in its directory.
    #[error("file {}: not there", Quoted(.0))]
    File(Box<str>),
    /// A file with this name in its directory, which is never sent, whether it exists or not.
    #[error("file {}: never sent, because it is hidden, a backup copy, a script, or one of the server's own files", Quoted(.0))]
    Withheld(Box<str>),
    /// A script in this file.
    #[error("script {}: not there", ShownPath(.0))]
    Script(Box<Path>),
    /// A file or script behind a symbolic link that may not be followed.
    #[error("{0}")]
    Link(Box<RefusedLink>),
    /// A route that answers for this path.
    #[error("nothing answers for {}", Quoted(.0))]
    Route(Box<str>),
    /// A report with this name.
    #[error("there is no report {}", Quoted(.0))]
    Report(Box<str>),
}

/// A symbolic link that may not be followed.
#[derive(Clone, Debug)]
pub struct RefusedLink {
    /// The path with the link, below the directory.
    pub name: Box<Path>,
    /// The directory.
    pub directory: Box<Path>,
    /// Where the link leads. `None` if the server may not look there.
    pub target: Option<Box<Path>>,
    /// Why it may not be followed.
    pub problem: LinkProblem,
}

/// Why a symbolic link may not be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkProblem {
    /// The link leaves its directory, and `follow_links` does not allow that.
    Leaves,
    /// The link leaves its directory, and has another owner than its target.
    OtherOwner,
}

/// A client or user who may not have an answer.
#[derive(Clone, Debug)]
pub struct NotPermitted {
    /// The user; `None` if the request needs none, or can have none.
    pub user: Option<Box<str>>,
    /// Where the access rules are written.
    pub origin: Box<str>,
    /// Whether nobody knows the client's address, which the rules depend on.
    pub lacks_address: bool,
}

/// A method that the resource does not support.
#[derive(Clone, Debug)]
pub struct MethodMismatch {
    /// The method of the request.
    pub method: Method,
    /// The methods that it supports.
    pub allow: &'static [Method],
}

/// A Range without a byte of the file.
#[derive(Clone, Debug)]
pub struct RangeMismatch {
    /// The file's name in its directory.
    pub name: Box<str>,
    /// The length in bytes.
    pub length: u64,
}

/// A target made by a route.
#[derive(Clone, Debug)]
pub struct RewriteMismatch {
    /// The new target.
    pub target: Box<str>,
    /// Where the route was written.
    pub origin: Box<str>,
}

/// A request body below the lowest rate.
#[derive(Clone, Debug)]
pub struct SlowBody {
    /// Bytes received.
    pub received: u64,
    /// How long the server waited for the client.
    pub waited: Duration,
}

/// A request body that failed.
#[derive(Clone, Debug)]
pub struct BodyFailure {
    /// Bytes received before.
    pub received: u64,
    /// The length, if the client announced it.
    pub announced: Option<u64>,
    /// Whether the connection ended, or the stream was reset, before the end of the body.
    pub has_left: bool,
    /// The error that the connection reports.
    pub error: Arc<dyn Detail>,
}

impl BodyFailure {
    /// A client that has left before the end of its body.
    pub fn departure(body: OpenBody) -> BodyFailure {
        BodyFailure {
            received: body.received,
            announced: body.announced,
            has_left: true,
            error: Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionAborted)),
        }
    }
}

/// The refusal of a request by a route.
#[derive(Clone, Debug)]
pub struct RefusedByRoute {
    /// The status of the error page.
    pub status: StatusCode,
    /// Where the route was written.
    pub origin: Box<str>,
    /// The value of Retry-After.
    pub retry_after: Option<Duration>,
    /// The visitor reads this text instead of the usual sentence.
    pub text: Option<Arc<str>>,
}

impl ClientFault {
    /// `method` is none of `allow`.
    pub fn method_not_allowed(method: &Method, allow: &'static [Method]) -> ClientFault {
        ClientFault::MethodNotAllowed(Box::new(MethodMismatch { method: method.clone(), allow }))
    }

    /// The text for the visitor; `None` for the usual sentence of the status.
    pub(super) fn visitor_text(&self) -> Option<&str> {
        match self {
            ClientFault::Refused(refused) => refused.text.as_deref(),
            ClientFault::Forbidden(Forbidden::NoClientCertificate) => {
                Some("This page needs a client certificate, and none was sent.")
            }
            ClientFault::Forbidden(Forbidden::PasswordInClearText(_)) => {
                Some("This page needs a password, which is accepted over https only.")
            }
            ClientFault::Forbidden(Forbidden::ReportUnderOtherName(_)) => Some(
                "Without a password, reports are shown only under a name of this machine, such as localhost, or of the site.",
            ),
            ClientFault::Forbidden(Forbidden::ReportForScripts(_)) => Some(
                "Scripts are clients of this machine, too, so requests, logs and actions are for users with a password.",
            ),
            ClientFault::Forbidden(Forbidden::ActionOfOtherSite(_)) => Some(
                "The action was not carried out, because it does not come from a current page of the reports. Reload the page and try again.",
            ),
            ClientFault::Forbidden(Forbidden::StreamOfOtherSite(_)) => {
                Some("A page of another site must not begin this. Open the reports themselves.")
            }
            ClientFault::Misdirected(Misdirected::NotLocal(_)) => Some(
                "This address answers only to names of this machine, such as localhost. To allow another name, start the server \
                 with --host NAME.",
            ),
            ClientFault::Misdirected(Misdirected::OtherServer(_) | Misdirected::OtherScheme(_)) => {
                Some("This server is not a proxy, and has no site of this name.")
            }
            ClientFault::Misdirected(Misdirected::NoHandshake) => {
                Some("This page needs a client certificate, for which this connection did not ask.")
            }
            _ => None,
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            ClientFault::BadHost(_)
            | ClientFault::BadTarget(_)
            | ClientFault::BadRewrite(_)
            | ClientFault::NoHostForHttps
            | ClientFault::ChunkedTwice
            | ClientFault::TooMuchFraming(_)
            | ClientFault::PaddedField(_)
            | ClientFault::BadBody(_) => StatusCode::BAD_REQUEST,
            ClientFault::TooManyFields(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            ClientFault::UnknownTransferCoding(_) => StatusCode::NOT_IMPLEMENTED,
            ClientFault::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            ClientFault::NotFound(_) => StatusCode::NOT_FOUND,
            ClientFault::Forbidden(_) => StatusCode::FORBIDDEN,
            ClientFault::PreconditionFailed(_) => StatusCode::PRECONDITION_FAILED,
            ClientFault::RangeNotSatisfiable(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            ClientFault::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ClientFault::BodySilent(_) | ClientFault::BodyTooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            ClientFault::Misdirected(_) => StatusCode::MISDIRECTED_REQUEST,
            ClientFault::Refused(refused) => refused.status,
            ClientFault::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            ClientFault::TooManyFailures(_) | ClientFault::TooManyRequests(_) => StatusCode::TOO_MANY_REQUESTS,
            ClientFault::Throttled(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Unauthorized {
    /// The values of WWW-Authenticate: how a name and password are sent (RFC 7617 §2), and a token (RFC 6750 §3).
    pub fn challenges(&self) -> Vec<String> {
        let realm = format!("\"{}\"", self.realm.replace('\\', r"\\").replace('"', r#"\""#));
        let mut challenges = vec![format!("Basic realm={realm}, charset=\"UTF-8\"")];
        if self.takes_tokens {
            // A token has no name. The error is for a request that has sent one.
            let error = match &self.credentials {
                Credentials::Wrong(name) if name.is_empty() => ", error=\"invalid_token\"",
                _ => "",
            };
            challenges.push(format!("Bearer realm={realm}{error}"));
        }
        challenges
    }
}

impl Display for BodyFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = self.received;
        match (self.has_left, self.announced) {
            (true, Some(announced)) => write!(
                out,
                "the client has left after {received} of {announced} bytes of the request body"
            ),
            (true, None) => write!(
                out,
                "the client has left after {received} bytes of the request body, before its end"
            ),
            (false, _) => write!(out, "request body: {}, after {received} bytes", self.error),
        }
    }
}

impl Display for RefusedUser {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wait = seconds_rounded_up(self.wait);
        match &*self.user {
            "" => write!(
                out,
                "too many wrong tokens from this client's address: the server verifies no token from there for {wait} s"
            ),
            user => write!(
                out,
                "too many wrong passwords for user {0} from this client's address: \
                 the server verifies no password of {0} from there for {wait} s",
                Quoted(user)
            ),
        }
    }
}

impl Display for Unauthorized {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let realm = Quoted(&self.realm);
        match &self.credentials {
            Credentials::Missing => write!(out, "needs a user of {realm}, and the request names none"),
            Credentials::Unusable => write!(
                out,
                "needs a user of {realm}, and the field Authorization has no name and password (scheme Basic)"
            ),
            Credentials::Wrong(user) if user.is_empty() => write!(out, "wrong token for {realm}"),
            Credentials::Wrong(user) => write!(out, "wrong password or unknown user {} of {realm}", Quoted(user)),
        }
    }
}

impl std::error::Error for RefusedLink {}

impl Display for RefusedLink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, directory) = (ShownPath(&self.name), ShownPath(&self.directory));
        write!(out, "{name}: a symbolic link leads out of {directory}")?;
        if let Some(target) = &self.target {
            write!(out, " to {}", ShownPath(target))?;
        }
        out.write_str(match self.problem {
            LinkProblem::Leaves => "; follow_links = true or \"same-owner\" would allow it",
            LinkProblem::OtherOwner => " and has another owner than that (follow_links = \"same-owner\")",
        })
    }
}
