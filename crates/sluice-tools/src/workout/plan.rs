//! The plan of a run: the command line, checked and completed.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE, USER_AGENT};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use rustls::pki_types::ServerName;
use sluice_settings::notation;

use super::arguments::Workout;
use super::client::{Protocol, Tls};
use super::target::Target;
use super::tls::{self, Trust};

/// Fields that frame a message; the client sets them.
const FRAMING: [HeaderName; 5] = [CONNECTION, CONTENT_LENGTH, TE, TRANSFER_ENCODING, UPGRADE];

/// The name by which the client introduces itself.
const OWN_NAME: HeaderValue = HeaderValue::from_static(concat!("sluice-workout/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) options: Workout,
    pub(super) target: Target,
    pub(super) tls: Option<Tls>,
    pub(super) protocol: Protocol,
    pub(super) requests: Vec<Request<Full<Bytes>>>,
}

impl Plan {
    /// Checks the command line, and reads the files that it names. A mistake is the user's to fix.
    pub(crate) fn new(mut options: Workout) -> Result<Plan, String> {
        options.threads = options.threads.min(options.connections);
        let target = Target::parse(&options.urls, &options.path)?;
        let protocol = match options.http2 {
            true => Protocol::Http2,
            false => Protocol::Http1,
        };
        let body = match &options.body {
            None => Bytes::new(),
            Some(file) => std::fs::read(file)
                .map_err(|error| format!("--body {}: {}", file.display(), notation::reason(&error)))?
                .into(),
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method(&options)?;
        let mut fields = fields(&options.header)?;
        let authority = match fields.remove(HOST) {
            None => target.authority.clone(),
            Some(host) => authority(&host)?,
        };
        fields.entry(USER_AGENT).or_insert(OWN_NAME);
        if protocol == Protocol::Http1 {
            // An authority has no character that a field value may not have.
            let host = HeaderValue::from_str(authority.as_str()).expect("an authority is a field value");
            fields.insert(HOST, host);
            if options.no_keep_alive {
                fields.insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        *request.headers_mut() = fields;
        let requests = target.paths.iter().map(|path| {
            let mut request = request.clone();
            *request.uri_mut() = uri(protocol, &target.scheme, &authority, path);
            request
        });
        Ok(Plan {
            requests: requests.collect(),
            tls: tls(&options, &target, protocol)?,
            protocol,
            options,
            target,
        })
    }
}

/// The URI of a request: HTTP/2 has the complete one; HTTP/1.1 has only the path in its first line, and names the host in a field.
fn uri(protocol: Protocol, scheme: &Scheme, authority: &Authority, path: &PathAndQuery) -> Uri {
    if protocol == Protocol::Http1 {
        return path.clone().into();
    }
    let mut parts = Parts::default();
    parts.scheme = Some(scheme.clone());
    parts.authority = Some(authority.clone());
    parts.path_and_query = Some(path.clone());
    Uri::from_parts(parts).expect("scheme, authority and path make a URI")
}

/// The method: the one of the command line, or POST if there is a body.
fn method(options: &Workout) -> Result<Method, String> {
    let Some(name) = &options.method else {
        return Ok(match options.body {
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

/// The host of the requests, from the field Host.
fn authority(host: &HeaderValue) -> Result<Authority, String> {
    let text = host.to_str().map_err(|_| "--header Host: must be ASCII")?;
    text.parse().map_err(|error| format!("host {text}: {error}"))
}

fn tls(options: &Workout, target: &Target, protocol: Protocol) -> Result<Option<Tls>, String> {
    if target.scheme == Scheme::HTTP {
        return match options.insecure || options.ca.is_some() {
            true => Err(format!("--insecure and --ca are for https, and the URL names {target}")),
            false => Ok(None),
        };
    }
    let trust = match &options.ca {
        Some(file) => Trust::File(file),
        None if options.insecure => Trust::Anything,
        None => Trust::System,
    };
    let name = ServerName::try_from(target.host.clone()).map_err(|_| format!("{target}: is not a host name"))?;
    Ok(Some(Tls { client: tls::configuration(trust, protocol)?, name }))
}
