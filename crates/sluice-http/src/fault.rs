//! A fault: an error with a culprit. The kind decides status, log level and who is told.
//!
//! Here: the value. Not here: the response made of it (`write::error_page`, the only place that makes one) and the
//! lines logged (`accept::serve`). Stages return faults and write nothing themselves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};

/// Who is to blame, and therefore who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The client: bad bytes, too large, too slow, gone.
    Client,
    /// The script: a bad reply or none, too slow, refused to start.
    Script,
    /// The server or its machine: no memory, no descriptors, a bad configuration.
    Server,
}

/// An error with a culprit, as a stage returns it.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Who is to blame.
    pub culprit: Culprit,
    /// The status of the error page, as long as the head has not gone out.
    pub status: StatusCode,
    /// What happened, for the log: one line.
    pub text: String,
    /// Goes into Retry-After (RFC 9110 §10.2.3).
    pub retry_after: Option<Duration>,
    /// Goes into Allow (RFC 9110 §10.2.1); required with 405.
    pub allow: Option<&'static [Method]>,
    /// The length of what is there, for Content-Range (RFC 9110 §15.5.17); with 416.
    pub length: Option<u64>,
    /// What the visitor is told, where a site's author has words of their own.
    pub told: Option<Arc<str>>,
}

impl Fault {
    /// The client's mistake.
    pub fn client(status: StatusCode, text: impl Into<String>) -> Fault {
        Fault::new(Culprit::Client, status, text)
    }

    /// The script's reply cannot be used: 502.
    pub fn script(text: impl Into<String>) -> Fault {
        Fault::new(Culprit::Script, StatusCode::BAD_GATEWAY, text)
    }

    /// The script took too long: 504.
    pub fn too_slow(text: impl Into<String>) -> Fault {
        Fault::new(Culprit::Script, StatusCode::GATEWAY_TIMEOUT, text)
    }

    /// There is no process for this request now: 503 with Retry-After.
    pub fn busy(text: impl Into<String>, retry_after: Duration) -> Fault {
        Fault {
            retry_after: Some(retry_after),
            ..Fault::new(Culprit::Script, StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }

    /// The server's own failure: 500.
    pub fn server(text: impl Into<String>) -> Fault {
        Fault::new(Culprit::Server, StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// The method is not one of `allow`: 405.
    pub fn method(method: &Method, allow: &'static [Method]) -> Fault {
        Fault {
            allow: Some(allow),
            ..Fault::client(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("method {method} is not served here"),
            )
        }
    }

    /// Nothing of the range that is asked for is within `length` bytes: 416.
    pub fn range(length: u64, text: impl Into<String>) -> Fault {
        Fault {
            length: Some(length),
            ..Fault::client(StatusCode::RANGE_NOT_SATISFIABLE, text)
        }
    }

    fn new(culprit: Culprit, status: StatusCode, text: impl Into<String>) -> Fault {
        Fault {
            culprit,
            status,
            text: text.into(),
            retry_after: None,
            allow: None,
            length: None,
            told: None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}
