//! The values that an error page shows, which are the variables of its template; and the trial of a site's template with a sample.

use std::path::Path;

use http::StatusCode;
use serde::Serialize;
use sluice_http::request_id::UniqueId;

use crate::template::{Template, TemplateError};

/// The variables of a template. Documented in docs/guides/listings-and-error-pages.md: their names cannot change.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ErrorPage<'a> {
    /// The status code.
    pub status: u16,
    /// The reason phrase: `Not Found`.
    pub phrase: &'static str,
    /// A text for the visitor.
    pub sentence: &'a str,
    /// The log's text; empty if it is not shown, as are the three after it.
    pub detail: &'a str,
    /// The script process; 0 if there was none.
    pub pid: i32,
    /// How it ended.
    pub ended: &'a str,
    /// The last lines of its standard error.
    pub stderr: &'a [String],
    /// The exchange's id.
    pub id: &'a str,
    /// The path as the client sent it.
    pub path: &'a str,
}

/// Parses a site's error page and renders it once with sample values; `path` is its name in messages.
///
/// # Errors
/// The template does not parse or does not render; its author must fix it.
pub fn error_template(path: &Path, text: &str) -> Result<Template, TemplateError> {
    let template = Template::parse(path, text)?;
    let id = UniqueId::new(*b"00000000", 1);
    let page = ErrorPage {
        detail: "file \"a\": not there",
        path: "/a",
        pid: 1,
        ended: "exit code 1",
        stderr: &["a".to_owned()],
        ..ErrorPage::new(StatusCode::NOT_FOUND, &id)
    };
    template.render(page, 0)?;
    Ok(template)
}

impl<'a> ErrorPage<'a> {
    /// The page of a status and of the exchange with this id, without details.
    #[must_use]
    pub fn new(status: StatusCode, id: &'a UniqueId) -> ErrorPage<'a> {
        ErrorPage {
            status: status.as_u16(),
            phrase: reason_phrase(status),
            sentence: sentence(status),
            detail: "",
            pid: 0,
            ended: "",
            stderr: &[],
            id: id.as_str(),
            path: "",
        }
    }
}

/// The reason phrase of a status.
#[must_use]
pub fn reason_phrase(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// The text for the visitor: the problem and, if there is something to do about it, that.
#[must_use]
pub fn sentence(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "The server could not understand this request.",
        StatusCode::UNAUTHORIZED => "This address needs a user name and a password.",
        StatusCode::TOO_MANY_REQUESTS => "Too many attempts; please try again later.",
        StatusCode::FORBIDDEN => "Access to this address is forbidden.",
        StatusCode::NOT_FOUND => "There is nothing at this address.",
        StatusCode::METHOD_NOT_ALLOWED => "This address does not support this request method.",
        StatusCode::REQUEST_TIMEOUT => "The request took too long to arrive.",
        StatusCode::PRECONDITION_FAILED => "The content at this address does not meet the conditions of the request.",
        StatusCode::RANGE_NOT_SATISFIABLE => "The content at this address is shorter than the requested range.",
        StatusCode::MISDIRECTED_REQUEST => "This host is not served on this connection.",
        StatusCode::PAYLOAD_TOO_LARGE => "The request is larger than this server accepts.",
        StatusCode::NOT_IMPLEMENTED => "This server does not support what the request needs.",
        StatusCode::BAD_GATEWAY => "The program behind this address sent no valid response.",
        StatusCode::SERVICE_UNAVAILABLE => "This address is busy; please try again in a moment.",
        StatusCode::INSUFFICIENT_STORAGE => "The server has no room for a request of this size.",
        StatusCode::GATEWAY_TIMEOUT => "The program behind this address did not respond in time.",
        status if status.is_server_error() => "The server failed; the reason is in its log.",
        _ => "The request was refused.",
    }
}
