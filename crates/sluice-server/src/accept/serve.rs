//! One exchange, every stage in its order: this file is the server's table of contents.
//!
//! Read the head (hyper has), choose the site, find what answers for the path, let it answer, turn a fault into a response,
//! complete the head; the line in the log is written when the exchange is dropped, by whoever has it last.

use std::rc::Rc;
use std::sync::Arc;

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;

use crate::connection::Connection;
use crate::dispatch::locate::locate;
use crate::dispatch::route::RouteKind;
use crate::dispatch::site::Place;
use crate::dispatch::{Route, Site};
use crate::exchange::Exchange;
use crate::fault::{Culprit, Fault};
use crate::handler::folder::Folder;
use crate::handler::script::Outcome;
use crate::handler::{file, redirect, script};
use crate::script::job::Job;
use crate::script::request_body::RequestBody;
use crate::script::route::ScriptRoute;
use crate::target::Target;
use crate::worker::Worker;
use crate::write::body::{Finish, ResponseBody};
use crate::write::{error_page, head};

/// Local redirects of scripts followed for one request. One that leads back to itself ends here.
const LOCAL_REDIRECTS_MAX: usize = 10;

/// Named to who asks for a tunnel.
const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

/// A request whose head is complete: from here on it is logged, even if its client leaves before it is looked at.
pub(crate) struct Asked {
    worker: Rc<Worker>,
    connection: Rc<Connection>,
    exchange: Exchange,
    fields: HeaderMap,
    incoming: Incoming,
}

impl Asked {
    pub(crate) fn new(worker: &Rc<Worker>, connection: &Rc<Connection>, request: Request<Incoming>) -> Asked {
        connection.begin_exchange();
        let (parts, incoming) = request.into_parts();
        Asked {
            exchange: Exchange::open(
                worker,
                connection.ends,
                &parts.method,
                &parts.uri,
                parts.version,
                &parts.headers,
            ),
            worker: Rc::clone(worker),
            connection: Rc::clone(connection),
            fields: parts.headers,
            incoming,
        }
    }
}

/// Serves one exchange.
pub(crate) async fn serve(asked: Asked) -> Response<Finish> {
    let Asked {
        worker,
        connection,
        mut exchange,
        fields,
        incoming,
    } = asked;
    let response = match answer(&worker, &exchange, fields, incoming).await {
        Ok(response) => response,
        Err(fault) => {
            report(&exchange, &fault);
            error_page::response(&fault, exchange.id)
        }
    };
    let response = head::complete(&exchange.method, response);
    exchange.answer(response.status());
    response.map(|body| Finish::new(body, exchange, connection))
}

/// From the head to a response, or to the fault that takes its place.
async fn answer(
    worker: &Rc<Worker>,
    exchange: &Exchange,
    mut fields: HeaderMap,
    incoming: Incoming,
) -> Result<Response<ResponseBody>, Fault> {
    let config = worker.config();
    let host = host(exchange, &mut fields)?;
    let site = config.site(&host);
    if let Some(response) = without_path(exchange)? {
        return Ok(response);
    }
    let mut ask = Ask {
        target: Target::from_uri(&exchange.uri)?,
        method: exchange.method.clone(),
        fields,
        host,
        body: Some(RequestBody::new(incoming, &config.limits)?),
    };
    for _ in 0..=LOCAL_REDIRECTS_MAX {
        match handle(worker, exchange, site, &mut ask).await? {
            Outcome::Response(response) => return Ok(response),
            Outcome::LocalRedirect(target) => ask.redirect(&target)?,
            Outcome::IndexScript(path) => ask.target.path = path,
        }
    }
    Err(Fault::script(format!(
        "more than {LOCAL_REDIRECTS_MAX} local redirects, the last one to {:?}",
        ask.target.raw
    )))
}

/// The forms of a target that name no resource (RFC 9112 §3.2.3, §3.2.4): `*` asks about the server as a whole, an authority
/// asks for a tunnel.
fn without_path(exchange: &Exchange) -> Result<Option<Response<ResponseBody>>, Fault> {
    let uri = &exchange.uri;
    let bad = || Fault::client(StatusCode::BAD_REQUEST, format!("request target {uri}: not a path"));
    match exchange.method {
        Method::CONNECT => Err(Fault::method(&exchange.method, METHODS)),
        Method::OPTIONS if uri.path() == "*" => Ok(Some(Response::new(ResponseBody::Empty))),
        _ if uri.path() == "*" || (uri.authority().is_some() && uri.scheme().is_none()) => Err(bad()),
        _ => Ok(None),
    }
}

/// What is asked for: the client's request, or what a script's local redirect made of it.
struct Ask {
    target: Target,
    method: Method,
    fields: HeaderMap,
    host: String,
    body: Option<RequestBody>,
}

impl Ask {
    /// As if a client had asked for this target by GET, without a body (RFC 3875 §6.2.2).
    fn redirect(&mut self, target: &str) -> Result<(), Fault> {
        self.target = Target::parse(target).map_err(|fault| Fault::script(format!("local redirect: {fault}")))?;
        if self.method != Method::HEAD {
            self.method = Method::GET;
        }
        for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::TRANSFER_ENCODING] {
            self.fields.remove(name);
        }
        self.body = None;
        Ok(())
    }
}

