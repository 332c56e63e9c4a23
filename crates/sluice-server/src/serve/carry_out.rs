//! Carrying out an answer that has passed the gate: the response is made here, at once or after a wait.

use std::rc::Rc;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Method, Response};
use sluice_files::foreign::{self, Answers};
use sluice_files::listing;
use sluice_files::listing::page::ListingRequest;
use sluice_files::send_file::{SendContext, SendDirectories, SendFile};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Fault, ScriptFault, ServerFault};
use sluice_http::request_body::RequestBody;
use sluice_script::exchange::job::Job;
use sluice_script::exchange::request::{ScriptRequest, ScriptUser};
use sluice_script::exchange::serve::{self as script, ScriptAnswer, SendFileReply};
use sluice_settings::rule::{ClientCertificate, RequestAttributes};
use sluice_watch::{Item, Stage};

use crate::dispatch::Site;
use crate::serve::decide::{self, Answer, ScriptTarget, decide, decide_send_file};
use crate::serve::elsewhere::{self, OwnedQuestion};
use crate::serve::exchange::Exchange;
use crate::serve::gate::{Gate, Passed};
use crate::serve::identity::Granted;
use crate::serve::report;
use crate::serve::request::Request;
use crate::serve::waiting::{Lookup, Wait};
use crate::serve::watched_routes::WatchedRoutes;
use crate::serve::{watched, watched_decision};

/// Local redirects of scripts followed for one request. One that leads back to itself ends here.
const LOCAL_REDIRECTS_MAX: u16 = 10;

/// Lookups of one request that are left to other threads: a few for each decision, because files may change between them.
const LOOKUPS_MAX: u16 = 4 * LOCAL_REDIRECTS_MAX;

/// Decides what answers a request, lets the answer pass the gate, and makes the response unless that takes time. `answers` are those that a thread has noted,
/// if the decision was left to one. Errors: the thing that the request waits for; or the fault that the client gets instead: that of the decision or the
/// gate, or the client's, because conditions and ranges of its request do not fit the file (412, 416).
pub(crate) fn answer(
    gate: &Gate,
    exchange: &mut Exchange,
    request: &mut Request,
    answers: Answers,
) -> Result<Response<ResponseBody>, Wait> {
    let config = Rc::clone(&request.config);
    let site = config.site(request.site);
    let asked = request.question(exchange);
    let wants_routes = exchange.tracer.wants(Item::Mapping);
    let mut routes = wants_routes.then(|| WatchedRoutes::new(site, &exchange.tracer));
    let (mut decision, left) = foreign::here(answers, || match &mut routes {
        None => decide(site, &asked, &mut ()),
        Some(routes) => decide(site, &asked, routes),
    });
    if let Some(share) = left {
        asked.cache.inspect(|cache| cache.uncount_decision());
        return Err(Wait::for_lookup(share, Lookup::Decision));
    }
    if let Some(routes) = routes {
        routes.show();
    }
    exchange.tracer.stage(Stage::Checking);
    watched_decision::decision(exchange, request, site, &decision);
    exchange.note_decision(site, request.target_path(), &request.fields, &mut decision);
    let passed = gate.pass(exchange, request, decision)?;
    exchange.tracer.stage(Stage::Responding);
    respond(exchange, request, passed)
}

/// Goes on with the decision of a request that has waited at the gate; errors as of `answer`.
fn resume(gate: &Gate, exchange: &mut Exchange, request: &mut Request) -> Result<Response<ResponseBody>, Wait> {
    let Some(held) = request.held.take() else {
        return Err(Fault::unexpected("a request that waits has no decision").into());
    };
    let passed = gate.pass_held(exchange, request, held)?;
    exchange.tracer.stage(Stage::Responding);
    respond(exchange, request, passed)
}

fn respond(exchange: &Exchange, request: &Request, passed: Passed) -> Result<Response<ResponseBody>, Wait> {
    match passed.into_answer() {
        Answer::File(selected) => selected
            .respond(request.path(), &request.method, &request.fields)?
            .map_err(Wait::Variant),
        Answer::FileOptions => Ok(sluice_files::response::respond_options()),
        Answer::Redirect(redirect) => Ok(redirect.respond()),
        Answer::ServerOptions => Ok(Response::new(ResponseBody::Empty)),
        Answer::SendFile(file) => send_named(exchange, request, file, Answers::default()),
        Answer::Listing(listing) => Err(Wait::Listing(listing)),
        Answer::Report(report) => Err(Wait::Report(report)),
        Answer::Script(script) => Err(Wait::Script(script)),
    }
}

