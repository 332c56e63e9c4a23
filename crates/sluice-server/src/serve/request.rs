//! The request of an exchange as the routes see it: what the client asked for, or what a script's local redirect made of it.

use std::rc::Rc;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Method, Uri, header};
use http_body::Body;
use sluice_http::fault::{ClientFault, Fault, Misdirected, ScriptFault};
use sluice_http::host::host;
use sluice_http::protocol::Protocol;
use sluice_http::received::Receiver;
use sluice_http::request_body::Incoming;
use sluice_http::request_body::RequestBody;
use sluice_http::target::{Target, TargetError, TargetProblem, check_escapes};
use sluice_net::connection::Connection;
use sluice_script::exchange::in_advance;
use sluice_settings::limits::Limits;
use sluice_settings::rule::{BodyBounds, ClientCertificate, RequestAttributes};
use sluice_watch::mask::Masks;

use crate::context::HeldConfig;
use crate::dispatch::Site;
use crate::dispatch::known_hosts::{self, KnownHost};
use crate::serve::decide::held::HeldDecision;
use crate::serve::decide::{AskedFor, RouteQuestion, Variants};
use crate::serve::exchange::{Exchange, RequestLine};
use crate::serve::fields::Fields;
use crate::serve::identity::{Granted, Identity};
use crate::serve::watched;

/// The methods named to a client that asks for a tunnel (405).
const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

pub(crate) struct Request {
    pub config: Rc<HeldConfig>,
    pub site: usize,
    pub certificate: ClientCertificate,
    pub asked_for: AskedFor,
    pub method: Method,
    pub fields: Fields,
    pub host: Rc<str>,
    pub body: Option<RequestBody>,
    pub identity: Identity,
    pub granted: Option<Granted>,
    pub held: Option<Box<HeldDecision>>,
}

impl Request {
    /// Reads the head of the client's request. The fields move to the request if there is no fault. Errors of the client: no usable host or target (400), a
    /// host that is not served on this address or at all (421), too many fields (431), a body with another transfer coding than chunked (501), a tunnel is
    /// asked for (405), a malformed field of HTTP/2 (400).
    pub(crate) fn read(
        exchange: &Exchange,
        connection: &Rc<Connection>,
        config: Rc<HeldConfig>,
        fields: &mut HeaderMap,
        incoming: Incoming,
    ) -> Result<Request, Fault> {
        let known_hosts = &exchange.context.known_hosts;
        let listener = connection.peer.listener();
        let known = known_hosts::text(exchange.line.version, &exchange.line.uri, fields)
            .and_then(|text| known_hosts.find(&config, listener, text));
        let host = match &known {
            Some(known) => {
                if exchange.line.uri.authority().is_some() {
                    fields.insert(header::HOST, known.field.clone());
                }
                Rc::clone(&known.host)
            }
            None => host(exchange.line.version, &exchange.line.uri, fields)?.into(),
        };
        // HTTP/1.1 has been bounded by its parser; HTTP/2 bounds their bytes alone.
        if fields.len() > config.limits.head_fields_max {
            return Err(ClientFault::TooManyFields(fields.len()).into());
        }
        if exchange.line.version.is_multiplexed() {
            check_padding(fields)?;
        }
        // Without a body, hyper has seen no such field.
        if !incoming.is_end_stream() {
            check_transfer_coding(fields)?;
        }
        // Not for a client that speaks https with a proxy: it would be redirected to where it is.
        let asked_for = match connection.peer.https_port().filter(|_| !exchange.client.is_https) {
            Some(port) => {
                check_escapes(exchange.line.uri.path())?;
                AskedFor::Https(port, Box::new(exchange.line.uri.clone()))
            }
            None => asked_for(&exchange.line)?,
        };
        if let Some(scheme) = exchange.line.absolute_form() {
            let server = exchange.client.endpoints.server.ip();
            config
                .check_absolute_form(scheme, &host, server)
                .map_err(ClientFault::Misdirected)?;
        }
        let site = match known {
            Some(known) if !matches!(asked_for, AskedFor::Https(..)) => known.site,
            _ => choose_site(exchange, &config, &asked_for, &host, listener, fields)?,
        };
        let certificate = exchange.context.front.client_certificate(connection, &host);
        if certificate == ClientCertificate::Refused {
            return Err(ClientFault::Misdirected(Misdirected::NoHandshake).into());
        }
        if !exchange.client.is_forwarded {
            for field in &config.site(site).user_fields {
                fields.remove(field);
            }
        }
        let body = body(exchange, fields, incoming, connection, &config.limits);
        Ok(Request {
            site,
            certificate,
            asked_for,
            method: exchange.line.method.clone(),
            fields: Fields::new(std::mem::take(fields)),
            host,
            body: Some(body),
            identity: Identity::default(),
            granted: None,
            held: None,
            config,
        })
    }

