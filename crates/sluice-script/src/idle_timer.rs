//! The idle timer: how long a script may be silent.
//!
//! It runs only while the server waits for the script, and not while the client is slow to read or to send. It is armed lazily:
//! a script that answers at once costs a timer, but no wake-up.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The timer of one exchange.
pub(crate) struct IdleTimer {
    limit: Duration,
    deadline: Option<Instant>,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// Which time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// The script was silent for the limit.
    Silence(Duration),
    /// The whole exchange took too long.
    Deadline,
}

impl IdleTimer {
    /// The script may be silent for `limit`; the exchange may take `whole`, if bounded.
    pub(crate) fn new(limit: Duration, whole: Option<Duration>) -> IdleTimer {
        IdleTimer {
            limit,
            deadline: whole.map(|whole| Instant::now() + whole),
            waiting_since: None,
            timer: None,
        }
    }

    /// Begins again, with another limit.
    pub(crate) fn restart(&mut self, limit: Duration) {
        self.limit = limit;
        self.waiting_since = None;
    }

    /// The script has written or read something.
    pub(crate) fn progress(&mut self) {
        self.waiting_since = None;
    }

    /// Whether the exchange takes longer than its deadline, however busy the script is.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Waits for the script. Ready when that takes too long.
    pub(crate) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Expired> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let silence_ends = since + self.limit;
        let ends = self
            .deadline
            .map_or(silence_ends, |deadline| deadline.min(silence_ends));
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if timer.deadline() > ends || timer.is_elapsed() {
            timer.as_mut().reset(ends);
        }
        // A timer that fires too early is not reset in advance: when it fires it is set again.
        while timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(Expired::Deadline);
            }
            if silence_ends <= now {
                return Poll::Ready(Expired::Silence(self.limit));
            }
            timer.as_mut().reset(ends);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_counts_only_since_the_last_progress() {
        let mut idle_timer = IdleTimer::new(Duration::from_secs(10), None);
        for _ in 0..3 {
            let waited = tokio::time::timeout(
                Duration::from_secs(8),
                poll_fn(|context| idle_timer.poll_expired(context)),
            );
            assert!(waited.await.is_err());
            idle_timer.progress();
        }
        let begin = Instant::now();
        let expired = poll_fn(|context| idle_timer.poll_expired(context)).await;
        assert_eq!(expired, Expired::Silence(Duration::from_secs(10)));
        assert_eq!(begin.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_holds_whatever_the_progress() {
        let mut idle_timer = IdleTimer::new(Duration::from_secs(10), Some(Duration::from_secs(15)));
        let begin = Instant::now();
        loop {
            let waited = tokio::time::timeout(
                Duration::from_secs(5),
                poll_fn(|context| idle_timer.poll_expired(context)),
            );
            match waited.await {
                Ok(expired) => {
                    assert_eq!(expired, Expired::Deadline);
                    break;
                }
                Err(_) => idle_timer.progress(),
            }
        }
        assert_eq!(begin.elapsed().as_secs(), 15);
    }
}
