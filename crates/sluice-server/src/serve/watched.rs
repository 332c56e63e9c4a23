//! The texts of the events of an exchange, for WATCH.
//!
//! Each function costs one comparison while nobody watches.

use std::fmt::Write as _;
use std::time::Duration;

use http::{HeaderMap, Response, header};
use sluice_gateway::SEND_FILE_FIELDS;
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Culprit, Fault};
use sluice_log::STATUS_CLIENT_LEFT;
use sluice_net::connection::Connection;
use sluice_watch::mask::{BodyMask, Masks};
use sluice_watch::{Direction, Item, Items, Scanned};

use crate::fault_log::Logged;
use crate::serve::exchange::{Exchange, RequestLine};

pub(crate) mod module {
    pub(crate) const REQUEST: &str = "request";
    pub(crate) const DECIDE: &str = "decide";
    pub(crate) const ACCESS: &str = "access";
    pub(crate) const RESPONSE: &str = "response";
    pub(crate) const LOG: &str = "log";
}

pub(crate) fn request_head(exchange: &Exchange, fields: &HeaderMap) {
    let tracer = &exchange.tracer;
    let Some(masks) = tracer.masks() else { return };
    // A response may repeat them.
    let pairs = fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    tracer.hide_secrets(&masks.secrets_of(pairs, exchange.line.uri.query()));
    tracer.note(Item::RequestHead, module::REQUEST, || {
        let RequestLine { method, uri, version } = &exchange.line;
        let mut text = format!("{method} {} {version:?}", masks.text(&uri.to_string()));
        add_fields(&mut text, masks, fields);
        let client = &exchange.client;
        let from = match client.endpoints.is_unix {
            true => "a unix socket".to_owned(),
            false => client.endpoints.client.to_string(),
        };
        let _ = write!(text, "\n(from {from} by {}", client.scheme());
        if client.peer != client.endpoints.client.ip() {
            let _ = write!(text, ", forwarded by {}", client.peer);
        }
        text.push(')');
        text
    });
}

fn add_fields(text: &mut String, masks: &Masks, fields: &HeaderMap) {
    for (name, value) in fields {
        let _ = write!(text, "\n{name}: {}", masks.field(name.as_str(), value.as_bytes()));
    }
}

pub(crate) fn body_mask(masks: &Masks, fields: &HeaderMap) -> BodyMask {
    let kind = fields
        .get(header::CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()));
    masks.body(kind.as_deref(), fields.contains_key(header::CONTENT_ENCODING))
}

pub(crate) fn note_access(exchange: &Exchange, text: impl FnOnce() -> String) {
    exchange.tracer.note(Item::Authorization, module::ACCESS, text);
}

/// The path that a script names instead of a reply; it is decided on as if a client had asked for it.
pub(crate) fn local_redirect(exchange: &Exchange, target: &str) {
    note_masked(exchange, Item::Mapping, module::DECIDE, || {
        format!("the script names another path (local redirect): {target}")
    });
}

pub(crate) fn send_file(exchange: &Exchange, fields: &HeaderMap) {
    note_masked(exchange, Item::Mapping, module::DECIDE, || {
        let named = |name| {
            Some(format!(
                "{name}: {}",
                String::from_utf8_lossy(fields.get(&name)?.as_bytes())
            ))
        };
        let named: Vec<_> = SEND_FILE_FIELDS.into_iter().filter_map(named).collect();
        format!("the script names a file: {}", named.join(", "))
    });
}

pub(crate) fn response_head(exchange: &Exchange, response: &Response<ResponseBody>, length: Option<u64>) {
    let tracer = &exchange.tracer;
    let Some(masks) = tracer.masks() else { return };
    let status = response.status();
    tracer.note(Item::ResponseHead, module::RESPONSE, || {
        let mut text = status.to_string();
        add_fields(&mut text, masks, response.headers());
        if let Some(bytes) = length.filter(|_| !response.headers().contains_key(header::CONTENT_LENGTH)) {
            let _ = write!(text, "\ncontent-length: {bytes}");
        }
        text
    });
    tracer.know(|facts| facts.status = Some(status.as_u16()));
}

