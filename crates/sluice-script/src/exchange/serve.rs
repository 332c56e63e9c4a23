//! The entry of this crate: runs a script in its mode, and makes a response of its reply.
//!
//! The body follows by itself (`conversation::body`), compressed if the route allows it (`sluice_http::encoding::reply`).

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sluice_gateway::{ErrorRequest, Reply, ReplyHead};
use sluice_http::body::{ResponseBody, Source};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::body::{EncodedBody, TURN_BYTES_MAX};
use sluice_http::encoding::encoder::{Effort, encode};
use sluice_http::fault::{Activity, Fault, ScriptFault, ServerFault};
use sluice_http::head::may_have_body;
use sluice_settings::Mode;

use crate::exchange::{Conversation, Job};
use crate::exchange::{cgi, cgiplus};
use crate::process::RequestedError;
use sluice_http::encoding::reply::{AcceptedEncodings, ReplyToEncode};
use sluice_http::request_body::RequestBody;

/// The result of a script's reply.
pub enum ScriptAnswer {
    /// A response with its body.
    Response(Response<ResponseBody>),
    /// The path and query to serve instead (RFC 3875 §6.2.2).
    LocalRedirect(String),
    /// A reply whose head names a file to send instead of a body.
    SendFile(SendFileReply),
}

/// A reply that names a file to send. `accept` lets the script finish; a drop ends the exchange as if the client had disconnected.
pub struct SendFileReply {
    /// The head of the reply.
    pub head: ReplyHead,
    conversation: Box<Conversation>,
}

impl SendFileReply {
    /// The server sends the file: the script may finish in the background.
    pub fn accept(self) {
        let SendFileReply { head, mut conversation } = self;
        conversation.begin_unwanted_body(head.status);
        conversation.abandon();
    }
}

/// Runs a script. The fault is the script's (502, 503, 504), the client's (its body), or the server's.
pub async fn serve(job: Rc<Job>, body: RequestBody) -> Result<ScriptAnswer, Fault> {
    let method = job.request.method.clone();
    let compression = job.compression.clone();
    let accepted = compression.as_deref().map(|compression| {
        let accepted = AcceptedEncodings::new(compression.rank(&job.request.fields), compression.least_bytes);
        (compression, accepted)
    });
    // The only match on the mode in this crate.
    let (conversation, reply) = match job.settings().mode {
        // Boxed: the future of a request for a kept process stays small.
        Mode::Cgi => Box::pin(cgi::run(job, body)).await?,
        Mode::Cgiplus | Mode::Rte => cgiplus::run(job, body).await?,
    };
    let (mut head, accepted) = match reply {
        Reply::Document(head) | Reply::ClientRedirect(head) => (head, accepted),
        Reply::NonParsed(head) => (head, None),
        Reply::LocalRedirect(target) => {
            conversation.abandon();
            return Ok(ScriptAnswer::LocalRedirect(target));
        }
    };
    if let Some(error) = head.control.error.take() {
        return Err(request_error(conversation, &head, *error));
    }
    if head.names_file {
        return Ok(ScriptAnswer::SendFile(SendFileReply { head, conversation }));
    }
    let accepted = accepted.filter(|_| head.control.compresses != Some(false));
    let encoding = accepted.and_then(|(compression, accepted)| {
        let mut reply = ReplyToEncode {
            status: head.status,
            fields: &mut head.fields,
            content_length: head.content_length,
            is_requested: head.control.compresses == Some(true),
        };
        accepted.apply(&mut reply, |kind| compression.is_for(kind))
    });
    respond(conversation, head, &method, encoding)
        .await
        .map(ScriptAnswer::Response)
}

/// The fault that makes the error page that a script has asked for; the script may finish in the background.
fn request_error(mut conversation: Box<Conversation>, head: &ReplyHead, error: ErrorRequest) -> Fault {
    let is_error = |status: &StatusCode| status.is_client_error() || status.is_server_error();
    let status = Some(head.status)
        .filter(is_error)
        .unwrap_or_else(|| error.default_status());
    let process = conversation.relay().map(|relay| relay.process.describe());
    let fault = RequestedError { process, status, error }.into();
    conversation.begin_unwanted_body(status);
    conversation.abandon();
    fault
}

