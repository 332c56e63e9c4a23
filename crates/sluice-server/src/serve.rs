//! One exchange, every stage in its order: this file is the server's table of contents.
//!
//! Read the head (hyper has), choose the site, find what answers for the path, let it answer, turn a fault into a response,
//! complete the head; the line in the log is written when the exchange is dropped, by whoever has it last.

pub(crate) mod client;
pub(crate) mod error_page;
pub(crate) mod exchange;
pub(crate) mod explain;
mod files;
pub(crate) mod finish;
pub(crate) mod forwarded;
pub(crate) mod redirect;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};

use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header, request};
use http_body::Body;
use hyper::body::Incoming;
use sluice_files::listing;
use sluice_files::listing::page::ListingRequest;
use sluice_files::send_file::SendDirectories;
use sluice_files::variants::on_demand::PendingVariant;
use sluice_http::body::ResponseBody;
use sluice_http::endpoints::Endpoints;
use sluice_http::fault::{Culprit, Fault};
use sluice_http::head;
use sluice_http::host::host;
use sluice_http::target::Target;
use sluice_net::connection::{Connection, UnderWay};
use sluice_net::http1::Refusal;
use sluice_net::service::Service;
use sluice_script::job::Job;
use sluice_script::request_body::RequestBody;
use sluice_script::route::ScriptRoute;
use sluice_script::serve as script;
use sluice_script::serve::{Outcome, SendFileReply, Task};
use sluice_settings::ErrorSettings;
use sluice_settings::limits::Limits;
use sluice_settings::rule::{Adjustments, BodyBounds, RequestAttributes};

use crate::context::{Context, HeldConfig};
use crate::dispatch::locate::locate;
use crate::dispatch::resolve::{Resolution, ResumeAt};
use crate::dispatch::route::{RouteKind, Star};
use crate::dispatch::site::Resolved;
use crate::dispatch::{Route, Site};
use crate::serve::exchange::Exchange;
use crate::serve::files::{AskedFile, Handled, ServedPath, serve_file};
use crate::serve::finish::Finish;

/// Local redirects of scripts followed for one request. One that leads back to itself ends here.
const LOCAL_REDIRECTS_MAX: usize = 10;

/// Named to who asks for a tunnel.
const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

/// An exchange on its way to the head of its response: there already (files, redirects, refusals), or with a script, or
/// whoever makes a listing, at work.
///
/// Only these are waited for, so only they need a future of their own, which is large.
pub(crate) enum Serving {
    Answered(Option<Response<Finish>>),
    Awaited(Pin<Box<dyn Future<Output = Response<Finish>>>>),
}

impl Future for Serving {
    type Output = Result<Response<Finish>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Serving::Answered(response) => response
                .take()
                .map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Serving::Awaited(answer) => answer.as_mut().poll(context).map(Ok),
        }
    }
}

/// What answers the requests of a worker's connections.
pub(crate) struct Exchanges {
    context: Rc<Context>,
}

impl Exchanges {
    pub(crate) fn new(context: &Rc<Context>) -> Exchanges {
        Exchanges {
            context: Rc::clone(context),
        }
    }
}

impl Service for Exchanges {
    type Body = Finish;
    type Answer = Serving;

    fn limits(&self) -> Limits {
        self.context.config().limits
    }

    fn serve(&self, connection: &Rc<Connection>, request: Request<Incoming>) -> Serving {
        serve(&self.context, connection, request)
    }

    fn refuse(&self, endpoints: Endpoints, refusal: &Refusal) -> Option<Vec<u8>> {
        let mut exchange = Exchange::without_head(&self.context, endpoints);
        exchange.answer(refusal.status);
        tracing::info!(id = %exchange.id, "request head from {}: {}", endpoints.client, refusal.reason);
        (!refusal.is_answered).then(|| error_page::raw(refusal.status, exchange.id))
    }
}

