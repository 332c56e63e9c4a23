//! Scripts: from a route's match to a response. Finds the program, runs it in its mode, and turns the head of its reply into
//! the head of a response; the reply's body follows by itself (`script::output`).

use http::{HeaderValue, Method, Response, StatusCode, header};
use sluice_gateway::{Reply, ReplyHead};

use crate::fault::Fault;
use crate::script::job::Job;
use crate::script::output::Session;
use crate::script::request_body::RequestBody;
use crate::script::{cgi, cgiplus};
use crate::settings::Mode;
use crate::write::body::{ResponseBody, Source};
use crate::write::head::may_have_body;

/// What a script's reply amounts to.
pub(crate) enum Outcome {
    Response(Response<ResponseBody>),
    /// Serve this path and query instead (RFC 3875 §6.2.2).
    LocalRedirect(String),
}

/// Runs a script. The fault is the script's (502, 503, 504), the client's (its body), or the server's.
pub(crate) async fn serve(job: Box<Job>, body: RequestBody) -> Result<Outcome, Fault> {
    let grace = job.settings().client_grace;
    let method = job.method.clone();
    let (session, reply) = match job.settings().mode {
        Mode::Cgi => cgi::run(job, body).await?,
        Mode::Cgiplus => cgiplus::run(job, body).await?,
    };
    match reply {
        Reply::Document(head) | Reply::ClientRedirect(head) | Reply::NonParsed(head) => {
            respond(session, head, &method).map(Outcome::Response)
        }
        Reply::LocalRedirect(target) => {
            session.abandon(grace);
            Ok(Outcome::LocalRedirect(target))
        }
    }
}

fn respond(mut session: Box<Session>, mut head: ReplyHead, method: &Method) -> Result<Response<ResponseBody>, Fault> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Fault::script(
            "the script wants to switch protocols, which is not served",
        ));
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
        if let (Some(bytes), &Method::HEAD) = (head.content_length, method) {
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        }
        session.begin_unwanted_body(head.status);
        session.discard();
        return Ok(response);
    }
    *response.body_mut() = match session.gather() {
        Some(whole) => ResponseBody::Whole(whole.into()),
        None => ResponseBody::Source(session),
    };
    Ok(response)
}
