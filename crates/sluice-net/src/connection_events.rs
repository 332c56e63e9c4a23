//! Events that a connection notes for WATCH about itself: accepted, kept, closed, its TLS handshake, and the limits that it meets.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use sluice_http::endpoints::Endpoints;
use sluice_watch::{Item, TracedAttributes, Tracer};

use crate::client_certificates;
use crate::connection::Connection;
use crate::tls_info;
use crate::transport::Transport;
use crate::worker_net::WorkerNet;

pub(crate) struct PeerText<'a>(pub &'a Endpoints);

impl fmt::Display for PeerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_unix {
            true => f.write_str("a client of the unix socket"),
            false => write!(f, "{}", self.0.client),
        }
    }
}

pub(crate) fn note_accepted(net: &WorkerNet, connection: &Connection, slot: u64) {
    net.tracer(connection).note(Item::Connection, "net", || {
        let endpoints = connection.peer.endpoints();
        let listener = connection.peer.listener();
        let place = match endpoints.is_unix {
            true => format!("listener {listener}"),
            false => format!("{}, listener {listener}", endpoints.server),
        };
        format!("accepted from {} at {place}, in slot {slot}", PeerText(&endpoints))
    });
}

/// Notes that a watch has begun within a connection.
pub(crate) fn note_joined(connection: &Connection) {
    connection.note(|| {
        let endpoints = connection.peer.endpoints();
        format!(
            "from {}, with {} before the watch",
            PeerText(&endpoints),
            Requests(connection)
        )
    });
}

/// Notes that a connection was closed at once, because its address has as many as it may have.
pub(crate) fn note_over_client_limit(net: &WorkerNet, endpoints: &Endpoints, connections_max: u32) {
    if !net.watches().is_on() {
        return;
    }
    let tracer = net.watches().connection(&Tracer::NONE, || TracedAttributes {
        client: Some(endpoints.client.ip().to_string()),
        ..TracedAttributes::default()
    });
    tracer.note(Item::Connection, "net", || {
        format!(
            "closed at once: {} has {connections_max} connections already (limits.connections_per_client)",
            endpoints.client.ip()
        )
    });
}

/// Notes the client in the header of the PROXY protocol. It is known now, so watches with a filter for it may begin.
pub(crate) fn note_proxy_header(net: &WorkerNet, connection: &Connection, proxy: &Endpoints) {
    if !connection.watched.is_watched() {
        return;
    }
    let endpoints = connection.peer.endpoints();
    connection.watched.tracer().note(Item::Connection, "proxy", || {
        if endpoints.client == proxy.client {
            "PROXY header: no client is named (LOCAL, UNKNOWN or a unix socket)".into()
        } else {
            format!("PROXY header: client {}, server {}", endpoints.client, endpoints.server)
        }
    });
    net.know_client(connection);
}

pub(crate) fn note_closing(connection: &Connection) {
    if connection.watched.is_watched() {
        connection.note(|| format!("closing after {}: {}", Requests(connection), connection.close_reason()));
    }
}

pub(crate) fn note_error(connection: &Connection, error: &dyn Error) {
    connection.watched.tracer().note(Item::Errors, "net", || {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    });
}

pub(crate) fn note_closed(connection: &Connection) {
    if connection.watched.is_watched() {
        connection.note(|| match connection.is_aborted.get() {
            true => "closed, with a reset".into(),
            false => "closed".into(),
        });
    }
}

struct Requests<'a>(&'a Connection);

impl fmt::Display for Requests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.exchanges.begun.get() {
            1 => f.write_str("1 request"),
            count => write!(f, "{count} requests"),
        }
    }
}

/// The TLS handshake of a connection, measured if somebody watches.
pub(crate) struct Handshake {
    tracer: Tracer,
    began: Option<Instant>,
}

impl Handshake {
    pub(crate) fn begin(connection: &Connection) -> Handshake {
        let tracer = connection.watched.tracer();
        Handshake {
            began: tracer.wants(Item::Tls).then(Instant::now),
            tracer,
        }
    }

    pub(crate) fn note_done(&self, connection: &Connection, transport: &Transport) {
        self.tracer.note(Item::Tls, "tls", || {
            let mut text = "handshake:".to_owned();
            for (name, value) in variables(connection) {
                let label = match *name {
                    "SSL_PROTOCOL" | "SSL_CIPHER" => "",
                    "SSL_TLS_SNI" => "host ",
                    "SSL_CLIENT_S_DN" => "client certificate of ",
                    "SSL_CLIENT_I_DN" => "issued by ",
                    "SSL_CLIENT_V_END" => "valid until ",
                    _ => continue,
                };
                text.push_str(&format!(" {label}{value},"));
            }
            let protocol = transport.tls().and_then(|tls| tls.alpn_protocol());
            let protocol = protocol.map_or("none".into(), |name| name.escape_ascii().to_string());
            format!(
                "{text} ALPN {protocol}, {}, {}, {:.1?}",
                certificate(connection),
                if is_resumed(connection) {
                    "resumed"
                } else {
                    "new session"
                },
                self.time()
            )
        });
    }

    pub(crate) fn note_failed(&self, error: &io::Error) {
        self.tracer.note(Item::Tls, "tls", || {
            let fix = tls_info::client_certificate_error(error).map_or("", client_certificates::fix);
            format!("handshake failed after {:.1?}: {error}{fix}", self.time())
        });
    }

    pub(crate) fn note_timed_out(&self, limit: Duration) {
        self.tracer.note(Item::Tls, "tls", || {
            format!("handshake not complete within {limit:?} (head_timeout)")
        });
    }

    fn time(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

fn variables(connection: &Connection) -> impl Iterator<Item = &(&'static str, String)> {
    connection.peer.tls_info().into_iter().flat_map(|info| &info.variables)
}

fn is_resumed(connection: &Connection) -> bool {
    has_variable(connection, "SSL_SESSION_RESUMED", "Resumed")
}

fn certificate(connection: &Connection) -> &'static str {
    match connection.peer.certificate.get() {
        None => "no client certificate asked for",
        Some(_) if has_variable(connection, "SSL_CLIENT_VERIFY", "SUCCESS") => "client certificate verified",
        Some(_) => "no client certificate sent",
    }
}

fn has_variable(connection: &Connection, name: &str, value: &str) -> bool {
    let mut variables = variables(connection);
    variables.any(|(found, shown)| *found == name && shown == value)
}