fn send_named(
    exchange: &Exchange,
    request: &Request,
    file: Box<SendFile>,
    answers: Answers,
) -> Result<Response<ResponseBody>, Wait> {
    let site = request.site();
    let context = SendContext {
        cache: request.config.cache.as_ref(),
        cache_use: site.cache,
        types: &site.types,
        compression: &site.compression,
        tracer: &exchange.tracer,
    };
    match foreign::here(answers, || file.find(&context)) {
        (_, Some(share)) => {
            context.cache.inspect(|cache| cache.uncount_decision());
            Err(Wait::for_lookup(share, Lookup::SendFile(file)))
        }
        (found, None) => Ok(file.serve(&context, found, &request.method, &request.fields)?),
    }
}

/// Waits for the response. A request that waits at the gate goes on with its decision; a script's local redirects are decided on again.
/// Errors: of the client's body, the script's reply, the server's threads.
pub(crate) async fn wait_for(
    wait: Wait,
    gate: &Gate,
    exchange: &mut Exchange,
    request: &mut Request,
) -> Result<Response<ResponseBody>, Fault> {
    let mut wait = wait;
    let (mut scripts, mut lookups) = (0, 0);
    // Each password is verified once for each source of users, and a permit is kept, so that only scripts could go on forever.
    while scripts <= LOCAL_REDIRECTS_MAX {
        let answered = match wait {
            Wait::Refused(fault) => return Err(fault),
            Wait::Password(verification) => {
                exchange.tracer.stage(Stage::Password);
                verification.wait(exchange, request).await?;
                resume(gate, exchange, request)
            }
            Wait::Agent(pending) => {
                exchange.tracer.stage(Stage::Agent);
                // Boxed, as the other rare ones: the future of each request would have room for the largest.
                Box::pin(pending.ask(exchange, request)).await?;
                resume(gate, exchange, request)
            }
            Wait::Elsewhere(left) => {
                exchange.tracer.stage(Stage::Preparing);
                lookups += 1;
                if lookups > LOOKUPS_MAX {
                    return Err(ServerFault::Unanswered(request.path().into()).into());
                }
                let (lookup, answers) = Box::pin(elsewhere::answers(*left, exchange, request)).await?;
                go_on(gate, exchange, request, lookup, answers)
            }
            Wait::Throttle(queued) => {
                exchange.tracer.stage(Stage::Throttle);
                queued.wait(exchange).await?;
                resume(gate, exchange, request)
            }
            Wait::Variant(pending) => {
                exchange.tracer.stage(Stage::Preparing);
                return pending.respond(&request.method, &request.fields).await;
            }
            Wait::Listing(listing) => {
                exchange.tracer.stage(Stage::Preparing);
                return Box::pin(list(exchange, request, *listing)).await;
            }
            Wait::Report(answer) => {
                exchange.tracer.stage(Stage::Preparing);
                return Box::pin(report::respond(exchange, request, *answer)).await;
            }
            Wait::Script(script) => {
                scripts += 1;
                // Waits a little, where names are looked up.
                let client_name = match exchange.client.name() {
                    Some(name) => name.await,
                    None => None,
                };
                let (job, body, directories) = job(exchange, request, *script, client_name);
                match script::serve(job, body).await? {
                    ScriptAnswer::Response(response) => return Ok(response),
                    ScriptAnswer::LocalRedirect(target) => {
                        watched::local_redirect(exchange, &target);
                        request.redirect(&target)?;
                        answer(gate, exchange, request, Answers::default())
                    }
                    ScriptAnswer::SendFile(reply) => send_file(gate, exchange, request, &directories, reply),
                }
            }
        };
        wait = match answered {
            Ok(response) => return Ok(response),
            Err(next) => next,
        };
    }
    Err(Fault::from(ScriptFault::TooManyLocalRedirects {
        redirects_max: LOCAL_REDIRECTS_MAX,
        last: request.raw_target().into(),
    }))
}

