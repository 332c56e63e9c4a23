//! The response with a file: 200, 206, 304, 412 or 416, and its header fields.
//!
//! Conditions, ranges and bodies of several parts are those of sluice-http (`conditions`, `ranges`, `multipart`).

use http::{HeaderMap, HeaderName, Method, Response, StatusCode, header};
use sluice_http::body::{ResponseBody, Source};
use sluice_http::conditions;
use sluice_http::conditions::Evaluation;
use sluice_http::fault::{ClientFault, Fault, RangeMismatch};
use sluice_http::head;
use sluice_http::multipart::{Boundary, Multipart};
use sluice_http::ranges;
use sluice_http::ranges::Selection;
use sluice_settings::Precompressed;
use sluice_watch::Tracer;

use crate::cache::entry::Cached;
use crate::cache_work::{CacheWork, PendingVariant};
use crate::file_events::{note, response_text};
use crate::found::{Found, Stored, not_found};
use crate::open_files::Sent;
use crate::records::body::RecordBody;
use crate::representation::{Coding, Representation, VARY};

pub(crate) const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::OPTIONS];

/// A file in the representation that was selected for a request (RFC 9110 §12).
pub struct Selected {
    pub(crate) found: Found,
    /// The work of the cache, which is done when the file is sent.
    pub(crate) work: Option<Box<CacheWork>>,
    /// The variants that the route offers, if any: they decide about the field Vary.
    pub(crate) precompressed: Option<Precompressed>,
    pub(crate) tracer: Tracer,
}

impl Selected {
    /// Whether the request will wait for a variant that is compressed for it.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let compression = self.work.as_ref().and_then(|work| work.compression.as_ref());
        compression.is_some_and(|compression| compression.is_awaited())
    }

    /// The response to GET or HEAD: 200, 206 or 304. Has the cache do its work, if the file is sent. `path` names the file in messages.
    ///
    /// # Errors
    /// The client's fault: a condition fails (412), or no byte is in its ranges (416). The server's: a small record file is malformed. The inner
    /// error is a variant that is being compressed, for which the request waits.
    pub fn respond(
        self,
        path: &str,
        method: &Method,
        fields: &HeaderMap,
    ) -> Result<Result<Response<ResponseBody>, Box<PendingVariant>>, Fault> {
        if !self.has_work() {
            return self.send(path, method, fields).map(Ok);
        }
        match self.do_work(fields)? {
            Ok(selected) => selected.send(path, method, fields).map(Ok),
            Err(pending) => Ok(Err(pending)),
        }
    }

    /// The response, once the cache has done its work.
    pub(crate) fn send(self, path: &str, method: &Method, fields: &HeaderMap) -> Result<Response<ResponseBody>, Fault> {
        if self.tracer.is_none() {
            return self.respond_found(path, method, fields);
        }
        let tracer = self.tracer.clone();
        let response = self.respond_found(path, method, fields);
        note(&tracer, || response_text(&response));
        response
    }

    fn respond_found(self, path: &str, method: &Method, fields: &HeaderMap) -> Result<Response<ResponseBody>, Fault> {
        let offer = |mut representation: Representation| {
            representation.has_variants &= self.precompressed.is_some();
            representation
        };
        match self.found {
            Found::Cached(cached) => {
                if let Some(response) = respond_whole(&cached, self.precompressed, fields) {
                    return Ok(response);
                }
                let stored = Stored::Memory(cached.content.clone());
                respond_stored(path, offer(cached.representation.clone()), stored, method, fields)
            }
            Found::File(file) => {
                let stored = Stored::File(file.body);
                respond_stored(path, offer(file.representation), stored, method, fields)
            }
            Found::Records(file) => {
                let (representation, lines) = file.into_lines();
                respond_lines(path, offer(representation), lines, fields)
            }
            Found::Precompressed(variant) => {
                let (representation, stored) = *variant;
                respond_stored(path, representation, stored, method, fields)
            }
            Found::NotModified(representation) => Ok(not_modified(&representation)),
            Found::Directory | Found::Other => Err(not_found(path)),
        }
    }
}

/// The response to OPTIONS for a file or directory: its methods. Conditions and ranges have no meaning here (RFC 9110 §13.2.1, §14.2).
#[must_use]
pub fn respond_options() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, head::allow(METHODS));
    response
}

/// The response to GET or HEAD with a cached file, whose head is copied as a whole; `None` if the request or the route may need another one.
fn respond_whole(
    cached: &Cached,
    precompressed: Option<Precompressed>,
    fields: &HeaderMap,
) -> Option<Response<ResponseBody>> {
    let has_head = precompressed.is_some() || !cached.representation.has_variants;
    if !has_head || fields.keys().any(asks_for_less) {
        return None;
    }
    // The head of a response of no bytes has its length.
    let body = match cached.content.len() {
        0 => ResponseBody::Empty,
        _ => ResponseBody::Whole(cached.content.clone()),
    };
    let mut response = Response::new(body);
    *response.headers_mut() = cached.head.clone();
    Some(response)
}