/// Serves one exchange. From here on it is logged, whatever becomes of it.
fn serve(context: &Rc<Context>, connection: &Rc<Connection>, request: Request<Incoming>) -> Serving {
    let under_way = UnderWay::begin(connection);
    let (head, incoming) = request.into_parts();
    let config = context.config();
    let mut exchange = Exchange::open(context, &config, connection.endpoints(), &head);
    exchange.is_last = ends_connection(&head);
    if exchange.is_last && incoming.is_end_stream() {
        connection.expect_no_more();
    }
    client::resolve_client(&mut exchange, connection, &config.proxies, &head.headers);
    let mut fields = head.headers;
    let response = match begin(&exchange, connection, config, &mut fields, incoming) {
        Ok(Begun::Answer(response)) => response,
        Ok(Begun::Ask(mut ask)) => {
            if exchange.is_https {
                exchange.hsts.clone_from(&ask.config.site(&ask.host).hsts);
            }
            match step(&mut exchange, &mut ask) {
                Ok(Step::Answer(response)) => response,
                Ok(next) => {
                    return Serving::Awaited(Box::pin(async move {
                        let answer = run(&mut exchange, &mut ask, next).await;
                        let response = answer.unwrap_or_else(|fault| ask.refuse(&exchange, &fault));
                        finish(response, exchange, under_way)
                    }));
                }
                Err(fault) => ask.refuse(&exchange, &fault),
            }
        }
        Err(fault) => match host(exchange.version, &exchange.uri, &mut fields) {
            Ok(host) => refuse(&exchange, &fault, &context.config().site(&host).errors, &fields),
            // Without a host there is no site to say how.
            Err(_) => refuse(&exchange, &fault, &ErrorSettings::default(), &fields),
        },
    };
    Serving::Answered(Some(finish(response, exchange, under_way)))
}

/// Whether the client says that this request is its last (RFC 9112 §9.3).
fn ends_connection(head: &request::Parts) -> bool {
    let says = |word: &str| {
        let values = head.headers.get_all(header::CONNECTION).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case(word))
    };
    says("close") || (head.version < Version::HTTP_11 && !says("keep-alive"))
}

/// Turns a fault into a response.
fn refuse(exchange: &Exchange, fault: &Fault, settings: &ErrorSettings, fields: &HeaderMap) -> Response<ResponseBody> {
    report(exchange, fault);
    error_page::response(fault, settings, (exchange.id, exchange.uri.path()), fields)
}

/// Makes the response complete.
fn finish(response: Response<ResponseBody>, mut exchange: Box<Exchange>, under_way: UnderWay) -> Response<Finish> {
    let mut response = head::complete(&exchange.method, response);
    if let Some(hsts) = exchange.hsts.take() {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, hsts);
    }
    let status = response.status();
    exchange.changes.apply(status, response.headers_mut());
    exchange.answer_with(&response);
    response.map(|body| Finish::new(body, exchange, under_way))
}

/// What a request's head amounts to by itself.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and is moved on at once"
)]
enum Begun {
    Answer(Response<ResponseBody>),
    Ask(Ask),
}

/// From the head to what is asked for, which then has the fields.
fn begin(
    exchange: &Exchange,
    connection: &Connection,
    config: Rc<HeldConfig>,
    fields: &mut HeaderMap,
    incoming: Incoming,
) -> Result<Begun, Fault> {
    let host = host(exchange.version, &exchange.uri, fields)?;
    // HTTP/1.1 has been bounded by its parser; HTTP/2 bounds their bytes alone.
    if fields.len() > config.limits.head_fields_max {
        let text = format!("{} fields in its head", fields.len());
        return Err(Fault::client(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text));
    }
    // Not for a client that speaks https with a proxy: it would be sent to where it is.
    if let Some(port) = connection.https_port().filter(|_| !exchange.is_https) {
        return redirect::to_https(&host, port, &exchange.uri).map(Begun::Answer);
    }
    if let Some(response) = without_path(exchange)? {
        return Ok(Begun::Answer(response));
    }
    let target = Target::from_uri(&exchange.uri)?;
    let body = RequestBody::new(incoming, &config.limits);
    Ok(Begun::Ask(Ask {
        target,
        start: None,
        method: exchange.method.clone(),
        fields: std::mem::take(fields),
        host,
        body: Some(body),
        config,
    }))
}

/// What comes next: a response, a script that must run first, or a listing or a file's compressed form that must be made.
enum Step {
    Answer(Response<ResponseBody>),
    Script(Task, Arc<SendDirectories>),
    PendingVariant(Box<PendingVariant>),
    Listing(Arc<Site>, ListingRequest),
}