/// Lets what answers for the path answer.
async fn handle(worker: &Rc<Worker>, exchange: &Exchange, site: &Arc<Site>, ask: &mut Ask) -> Result<Outcome, Fault> {
    let path = ask.target.path.clone();
    match site.place(&path) {
        Place::Nowhere => Err(Fault::client(
            StatusCode::NOT_FOUND,
            format!("nothing answers for {path:?}"),
        )),
        Place::Root(folder) => serve_file(site, folder, &path[1..], ask),
        Place::Route(route, star) => match &route.kind {
            RouteKind::Files(folder) => serve_file(site, folder, star, ask),
            RouteKind::Redirect { to, status } => {
                redirect::redirect(to, *status, star, &ask.target).map(Outcome::Response)
            }
            RouteKind::Script(script) => {
                let job = job(worker, exchange, site, (route, script), star, ask)?;
                let body = match ask.body.take() {
                    Some(body) => body,
                    None => RequestBody::none(),
                };
                script::serve(job, body).await
            }
        },
    }
}

/// A file, or a folder's index page. An index page that a route runs as a script is run, and never sent as a file.
fn serve_file(site: &Site, folder: &Folder, relative: &str, ask: &Ask) -> Result<Outcome, Fault> {
    let is_folder = ask.target.path.ends_with('/');
    let (mut pages, mut scripts) = (Vec::new(), Vec::new());
    for page in site.index.iter().filter(|_| is_folder) {
        let path = format!("{}{page}", ask.target.path);
        match is_script(site, &path) {
            None => pages.push(page.as_str()),
            Some(is_there) => scripts.extend(is_there.then_some(path)),
        }
    }
    let served = file::serve(folder, relative, &pages, &ask.method, &ask.fields, &ask.target);
    match (served, scripts.into_iter().next()) {
        (Err(fault), Some(script)) if fault.status != StatusCode::NOT_FOUND => Ok(Outcome::IndexScript(script)),
        (served, _) => served.map(Outcome::Response),
    }
}

/// Whether a path belongs to a script route, and then whether a script is there.
fn is_script(site: &Site, path: &str) -> Option<bool> {
    match site.place(path) {
        Place::Route(route, star) => match &route.kind {
            RouteKind::Script(script) => Some(locate(site, route, script, path, star).is_ok()),
            _ => None,
        },
        _ => None,
    }
}

fn job(
    worker: &Rc<Worker>,
    exchange: &Exchange,
    site: &Arc<Site>,
    (route, script): (&Route, &Arc<ScriptRoute>),
    star: &str,
    ask: &Ask,
) -> Result<Job, Fault> {
    Ok(Job {
        worker: Rc::clone(worker),
        map: Arc::<Site>::clone(site),
        route: Arc::clone(script),
        script: locate(site, route, script, &ask.target.path, star)?,
        target: ask.target.clone(),
        method: ask.method.clone(),
        version: exchange.version,
        fields: ask.fields.clone(),
        host: ask.host.clone(),
        id: exchange.id,
        ends: exchange.ends,
        arrived: exchange.arrived,
    })
}

/// The host that is asked for, without its port: the target's own, or the field Host, which HTTP/1.1 demands exactly once
/// (RFC 9112 §3.2).
fn host(exchange: &Exchange, fields: &mut HeaderMap) -> Result<String, Fault> {
    let bad = |what: &str| Err(Fault::client(StatusCode::BAD_REQUEST, format!("field Host: {what}")));
    let mut hosts = fields.get_all(header::HOST).iter();
    let field = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return bad("more than one"),
        (None, None) if exchange.version >= Version::HTTP_11 => return bad("missing"),
        (field, None) => field,
    };
    if let Some(authority) = exchange.uri.authority() {
        if !is_host_and_port(authority) {
            return bad("not a host");
        }
        // The target's host takes the field's place, for scripts too (RFC 9112 §3.2.2).
        if let Ok(value) = HeaderValue::from_str(authority.as_str()) {
            fields.insert(header::HOST, value);
        }
        return Ok(authority.host().to_owned());
    }
    match field.map(HeaderValue::as_bytes) {
        None | Some(b"") => Ok(String::new()),
        Some(text) => match Authority::try_from(text) {
            Ok(authority) if is_host_and_port(&authority) => Ok(authority.host().to_owned()),
            _ => bad("not a host"),
        },
    }
}

/// No user, and after the host nothing, a colon, or a port (RFC 9110 §4.2.1).
fn is_host_and_port(authority: &Authority) -> bool {
    match authority.as_str().strip_prefix(authority.host()) {
        Some("" | ":") => true,
        Some(port) => port.starts_with(':') && authority.port_u16().is_some(),
        None => false,
    }
}

/// One line in the log, as loud as the culprit deserves.
fn report(exchange: &Exchange, fault: &Fault) {
    let (status, id) = (fault.status.as_u16(), exchange.id);
    match fault.culprit {
        // As many as there are mistyped addresses; the access log has them.
        Culprit::Client if fault.status == StatusCode::NOT_FOUND => {
            tracing::debug!(status, %id, "{} {}: {fault}", exchange.method, exchange.uri);
        }
        Culprit::Client => tracing::info!(status, %id, "{} {}: {fault}", exchange.method, exchange.uri),
        Culprit::Script => tracing::warn!(status, %id, "{} {}: {fault}", exchange.method, exchange.uri),
        Culprit::Server => tracing::error!(status, %id, "{} {}: {fault}", exchange.method, exchange.uri),
    }
}
