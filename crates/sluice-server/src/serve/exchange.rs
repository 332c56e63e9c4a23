//! An exchange: one request and its response, from the parsed head to its line in the access log.
//!
//! It is logged exactly once, whatever happens, because the line is written when the value is dropped (`log_entry`).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version, header};
use hyper::ext::ReasonPhrase;
use sluice_access::throttle::Permit;
use sluice_http::body::ResponseBody;
use sluice_http::endpoints::Endpoints;
use sluice_http::fault::{BodyFailure, ClientFault, Fault};
use sluice_http::head;
use sluice_http::progress::Progress;
use sluice_http::protocol::Protocol;
use sluice_http::request_id::UniqueId;
use sluice_log::STATUS_CLIENT_LEFT;
use sluice_net::active_exchange::ExchangeHandle;
use sluice_net::connection::Connection;
use sluice_net::service::HeadRefusal;
use sluice_settings::rule::{HeadChanges, RateSettings, ThrottleSettings};
use sluice_watch::mask::Masks;
use sluice_watch::{Item, Stage, TracedAttributes, TracedRequest, Tracer};

use crate::context::{Context, HeldConfig};
use crate::dispatch::Site;
use crate::fault_log::Cause;
use crate::in_progress::{EntryNumber, NewEntry, NewRequest};
use crate::serve::cache_control;
use crate::serve::client::Client;
use crate::serve::decide::Decision;
use crate::serve::log_entry::LogEntry;
use crate::serve::watched;

/// A body in memory of so many bytes is handed on with the head, so that its last byte leaves with the first one: the clock is read once.
const SENT_AT_ONCE_BYTES: usize = 64 << 10;

/// The request line (RFC 9112 §3), or its pseudo-header fields (RFC 9113 §8.3.1).
pub(crate) struct RequestLine {
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
}

impl RequestLine {
    /// The scheme of an absolute form (RFC 9112 §3.2.2). `None` for the other forms; HTTP/2, which sends a scheme with each request, has no such form.
    pub(crate) fn absolute_form(&self) -> Option<&Scheme> {
        self.uri.scheme().filter(|_| !self.version.is_multiplexed())
    }
}

/// The limits on requests that an exchange holds, until its response has been sent (`request_limits`).
#[derive(Default)]
pub(crate) struct HeldLimits {
    pub counted: Vec<Arc<RateSettings>>,
    pub permits: Vec<(Arc<ThrottleSettings>, Permit)>,
}

pub(crate) struct Exchange {
    pub id: UniqueId,
    pub context: Rc<Context>,
    pub client: Client,
    pub line: RequestLine,
    /// The counts of bytes, the status and the process, for reports; and the order to end the exchange.
    pub progress: Rc<Progress>,
    place: EntryNumber,
    changes: HeadChanges,
    pub limits: Option<Box<HeldLimits>>,
    /// Not everybody may have the response, so that no shared cache may keep it.
    pub is_private: bool,
    /// The site's Strict-Transport-Security, if the response is to have it.
    pub hsts: Option<HeaderValue>,
    pub tracer: Tracer,
    pub entry: LogEntry,
}

impl Exchange {
    /// Opens an exchange, boxed because many functions move it. The target moves to it from the head. `handle` is `None` if no connection serves it.
    pub(crate) fn open(
        context: &Rc<Context>,
        config: &HeldConfig,
        client: Client,
        head: &mut Parts,
        handle: Option<ExchangeHandle>,
    ) -> Box<Exchange> {
        context.counts.begin();
        let (id, arrival) = (context.next_id(), context.arrival());
        let NewEntry { place, progress, tracer } = context.in_progress.begin(
            NewRequest {
                id,
                started: arrival.instant,
                client: client.endpoints.client,
                is_https: client.is_https,
                method: head.method.clone(),
                uri: head.uri.clone(),
                version: head.version,
                host: head.headers.get(header::HOST).cloned(),
            },
            handle,
        );
        Box::new(Exchange {
            id,
            context: Rc::clone(context),
            client,
            progress,
            place,
            line: RequestLine {
                method: head.method.clone(),
                uri: std::mem::take(&mut head.uri),
                version: head.version,
            },
            changes: HeadChanges::default(),
            limits: None,
            is_private: false,
            hsts: None,
            tracer,
            // Made here and not before, because it is large: each value that holds it is one copy more.
            entry: LogEntry::new(config, &head.headers, arrival),
        })
    }

