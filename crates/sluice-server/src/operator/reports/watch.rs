//! WATCH on the pages: the form, and the events as server-sent events or as plain text.
//!
//! ```text
//! GET watch          ─▶ the form; its script asks for
//! GET watch-events?… ─▶ server-sent events: `events` (a list of records) and `notice`, until the visitor leaves
//! GET watch-text?…   ─▶ lines, as `sluice watch` writes them, for browsers without a script, and for curl
//! ```
//! A response that carries events is not watched itself, nor is its connection: each event would cause others.

use std::fmt::Write;
use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, Forbidden};
use sluice_pages::watch::{Asked, WatchGroup, WatchItem, WatchPage};
use sluice_watch::{End, Event, Hub, Item, Items, Line, Notice, Record, Spec, Taken, Watch};

use crate::context::Context;
use crate::operator::reports::ask::{Ask, Basis, Values};
use crate::operator::reports::event_stream::{Events, Kind, respond};
use crate::operator::reports::page::{Collected, PageResponse, Wanted, ready};
use crate::operator::reports::{answer, origin};
use crate::watch_log::WatchLog;

/// The mark of a response whose body is the events of a watch (an extension of it).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriesWatch;

/// Text of one server-sent event, or of one chunk of plain text, about.
const CHUNK_BYTES: usize = 64 << 10;

pub(super) fn collect(wanted: &Wanted) -> Collected {
    let fields = wanted.values.clone().into_pairs();
    let is_start = !wanted.is_of_other_site && fields.iter().any(|(name, _)| name == "start");
    // A wrong list of items is reported when it is sent.
    let list = fields.iter().filter(|(name, _)| name == "items");
    let list: Vec<_> = list.map(|(_, value)| value.as_str()).collect();
    let asked: Items = list.join(",").parse().unwrap_or_default();
    let items = Item::ALL.map(|item| WatchItem {
        name: item.name(),
        about: item.description(),
        is_asked: asked.contains(item),
    });
    let groups = Items::GROUPS.map(|(name, items)| WatchGroup { name, items: items.to_string() });
    let hub = wanted.context.front.watches().hub();
    ready(WatchPage {
        items: items.into(),
        groups: groups.into(),
        watches: hub.specs().iter().map(ToString::to_string).collect(),
        watches_max: Hub::WATCHES_MAX,
        asked: Asked { fields, is_start },
    })
}

pub(super) fn events(ask: Ask) -> PageResponse {
    Box::pin(async move { begin(&ask, Kind::Events) })
}

pub(super) fn text(ask: Ask) -> PageResponse {
    Box::pin(async move { begin(&ask, Kind::Text) })
}

fn begin(ask: &Ask, kind: Kind) -> Result<Response<ResponseBody>, Fault> {
    if ask.method != Method::GET {
        return Ok(answer::new("text/plain; charset=utf-8", Bytes::new()));
    }
    if let Some(why) = origin::of_stream(&ask.fields, &ask.origin) {
        return Err(ClientFault::Forbidden(Forbidden::StreamOfOtherSite(why)).into());
    }
    let values = Values::parse(&ask.query).into_pairs();
    let options = values.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let spec = match Spec::of_options(options.filter(|(name, _)| *name != "start")) {
        Ok(spec) => spec,
        Err(wrong) => return Ok(refused(StatusCode::BAD_REQUEST, &wrong)),
    };
    let by = ask.by();
    let watch = match ask.context.front.watches().hub().watch_of_page(spec) {
        Ok(watch) => watch,
        Err(too_many) => {
            tracing::warn!("watch by {by} was refused: {too_many}");
            return Ok(refused(StatusCode::SERVICE_UNAVAILABLE, &too_many.to_string()));
        }
    };
    let log = WatchLog::begin(by, watch.spec());
    let basis = Basis::of(ask);
    let shown = Shown {
        watch,
        log,
        kind,
        basis,
        context: Rc::clone(&ask.context),
    };
    let mut response = respond(kind, &ask.context, |events| shown.send(events));
    response.extensions_mut().insert(CarriesWatch);
    Ok(response)
}

fn refused(status: StatusCode, message: &str) -> Response<ResponseBody> {
    let mut response = answer::new("text/plain; charset=utf-8", format!("{message}\n").into());
    *response.status_mut() = status;
    response
}

struct Shown {
    watch: Watch,
    log: WatchLog,
    kind: Kind,
    basis: Basis,
    context: Rc<Context>,
}

impl Shown {
    /// Sends what happens until the watch ends, or the configuration is replaced that let the visitor have it; if the visitor leaves, it is dropped. Nothing is taken from the watch while the visitor
    /// has not read what was sent: then the watch loses events, and counts them.
    async fn send(mut self, out: Events) {
        self.notice(&out, &Notice::Watching(self.watch.spec().to_string()));
        loop {
            out.taken().await;
            while let Some(wait) = self.context.front.watches().show_wait() {
                tokio::time::sleep(wait).await;
            }
            let taken = tokio::select! {
                biased;
                () = self.basis.replaced() => return self.end(&out, End::Replaced),
                taken = poll_fn(|task| self.watch.poll_take(task)) => taken,
            };
            self.log.count(&taken);
            let bytes = taken.events.iter().map(|event| event.size()).sum();
            let watches = self.context.front.watches();
            watches.show(bytes, || self.send_taken(&out, &taken));
            if taken.is_ended {
                let end = End::of(self.watch.spec(), self.log.has_shown());
                return self.end(&out, end);
            }
        }
    }

    fn end(&mut self, out: &Events, end: End) {
        self.notice(out, &Notice::Ended(end));
        self.log.end(end.reason());
    }

    fn send_taken(&self, out: &Events, taken: &Taken) {
        let mut chunk = String::new();
        for event in &taken.events {
            self.add(&mut chunk, event);
            if chunk.len() >= CHUNK_BYTES {
                self.send_chunk(out, &mut chunk);
            }
        }
        self.send_chunk(out, &mut chunk);
        if taken.lost > 0 {
            self.notice(out, &Notice::Lost(taken.lost));
        }
    }

    fn add(&self, chunk: &mut String, event: &Event) {
        // Writing to a string cannot fail, and a record has no map.
        let _ = match self.kind {
            Kind::Text => write!(chunk, "{}", Line(event)),
            Kind::Events => {
                let separator = if chunk.is_empty() { '[' } else { ',' };
                let record = serde_json::to_string(&Record::shown(event)).unwrap_or_default();
                write!(chunk, "{separator}{record}")
            }
        };
    }

    fn send_chunk(&self, out: &Events, chunk: &mut String) {
        if chunk.is_empty() {
            return;
        }
        match self.kind {
            Kind::Text => out.send_text(chunk),
            Kind::Events => {
                chunk.push(']');
                out.send("events", chunk);
            }
        }
        chunk.clear();
    }

    fn notice(&self, out: &Events, notice: &Notice) {
        match self.kind {
            Kind::Text => out.send_text(&format!("{notice}\n")),
            Kind::Events => out.send("notice", &serde_json::to_string(notice).unwrap_or_default()),
        }
    }
}