    pub(crate) fn question<'a>(&'a self, exchange: &'a Exchange) -> RouteQuestion<'a> {
        RouteQuestion {
            asked_for: &self.asked_for,
            attributes: RequestAttributes {
                method: &self.method,
                host: &self.host,
                client: exchange.client.endpoints.client.ip(),
                known_client: exchange.client.endpoints.known_client(),
                scheme: exchange.client.scheme(),
                certificate: self.certificate,
                fields: &self.fields,
            },
            cache: self.config.cache.as_ref(),
            variants: Variants::Offered,
            tracer: &exchange.tracer,
        }
    }

    pub(crate) fn site(&self) -> &Arc<Site> {
        self.config.site(self.site)
    }

    /// The path that it asks for. `None` if it is not about a path of the site.
    pub(crate) fn target_path(&self) -> Option<&str> {
        Some(&self.asked_for.target()?.path)
    }

    pub(crate) fn path(&self) -> &str {
        self.target_path().unwrap_or("*")
    }

    pub(crate) fn raw_target(&self) -> &str {
        self.asked_for.target().map_or("*", |target| &target.raw)
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.asked_for.target()?.query.as_deref()
    }

    /// Applies the bounds that routes set on its body. Errors of the client: it announced a larger body (413).
    pub(crate) fn bound_body(&mut self, bounds: BodyBounds) -> Result<(), Fault> {
        match (&self.asked_for, &mut self.body) {
            (AskedFor::Target(_), Some(body)) => body.bound(bounds.within(&self.config.limits)),
            // Without a target no route takes part, and nobody reads the body.
            _ => Ok(()),
        }
    }

    /// Follows a script's local redirect like a client's GET for this target, without a body (RFC 3875 §6.2.2). Errors of the script: an invalid target.
    pub(crate) fn redirect(&mut self, target: &str) -> Result<(), Fault> {
        let target = Target::parse(target).map_err(ScriptFault::BadLocalRedirect)?;
        self.asked_for = AskedFor::Target(target);
        if self.method != Method::HEAD {
            self.method = Method::GET;
        }
        let fields = self.fields.make_mut();
        for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::TRANSFER_ENCODING] {
            fields.remove(name);
        }
        self.body = None;
        Ok(())
    }
}

/// Chooses the site for a host, and has the worker remember it by the host's text. Errors of the client: the host is not served on this address (421).
fn choose_site(
    exchange: &Exchange,
    config: &Rc<HeldConfig>,
    asked_for: &AskedFor,
    host: &Rc<str>,
    listener: usize,
    fields: &HeaderMap,
) -> Result<usize, ClientFault> {
    if matches!(asked_for, AskedFor::Https(..)) {
        let site = config.site_of_redirect(host, listener);
        return site.map_err(ClientFault::Misdirected);
    }
    let chosen = config.site_of_request(host, listener);
    let (site, _) = chosen.map_err(ClientFault::Misdirected)?;
    // Of an authority, `sluice_http::host::host` has made the field.
    if let Some(text) = known_hosts::text(exchange.line.version, &exchange.line.uri, fields)
        && let Some(field) = fields.get(header::HOST).filter(|field| field.as_bytes() == text)
    {
        let known = KnownHost { field: field.clone(), host: Rc::clone(host), site };
        exchange.context.known_hosts.remember(config, listener, known);
    }
    Ok(site)
}

