//! Server-sent events (HTML, "Server-sent events"): a body that another part of the server writes while it is sent.
//!
//! A producer is a future that sends events through an [`Events`]; it runs whenever the connection has room. Comments keep proxies and
//! the client's timers from closing a silent stream. When the server drains, the stream ends, so that it does not hold the drain up.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use sluice_http::body::{ResponseBody, Source};
use sluice_http::fault::Fault;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::context::Context;
use crate::operator::reports::answer;

const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Clone, Default)]
pub(crate) struct Events(Rc<RefCell<VecDeque<Bytes>>>);

impl Events {
    /// Sends an event. `data` may have several lines.
    pub(crate) fn send(&self, name: &str, data: &str) {
        let mut text = format!("event: {name}\n");
        for line in data.lines() {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        self.0.borrow_mut().push_back(text.into());
    }

    pub(crate) fn send_text(&self, text: &str) {
        self.0.borrow_mut().push_back(Bytes::copy_from_slice(text.as_bytes()));
    }

    /// Waits until everything that was sent has been handed to the connection, which polls the producer again after each chunk.
    pub(crate) async fn taken(&self) {
        std::future::poll_fn(|_| match self.are_taken() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Whether everything that was sent has been handed to the connection. A producer that sends only then holds one event at most for a slow client.
    pub(crate) fn are_taken(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Events,
    Text,
}

/// The response with what a producer sends, until it ends.
pub(crate) fn respond<F>(kind: Kind, context: &Rc<Context>, produce: impl FnOnce(Events) -> F) -> Response<ResponseBody>
where
    F: Future<Output = ()> + 'static,
{
    let events = Events::default();
    let draining = {
        let context = Rc::clone(context);
        async move { context.front.draining().await }
    };
    let mut comments = interval(COMMENT_INTERVAL);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = EventStream {
        producer: Box::pin(produce(events.clone())),
        draining: Box::pin(draining),
        events,
        comments,
        kind,
        is_draining: false,
        is_over: false,
    };
    let content_type = match kind {
        Kind::Events => "text/event-stream",
        Kind::Text => "text/plain; charset=utf-8",
    };
    answer::with_body(content_type, ResponseBody::Source(Box::new(stream)))
}

struct EventStream {
    producer: Pin<Box<dyn Future<Output = ()>>>,
    draining: Pin<Box<dyn Future<Output = ()>>>,
    events: Events,
    comments: Interval,
    kind: Kind,
    is_draining: bool,
    is_over: bool,
}

impl Source for EventStream {
    fn poll_chunk(&mut self, task: &mut Task<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        if !self.is_over {
            // First, so that a producer that ends with the server has its last word.
            self.is_draining = self.is_draining || self.draining.as_mut().poll(task).is_ready();
            let has_ended = self.producer.as_mut().poll(task).is_ready();
            self.is_over = has_ended || (self.is_draining && self.events.are_taken());
        }
        if let Some(event) = self.events.0.borrow_mut().pop_front() {
            return Poll::Ready(Some(Ok(event)));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.kind == Kind::Text {
            return Poll::Pending;
        }
        // The first tick is at once, so that the head is sent although there is no event yet.
        match self.comments.poll_tick(task) {
            Poll::Ready(_) => Poll::Ready(Some(Ok(Bytes::from_static(b":\n\n")))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