    pub(crate) fn without_head(context: &Rc<Context>, endpoints: Endpoints) -> Box<Exchange> {
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.method = Method::from_bytes(b"-").unwrap_or_default();
        let mut exchange = Exchange::open(
            context,
            &context.config(),
            Client::unresolved(endpoints),
            &mut head,
            None,
        );
        exchange.entry.is_last = true;
        exchange.entry.has_head = false;
        exchange
    }

    /// Has it noted who watches it, now that its head is known; `fields` are those of the request.
    pub(crate) fn begin_watch(&mut self, connection: &Connection, fields: &HeaderMap) {
        let watches = self.context.front.watches();
        if watches.is_on() {
            let on_connection = self.context.front.tracer(connection);
            let request = TracedRequest {
                client: self.client.endpoints.client.ip(),
                path: self.line.uri.path(),
                method: self.line.method.as_str(),
                id: self.id.as_str(),
            };
            self.tracer.occupy(&watches.request(&on_connection, &request));
            if self.tracer.is_none() {
                connection.skip_octets();
            }
            watched::request_head(self, fields);
        }
    }

    pub(crate) fn begin_watch_of_refusal(&mut self, refusal: &HeadRefusal) {
        let watches = self.context.front.watches();
        if watches.is_on() {
            let tracer = watches.exchange(&Tracer::NONE, || TracedAttributes {
                client: Some(self.client.endpoints.client.ip().to_canonical().to_string()),
                id: Some(self.id.to_string()),
                status: Some(refusal.status.as_u16()),
                ..TracedAttributes::default()
            });
            self.tracer.occupy(&tracer);
            self.tracer.note(Item::Errors, watched::module::REQUEST, || {
                let (status, reason) = (refusal.status.as_u16(), &refusal.reason);
                format!("the head of a request was refused, status {status}: {reason}")
            });
        }
    }

    /// Notes that it carries the events of a watch: it is watched no more, because each of its events would cause others.
    pub(crate) fn carry_watch(&self) {
        self.context.in_progress.exempt(self.place);
        self.tracer.end();
    }

    /// Notes what a decision says about the log and the head of the response. `path` and `fields` are the request's; without a path no route has taken part.
    pub(crate) fn note_decision(
        &mut self,
        site: &Site,
        path: Option<&str>,
        fields: &HeaderMap,
        decision: &mut Decision<'_>,
    ) {
        self.entry.answered = decision.answered();
        let Some(path) = path else { return };
        let adjustments = &mut decision.adjustments;
        let is_logged = adjustments.is_logged.unwrap_or(true);
        self.entry.choose_log(is_logged.then_some(site.log), fields);
        self.changes = std::mem::take(&mut adjustments.head);
        if let Some(handler) = decision.handler {
            self.context.in_progress.note_handler(self.place, handler);
            self.entry.note_handler(handler, || decision.file(site, path));
        }
    }

    pub(crate) fn note_user(&mut self, user: &Arc<str>) {
        self.context.in_progress.note_user(self.place, user);
        self.entry.user = Some(Arc::clone(user));
        self.tracer.know(|attributes| attributes.user = Some(user.to_string()));
    }

    /// Logs a fault, at the level of its culprit, unless the administrator has caused it, whose order is logged; `route` is the route that caused it, if it is a 404.
    pub(crate) fn report(&self, fault: &Fault, route: Option<&dyn fmt::Display>) {
        if fault.is_order() {
            return;
        }
        let RequestLine { method, uri, .. } = &self.line;
        let status = match fault.is_departure() {
            true => StatusCode::from_u16(STATUS_CLIENT_LEFT).ok(),
            false => Some(fault.status()),
        };
        let cause = match route.is_some() || fault.is_of_configuration() {
            true => Cause::Route,
            false => Cause::Path,
        };
        match route {
            Some(route) => self.log_fault(fault, cause, status, format_args!("{method} {uri}: {fault} ({route})")),
            None => self.log_fault(fault, cause, status, format_args!("{method} {uri}: {fault}")),
        }
    }

