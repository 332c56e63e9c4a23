//! The pause of a body or a connection whose bytes WATCH scans, while its worker has scanned enough (`sluice_watch`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;

/// A pause; nothing while nobody watches.
#[derive(Default)]
pub struct WatchPause(Option<Pin<Box<Sleep>>>);

impl WatchPause {
    /// Ready when `wait` asks for no pause, or when it is over. It is not asked again then: others may have had their turn meanwhile, and what they
    /// have scanned lengthens the pauses to come, so that each has its share.
    pub fn poll(&mut self, context: &mut Context<'_>, wait: impl FnOnce() -> Option<Duration>) -> Poll<()> {
        if self.0.is_none() {
            self.0 = wait().map(|wait| Box::pin(tokio::time::sleep(wait)));
        }
        if let Some(sleep) = &mut self.0 {
            ready!(sleep.as_mut().poll(context));
            self.0 = None;
        }
        Poll::Ready(())
    }
}
