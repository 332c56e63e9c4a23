//! The response that a file found is sent with.
//!
//! Here: which of 200, 206, 304, 412 and 416 it is, and what it says of the file. Not here: where the file's bytes were found
//! (`file`), what conditions say of it (`conditions`), which parts are wanted (`ranges`), and how several become one body
//! (`multipart`).

use std::ops::Range;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sluice_http::body::{Content, ResponseBody};
use sluice_http::conditions;
use sluice_http::conditions::Evaluation;
use sluice_http::fault::{ClientFault, Fault, RangeMismatch};
use sluice_http::multipart::{Boundary, Multipart};
use sluice_http::ranges;
use sluice_http::ranges::Selection;
use sluice_settings::Precompressed;

use crate::body::FileBody;
use crate::file::{Found, WHOLE_BYTES_MAX, not_found};
use crate::records::RecordBody;
use crate::representation::{Form, Representation};

/// Fields of such a head in the end, and some more for rules.
const HEAD_FIELDS: usize = 10;

/// The field Vary of what has forms (RFC 9110 §12.5.5).
const VARY: HeaderValue = HeaderValue::from_static("accept-encoding");

/// The response to GET or HEAD of what was found; these forms of it are offered, or none.
pub(crate) fn respond(
    name: &str,
    found: Found,
    forms: Option<Precompressed>,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    let offer = |mut representation: Representation| {
        representation.has_forms &= forms.is_some();
        representation
    };
    match found {
        Found::Cached(cached) => {
            let stored = Stored::Memory(cached.content.clone());
            respond_stored(name, offer(cached.representation.clone()), stored, method, fields)
        }
        Found::File(representation, body) => {
            respond_stored(name, offer(representation), Stored::File(body), method, fields)
        }
        Found::Records(representation, body) => respond_lines(name, offer(representation), body, fields),
        Found::Directory | Found::Other => Err(not_found(name)),
    }
}

/// The response to GET or HEAD of bytes that are described so.
pub(crate) fn respond_stored(
    name: &str,
    representation: Representation,
    stored: Stored,
    method: &Method,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    if let Some(response) = judge(name, &representation, fields)? {
        return Ok(response);
    }
    if *method == Method::HEAD {
        return Ok(respond_with(StatusCode::OK, representation, stored.into_body()));
    }
    send(name, representation, stored, fields)
}

/// Lines that are made while they are sent: how many bytes they are is not known, so there are no parts of them.
fn respond_lines(
    name: &str,
    representation: Representation,
    lines: RecordBody,
    fields: &HeaderMap,
) -> Result<Response<ResponseBody>, Fault> {
    if let Some(response) = judge(name, &representation, fields)? {
        return Ok(response);
    }
    let body = ResponseBody::Source(Box::new(lines));
    let mut response = respond_with(StatusCode::OK, representation, body);
    response.headers_mut().remove(header::ACCEPT_RANGES);
    Ok(response)
}

/// The response if the request's conditions do not let it be carried out.
pub(crate) fn judge(
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

/// The file or the parts of it that GET asks for; no other method has ranges (RFC 9110 §14.2).
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
        Selection::Whole => Ok(respond_with(StatusCode::OK, representation, stored.gather())),
        // Content-Encoding would be said of the parts and of what holds them together: clients read it as they like.
        Selection::Parts(_) if representation.form != Form::Plain => {
            Ok(respond_with(StatusCode::OK, representation, stored.gather()))
        }
        Selection::Part(range) => {
            let body = stored.slice(&range).gather();
            let mut response = respond_with(StatusCode::PARTIAL_CONTENT, representation, body);
            let content_range = ranges::content_range(&range, length);
            response.headers_mut().insert(header::CONTENT_RANGE, content_range);
            Ok(response)
        }
        Selection::Parts(ranges) => {
            let boundary = Boundary::draw()?;
            let bodies = ranges.iter().map(|range| stored.slice(range).into_body());
            let parts = ranges.iter().zip(bodies);
            let body = Multipart::new(&boundary, &representation.content_type, length, parts);
            representation.content_type = boundary.content_type();
            let body = ResponseBody::Source(Box::new(body));
            Ok(respond_with(StatusCode::PARTIAL_CONTENT, representation, body))
        }
        Selection::Nothing => {
            let name = name.into();
            Err(ClientFault::RangeNotSatisfiable(Box::new(RangeMismatch { name, length })).into())
        }
    }
}

/// A response with a body, and all that is said of the file. A part says it too, even to who asks by If-Range and might
/// do with less (RFC 9110 §15.3.7): players take the type from the part that they have.
fn respond_with(status: StatusCode, representation: Representation, body: ResponseBody) -> Response<ResponseBody> {
    let Representation {
        validators,
        content_type,
        form,
        has_forms,
        ..
    } = representation;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let head = response.headers_mut();
    // Once: it would else grow while the server adds its own.
    head.reserve(HEAD_FIELDS);
    head.insert(header::ETAG, validators.etag);
    head.insert(header::LAST_MODIFIED, validators.last_modified);
    // Of what the server compresses itself there are no parts: made anew it may be other bytes.
    if !matches!(form, Form::Made(_)) {
        head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    head.insert(header::CONTENT_TYPE, content_type);
    if let Some(encoding) = form.encoding() {
        head.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.token()));
    }
    if has_forms {
        head.insert(header::VARY, VARY);
    }
    response
}

/// As much as a client needs to go on with what it has, and a cache to know whose answer it is (RFC 9110 §15.4.5): beside a
/// tag it needs no date.
pub(crate) fn not_modified(representation: &Representation) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    let head = response.headers_mut();
    head.insert(header::ETAG, representation.validators.etag.clone());
    if representation.has_forms {
        head.insert(header::VARY, VARY);
    }
    response
}

/// Where the bytes of a file are.
pub(crate) enum Stored {
    Memory(Content),
    File(FileBody),
}

impl Stored {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Stored::Memory(content) => content.len() as u64,
            Stored::File(body) => body.left(),
        }
    }

    fn slice(&self, range: &Range<u64>) -> Stored {
        match self {
            Stored::Memory(content) => Stored::Memory(content.slice(range)),
            Stored::File(body) => Stored::File(body.slice(range)),
        }
    }

    /// A body that is read while it is sent.
    fn into_body(self) -> ResponseBody {
        match self {
            Stored::Memory(content) => ResponseBody::Whole(content),
            Stored::File(body) => ResponseBody::Source(Box::new(body)),
        }
    }

    /// A body that is read now, if it is small and nobody need wait for it.
    fn gather(self) -> ResponseBody {
        let small = match &self {
            Stored::File(body) if body.left() <= WHOLE_BYTES_MAX => body.gather(),
            _ => None,
        };
        small.map_or_else(|| self.into_body(), |bytes| ResponseBody::Whole(bytes.into()))
    }
}
