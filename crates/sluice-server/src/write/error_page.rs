//! The one place where a fault becomes a response.
//!
//! A short page: the status, a sentence for whoever sees it, and the exchange's id to look up in the log. What happened
//! in detail stays in the log; it may name files and processes.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use crate::exchange::UniqueId;
use crate::fault::Fault;
use crate::write::body::ResponseBody;
use crate::write::head;

/// The response to a request that failed.
pub(crate) fn response(fault: &Fault, id: UniqueId) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(page(fault.status, id).into()));
    *response.status_mut() = fault.status;
    let fields = response.headers_mut();
    fields.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    if let Some(wait) = fault.retry_after {
        fields.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    if let Some(methods) = fault.allow {
        fields.insert(header::ALLOW, head::allow(methods));
    }
    if let Some(length) = fault.length
        && let Ok(value) = HeaderValue::try_from(format!("bytes */{length}"))
    {
        fields.insert(header::CONTENT_RANGE, value);
    }
    response
}

/// A whole HTTP/1.1 response for a connection that hyper has given up; the connection is closed after it.
pub(crate) fn raw(status: StatusCode, id: UniqueId) -> Vec<u8> {
    let page = page(status, id);
    let mut bytes = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nserver: {}\r\ndate: {}\r\nconnection: close\r\n\r\n",
        status.as_str(),
        reason(status),
        page.len(),
        head::SERVER_SOFTWARE,
        httpdate::fmt_http_date(std::time::SystemTime::now()),
    )
    .into_bytes();
    bytes.extend_from_slice(&page);
    bytes
}

fn page(status: StatusCode, id: UniqueId) -> Bytes {
    let (code, reason) = (status.as_str(), reason(status));
    let sentence = sentence(status);
    Bytes::from(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{code} {reason}</title>\
         <style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem;color:#222}}\
         h1{{font-size:1.6rem}}small{{color:#666}}@media(prefers-color-scheme:dark){{body{{background:#181818;color:#ddd}}\
         small{{color:#999}}}}</style></head>\n<body><h1>{code} {reason}</h1>\n<p>{sentence}</p>\n\
         <p><small>Request {id}</small></p></body></html>\n"
    ))
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// What a visitor can understand and do.
fn sentence(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "The server could not understand this request.",
        StatusCode::FORBIDDEN => "This may not be fetched.",
        StatusCode::NOT_FOUND => "There is nothing at this address.",
        StatusCode::METHOD_NOT_ALLOWED => "This address does not take requests of this kind.",
        StatusCode::REQUEST_TIMEOUT => "The request took too long to arrive.",
        StatusCode::PRECONDITION_FAILED => "What is at this address is not the version that was asked for.",
        StatusCode::RANGE_NOT_SATISFIABLE => "What is at this address is shorter than the part that was asked for.",
        StatusCode::PAYLOAD_TOO_LARGE => "The request is larger than this server takes.",
        StatusCode::BAD_GATEWAY => "The program behind this address gave no usable answer.",
        StatusCode::SERVICE_UNAVAILABLE => "The program behind this address is busy; please try again in a moment.",
        StatusCode::GATEWAY_TIMEOUT => "The program behind this address did not answer in time.",
        status if status.is_server_error() => "The server failed; its log says why.",
        _ => "The request was refused.",
    }
}
