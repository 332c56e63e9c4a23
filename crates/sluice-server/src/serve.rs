//! One exchange, every stage in its order: this file is the server's table of contents.
//!
//! ```text
//! resolve the client ─▶ read the head ─▶ decide ─▶ gate ─▶ carry out ─▶ finish ─▶ log
//!  client               request           decide    gate    carry_out    finish    log_entry (when the exchange is dropped)
//! ```
//! A fault of any stage becomes a response (`refuse`); the line in the access log is written when the exchange is dropped, by its last owner.

pub(crate) mod agent;
mod authorize;
mod cache_control;
mod carry_out;
mod client;
mod decide;
mod elsewhere;
mod error_detail;
pub(crate) mod error_page;
mod exchange;
pub(crate) mod explain;
mod fields;
mod finish;
pub(crate) mod gate;
#[cfg(test)]
mod gate_tests;
mod identity;
pub(crate) mod in_advance;
mod log_entry;
mod redirect;
mod refuse;
mod report;
mod request;
mod request_limits;
mod route_of_fault;
mod waiting;
mod watched;
mod watched_decision;
mod watched_routes;
#[cfg(test)]
mod watched_tests;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use http::uri::PathAndQuery;
use http::{HeaderValue, Response, Version, header};
use http_body::Body;
use sluice_files::foreign::Answers;
use sluice_http::body::ResponseBody;
use sluice_http::endpoints::Endpoints;
use sluice_http::fault::{Fault, ServerFault};
use sluice_http::head;
use sluice_http::progress::Progress;
use sluice_http::protocol::Protocol;
use sluice_http::request_body::Incoming;
use sluice_net::active_exchange::ActiveExchange;
use sluice_net::connection::Connection;
use sluice_net::service::HeadRefusal;
use sluice_net::service::Service;
use sluice_settings::limits::Limits;

use crate::context::Context;
use crate::operator::reports::watch::CarriesWatch;
use crate::redirect_loops::Redirected;
use client::Client;
use exchange::Exchange;
use finish::{Finish, PendingResponse};
use gate::Gate;
use request::Request;
use waiting::Wait;

/// The service that answers the requests of a worker's connections.
pub(crate) struct ExchangeService {
    context: Rc<Context>,
    // Workers must not contend for one reference count.
    #[expect(clippy::redundant_allocation)]
    gate: Rc<Arc<Gate>>,
}

impl ExchangeService {
    pub(crate) fn new(context: &Rc<Context>, gate: &Arc<Gate>) -> ExchangeService {
        ExchangeService {
            context: Rc::clone(context),
            gate: Rc::new(Arc::clone(gate)),
        }
    }
}

impl Service for ExchangeService {
    type Body = Finish;
    type Answer = PendingResponse;

    fn limits(&self) -> Limits {
        self.context.config().limits
    }

    fn is_trusted_proxy(&self, endpoints: &Endpoints) -> bool {
        self.context.config().proxies.trusted.contains(endpoints)
    }

    /// Serves one exchange. From here on it is logged, whatever becomes of it.
    fn serve(&self, connection: &Rc<Connection>, request: http::Request<Incoming>) -> PendingResponse {
        let under_way = ActiveExchange::begin(connection);
        let (mut head, incoming) = request.into_parts();
        let config = self.context.config();
        let client = Client::resolve(
            connection,
            &config.proxies,
            self.context.state.reverse_dns.as_deref(),
            &head,
        );
        let mut exchange = Exchange::open(&self.context, &config, client, &mut head, Some(under_way.handle()));
        exchange.begin_watch(connection, &head.headers);
        if request::ends_connection(&head) {
            exchange.entry.is_last = true;
            if incoming.is_end_stream() {
                connection.exchanges.expects_no_more.set(true);
            }
        }
        let mut fields = head.headers;
        let mut request = match Request::read(&exchange, connection, config, &mut fields, incoming) {
            Ok(request) => request,
            Err(fault) => {
                let response = refuse::head(&mut exchange, connection, &fault, &mut fields);
                return PendingResponse::Now(Some(finish(response, exchange, under_way)));
            }
        };
        note_site(&mut exchange, &request, connection);
        let response = match carry_out::answer(&self.gate, &mut exchange, &mut request, Answers::default()) {
            Ok(response) => response,
            Err(Wait::Refused(fault)) => refuse::request(&mut exchange, &request, &fault),
            Err(wait) => {
                let gate = Rc::clone(&self.gate);
                return PendingResponse::Later(Box::pin(async move {
                    let progress = Rc::clone(&exchange.progress);
                    let answered = {
                        // Pinned here, because a function would store it twice.
                        let answer = pin!(carry_out::wait_for(wait, &gate, &mut exchange, &mut request));
                        unless_ended(&progress, answer).await
                    };
                    progress.obeyed();
                    let response = answered.unwrap_or_else(|fault| refuse::request(&mut exchange, &request, &fault));
                    note_redirect(&exchange, &request, &response);
                    finish(response, exchange, under_way)
                }));
            }
        };
        note_redirect(&exchange, &request, &response);
        PendingResponse::Now(Some(finish(response, exchange, under_way)))
    }