/// The body. In HTTP/2, h2 bounds the framing.
fn body(
    exchange: &Exchange,
    fields: &HeaderMap,
    incoming: Incoming,
    connection: &Rc<Connection>,
    limits: &Limits,
) -> RequestBody {
    let (is_over, has_length) = (incoming.is_end_stream(), incoming.size_hint().exact().is_some());
    let mask = |masks: &Masks| watched::body_mask(masks, fields);
    let mut body = RequestBody::new(incoming, limits.body()).watched(&exchange.tracer, mask);
    if !is_over {
        body = body
            .counting(Arc::clone(&exchange.context.counts.received_bytes))
            .counted(&exchange.progress);
    }
    if is_over {
        return body;
    }
    let tasks = exchange.context.scripts.tasks();
    if exchange.line.version.is_multiplexed() {
        return body.discarding_rest(tasks, true);
    }
    let body = match has_length {
        true => body,
        false => body.chunked(Rc::clone(connection) as Rc<dyn Receiver>),
    };
    // A client that waits for 100 (Continue) may not send the body at all, after another response (RFC 9110 §10.1.1).
    match fields.contains_key(header::EXPECT) {
        true => body,
        false => body.discarding_rest(tasks, false),
    }
}

/// No value of an HTTP/2 field may begin or end with white space (RFC 9113 §8.2.1); in HTTP/1.1 that is not part of the value (RFC 9112 §5.1).
fn check_padding(fields: &HeaderMap) -> Result<(), ClientFault> {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_padded = |value: &[u8]| is_blank(value.first()) || is_blank(value.last());
    let padded = fields.iter().find(|(_, value)| is_padded(value.as_bytes()));
    padded.map_or(Ok(()), |(name, _)| {
        Err(ClientFault::PaddedField(Box::new(name.clone())))
    })
}

/// Checks that a body is only chunked, and only once (RFC 9112 §6.1): a script would get coded bytes and would not know it. hyper
/// answers 400 if the last coding is not chunked, because then the end of the body is unknown (§6.3).
fn check_transfer_coding(fields: &HeaderMap) -> Result<(), ClientFault> {
    let mut is_chunked = false;
    for value in fields.get_all(header::TRANSFER_ENCODING) {
        let unknown = || ClientFault::UnknownTransferCoding(String::from_utf8_lossy(value.as_bytes()).into());
        let codings = value.to_str().map_err(|_| unknown())?;
        // Empty list elements are allowed (RFC 9110 §5.6.1).
        for coding in codings.split(',').map(str::trim).filter(|coding| !coding.is_empty()) {
            match coding.eq_ignore_ascii_case("chunked") {
                true if is_chunked => return Err(ClientFault::ChunkedTwice),
                true => is_chunked = true,
                false => return Err(unknown()),
            }
        }
    }
    Ok(())
}

/// The thing that a target is about. Two forms name no resource (RFC 9112 §3.2.3, §3.2.4): `*` is the whole server, an authority alone asks for a tunnel.
fn asked_for(line: &RequestLine) -> Result<AskedFor, Fault> {
    let RequestLine { method, uri, version } = line;
    let bad = |problem| Err(TargetError::boxed(&uri.to_string(), problem).into());
    match *method {
        // Only the server itself makes such requests, so that a script can trust the method.
        _ if method.as_str() == in_advance::METHOD => Err(ClientFault::method_not_allowed(method, METHODS).into()),
        Method::CONNECT => Err(ClientFault::method_not_allowed(method, METHODS).into()),
        Method::OPTIONS if uri.path() == "*" => Ok(AskedFor::Server),
        _ if uri.path() == "*" || (uri.authority().is_some() && uri.scheme().is_none()) => bad(TargetProblem::NotAPath),
        // The authority of HTTP/2 is a field of its own, so a path without a slash is no absolute form (RFC 9113 §8.3.1).
        _ if version.is_multiplexed() && has_no_slash(uri) => bad(TargetProblem::NoSlash),
        _ => Ok(AskedFor::Target(Target::from_uri(uri)?)),
    }
}

fn has_no_slash(uri: &Uri) -> bool {
    uri.path_and_query()
        .is_some_and(|target| !target.as_str().starts_with('/'))
}

/// Whether the client says that this request is its last on the connection (RFC 9112 §9.3).
pub(crate) fn ends_connection(head: &Parts) -> bool {
    if !head.headers.contains_key(header::CONNECTION) {
        return !head.version.keeps_connection();
    }
    let says = |word: &str| {
        let values = head.headers.get_all(header::CONNECTION).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case(word))
    };
    says("close") || (!head.version.keeps_connection() && !says("keep-alive"))
}
