//! Scripts: from a route's match to a response. Finds the program, runs it in its mode, and turns the head of its reply into
//! the head of a response; the reply's body follows by itself (`script::output`), compressed where the route allows it
//! (`reply_encoding`).

use std::io;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use sluice_gateway::{Reply, ReplyHead, SEND_FILE_FIELDS};
use sluice_http::body::{ResponseBody, Source};
use sluice_http::encoding::Encoding;
use sluice_http::encoding::body::{EncodedBody, TURN_BYTES_MAX};
use sluice_http::encoding::encoder::{Effort, encode};
use sluice_http::fault::{Activity, Fault, ScriptFault, ServerFault};
use sluice_http::head::may_have_body;
use sluice_settings::Mode;

use crate::job::Job;
use crate::reply_encoding::Offer;
use crate::request_body::RequestBody;
use crate::session::Session;
use crate::{cgi, cgiplus};

/// A script to run for a request.
pub struct Task {
    pub job: Box<Job>,
    pub body: RequestBody,
}

/// What a script's reply amounts to.
pub enum Outcome {
    Response(Response<ResponseBody>),
    /// Serve this path and query instead (RFC 3875 §6.2.2).
    LocalRedirect(String),
    /// Send the file that the head names instead of a body.
    SendFile(SendFileReply),
}

/// A reply that names a file to send. The script waits for the answer: `accept`, or a drop, after which it is stopped as after
/// a fault.
pub struct SendFileReply {
    pub head: ReplyHead,
    session: Box<Session>,
}

impl SendFileReply {
    /// The server sends the file: the script may finish in the background.
    pub fn accept(self, status: StatusCode) {
        let SendFileReply { mut session, .. } = self;
        session.begin_unwanted_body(status);
        session.abandon();
    }
}

/// Runs a script. The fault is the script's (502, 503, 504), the client's (its body), or the server's.
pub async fn serve(task: Task) -> Result<Outcome, Fault> {
    let Task { job, body } = task;
    let method = job.method.clone();
    let compression = job.compression.as_ref();
    let offer = compression.map(|compression| Offer::new(compression, &job.fields));
    let (session, reply) = match job.settings().mode {
        Mode::Cgi => cgi::run(job, body).await?,
        Mode::Cgiplus => cgiplus::run(job, body).await?,
    };
    let (mut head, offer) = match reply {
        Reply::Document(head) | Reply::ClientRedirect(head) => (head, offer),
        Reply::NonParsed(head) => (head, None),
        Reply::LocalRedirect(target) => {
            session.abandon();
            return Ok(Outcome::LocalRedirect(target));
        }
    };
    if names_file(&head) {
        return Ok(Outcome::SendFile(SendFileReply { head, session }));
    }
    let encoding = offer.and_then(|offer| offer.take_up(&mut head));
    respond(session, head, &method, encoding).map(Outcome::Response)
}

/// Whether a reply names a file to send instead of a body.
fn names_file(head: &ReplyHead) -> bool {
    SEND_FILE_FIELDS.iter().any(|name| head.fields.contains_key(name))
}

/// The head of the response; `encoding` is how its body is to be compressed, which the reply's head says already.
fn respond(
    mut session: Box<Session>,
    mut head: ReplyHead,
    method: &Method,
    encoding: Option<Encoding>,
) -> Result<Response<ResponseBody>, Fault> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(ScriptFault::SwitchesProtocols.into());
    }
    let has_body = may_have_body(method, head.status);
    if has_body {
        session.begin_body(&head);
    }
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = head.status;
    *response.headers_mut() = std::mem::take(&mut head.fields);
    // RFC 9110 §6.6.1: the server's own clock, not the script's.
    response.headers_mut().remove(header::DATE);
    if !has_body {
        // The script may know that and send no body, or not know it (RFC 3875 §4.3.3): what it announces is not what comes.
        if let (Some(bytes), &Method::HEAD, None) = (head.content_length, method, encoding) {
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        }
        session.begin_unwanted_body(head.status);
        session.discard();
        return Ok(response);
    }
    *response.body_mut() = body(session, encoding).map_err(|error| ServerFault::io(Activity::Compression, error))?;
    Ok(response)
}

/// What is all here is sent in one chunk, with its length, unless it would take too long to compress so much in one turn.
fn body(mut session: Box<Session>, encoding: Option<Encoding>) -> io::Result<ResponseBody> {
    Ok(match (session.gather(), encoding) {
        (Some(whole), None) => ResponseBody::Whole(whole.into()),
        (Some(whole), Some(encoding)) if whole.len() > TURN_BYTES_MAX => {
            ResponseBody::Source(Box::new(EncodedBody::from_whole(encoding, whole)?))
        }
        (Some(whole), Some(encoding)) => {
            let encoded = encode(encoding, Effort::Passing, &whole)?;
            ResponseBody::Whole(Bytes::from(encoded).into())
        }
        (None, None) => ResponseBody::Source(session),
        (None, Some(encoding)) => ResponseBody::Source(Box::new(EncodedBody::from_source(encoding, session)?)),
    })
}
