//! Watches that begin while requests are in progress.
//!
//! Whoever watches is decided when the head of a request is complete (`Exchange::begin_watch`). A watch that begins later joins the requests in
//! progress here, once a second: each has a place for it (`Tracer::vacant`), which its stages read. The first event says where the request is,
//! because what came before was not noted. Its task is then woken, so that a script that is silent is observed (`sluice_script`).
//!
//! While nobody watches this costs a comparison a second.

use std::fmt::Write as _;
use std::time::Instant;

use http::{HeaderMap, header};
use sluice_http::host::host;
use sluice_watch::TracedAttributes;
use sluice_watch::mask::Masks;

use crate::context::Context;
use crate::in_progress::{NewRequest, RequestView};
use crate::operator::state_of;

pub(crate) fn join(context: &Context) {
    let watches = context.front.watches();
    let generation = watches.generation();
    if context.joined_watches.replace(generation) == generation || !watches.is_on() {
        return;
    }
    for request in context.in_progress.watchable(|request| watches.may_join(request)) {
        let (view, tracer) = (&request.view, &request.tracer);
        let attributes = attributes(context, view, request.listener);
        if watches.join(tracer, view.request.started, attributes, |masks| summary(view, masks)) {
            if let Some(masks) = tracer.masks() {
                tracer.hide_secrets(&masks.secrets_of([], view.request.uri.query()));
            }
            request.progress.wake();
        }
    }
}

/// The attributes of a request. The script that answers it is known to its task only.
fn attributes(context: &Context, view: &RequestView, listener: Option<usize>) -> TracedAttributes {
    let (config, request) = (context.config(), &view.request);
    let site = listener.and_then(|listener| {
        let fields = request.host.iter().map(|host| (header::HOST, host.clone()));
        let host = host(request.version, &request.uri, &mut HeaderMap::from_iter(fields)).ok()?;
        let (site, _) = config.site_of_question(&host, Some(listener)).ok()?;
        Some(config.watched_names(site, listener))
    });
    TracedAttributes {
        client: Some(request.client.ip().to_canonical().to_string()),
        site,
        path: Some(request.uri.path().to_owned()),
        method: Some(request.method.to_string()),
        status: view.status,
        user: view.user.as_deref().map(str::to_owned),
        id: Some(request.id.to_string()),
        ..TracedAttributes::default()
    }
}

fn summary(view: &RequestView, masks: &Masks) -> String {
    let request = &view.request;
    let NewRequest { method, uri, version, .. } = request;
    let mut text = format!("{method} {} {version:?}", masks.text(&uri.to_string()));
    if let Some(host) = &request.host {
        let _ = write!(text, "\nhost: {}", masks.field("host", host.as_bytes()));
    }
    let age = Instant::now().saturating_duration_since(request.started).as_secs_f64();
    let scheme = if request.is_https { "https" } else { "http" };
    let _ = write!(
        text,
        "\n(in progress for {age:.1} s when this watch began; from {} by {scheme})",
        request.client
    );
    let _ = write!(text, "\nstate: {}", state_of(view.stage).name());
    if let Some(handler) = view.handler {
        let _ = write!(text, "; answered by: {handler}");
    }
    if let Some(pid) = view.pid {
        let _ = write!(text, "; script process {pid}");
    }
    if let Some(user) = &view.user {
        let _ = write!(text, "; user {user:?}");
    }
    if let Some(status) = view.status {
        let _ = write!(text, "; the head of the response was sent, status {status}");
    }
    let _ = write!(
        text,
        "; {} bytes of the request's body received, {} bytes of the response's body sent",
        view.received_bytes, view.sent_bytes
    );
    text.push_str("\nnot shown of it: what came before, its body, the bytes of its connection");
    if view.status.is_some() {
        text.push_str(", the body of its response");
    }
    text
}
