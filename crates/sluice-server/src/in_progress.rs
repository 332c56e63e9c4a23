//! The requests in progress of one worker.
//!
//! Each exchange has an entry, in a place that is used again, so that an exchange costs no allocation beyond its own. Entries hold
//! what the exchange has anyway (shared, not copied); the text of a report is made elsewhere (`operator`). All on the worker's thread.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderValue, Method, Uri, Version};
use sluice_http::progress::Progress;
use sluice_http::request_id::UniqueId;
use sluice_net::active_exchange::ExchangeHandle;
use sluice_watch::{Stage, TracedRequest, Tracer};

/// Requests of one worker that a report describes; the oldest of them are chosen.
const DESCRIBED_MAX: usize = 5000;

const SPARE_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct InProgress(RefCell<Entries>);

#[derive(Default)]
struct Entries {
    /// `None` in a place that is free.
    entries: Vec<Option<Entry>>,
    free: Vec<EntryNumber>,
    spare: Vec<Spare>,
}

/// Parts of an exchange that has ended, for the next one.
#[derive(Default)]
struct Spare {
    progress: Rc<Progress>,
    tracer: Tracer,
}

/// A place among those in progress, and what the entry shares with its exchange.
pub(crate) struct NewEntry {
    pub place: EntryNumber,
    pub progress: Rc<Progress>,
    pub tracer: Tracer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryNumber(usize);

/// The properties of an exchange that are known when it begins.
#[derive(Clone)]
pub(crate) struct NewRequest {
    pub id: UniqueId,
    pub started: Instant,
    pub client: SocketAddr,
    pub is_https: bool,
    pub method: Method,
    pub uri: Uri,
    pub version: Version,
    pub host: Option<HeaderValue>,
}

struct Entry {
    request: NewRequest,
    /// `None` for a request without a usable head.
    handle: Option<ExchangeHandle>,
    user: Option<Arc<str>>,
    handler: Option<&'static str>,
    progress: Rc<Progress>,
    tracer: Tracer,
    is_exempt: bool,
}

pub(crate) struct Watchable {
    pub view: RequestView,
    pub listener: Option<usize>,
    pub progress: Rc<Progress>,
    pub tracer: Tracer,
}

/// A request in progress, as it is copied for a report. It may go to another thread.
pub(crate) struct RequestView {
    pub request: NewRequest,
    pub user: Option<Arc<str>>,
    pub handler: Option<&'static str>,
    pub stage: Stage,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub status: Option<u16>,
    pub pid: Option<i32>,
}

impl InProgress {
    pub(crate) fn begin(&self, request: NewRequest, handle: Option<ExchangeHandle>) -> NewEntry {
        let mut entries = self.0.borrow_mut();
        let Spare { progress, mut tracer } = entries.spare.pop().unwrap_or_default();
        if tracer.is_reusable() {
            tracer.stage(Stage::Deciding);
        } else {
            tracer = Tracer::vacant();
        }
        let entry = Some(Entry {
            request,
            handle,
            user: None,
            handler: None,
            progress: Rc::clone(&progress),
            tracer: tracer.clone(),
            is_exempt: false,
        });
        let place = match entries.free.pop() {
            Some(number) => {
                entries.entries[number.0] = entry;
                number
            }
            None => {
                entries.entries.push(entry);
                EntryNumber(entries.entries.len() - 1)
            }
        };
        NewEntry { place, progress, tracer }
    }

    pub(crate) fn end(&self, number: EntryNumber) {
        let mut entries = self.0.borrow_mut();
        let Some(place) = entries.entries.get_mut(number.0) else {
            return;
        };
        let Some(Entry { progress, tracer, .. }) = place else {
            return;
        };
        let (progress, tracer) = (Rc::clone(progress), std::mem::replace(tracer, Tracer::NONE));
        // In its place, because the entry is large.
        *place = None;
        entries.free.push(number);
        // A script that is being drained may still hold it, and the exchange that ends holds it until it is dropped.
        if Rc::strong_count(&progress) <= 2 && entries.spare.len() < SPARE_MAX {
            progress.reset();
            // One that is watched is not kept: its watches are to forget it.
            let tracer = if tracer.is_none() { tracer } else { Tracer::NONE };
            entries.spare.push(Spare { progress, tracer });
        }
    }

    pub(crate) fn note_user(&self, number: EntryNumber, user: &Arc<str>) {
        self.change(number, |entry| entry.user = Some(Arc::clone(user)));
    }

    pub(crate) fn note_handler(&self, number: EntryNumber, handler: &'static str) {
        self.change(number, |entry| entry.handler = Some(handler));
    }

    /// Has no watch join an exchange: it carries the events of one.
    pub(crate) fn exempt(&self, number: EntryNumber) {
        self.change(number, |entry| entry.is_exempt = true);
    }

    fn change(&self, number: EntryNumber, change: impl FnOnce(&mut Entry)) {
        if let Some(Some(entry)) = self.0.borrow_mut().entries.get_mut(number.0) {
            change(entry);
        }
    }

