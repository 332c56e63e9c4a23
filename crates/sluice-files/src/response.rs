//! The response with a file: 200, 206, 304, 412 or 416, and its header fields.
//!
//! Not here: finding the file (`lookup`), and, in sluice-http, evaluating conditions (`conditions`), selecting ranges
//! (`ranges`) and joining several parts in one body (`multipart`).

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sluice_http::body::{ResponseBody, Source};
use sluice_http::conditions;
use sluice_http::conditions::Evaluation;
use sluice_http::fault::{ClientFault, Fault, RangeMismatch};
use sluice_http::head;
use sluice_http::multipart::{Boundary, Multipart};
use sluice_http::ranges;
use sluice_http::ranges::Selection;
use sluice_settings::Precompressed;
use sluice_watch::Subject;

use crate::file_events::{note, response_text};
use crate::found::{Found, Stored, not_found};
use crate::open_files::Sent;
use crate::records::body::RecordBody;
use crate::representation::{Coding, Representation};

/// The methods of files and directories.
pub(crate) const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS];

/// Room for the fields of a head, including those that the server and routes add.
const HEAD_FIELDS: usize = 10;

/// The value of Vary for a file with variants (RFC 9110 §12.5.5).
const VARY: HeaderValue = HeaderValue::from_static("accept-encoding");

/// A file in the representation that was selected for a request (RFC 9110 §12).
pub struct Selected {
    pub(crate) found: Found,
    /// The variants that the route offers, if any: they decide about the field Vary.
    pub(crate) precompressed: Option<Precompressed>,
    /// With what WATCH is shown what is sent.
    pub(crate) subject: Subject,
}

impl Selected {
    /// The response to GET or HEAD: 200, 206 or 304. `path` names the file in messages.
    ///
    /// # Errors
    /// The client's fault: a condition fails (412), or no byte is in its ranges (416).
    pub fn respond(self, path: &str, method: &Method, fields: &HeaderMap) -> Result<Response<ResponseBody>, Fault> {
        if self.subject.is_none() {
            return self.respond_found(path, method, fields);
        }
        let subject = self.subject.clone();
        let response = self.respond_found(path, method, fields);
        note(&subject, || response_text(&response));
        response
    }

    fn respond_found(self, path: &str, method: &Method, fields: &HeaderMap) -> Result<Response<ResponseBody>, Fault> {
        let offer = |mut representation: Representation| {
            representation.has_variants &= self.precompressed.is_some();
            representation
        };
        match self.found {
            Found::Cached(cached) => {
                let stored = Stored::Memory(cached.content.clone());
                respond_stored(path, offer(cached.representation.clone()), stored, method, fields)
            }
            Found::File(representation, body) => {
                respond_stored(path, offer(*representation), Stored::File(*body), method, fields)
            }
            Found::Records(representation, body) => respond_lines(path, offer(*representation), *body, fields),
            Found::Precompressed(variant) => {
                let (representation, stored) = *variant;
                respond_stored(path, representation, stored, method, fields)
            }
            Found::NotModified(representation) => Ok(not_modified(&representation)),
            Found::Directory | Found::Other => Err(not_found(path)),
        }
    }
}

/// The response to OPTIONS for a file or directory: its methods. Conditions and ranges have no meaning here (RFC 9110 §13.2.1,
/// §14.2).
#[must_use]
pub fn respond_options() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, head::allow(METHODS));
    response
}

/// The response to GET or HEAD with these bytes.
pub(crate) fn respond_stored(
    name: &str,
    representation: Representation,
    stored: Stored,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    if let Some(response) = check_conditions(name, &representation, fields)? {
        return Ok(response);
    }
    if *method == Method::HEAD {
        return Ok(respond_with(StatusCode::OK, representation, stored.into_part()));
    }
    send(name, representation, stored, fields)
}

/// The response with lines that are made while they are sent. Their length is not known, so there are no ranges of them.
fn respond_lines(
    name: &str,
    representation: Representation,
    lines: RecordBody,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    if let Some(response) = check_conditions(name, &representation, fields)? {
        return Ok(response);
    }
    let body = ResponseBody::Source(Box::new(Sent::new(lines)?));
    let mut response = respond_with(StatusCode::OK, representation, body);
    response.headers_mut().remove(header::ACCEPT_RANGES);
    Ok(response)
}