    fn refuse(&self, endpoints: Endpoints, refusal: &HeadRefusal) -> Option<Vec<u8>> {
        let mut exchange = Exchange::without_head(&self.context, endpoints);
        exchange.begin_watch_of_refusal(refusal);
        exchange.note_status(refusal.status);
        self.context.fault_log.log_refused_head(
            self.context.config().limits.log_lines_max,
            exchange.id,
            refusal.status,
            format_args!("request head from {}: {}", endpoints.client, refusal.reason),
        );
        (!refusal.is_answered).then(|| error_page::raw(refusal.status, exchange.id))
    }
}

/// Waits for an answer, unless the administrator ends the exchange first; the answer is dropped then, and its script with it.
async fn unless_ended<T>(
    progress: &Progress,
    mut answer: Pin<&mut impl Future<Output = Result<T, Fault>>>,
) -> Result<T, Fault> {
    poll_fn(|context| {
        if progress.poll_ended(context).is_ready() {
            return Poll::Ready(Err(ServerFault::Ended.into()));
        }
        answer.as_mut().poll(context)
    })
    .await
}

fn note_site(exchange: &mut Exchange, request: &Request, connection: &Connection) {
    exchange.entry.site = request.config.site_numbers[request.site];
    watched_decision::site(exchange, request, connection.peer.listener());
    if exchange.client.is_https && request.target_path().is_some() {
        exchange.hsts.clone_from(&request.site().hsts);
    }
}

fn note_redirect(exchange: &Exchange, request: &Request, response: &Response<ResponseBody>) {
    if !response.status().is_redirection() {
        return;
    }
    let redirected = Redirected {
        client: exchange.client.endpoints.client.ip(),
        peer: (!exchange.client.endpoints.is_unix).then_some(exchange.client.peer),
        is_https: exchange.client.is_https,
        is_forwarded: exchange.client.is_forwarded,
        method: request.method.as_str(),
        host: &request.host,
        path: exchange.line.uri.path_and_query().map_or("/", PathAndQuery::as_str),
        fields: &request.fields,
    };
    exchange.context.redirect_loops.note(response, &redirected);
}

fn finish(
    response: Response<ResponseBody>,
    mut exchange: Box<Exchange>,
    mut under_way: ActiveExchange,
) -> Response<Finish> {
    let mut response = head::complete(&exchange.line.method, response);
    if response.extensions().get::<CarriesWatch>().is_some() {
        exchange.carry_watch();
        under_way.carry_watch();
    }
    exchange.complete_head(&mut response);
    let has_length = response.body().length().is_some() || response.headers().contains_key(header::CONTENT_LENGTH);
    let version = exchange.line.version;
    if !has_length && version.uses_chunked() {
        under_way.exchanges.is_chunked.set(true);
    } else if !has_length && !version.keeps_connection() {
        end_with_connection(&mut response);
    }
    // The client's next request goes to the server that has taken over.
    if exchange.context.front.is_replaced() && !version.is_multiplexed() {
        exchange.entry.is_last = true;
        say_close(&mut response);
    }
    watched::skip_octets_shown_to_nobody(&exchange, &under_way);
    let mask = watched::response_mask(&exchange, response.headers());
    response.map(|body| Finish::new(body, exchange, under_way, mask))
}

/// Has the end of the connection delimit the body, and says so (RFC 9112 §9.3): otherwise hyper would promise keep-alive to a client that asks.
fn end_with_connection(response: &mut Response<ResponseBody>) {
    *response.version_mut() = Version::HTTP_10;
    say_close(response);
}

fn say_close(response: &mut Response<ResponseBody>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}