    /// The exchanges that a watch may join, the oldest of them, in any order.
    pub(crate) fn watchable(&self, may_join: impl Fn(&TracedRequest<'_>) -> bool) -> Vec<Watchable> {
        let entries = self.0.borrow();
        let all = entries.entries.iter().flatten();
        let may_join = |entry: &&Entry| !entry.is_exempt && may_join(&entry.request.facts());
        let mut found: Vec<&Entry> = all.filter(may_join).collect();
        keep_oldest(&mut found);
        let found = found.into_iter().map(|entry| Watchable {
            view: entry.view(),
            listener: entry.handle.as_ref().map(ExchangeHandle::listener),
            progress: Rc::clone(&entry.progress),
            tracer: entry.tracer.clone(),
        });
        found.collect()
    }

    pub(crate) fn count(&self) -> usize {
        let entries = self.0.borrow();
        entries.entries.len() - entries.free.len()
    }

    pub(crate) fn views(&self) -> Vec<RequestView> {
        let entries = self.0.borrow();
        let mut all: Vec<&Entry> = entries.entries.iter().flatten().collect();
        keep_oldest(&mut all);
        all.into_iter().map(Entry::view).collect()
    }

    /// Ends the exchange with this id: with 503 before the head of its response, later by aborting the response. `None` if no exchange in progress has the id.
    pub(crate) fn end_exchange(&self, id: &str) -> Option<RequestView> {
        let (view, progress, handle) = {
            let entries = self.0.borrow();
            let mut all = entries.entries.iter().flatten();
            let entry = all.find(|entry| entry.request.id.as_str() == id)?;
            (entry.view(), Rc::clone(&entry.progress), entry.handle.clone())
        };
        // Without the borrow, because both wake tasks.
        progress.end();
        if let Some(handle) = handle.filter(|_| view.stage.has_head()) {
            handle.abort();
        }
        Some(view)
    }
}

fn keep_oldest(entries: &mut Vec<&Entry>) {
    if entries.len() > DESCRIBED_MAX {
        entries.select_nth_unstable_by_key(DESCRIBED_MAX, |entry| entry.request.started);
        entries.truncate(DESCRIBED_MAX);
    }
}

impl NewRequest {
    fn facts(&self) -> TracedRequest<'_> {
        TracedRequest {
            client: self.client.ip(),
            path: self.uri.path(),
            method: self.method.as_str(),
            id: self.id.as_str(),
        }
    }
}

impl Entry {
    fn view(&self) -> RequestView {
        RequestView {
            request: self.request.clone(),
            user: self.user.clone(),
            handler: self.handler,
            stage: self.tracer.current_stage(),
            received_bytes: self.progress.received_bytes.get(),
            sent_bytes: self.progress.sent_bytes.get(),
            status: Some(self.progress.status.get()).filter(|status| *status != 0),
            pid: Some(self.progress.pid.get()).filter(|pid| *pid != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> NewRequest {
        NewRequest {
            id: UniqueId::new([b'0'; 8], number),
            started: Instant::now(),
            client: ([127, 0, 0, 1], 1).into(),
            is_https: false,
            method: Method::GET,
            uri: Uri::from_static("/a?b"),
            version: Version::HTTP_11,
            host: None,
        }
    }

    #[test]
    fn places_are_used_again_and_reports_show_what_is_there() {
        let requests = InProgress::default();
        let NewEntry { place: first, tracer, .. } = requests.begin(request(1), None);
        let second = requests.begin(request(2), None).place;
        tracer.stage(Stage::Running);
        requests.note_handler(first, "script");
        assert_eq!(requests.count(), 2);
        requests.end(second);
        let again = requests.begin(request(3), None).place;
        assert_eq!(again, second);
        let mut shown: Vec<_> = requests
            .views()
            .iter()
            .map(|view| (view.request.id.to_string(), view.stage))
            .collect();
        shown.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(shown[0].1, Stage::Running);
        assert!(shown[1].0.ends_with('3') && shown[1].1 == Stage::Deciding);
        requests.end(first);
        requests.end(first);
        assert_eq!(requests.count(), 1, "twice is once");
    }

    #[test]
    fn a_place_for_watches_is_used_again_unless_somebody_has_it() {
        let requests = InProgress::default();
        let first = requests.begin(request(1), None);
        let held = first.tracer.clone();
        requests.end(first.place);
        drop(first);
        let second = requests.begin(request(2), None);
        assert!(held.is_reusable(), "the next exchange got another");
        drop(held);
        requests.end(second.place);
        drop(second);
        let third = requests.begin(request(3), None);
        assert!(third.tracer.is_none());
        assert_eq!(requests.watchable(|request| request.path == "/a").len(), 1);
        assert!(requests.watchable(|_| false).is_empty());
        requests.exempt(third.place);
        assert!(requests.watchable(|_| true).is_empty());
    }

    #[test]
    fn the_order_to_end_reaches_the_exchange_with_this_id_alone() {
        let requests = InProgress::default();
        let one = requests.begin(request(1), None).progress;
        let other = requests.begin(request(2), None).progress;
        let id = UniqueId::new([b'0'; 8], 2);
        assert!(requests.end_exchange("none").is_none());
        assert!(requests.end_exchange(id.as_str()).unwrap().request.id == id);
        assert!(!one.is_ended() && other.is_ended());
    }
}