/// Has the connection scan no more bytes of an exchange that no watch can be shown, now that its status is known.
pub(crate) fn skip_octets_shown_to_nobody(exchange: &Exchange, connection: &Connection) {
    if !exchange.tracer.is_none() && exchange.tracer.is_over() {
        connection.skip_octets();
    }
}

/// Bytes of a chunk of a watched response at most: the work for one is bounded.
pub(crate) const CHUNK_BYTES_MAX: usize = 32 << 10;

pub(crate) fn response_mask(exchange: &Exchange, fields: &HeaderMap) -> Option<BodyMask> {
    let masks = exchange.tracer.masks()?;
    let is_shown = exchange.tracer.wants(Item::ResponseBody);
    is_shown.then(|| body_mask(masks, fields))
}

pub(crate) fn response_body(exchange: &Exchange, mask: &mut BodyMask, bytes: &[u8]) -> Scanned {
    let copy = |copy: &mut [u8]| mask.apply(copy);
    exchange
        .tracer
        .note_copy(Item::ResponseBody, module::RESPONSE, Direction::Sent, &[bytes], copy)
}

/// How long the next chunk waits, because the worker has scanned enough bytes for watches. Output of a script becomes chunks, so it waits, too.
pub(crate) fn response_wait(exchange: &Exchange) -> Option<Duration> {
    exchange
        .tracer
        .bytes_wait(Items::of(&[Item::Mailbox, Item::ResponseBody]))
}

pub(crate) fn fault(exchange: &Exchange, fault: &Fault, text: &dyn std::fmt::Display, logged: Logged) {
    note_masked(exchange, Item::Errors, module::LOG, || {
        let culprit = match fault.culprit() {
            Culprit::Client => "the client's",
            Culprit::Script => "the script's",
            Culprit::Server => "the server's",
        };
        format!("fault, {culprit}, status {}: {fault}", fault.status().as_u16())
    });
    note_masked(exchange, Item::Log, module::LOG, || match logged {
        Logged::At(level) => format!("server log, {level}: {text}"),
        Logged::Suppressed => format!("server log: nothing, because there were too many such lines: {text}"),
    });
}

/// The client left before it had the whole response, of which so many bytes, if that is known, were not even handed to its connection.
pub(crate) fn left(exchange: &Exchange, rest: Option<u64>) {
    exchange.tracer.note(Item::Errors, module::RESPONSE, || {
        let sent = exchange.entry.body_bytes;
        let rest = match rest {
            None => "its end was not known".to_owned(),
            Some(rest) => format!("{rest} were left"),
        };
        format!(
            "the client left before the response was complete: its connection had got {sent} bytes of the body, {rest}"
        )
    });
}

pub(crate) fn end(exchange: &Exchange, line: impl FnOnce(&Masks) -> Option<String>, has_head: bool) {
    let tracer = &exchange.tracer;
    let Some(masks) = tracer.masks() else { return };
    if !has_head {
        tracer.note(Item::Errors, module::RESPONSE, || {
            "the client left before there was a response".to_owned()
        });
    }
    tracer.know(|facts| facts.status = facts.status.or(Some(STATUS_CLIENT_LEFT)));
    tracer.note(Item::Log, module::LOG, || match line(masks) {
        Some(line) => format!("access log: {}", masks.text(&line)),
        None => "access log: no line, because it is off or the route says log = false".to_owned(),
    });
    tracer.end_stages(module::RESPONSE);
}

/// Notes an event whose text may have values of secrets in its targets.
pub(crate) fn note_masked(exchange: &Exchange, item: Item, module: &'static str, text: impl FnOnce() -> String) {
    let masks = exchange.tracer.masks();
    let masked = || masks.map(|masks| masks.text(&text())).unwrap_or_default();
    exchange.tracer.note(item, module, masked);
}