    /// Logs that the client has left within its request body, for an exchange that is dropped before there is a response: that of a stream which was reset.
    fn report_departure(&mut self) {
        if let Some(body) = self.progress.open_body().filter(|_| self.entry.is_unanswered()) {
            let failure = BodyFailure::departure(body);
            self.report(&ClientFault::BadBody(Box::new(failure)).into(), None);
        }
    }

    pub(crate) fn report_abort(&self, fault: &Fault) {
        if fault.is_order() {
            return;
        }
        self.log_fault(fault, Cause::Path, None, format_args!("response aborted: {fault}"));
    }

    fn log_fault(&self, fault: &Fault, cause: Cause, status: Option<StatusCode>, text: fmt::Arguments<'_>) {
        let lines_max = self.context.config().limits.log_lines_max;
        let log = &self.context.fault_log;
        let logged = log.log(lines_max, fault, cause, self.id, status, text);
        watched::fault(self, fault, &text, logged);
    }

    /// Applies to the head of the response what the site and its routes change, and notes what the log's format names of it.
    pub(crate) fn complete_head(&mut self, response: &mut Response<ResponseBody>) {
        if let Some(hsts) = self.hsts.take() {
            response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, hsts);
        }
        let status = response.status();
        if status.canonical_reason().is_none() {
            // Otherwise hyper writes "<none>". The phrase may be empty (RFC 9112 §4).
            response.extensions_mut().insert(ReasonPhrase::from_static(b""));
        }
        self.changes.apply(status, response.headers_mut());
        if self.is_private {
            cache_control::protect(response.headers_mut());
        }
        // hyper adds Content-Length by itself.
        let length = match head::may_have_body(&self.line.method, status) {
            true => response.body().length(),
            false => None,
        };
        self.begin_response(response.body());
        self.entry.note_response(status, response.headers(), length);
        self.progress.status.set(status.as_u16());
        watched::response_head(self, response, length);
    }

    pub(crate) fn note_status(&mut self, status: StatusCode) {
        self.entry.note_response(status, &HeaderMap::new(), None);
    }

    pub(crate) fn count(&mut self, bytes: usize) {
        self.entry.body_bytes += bytes as u64;
        self.progress.sent_bytes.update(|sent| sent + bytes as u64);
    }

    /// Notes whether the next chunk of the body is there. If not, the task that is polled here is woken by an order to end the exchange.
    pub(crate) fn note_chunk<T>(&self, chunk: &Poll<T>, context: &mut TaskContext<'_>) {
        match chunk {
            Poll::Ready(_) => self.tracer.stage(Stage::Sending),
            Poll::Pending => {
                self.tracer.stage(Stage::Producing);
                let _ = self.progress.poll_ended(context);
            }
        }
    }

    /// Notes that the first byte of the response can be sent; and when, if the others will take time.
    fn begin_response(&mut self, body: &ResponseBody) {
        self.tracer.stage(Stage::Sending);
        let is_at_once = match body {
            ResponseBody::Empty => true,
            ResponseBody::Whole(content) => content.len() <= SENT_AT_ONCE_BYTES,
            ResponseBody::Source(_) => false,
        };
        if !is_at_once {
            self.entry.first_byte = Some(self.entry.elapsed());
        }
    }

    pub(crate) fn note_truncated(&mut self) {
        self.entry.is_truncated = true;
        self.tracer.stage(Stage::Aborted);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let is_draining = self.context.front.is_draining();
        if !is_draining {
            self.report_departure();
        }
        self.entry.is_last |= is_draining;
        self.entry.end();
        self.entry
            .count(&self.context.counts, &self.client, &self.line, &self.progress);
        // Only now, because the progress is reset.
        self.context.in_progress.end(self.place);
        self.entry.write(self.context.worker, self.id, &self.client, &self.line);
        if !self.tracer.is_none() {
            let line = |masks: &Masks| self.entry.text(self.id, &self.client, &self.line, masks);
            watched::end(self, line, self.entry.has_head());
            self.tracer.end();
        }
    }
}
