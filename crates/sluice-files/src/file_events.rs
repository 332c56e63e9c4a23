//! The events of files that WATCH shows (item `cache`), as texts for the tracer of their exchange.

use http::{Response, StatusCode, header};
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_watch::{Item, Tracer};

const MODULE: &str = "files";

/// The tracer for the events after the lookup; none if nobody wants them, because a clone would be made for each file.
pub(crate) fn for_response(tracer: &Tracer) -> Tracer {
    match tracer.wants(Item::Cache) {
        true => tracer.clone(),
        false => Tracer::NONE,
    }
}

pub(crate) fn note(tracer: &Tracer, text: impl FnOnce() -> String) {
    tracer.note(Item::Cache, MODULE, text);
}

/// The text about the response for a file: the part that is sent, and why not all of it.
pub(crate) fn response_text(response: &Result<Response<ResponseBody>, Fault>) -> String {
    let response = match response {
        Ok(response) => response,
        Err(fault) => return format!("not sent: {fault}"),
    };
    let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let length = || match response.body().length() {
        Some(bytes) => format!("{bytes} bytes"),
        None => "a body of unknown length".to_owned(),
    };
    let tag = field(header::ETAG).unwrap_or("none");
    let mut text = match response.status() {
        StatusCode::NOT_MODIFIED => format!("not modified: the client has this version, entity tag {tag}"),
        StatusCode::PARTIAL_CONTENT => match field(header::CONTENT_RANGE) {
            Some(range) => format!("a range: {range}"),
            None => format!("several ranges, {}", length()),
        },
        _ => format!("the whole file, {}, entity tag {tag}", length()),
    };
    if let Some(coding) = field(header::CONTENT_ENCODING) {
        text.push_str(", as the variant ");
        text.push_str(coding);
    }
    text
}