/// Finds what answers for the path and lets it answer; an index page that is a script leads to that script.
fn step(exchange: &mut Exchange, ask: &mut Ask) -> Result<Step, Fault> {
    let config = Rc::clone(&ask.config);
    let site = config.site(&ask.host);
    loop {
        match handle(exchange, site, ask)? {
            Handled::Answer(response) => return Ok(Step::Answer(response)),
            Handled::Script(task, directories) => return Ok(Step::Script(task, directories)),
            Handled::PendingVariant(pending) => return Ok(Step::PendingVariant(pending)),
            Handled::Listing => {
                exchange.handle_by("listing", || None);
                return Ok(Step::Listing(
                    Arc::clone(site),
                    ListingRequest::of(&ask.target, &ask.fields),
                ));
            }
            Handled::IndexScript(target, start) => {
                ask.target = target;
                ask.start = Some(start);
            }
        }
    }
}

/// Waits for what is being made, or runs a script and whatever its local redirects lead to.
async fn run(exchange: &mut Exchange, ask: &mut Ask, mut next: Step) -> Result<Response<ResponseBody>, Fault> {
    for _ in 0..=LOCAL_REDIRECTS_MAX {
        match next {
            Step::Answer(response) => return Ok(response),
            Step::PendingVariant(pending) => return pending.respond(&ask.method, &ask.fields).await,
            Step::Listing(site, wish) => {
                let Ask { host, fields, .. } = ask;
                let (host, fields, query) = (host.clone(), fields.clone(), ask.target.query.clone());
                let (client, scheme) = (exchange.endpoints.client.ip(), exchange.scheme());
                let list = move || {
                    let facts = RequestAttributes {
                        method: &Method::GET,
                        host: &host,
                        client,
                        scheme,
                        fields: &fields,
                    };
                    site.list(&wish, query.as_deref(), facts)
                };
                return listing::respond(list).await;
            }
            Step::Script(mut task, directories) => {
                if let Some(name) = exchange.client_name() {
                    task.job.client_name = name.await;
                }
                match script::serve(task).await? {
                    Outcome::Response(response) => return Ok(response),
                    Outcome::LocalRedirect(target) => ask.redirect(&target)?,
                    Outcome::SendFile(file) => return ask.send(&directories, file),
                }
            }
        }
        next = step(exchange, ask)?;
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
    config: Rc<HeldConfig>,
    target: Target,
    /// Where its way through the rules begins, if not at the top.
    start: Option<Box<ResumeAt>>,
    method: Method,
    fields: HeaderMap,
    host: String,
    body: Option<RequestBody>,
}

impl Ask {
    /// What the site's rules may ask about it.
    fn facts(&self, exchange: &Exchange) -> RequestAttributes<'_> {
        RequestAttributes {
            method: &self.method,
            host: &self.host,
            client: exchange.endpoints.client.ip(),
            scheme: exchange.scheme(),
            fields: &self.fields,
        }
    }

    fn for_files<'a>(&'a self, target: &'a Target, exchange: &Exchange) -> AskedFile<'a> {
        AskedFile {
            asked: &self.target,
            target,
            facts: self.facts(exchange),
            cache: self.config.cache.as_ref(),
            is_sent: true,
        }
    }

    /// The bounds that rules set for its body.
    fn bound(&mut self, bounds: BodyBounds) -> Result<(), Fault> {
        match &mut self.body {
            Some(body) => body.bound(bounds, &self.config.limits),
            None => Ok(()),
        }
    }

    /// Turns a fault into a response, as the site wants it.
    fn refuse(&self, exchange: &Exchange, fault: &Fault) -> Response<ResponseBody> {
        refuse(exchange, fault, &self.config.site(&self.host).errors, &self.fields)
    }

    /// Sends the file that a script hands over.
    fn send(
        &self,
        directories: &Arc<SendDirectories>,
        mut file: SendFileReply,
    ) -> Result<Response<ResponseBody>, Fault> {
        let Some(handed) = directories.take_sendfile_field(&mut file.head)? else {
            return Err(Fault::server("a reply that names a file names none"));
        };
        let status = file.head.status;
        file.accept(status);
        let site = self.config.site(&self.host);
        let described = (&site.types, &*site.compression);
        let kept = (self.config.cache.as_ref(), site.cache);
        handed.serve(kept, described, &self.method, &self.fields)
    }

    /// As if a client had asked for this target by GET, without a body (RFC 3875 §6.2.2).
    fn redirect(&mut self, target: &str) -> Result<(), Fault> {
        self.target = Target::parse(target).map_err(|fault| Fault::script(format!("local redirect: {fault}")))?;
        self.start = None;
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

/// Leads the request through the site's rules, and lets what they lead to answer.
fn handle(exchange: &mut Exchange, site: &Arc<Site>, ask: &mut Ask) -> Result<Handled, Fault> {
    let start = ask.start.take().map(|start| *start).unwrap_or_default();
    let facts = ask.facts(exchange);
    let (path, query) = (&ask.target.path, ask.target.query.as_deref());
    let mut resolution = match site.resolve_from(start, path, query, Some(&facts), &mut ()) {
        Ok(resolution) => resolution,
        Err(mut error) => {
            take_changes(exchange, site, ask, &mut error.adjustments);
            return Err(error.fault);
        }
    };
    let rewritten = resolution.take_target(&ask.target);
    if let Resolved::Root(_) | Resolved::Route(_, RouteKind::Files(_), _) = resolution.place {
        return handle_file(exchange, site, ask, (resolution, rewritten));
    }
    take_changes(exchange, site, ask, &mut resolution.adjustments);
    ask.bound(resolution.adjustments.body)?;
    let target = rewritten.as_ref().unwrap_or(&ask.target);
    let Resolved::Route(route, kind, star) = &resolution.place else {
        let text = format!("nothing answers for {:?}", target.path);
        return Err(Fault::client(StatusCode::NOT_FOUND, text));
    };
    match kind {
        RouteKind::Redirect { to, status } => {
            exchange.handle_by("redirect", || None);
            let captures = route.pattern.captures(&target.path).unwrap_or_default();
            redirect::redirect(to, *status, &captures, target).map(Handled::Answer)
        }
        RouteKind::Refuse(refusal) => {
            exchange.handle_by("refuse", || None);
            Err(refusal.fault(&route.origin))
        }
        RouteKind::Script(script) => {
            let compress = resolution.adjustments.compress;
            let job = job(exchange, site, (route, script, compress), star, (ask, target))?;
            exchange.handle_by("script", || Some(job.script.file.clone()));
            let body = ask.body.take().unwrap_or_else(RequestBody::none);
            Ok(Handled::Script(Task { job, body }, Arc::clone(&route.send_directories)))
        }
        RouteKind::Files(_) => Err(Fault::server("files are served as files")),
    }
}

/// What rules change of the response and in the log.
fn take_changes(exchange: &mut Exchange, site: &Site, ask: &Ask, rules: &mut Adjustments) {
    exchange.place(site.log, rules.is_logged.unwrap_or(true), &ask.fields);
    exchange.changes = std::mem::take(&mut rules.head);
}

/// Lets a directory of files answer. What rules change is as the way of the page says that is sent.
fn handle_file(
    exchange: &mut Exchange,
    site: &Site,
    ask: &mut Ask,
    (resolution, rewritten): (Resolution<'_>, Option<Target>),
) -> Result<Handled, Fault> {
    let target = rewritten.as_ref().unwrap_or(&ask.target);
    let mut led = ServedPath {
        resolution,
        index: None,
    };
    let handled = serve_file(site, &mut led, &ask.for_files(target, exchange));
    take_changes(exchange, site, ask, &mut led.resolution.adjustments);
    exchange.handle_by("file", || led.file(site, target));
    if !matches!(handled, Ok(Handled::IndexScript(..))) {
        ask.bound(led.resolution.adjustments.body)?;
    }
    handled
}

fn job(
    exchange: &Exchange,
    site: &Arc<Site>,
    (route, script, compress): (&Route, &Arc<ScriptRoute>, Option<bool>),
    star: &Star,
    (ask, target): (&Ask, &Target),
) -> Result<Box<Job>, Fault> {
    Ok(Box::new(Job {
        scripts: Rc::clone(&exchange.context.scripts),
        map: Arc::<Site>::clone(site),
        route: Arc::clone(script),
        script: locate(site, route, script, &target.path, star.of(&target.path))?,
        target: target.clone(),
        method: ask.method.clone(),
        version: exchange.version,
        fields: ask.fields.clone(),
        host: ask.host.clone(),
        id: exchange.id,
        endpoints: exchange.endpoints,
        client_name: None,
        is_https: exchange.is_https,
        tls_info: exchange.tls_info.clone(),
        arrived: exchange.arrived,
        compression: (compress == Some(true)).then(|| Arc::clone(&site.compression)),
    }))
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
