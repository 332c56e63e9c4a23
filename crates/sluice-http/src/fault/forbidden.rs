//! The reasons for which a request has no access (403, RFC 9110 section 15.5.4).

use std::fmt::{self, Display};
use std::sync::Arc;

use thiserror::Error;

use crate::fault::client::NotPermitted;
use crate::fault::server::IoFailure;
use crate::path_text::Quoted;

/// Something that exists and is not sent (403).
#[derive(Clone, Debug, Error)]
pub enum Forbidden {
    /// The server may not open a file or stat a script.
    #[error("{0}")]
    Unreadable(Arc<IoFailure>),
    /// A directory without an index page, whose route does not list directories.
    #[error("directory {} has no index page, and is not listed", Quoted(.0))]
    NotListed(Box<str>),
    /// The path needs a client certificate, and the client has sent none.
    #[error("needs a client certificate, and the client has sent none")]
    NoClientCertificate,
    /// A path without a slash that a route rewrites to a listed directory: the listing's links are relative.
    #[error("{} leads to a directory, which is listed only below a path with a slash", Quoted(.0))]
    ListedWithSlashOnly(Box<str>),
    /// The access rules of a route, written at this place, are not for this client, or not for this user of it.
    #[error("{0}")]
    NotPermitted(Box<NotPermitted>),
    /// A password is needed, and the request came in clear text, not from this machine as far as is known.
    #[error(
        "needs a password, which is not accepted over clear text from another machine: use https (a trusted proxy says so by \
             X-Forwarded-Proto); clear_text = true in access at {0} would allow it"
    )]
    PasswordInClearText(Box<str>),
    /// A report is asked for without a user and under a host that is no name of the site or machine: its pages could read it.
    #[error(
        "reports are not shown under the host {0:?}, which is no name of the site (hosts) or of this machine, unless to a user"
    )]
    ReportUnderOtherName(Box<str>),
    /// A report is asked for without a user by a client whose address is not known, or by one of this machine, and a proxy seems to have
    /// passed the request on: then everybody may be the client.
    #[error(
        "reports for this machine are not shown through a proxy: let it name the client (trusted_proxies, X-Forwarded-For), or let users have them \
             (access)"
    )]
    ReportThroughProxy,
    /// A report whose route lets everybody have it.
    #[error("reports are shown only where a route says who may have them (access)")]
    ReportForAll,
    /// A report that shows requests or logs, or an action, is asked for by a client of this machine without a user, which may be a script. The
    /// access rules at this place let it in by its address.
    #[error(
        "requests, logs and actions are not for clients of this machine without a user, because scripts are such clients: name users in access \
             at {0}, or the network in allow_write"
    )]
    ReportForScripts(Box<str>),
    /// An action that may have been sent by a page of another site; why.
    #[error("the action may come from a page of another site: {0}")]
    ActionOfOtherSite(&'static str),
    /// A watch or a live page that a page of another site may have asked for; why.
    #[error("a watch or a live page may have been asked for by a page of another site: {0}")]
    StreamOfOtherSite(&'static str),
}

impl Display for NotPermitted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = &self.origin;
        match &self.user {
            Some(user) => write!(out, "user {} has no access by the rules at {origin}", Quoted(user)),
            None if self.lacks_address => write!(
                out,
                "this client has no access by the rules at {origin}: nobody knows its address, because it came over a unix socket, or by a \
                 proxy that does not name it (trusted_proxies, X-Forwarded-For)"
            ),
            None => write!(out, "this client has no access by the rules at {origin}"),
        }
    }
}
