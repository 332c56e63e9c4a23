//! The pause of a body or a connection whose bytes WATCH scans, while its worker has scanned enough (`sluice_watch`).
//!
//! Here: the timer. Not here: how long, and which bytes are scanned.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A pause; nothing while nobody watches.
#[derive(Default)]
pub struct WatchPause(Option<Pin<Box<Sleep>>>);

impl WatchPause {
    /// Ready when `wait` says that no pause is needed.
    pub fn poll(&mut self, context: &mut Context<'_>, wait: impl Fn() -> Option<Duration>) -> Poll<()> {
        loop {
            if let Some(sleep) = &mut self.0 {
                ready!(sleep.as_mut().poll(context));
            }
            let Some(wait) = wait() else {
                self.0 = None;
                return Poll::Ready(());
            };
            let until = Instant::now() + wait;
            match &mut self.0 {
                Some(sleep) => sleep.as_mut().reset(until),
                None => self.0 = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
    }
}