/// Media types whose clients act on the head before there is a body: an `EventSource`, or `fetch` that reads the body as it comes.
const STREAMS: [&str; 9] = [
    "text/event-stream",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/jsonlines",
    "application/x-jsonlines",
    "application/json-seq",
    "application/stream+json",
    "application/grpc",
];

/// Whether the body is a stream, by its media type. All types of `multipart` are (`multipart/x-mixed-replace`).
fn is_stream(fields: &HeaderMap) -> bool {
    let Some(kind) = fields.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let kind = kind.split([';', ' ', '\t']).next().unwrap_or_default();
    let (main, _) = kind.split_once('/').unwrap_or_default();
    main.eq_ignore_ascii_case("multipart") || STREAMS.iter().any(|stream| kind.eq_ignore_ascii_case(stream))
}

/// The response. `encoding` compresses its body; the head of the reply names it already.
async fn respond(
    mut conversation: Box<Conversation>,
    mut head: ReplyHead,
    method: &Method,
    encoding: Option<Encoding>,
) -> Result<Response<ResponseBody>, Fault> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(ScriptFault::SwitchesProtocols.into());
    }
    let has_body = may_have_body(method, head.status);
    if has_body {
        conversation.begin_body(&head);
    }
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = head.status;
    *response.headers_mut() = std::mem::take(&mut head.fields);
    // RFC 9110 §6.6.1: the server's own clock, not the script's.
    response.headers_mut().remove(header::DATE);
    if !has_body {
        // RFC 3875 §4.3.3: a script may write a body in spite of HEAD. The length that it announces is that of GET.
        if let (Some(bytes), &Method::HEAD, None) = (head.content_length, method, encoding) {
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        }
        conversation.begin_unwanted_body(head.status);
        conversation.discard();
        return Ok(response);
    }
    let whole = match conversation.collect_whole()? {
        None if !is_stream(response.headers()) => conversation.wait_for_body().await?,
        whole => whole,
    };
    if let Some(fault) = conversation.failure().await {
        return Err(fault);
    }
    *response.body_mut() =
        body(conversation, whole, encoding).map_err(|error| ServerFault::io(Activity::Compression, error))?;
    Ok(response)
}

/// The body of the response. If all of it is here (`whole`) it is one chunk with its length, unless it is too long to compress in one
/// turn of the event loop. It may be in an output region, whose bytes the script can still change, so the encoder gets a copy.
fn body(conversation: Box<Conversation>, whole: Option<Bytes>, encoding: Option<Encoding>) -> io::Result<ResponseBody> {
    Ok(match (whole, encoding) {
        (Some(whole), None) => ResponseBody::Whole(whole.into()),
        (Some(whole), Some(encoding)) if whole.len() > TURN_BYTES_MAX => {
            ResponseBody::Source(Box::new(EncodedBody::from_whole(encoding, whole)?))
        }
        (Some(whole), Some(encoding)) => {
            let copy = whole.to_vec();
            let encoded = encode(encoding, Effort::Passing, &copy)?;
            ResponseBody::Whole(Bytes::from(encoded).into())
        }
        (None, None) => ResponseBody::Source(conversation),
        (None, Some(encoding)) => ResponseBody::Source(Box::new(EncodedBody::from_source(encoding, conversation)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_known_by_their_media_type() {
        let is_stream = |kind: &'static str| {
            let fields = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
            is_stream(&fields.into_iter().collect())
        };
        for kind in [
            "text/event-stream",
            "Text/Event-Stream; charset=utf-8",
            "application/x-ndjson",
            "application/jsonl;charset=utf-8",
            "multipart/x-mixed-replace; boundary=frame",
        ] {
            assert!(is_stream(kind), "{kind}");
        }
        for kind in [
            "",
            "text/plain",
            "text/html; charset=utf-8",
            "application/json",
            "text/event-streams",
        ] {
            assert!(!is_stream(kind), "{kind}");
        }
        assert!(!super::is_stream(&HeaderMap::new()));
    }
}
