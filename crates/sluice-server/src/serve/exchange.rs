//! An exchange: one request and its response, from the parsed head to the line in the access log.
//!
//! Here: what every stage may want to know of it, and the promise that it is logged exactly once, whatever happens: the
//! line is written when the value is dropped. Not here: what a line looks like (`write::log`).

use std::cell::OnceCell;
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::request;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version, header};
use sluice_http::body::ResponseBody;
use sluice_http::endpoints::{Endpoints, TlsInfo};
use sluice_http::fault::Fault;
use sluice_http::head;
use sluice_http::request_id::UniqueId;
use sluice_log::SiteLog;
use sluice_log::line::{Line, RequestFields, ResponseFields, STATUS_CLIENT_LEFT};
use sluice_settings::rule::{HeadChanges, Scheme};

use crate::context::{Context, HeldConfig};
use crate::dispatch::Site;
use crate::reverse_dns::Lookup;
use crate::serve::decide::Decision;
use crate::serve::fault_log::log_fault;
use crate::serve::request::{Request, RequestSubject};

/// One request and its response.
pub(crate) struct Exchange {
    pub id: UniqueId,
    pub endpoints: Endpoints,
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
    pub arrived: SystemTime,
    /// Who is connected: the client, or a proxy that has told of it.
    peer: IpAddr,
    /// The client's name, where names are looked up.
    name: Option<Arc<Lookup>>,
    /// The client speaks https, be it to a proxy before this server.
    pub is_https: bool,
    /// What TLS has found out; none where the connection is in clear text.
    pub tls_info: Option<Rc<TlsInfo>>,
    /// The site's Strict-Transport-Security, where it is to be told.
    pub hsts: Option<HeaderValue>,
    /// What the site's rules do to the head of the response.
    pub changes: HeadChanges,
    /// The client has said that no other follows on its connection; a body of this one may still be to come.
    pub is_last: bool,
    /// What makes the response, for the log.
    handler: &'static str,
    /// The file behind the path, if the log wants to know it.
    file: Option<PathBuf>,
    started: Instant,
    logs: Rc<[SiteLog]>,
    log: ChosenLog,
    /// What the log's format names of the request and the response.
    request_fields: RequestFields,
    response_fields: ResponseFields,
    /// What the client was told; none while no head has been made, which is logged as 499 (nginx's word for a client
    /// that left before the answer).
    status: Option<StatusCode>,
    body_bytes: u64,
    is_cut: bool,
    pub context: Rc<Context>,
}

/// Which of the logs gets the line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChosenLog {
    /// No site is found: the server's own.
    Server,
    Site(usize),
    /// The route says that none does.
    None,
}

impl ChosenLog {
    fn of(self, logs: &[SiteLog]) -> Option<&SiteLog> {
        let log = match self {
            ChosenLog::Server => logs.first(),
            ChosenLog::Site(number) => logs.get(number),
            ChosenLog::None => None,
        };
        log.filter(|log| log.is_on())
    }
}

impl Exchange {
    /// A new one; boxed, because it goes through many hands.
    pub(crate) fn open(
        context: &Rc<Context>,
        config: &HeldConfig,
        endpoints: Endpoints,
        head: &request::Parts,
    ) -> Box<Exchange> {
        let log = ChosenLog::Server.of(&config.logs);
        let names = log.map_or(&[][..], |log| &log.format.request_fields);
        Box::new(Exchange {
            id: context.next_id(),
            endpoints,
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            arrived: SystemTime::now(),
            peer: endpoints.client.ip(),
            name: None,
            is_https: false,
            tls_info: None,
            hsts: None,
            changes: HeadChanges::default(),
            is_last: ends_connection(head),
            handler: "-",
            file: None,
            started: Instant::now(),
            request_fields: RequestFields::of(names, &head.headers),
            response_fields: ResponseFields::default(),
            logs: Rc::clone(&config.logs),
            log: ChosenLog::Server,
            status: None,
            body_bytes: 0,
            is_cut: false,
            context: Rc::clone(context),
        })
    }

    /// An exchange whose request has no usable head.
    pub(crate) fn without_head(context: &Rc<Context>, endpoints: Endpoints) -> Box<Exchange> {
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.method = Method::from_bytes(b"-").unwrap_or_default();
        let mut exchange = Exchange::open(context, &context.config(), endpoints, &head);
        exchange.is_last = true;
        exchange
    }

    /// What it came over.
    pub(crate) fn scheme(&self) -> Scheme {
        match self.is_https {
            true => Scheme::Https,
            false => Scheme::Http,
        }
    }

