//! Carrying out an answer that has passed the gate: the response is made here, at once or after a wait.

use std::rc::Rc;
use std::sync::Arc;

use http::{Method, Response};
use sluice_files::listing;
use sluice_files::listing::page::ListingRequest;
use sluice_files::send_file::{SendContext, SendDirectories};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Fault, ScriptFault};
use sluice_script::job::Job;
use sluice_script::request::ScriptRequest;
use sluice_script::request_body::RequestBody;
use sluice_script::serve::{self as script, Outcome, SendFileReply, Task};
use sluice_settings::rule::RequestAttributes;

use crate::dispatch::Site;
use crate::serve::decide::{self, Answer, ScriptAnswer, decide, decide_send_file};
use crate::serve::exchange::Exchange;
use crate::serve::gate::{Gate, Passed};
use crate::serve::request::Request;

/// Local redirects of scripts followed for one request. One that leads back to itself ends here.
const LOCAL_REDIRECTS_MAX: u16 = 10;

/// Decides what answers a request and lets it pass the gate.
///
/// # Errors
/// The fault that the client gets instead.
pub(crate) fn pass(gate: &Gate, exchange: &mut Exchange, request: &mut Request) -> Result<Passed, Fault> {
    let config = Rc::clone(&request.config);
    let site = config.site(&request.host);
    let decision = decide(site, &request.asked(exchange), &mut ());
    gate.pass(exchange, request, site, decision)
}

/// The response of an answer that needs no waiting.
///
/// # Errors
/// The client's: conditions and ranges of its request do not fit the file (412, 416).
pub(crate) fn at_once(request: &Request, passed: Passed) -> Result<Response<ResponseBody>, Fault> {
    respond(request, passed.into_answer())
}

fn respond(request: &Request, answer: Answer) -> Result<Response<ResponseBody>, Fault> {
    match answer {
        Answer::File(selected) => selected.respond(request.path(), &request.method, &request.fields),
        Answer::FileOptions => Ok(sluice_files::file::respond_options()),
        Answer::Redirect(redirect) => Ok(redirect.respond()),
        Answer::ServerOptions => Ok(Response::new(ResponseBody::Empty)),
        Answer::SendFile(file) => {
            let site = request.config.site(&request.host);
            let context = SendContext {
                cache: request.config.cache.as_ref(),
                cache_use: site.cache,
                types: &site.types,
                compression: &site.compression,
            };
            file.serve(&context, &request.method, &request.fields)
        }
        Answer::Refuse(fault) => Err(fault),
        Answer::Variant(_) | Answer::Listing(_) | Answer::Script(_) => {
            Err(Fault::unexpected("an answer that takes time was not waited for"))
        }
    }
}

/// The response of any answer; a script's local redirects are decided on again.
///
/// # Errors
/// Anybody's: the client's body, the script's reply, the server's threads.
pub(crate) async fn in_time(
    gate: &Gate,
    exchange: &mut Exchange,
    request: &mut Request,
    mut passed: Passed,
) -> Result<Response<ResponseBody>, Fault> {
    for _ in 0..=LOCAL_REDIRECTS_MAX {
        let script = match passed.into_answer() {
            Answer::Variant(pending) => return pending.respond(&request.method, &request.fields).await,
            Answer::Listing(listing) => return list(exchange, request, *listing).await,
            Answer::Script(script) => script,
            answer => return respond(request, answer),
        };
        let (task, directories) = task(exchange, request, *script).await;
        match script::serve(task).await? {
            Outcome::Response(response) => return Ok(response),
            Outcome::LocalRedirect(target) => request.redirect(&target)?,
            Outcome::SendFile(reply) => return send_file(gate, exchange, request, &directories, reply),
        }
        passed = pass(gate, exchange, request)?;
    }
    Err(Fault::from(ScriptFault::TooManyLocalRedirects {
        redirects_max: LOCAL_REDIRECTS_MAX,
        last: request.raw_target().into(),
    }))
}

/// Sends the file that a script names, if the gate lets it pass. Otherwise the script ends as if its client had left.
fn send_file(
    gate: &Gate,
    exchange: &Exchange,
    request: &Request,
    directories: &Arc<SendDirectories>,
    mut reply: SendFileReply,
) -> Result<Response<ResponseBody>, Fault> {
    let decision = decide_send_file(directories, &mut reply.head);
    let passed = gate.pass_file(exchange, request, decision)?;
    reply.accept();
    at_once(request, passed)
}

/// The listing, made by a thread that may wait.
async fn list(
    exchange: &Exchange,
    request: &Request,
    listing: ListingRequest,
) -> Result<Response<ResponseBody>, Fault> {
    let site = Arc::clone(request.config.site(&request.host));
    let (host, fields) = (request.host.clone(), request.fields.clone());
    let query = request.query().map(str::to_owned);
    let (client, scheme) = (exchange.client.endpoints.client.ip(), exchange.client.scheme());
    let make = move || {
        let attributes = RequestAttributes {
            method: &Method::GET,
            host: &host,
            client,
            scheme,
            fields: &fields,
        };
        decide::list(&site, &listing, query.as_deref(), attributes)
    };
    listing::respond(make).await
}

/// The script's task, and the directories of the files that it may name; waits a little for the client's name, where names are looked up.
async fn task(exchange: &Exchange, request: &mut Request, script: ScriptAnswer) -> (Task, Arc<SendDirectories>) {
    let ScriptAnswer {
        route,
        script,
        target,
        compress,
        send_directories,
    } = script;
    let client_name = match exchange.client.name() {
        Some(name) => name.await,
        None => None,
    };
    let site: &Arc<Site> = request.config.site(&request.host);
    let job = Job {
        scripts: Rc::clone(&exchange.context.scripts),
        request: ScriptRequest {
            target,
            method: request.method.clone(),
            version: exchange.line.version,
            fields: request.fields.clone(),
            host: request.host.clone(),
            id: exchange.id,
            endpoints: exchange.client.endpoints,
            client_name,
            is_https: exchange.client.is_https,
            tls_info: exchange.client.tls_info.clone(),
            arrived: exchange.arrived(),
        },
        script,
        route,
        map: Arc::<Site>::clone(site),
        compression: compress.then(|| Arc::clone(&site.compression)),
    };
    let task = Task {
        job: Box::new(job),
        body: request.body.take().unwrap_or_else(RequestBody::none),
    };
    (task, send_directories)
}