fn go_on(
    gate: &Gate,
    exchange: &mut Exchange,
    request: &mut Request,
    lookup: Lookup,
    answers: Answers,
) -> Result<Response<ResponseBody>, Wait> {
    match lookup {
        Lookup::Decision => answer(gate, exchange, request, answers),
        Lookup::Held(file) => {
            let found = file.answer(request.site(), &request.question(exchange), answers)?;
            exchange.tracer.stage(Stage::Responding);
            respond(exchange, request, Passed::of_held(found))
        }
        Lookup::SendFile(file) => send_named(exchange, request, file, answers),
    }
}

/// Sends the file that a script names, if the gate lets it pass. Otherwise the script ends as if its client had left.
fn send_file(
    gate: &Gate,
    exchange: &Exchange,
    request: &Request,
    directories: &Arc<SendDirectories>,
    mut reply: SendFileReply,
) -> Result<Response<ResponseBody>, Wait> {
    watched::send_file(exchange, &reply.head.fields);
    let decision = decide_send_file(directories, &mut reply.head);
    let passed = gate.pass_file(exchange, request, decision)?;
    reply.accept();
    respond(exchange, request, passed)
}

async fn list(
    exchange: &Exchange,
    request: &Request,
    listing: ListingRequest,
) -> Result<Response<ResponseBody>, Fault> {
    let (site, identity) = (Arc::clone(request.site()), request.identity.clone());
    let question = OwnedQuestion::of(exchange, request);
    let query = request.query().map(str::to_owned);
    let make = move || {
        // Links of a listing are asked for by GET.
        let attributes = RequestAttributes {
            method: &Method::GET,
            ..question.question().attributes
        };
        decide::list(&site, &listing, query.as_deref(), attributes, &identity)
    };
    listing::respond(&exchange.tracer, request.path(), make).await
}

fn script_user(granted: &Granted) -> ScriptUser {
    ScriptUser {
        name: Arc::clone(&granted.user.name),
        auth_type: granted.user.auth_type,
        realm: granted.realm.clone(),
        group: granted.group.clone(),
    }
}

fn job(
    exchange: &Exchange,
    request: &mut Request,
    script: ScriptTarget,
    client_name: Option<Arc<str>>,
) -> (Rc<Job>, RequestBody, Arc<SendDirectories>) {
    let ScriptTarget {
        route,
        script,
        target,
        compress,
        send_directories,
        redirect_url,
        pass_authorization,
    } = script;
    let site: &Arc<Site> = request.config.site(request.site);
    let server = exchange.client.endpoints.server.ip();
    let tls_info = exchange.client.tls_info.as_ref();
    let tls_info = tls_info.map(|info| match request.certificate {
        ClientCertificate::Verified if !exchange.client.is_forwarded => Rc::clone(info),
        _ => info.without_certificate(),
    });
    let server_name = request.config.server_name(site, &request.host, server);
    let job = Job {
        scripts: Rc::clone(&exchange.context.scripts),
        request: ScriptRequest {
            target,
            redirect_url,
            method: request.method.clone(),
            version: exchange.line.version,
            fields: request.fields.share(),
            // Names of hosts are compared without regard to case, and scripts use this one as a key (RFC 3986 §6.2.2.1).
            server_name: server_name.map(str::to_ascii_lowercase),
            id: exchange.id,
            endpoints: exchange.client.endpoints,
            client_name,
            is_https: exchange.client.is_https,
            tls_info,
            user: request.granted.as_ref().map(script_user),
            agent: None,
            authorization: pass_authorization
                .then(|| request.fields.get(AUTHORIZATION).cloned())
                .flatten(),
            arrived: exchange.entry.arrived,
            progress: Rc::clone(&exchange.progress),
        },
        script,
        route,
        map: Arc::<Site>::clone(site),
        compression: compress.then(|| Arc::clone(&site.compression)),
        tracer: exchange.tracer.clone(),
    };
    let body = request.body.take().unwrap_or_else(RequestBody::none);
    (Rc::new(job), body, send_directories)
}