/// Whether a field of a request may have it answered with another status, or with a part of the file (RFC 9110 §13, §14).
fn asks_for_less(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::IF_MATCH
            | header::IF_NONE_MATCH
            | header::IF_MODIFIED_SINCE
            | header::IF_UNMODIFIED_SINCE
            | header::IF_RANGE
            | header::RANGE
    )
}

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
    let whole = |representation, stored: Stored| Ok(respond_with(StatusCode::OK, representation, stored.read_small()?));
    match selection {
        // Clients disagree on whether Content-Encoding is about the parts or about multipart, so a variant is sent as a whole.
        Selection::Parts(_) if representation.coding != Coding::Identity => whole(representation, stored),
        Selection::Whole => whole(representation, stored),
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
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = representation.into_head();
    response
}

/// The response 304, with the fields that identify the client's or cache's copy (RFC 9110 §15.4.5); a date is not needed besides a tag.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use http::HeaderValue;
    use sluice_http::body::Content;
    use sluice_http::encoding::Encoding;
    use sluice_settings::FileSettings;

    use super::*;
    use crate::types::Types;

    /// The response of the general path to a request, with the fields of every response.
    fn general(
        cached: &Cached,
        offered: Option<Precompressed>,
        method: &Method,
        fields: &HeaderMap,
    ) -> Response<ResponseBody> {
        let mut representation = cached.representation.clone();
        representation.has_variants &= offered.is_some();
        let stored = Stored::Memory(cached.content.clone());
        head::complete(
            method,
            respond_stored("f", representation, stored, method, fields).unwrap(),
        )
    }

    fn shown(response: &Response<ResponseBody>) -> String {
        let body = match response.body() {
            ResponseBody::Empty => "empty".to_owned(),
            ResponseBody::Whole(content) => format!("{} bytes", content.len()),
            ResponseBody::Source(source) => format!("a source of {:?} bytes", source.length()),
        };
        // In the order in which they are sent.
        format!("{} {:?} {body}", response.status(), response.headers())
    }

    #[test]
    fn responses_with_a_copied_head_are_those_of_the_general_path() {
        let root = tempfile::tempdir().unwrap();
        for bytes in [0, 5, 20_000] {
            let path = root.path().join(bytes.to_string());
            fs::write(&path, "x".repeat(bytes)).unwrap();
            let plain = Representation::of(
                Types::new(&FileSettings::default()).of("a.txt"),
                &fs::metadata(&path).unwrap(),
            );
            let mut varied = plain.clone();
            varied.has_variants = true;
            let compressed = varied.on_demand(Encoding::Gzip);
            for representation in [plain, varied, compressed] {
                let content = Content::from(bytes::Bytes::from(fs::read(&path).unwrap()));
                let cached = Arc::new(Cached::new(
                    representation,
                    content,
                    crate::cache::entry::FileVersion::of(&fs::metadata(&path).unwrap()),
                ));
                let tag = cached.representation.validators.etag.clone();
                for (offered, method, fields) in cases(&tag) {
                    let expected = shown(&general(&cached, offered, &method, &fields));
                    let selected = Selected {
                        found: Found::Cached(Arc::clone(&cached)),
                        work: None,
                        precompressed: offered,
                        tracer: Tracer::NONE,
                    };
                    let response = selected.respond("f", &method, &fields).unwrap().ok().unwrap();
                    assert_eq!(
                        shown(&head::complete(&method, response)),
                        expected,
                        "{offered:?} {method} {fields:?}"
                    );
                }
            }
        }
    }

    fn cases(tag: &HeaderValue) -> Vec<(Option<Precompressed>, Method, HeaderMap)> {
        let day = HeaderValue::from_static("Sat, 21 Nov 2099 00:00:00 GMT");
        let of = |name: HeaderName, value: &HeaderValue| HeaderMap::from_iter([(name, value.clone())]);
        let requests = [
            HeaderMap::new(),
            of(header::ACCEPT, &HeaderValue::from_static("*/*")),
            of(header::IF_NONE_MATCH, tag),
            of(header::IF_NONE_MATCH, &HeaderValue::from_static("\"other\"")),
            of(header::IF_MATCH, &HeaderValue::from_static("*")),
            of(header::IF_MODIFIED_SINCE, &day),
            of(header::IF_UNMODIFIED_SINCE, &day),
            of(header::IF_RANGE, tag),
            of(header::RANGE, &HeaderValue::from_static("bytes=-1")),
        ];
        let mut cases = Vec::new();
        for fields in requests {
            for offered in [None, Some(Precompressed::OnDemand)] {
                for method in [Method::GET, Method::HEAD] {
                    cases.push((offered, method, fields.clone()));
                }
            }
        }
        cases
    }
}