/// Evaluates the conditions of a request: `None` if it is to be carried out, otherwise the response 304.
///
/// # Errors
/// The client wants another version of the file (412).
fn check_conditions(
    name: &str,
    representation: &Representation,
    fields: &HeaderMap,
) -> Result<Option<Response<ResponseBody>>, Fault> {
    match conditions::evaluate(fields, &representation.validators) {
        Evaluation::Perform => Ok(None),
        Evaluation::NotModified => Ok(Some(not_modified(representation))),
        Evaluation::Failed => Err(ClientFault::PreconditionFailed(name.into()).into()),
    }
}

/// The response to GET, the only method with ranges (RFC 9110 §14.2): the file or parts of it.
fn send(
    name: &str,
    mut representation: Representation,
    stored: Stored,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    let length = stored.length();
    let selection = if conditions::is_same_version(fields, &representation.validators) {
        ranges::select(fields, length)
    } else {
        Selection::Whole
    };
    match selection {
        Selection::Whole => Ok(respond_with(StatusCode::OK, representation, stored.read_small()?)),
        // Of a variant as a whole, because clients disagree on whether Content-Encoding is about the parts or about multipart.
        Selection::Parts(_) if representation.coding != Coding::Identity => {
            Ok(respond_with(StatusCode::OK, representation, stored.read_small()?))
        }
        Selection::Part(range) => {
            let body = stored.slice(&range).read_small()?;
            let mut response = respond_with(StatusCode::PARTIAL_CONTENT, representation, body);
            let content_range = ranges::content_range(&range, length);
            response.headers_mut().insert(header::CONTENT_RANGE, content_range);
            Ok(response)
        }
        Selection::Parts(ranges) => {
            let boundary = Boundary::draw()?;
            let bodies = ranges.iter().map(|range| stored.slice(range).into_part());
            let parts = ranges.iter().zip(bodies);
            let body = Multipart::new(&boundary, &representation.content_type, length, parts);
            representation.content_type = boundary.content_type();
            let body: Box<dyn Source> = match stored {
                Stored::Memory(_) => Box::new(body),
                Stored::File(_) => Box::new(Sent::new(body)?),
            };
            let body = ResponseBody::Source(body);
            Ok(respond_with(StatusCode::PARTIAL_CONTENT, representation, body))
        }
        Selection::Nothing => {
            let name = name.into();
            Err(ClientFault::RangeNotSatisfiable(Box::new(RangeMismatch { name, length })).into())
        }
    }
}

/// A response with a body and all metadata of the representation. A part has them too, also after If-Range where fewer
/// fields would do (RFC 9110 §15.3.7), because media players take the type from the part that they have.
fn respond_with(status: StatusCode, representation: Representation, body: ResponseBody) -> Response<ResponseBody> {
    let Representation {
        validators,
        content_type,
        coding,
        has_variants,
        ..
    } = representation;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let head = response.headers_mut();
    // Once, because the map would otherwise grow when the server adds its fields.
    head.reserve(HEAD_FIELDS);
    head.insert(header::ETAG, validators.etag);
    head.insert(header::LAST_MODIFIED, validators.last_modified);
    // There are no ranges of what the server compresses, because it may compress it to other bytes the next time.
    if !matches!(coding, Coding::OnDemand(_)) {
        head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    head.insert(header::CONTENT_TYPE, content_type);
    if let Some(encoding) = coding.encoding() {
        head.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.token()));
    }
    if has_variants {
        head.insert(header::VARY, VARY);
    }
    response
}

/// The response 304, with the fields that identify the client's or cache's copy (RFC 9110 §15.4.5); a date is not needed
/// besides a tag.
fn not_modified(representation: &Representation) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    let head = response.headers_mut();
    head.insert(header::ETAG, representation.validators.etag.clone());
    if representation.has_variants {
        head.insert(header::VARY, VARY);
    }
    response
}
