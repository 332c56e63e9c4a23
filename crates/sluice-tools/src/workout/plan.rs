//! The plan of a run: the command line, checked and completed.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use rustls::pki_types::ServerName;
use sluice_settings::notation;

use super::arguments::{Amount, Comparison, Workout};
use super::client::{Protocol, Tls};
use super::target::{Scheme, Target};
use super::tls::{self, Trust};

/// Fields that frame a message; the client sets them.
const FRAMING: [HeaderName; 5] = [CONNECTION, CONTENT_LENGTH, TE, TRANSFER_ENCODING, UPGRADE];

/// The name by which the client introduces itself.
const USER_AGENT: &str = concat!("sluice-workout/", env!("CARGO_PKG_VERSION"));

/// The longest wait for a reply in a rating.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whether a connection is used for more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepAlive {
    On,
    Off,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) target: Target,
    pub(super) unix: Option<PathBuf>,
    pub(super) tls: Option<Tls>,
    pub(super) protocol: Protocol,
    pub(super) keep_alive: KeepAlive,
    pub(super) connections: usize,
    pub(super) threads: usize,
    pub(super) amount: Amount,
    pub(super) comparison: Comparison,
    /// Whether a first reply with a status of 400 or more is measured.
    pub(super) any_status: bool,
    pub(super) break_every: Option<u64>,
    pub(super) timeout: Duration,
    /// The head of a request for each path.
    heads: Vec<Head>,
    body: Bytes,
}

#[derive(Clone, Debug)]
struct Head {
    method: Method,
    uri: Uri,
    fields: HeaderMap,
}

impl Plan {
    /// Checks the command line, and reads the files that it names.
    ///
    /// # Errors
    /// One line about a mistake; the user's to fix.
    pub(super) fn new(arguments: &Workout) -> Result<Plan, String> {
        let target = Target::parse(&arguments.urls, &arguments.path)?;
        let protocol = match arguments.http2 {
            true => Protocol::Http2,
            false => Protocol::Http1,
        };
        let keep_alive = match arguments.no_keep_alive {
            true => KeepAlive::Off,
            false => KeepAlive::On,
        };
        let body = match &arguments.body {
            None => Bytes::new(),
            Some(file) => Bytes::from(
                std::fs::read(file)
                    .map_err(|error| format!("--body {}: {}", file.display(), notation::reason(&error)))?,
            ),
        };
        let method = method(arguments)?;
        let mut fields = fields(&arguments.header)?;
        let authority = authority(&target, fields.remove(HOST).as_ref())?;
        if !fields.contains_key(http::header::USER_AGENT) {
            fields.insert(http::header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        }
        let heads = target
            .paths
            .iter()
            .map(|path| Head::new(&method, &fields, &authority, path, target.scheme).framed(protocol, keep_alive));
        Ok(Plan {
            heads: heads.collect(),
            unix: arguments.unix.clone(),
            tls: tls(arguments, &target, protocol)?,
            protocol,
            keep_alive,
            connections: arguments.connections.get(),
            threads: arguments.threads.get().min(arguments.connections.get()),
            amount: arguments.amount(),
            comparison: arguments.compare,
            any_status: arguments.any_status,
            break_every: arguments.break_every,
            timeout: arguments.timeout,
            body,
            target,
        })
    }

    /// A run of GET requests for one URL in clear text, over connections that are kept, by one thread.
    ///
    /// # Errors
    /// One line about a URL that is wrong.
    pub(crate) fn of_url(url: &str, connections: NonZeroUsize, amount: Amount) -> Result<Plan, String> {
        let target = Target::parse(&[url.to_owned()], &[])?;
        let authority = authority(&target, None)?;
        let path = &target.paths[0];
        let head = Head::new(&Method::GET, &HeaderMap::new(), &authority, path, target.scheme);
        Ok(Plan {
            heads: vec![head.framed(Protocol::Http1, KeepAlive::On)],
            unix: None,
            tls: None,
            protocol: Protocol::Http1,
            keep_alive: KeepAlive::On,
            connections: connections.get(),
            threads: 1,
            amount,
            comparison: Comparison::Body,
            any_status: false,
            break_every: None,
            timeout: TIMEOUT,
            body: Bytes::new(),
            target,
        })
    }

    /// The request for a path of the target.
    pub(super) fn request(&self, path: usize) -> Request<Full<Bytes>> {
        let head = &self.heads[path];
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.fields.clone();
        request
    }
}

impl Head {
    /// A head with the complete URI, as HTTP/2 has it.
    fn new(method: &Method, fields: &HeaderMap, authority: &Authority, path: &PathAndQuery, scheme: Scheme) -> Head {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(match scheme {
            Scheme::Http => http::uri::Scheme::HTTP,
            Scheme::Https => http::uri::Scheme::HTTPS,
        });
        parts.authority = Some(authority.clone());
        parts.path_and_query = Some(path.clone());
        Head {
            method: method.clone(),
            uri: Uri::from_parts(parts).expect("scheme, authority and path make a URI"),
            fields: fields.clone(),
        }
    }