    /// The path has led to a site, by the number of its log, and to a route that may not be logged. The first place counts:
    /// it is what the client has asked for, whatever a script's local redirect makes of it.
    fn place(&mut self, site: usize, is_logged: bool, fields: &HeaderMap) {
        if self.log != ChosenLog::Server {
            return;
        }
        self.log = if is_logged {
            ChosenLog::Site(site)
        } else {
            ChosenLog::None
        };
        let (log, former) = (self.log.of(&self.logs), ChosenLog::Server.of(&self.logs));
        if let Some(log) = log
            && !former.is_some_and(|former| log.shares_format(former))
        {
            self.request_fields = RequestFields::of(&log.format.request_fields, fields);
        }
    }

    /// The site of the request is known: what it adds to every response over https.
    pub(crate) fn note_site(&mut self, request: &Request) {
        if self.is_https && matches!(request.subject, RequestSubject::Target(_)) {
            self.hsts.clone_from(&request.config.site(&request.host).hsts);
        }
    }

    /// Notes what a decision says about the log and about the head of the response.
    pub(crate) fn note_decision(&mut self, site: &Site, request: &Request, decision: &mut Decision<'_>) {
        let RequestSubject::Target(_) = request.subject else {
            return;
        };
        let adjustments = &mut decision.adjustments;
        self.place(site.log, adjustments.is_logged.unwrap_or(true), &request.fields);
        self.changes = std::mem::take(&mut adjustments.head);
        if let Some(handler) = decision.handler {
            self.handle_by(handler, || decision.file(site, request.path()));
        }
    }

    /// Logs a fault, at the level that its culprit deserves.
    pub(crate) fn report(&self, fault: &Fault) {
        let text = format_args!("{} {}: {fault}", self.method, self.uri);
        log_fault(fault, self.id, Some(fault.status()), text);
    }

    /// Has the client's name looked up, if names are; it is known later, or never.
    pub(crate) fn look_up_client(&mut self) {
        if !self.endpoints.is_unix {
            self.name = self
                .context
                .names
                .as_ref()
                .and_then(|names| names.of(self.endpoints.client.ip()));
        }
    }

    /// The client's name, for who can wait for it a little.
    pub(crate) fn client_name(&self) -> Option<impl Future<Output = Option<Arc<str>>> + use<>> {
        self.name.clone().map(Lookup::wait)
    }

    /// Notes what answers, and the file behind it if the log wants to know that.
    fn handle_by(&mut self, handler: &'static str, file: impl FnOnce() -> Option<PathBuf>) {
        self.handler = handler;
        if self.log.of(&self.logs).is_some_and(|log| log.format.names_file) {
            self.file = file();
        }
    }

    /// The head is made; hyper sends it next.
    pub(crate) fn answer(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// As above; keeps what the log's format names of the head.
    pub(crate) fn answer_with(&mut self, response: &Response<ResponseBody>) {
        self.answer(response.status());
        let Some(log) = self.log.of(&self.logs) else { return };
        let names = &log.format.response_fields;
        if names.is_empty() {
            return;
        }
        let mut kept = ResponseFields::of(names, response.headers());
        // hyper adds this one by itself.
        if let Some(number) = names.iter().position(|name| name == header::CONTENT_LENGTH)
            && kept.value(number).is_none()
            && head::may_have_body(&self.method, response.status())
            && let Some(bytes) = response.body().length()
        {
            kept.put(number, HeaderValue::from(bytes));
        }
        self.response_fields = kept;
    }

    /// Bytes of the body were handed to the connection.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.body_bytes += bytes as u64;
    }

    /// The response ends before it is complete.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }
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

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(log) = self.log.of(&self.logs) else { return };
        let name = self.name.as_ref().and_then(|lookup| lookup.name());
        let line = Line {
            id: self.id.as_str(),
            endpoints: self.endpoints,
            peer: self.peer,
            name: name.as_deref(),
            method: self.method.as_str(),
            uri: &self.uri,
            version: self.version,
            request_fields: &self.request_fields,
            response_fields: &self.response_fields,
            arrived: self.arrived,
            started: self.started,
            duration: OnceCell::new(),
            status: self.status.map_or(STATUS_CLIENT_LEFT, |status| status.as_u16()),
            body_bytes: self.body_bytes,
            is_cut: self.is_cut,
            is_last: self.is_last || self.context.front.is_draining(),
            handler: self.handler,
            file: self.file.as_deref(),
        };
        log.write(self.context.worker, &line);
    }
}
