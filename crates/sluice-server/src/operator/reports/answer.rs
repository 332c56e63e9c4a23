//! Responses with reports: their fields, which keep them out of caches and keep anything foreign out of the pages.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_pages::action::Buttons;
use sluice_pages::frame::Frame;
use sluice_pages::view::Report;

use crate::operator::reports::ask::Ask;

/// Only what this server sends for the reports: files of theirs, server-sent events, buttons. Nothing inline, and no frame around a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The fields of every response here. `same-origin` instead of `no-referrer`, with which browsers send no Origin with a form.
const FIELDS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const FILES_KEPT: &str = "private, max-age=300";

pub(super) fn html(ask: &Ask, frame: &Frame<'_>, report: &dyn Report) -> Response<ResponseBody> {
    let token = ask.context.state.visitors.token_of(&ask.visitor);
    let buttons = Buttons { token: &token, page: frame.page.name };
    let page = frame.render(&report.html(&buttons));
    new("text/html; charset=utf-8", page.into())
}

/// The value of a report. Errors: it cannot be JSON, which is a mistake in the server.
pub(super) fn json(report: &dyn Report) -> Result<Response<ResponseBody>, Fault> {
    let value = report.json().and_then(|value| serde_json::to_vec_pretty(&value));
    let mut text = value.map_err(|_| Fault::unexpected("a report is not JSON"))?;
    text.push(b'\n');
    Ok(new("application/json", text.into()))
}

pub(super) fn file(content_type: &'static str, text: &'static str) -> Response<ResponseBody> {
    let mut response = new(content_type, Bytes::from_static(text.as_bytes()));
    let kept = HeaderValue::from_static(FILES_KEPT);
    response.headers_mut().insert(header::CACHE_CONTROL, kept);
    response
}

pub(super) fn new(content_type: &'static str, body: Bytes) -> Response<ResponseBody> {
    with_body(content_type, ResponseBody::Whole(body.into()))
}

pub(super) fn with_body(content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    response
}

pub(super) const NOT_DONE: StatusCode = StatusCode::CONFLICT;