    /// HTTP/1.1 names the host in a field and has only the path in its first line.
    fn framed(mut self, protocol: Protocol, keep_alive: KeepAlive) -> Head {
        if protocol == Protocol::Http2 {
            return self;
        }
        let authority = self.uri.authority().map(Authority::as_str).unwrap_or_default();
        // An authority has no character that a field value may not have.
        let host = HeaderValue::from_str(authority).expect("an authority is a field value");
        self.fields.insert(HOST, host);
        if keep_alive == KeepAlive::Off {
            self.fields.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let path = self.uri.path_and_query().cloned();
        self.uri = path.map(Uri::from).unwrap_or_default();
        self
    }
}

/// The method: the one of the command line, or POST if there is a body.
fn method(arguments: &Workout) -> Result<Method, String> {
    let Some(name) = &arguments.method else {
        return Ok(match arguments.body {
            Some(_) => Method::POST,
            None => Method::GET,
        });
    };
    match Method::from_bytes(name.as_bytes()) {
        Ok(Method::CONNECT) => Err("--method CONNECT: a tunnel has no reply to compare".to_owned()),
        Ok(method) => Ok(method),
        Err(_) => Err(format!("--method {name}: is not a method: write GET, POST …")),
    }
}

/// The fields of the command line.
fn fields(lines: &[String]) -> Result<HeaderMap, String> {
    let mut fields = HeaderMap::new();
    for line in lines {
        let refuse = |reason: &str| format!("--header '{line}': {reason}");
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| refuse("must be a name and a value, as in 'Accept: text/html'"))?;
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| refuse("the name is not a field name"))?;
        if FRAMING.contains(&name) {
            return Err(refuse("the client sets this field itself"));
        }
        let value =
            HeaderValue::from_str(value.trim()).map_err(|_| refuse("the value has characters that none may have"))?;
        fields.append(name, value);
    }
    Ok(fields)
}

/// The host of the requests: from the Host field, or from the URL.
fn authority(target: &Target, host: Option<&HeaderValue>) -> Result<Authority, String> {
    let text = match host {
        None => target.authority.as_str(),
        Some(host) => host.to_str().map_err(|_| "--header Host: must be ASCII")?,
    };
    text.parse().map_err(|error| format!("host {text}: {error}"))
}

fn tls(arguments: &Workout, target: &Target, protocol: Protocol) -> Result<Option<Tls>, String> {
    if target.scheme == Scheme::Http {
        return match arguments.insecure || arguments.ca.is_some() {
            true => Err(format!("--insecure and --ca are for https, and the URL names {target}")),
            false => Ok(None),
        };
    }
    let trust = match &arguments.ca {
        Some(file) => Trust::File(file),
        None if arguments.insecure => Trust::Anything,
        None => Trust::System,
    };
    let name = ServerName::try_from(target.host.clone()).map_err(|_| format!("{target}: is not a host name"))?;
    Ok(Some(Tls {
        client: tls::configuration(trust, protocol)?,
        name,
    }))
}
