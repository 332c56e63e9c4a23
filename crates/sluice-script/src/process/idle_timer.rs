//! The idle timer: how long a script may be silent.
//!
//! It runs only while the server waits for the script, and not while the client is slow to read or to send. It is armed lazily:
//! a script that answers at once costs a timer, but no wake-up. The next exchange of a kept process goes on with this timer, which may
//! fire too early for it (`KeptTimer`). It also says when to check what a silent script waits for.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Silence before the first check; each later one comes after twice the silence of the one before. A program may need seconds to start.
const FIRST_CHECK: Duration = Duration::from_millis(100);

pub(crate) struct IdleTimer {
    /// `None` if the script may be silent for any time.
    limit: Option<Duration>,
    /// The route's.
    deadline: Option<Deadline>,
    /// The script's own, which never extends the route's.
    own_deadline: Option<Deadline>,
    /// The time since which the script is silent, while it is waited for.
    pub waiting_since: Option<Instant>,
    check: Option<Duration>,
    /// For the next exchange of the process, too.
    pub timer: KeptTimer,
}

/// The timer of the last exchange of a process, which is still set. A new one would be entered among those of the worker for each request,
/// and the event loop be woken, which expects a later one; this one fires at most every `FIRST_CHECK` for nothing.
#[derive(Default)]
pub(crate) struct KeptTimer(Option<Pin<Box<Sleep>>>);

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    /// The time for the exchange, or what the script has left of it.
    limit: Duration,
}

impl Deadline {
    /// `None` if the clock does not go so far.
    fn after(limit: Duration) -> Option<Deadline> {
        let at = Instant::now().checked_add(limit)?;
        Some(Deadline { at, limit })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    Silence(Duration),
    /// The whole exchange took longer than this.
    Deadline(Duration),
    /// None: it is time for a check.
    Check,
}

impl IdleTimer {
    /// The script may be silent for `limit`; the exchange may take `whole`, if bounded. `timer` is that of the last exchange on this worker.
    pub(crate) fn new(limit: Duration, whole: Option<Duration>, timer: KeptTimer) -> IdleTimer {
        IdleTimer {
            limit: Some(limit),
            deadline: whole.and_then(Deadline::after),
            own_deadline: None,
            waiting_since: None,
            check: Some(FIRST_CHECK),
            timer,
        }
    }

    pub(crate) fn check_again(&mut self) {
        self.check = Some(FIRST_CHECK);
    }

    /// Begins again, with another limit; `None` is without limit.
    pub(crate) fn restart(&mut self, limit: Option<Duration>) {
        self.limit = limit;
        self.check = None;
        self.waiting_since = None;
    }

    /// Sets the time that the script itself allows for the rest of the exchange; `None` removes it.
    pub(crate) fn limit_rest(&mut self, rest: Option<Duration>) {
        self.own_deadline = rest.and_then(Deadline::after);
    }

    fn deadline(&self) -> Option<Deadline> {
        let deadlines = self.deadline.into_iter().chain(self.own_deadline);
        deadlines.min_by_key(|deadline| deadline.at)
    }

    /// The script has written or read something.
    pub(crate) fn progress(&mut self) {
        self.waiting_since = None;
    }

    /// The time for the whole exchange, if it is over, however busy the script is.
    pub(crate) fn overdue(&self) -> Option<Duration> {
        let deadline = self.deadline().filter(|deadline| deadline.at <= Instant::now());
        deadline.map(|deadline| deadline.limit)
    }

    /// Waits for the script. Ready when that takes too long.
    pub(crate) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Expired> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let deadline = self.deadline();
        let silence_ends = self.limit.and_then(|limit| since.checked_add(limit));
        let check = self.check.map(|check| since + check);
        let ends = silence_ends.into_iter().chain(deadline.map(|deadline| deadline.at));
        let Some(ends) = ends.chain(check).min() else {
            return Poll::Pending;
        };
        let KeptTimer(timer) = &mut self.timer;
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(ends)));
        if timer.deadline() > ends || timer.is_elapsed() {
            timer.as_mut().reset(ends);
        }
        // A timer that fires too early is not reset in advance: when it fires it is set again.
        while timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if let Some(deadline) = deadline.filter(|deadline| deadline.at <= now) {
                return Poll::Ready(Expired::Deadline(deadline.limit));
            }
            if let (Some(limit), Some(true)) = (self.limit, silence_ends.map(|ends| ends <= now)) {
                return Poll::Ready(Expired::Silence(limit));
            }
            if check.is_some_and(|check| check <= now) {
                self.check = self.check.map(|check| 2 * check);
                return Poll::Ready(Expired::Check);
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

    fn without_checks(idle_timer: IdleTimer) -> IdleTimer {
        IdleTimer { check: None, ..idle_timer }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_only_since_the_last_progress() {
        let mut idle_timer = without_checks(IdleTimer::new(Duration::from_secs(10), None, KeptTimer::default()));
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
    async fn checks_come_at_growing_distances_and_end_with_the_head() {
        let mut idle_timer = IdleTimer::new(Duration::from_secs(10), None, KeptTimer::default());
        let begin = Instant::now();
        for expected in [100, 200, 400, 800, 1600, 3200, 6400] {
            let expired = poll_fn(|context| idle_timer.poll_expired(context)).await;
            assert_eq!((expired, begin.elapsed().as_millis()), (Expired::Check, expected));
        }
        let expired = poll_fn(|context| idle_timer.poll_expired(context)).await;
        assert_eq!(expired, Expired::Silence(Duration::from_secs(10)));
        let mut idle_timer = IdleTimer::new(Duration::from_secs(10), None, KeptTimer::default());
        idle_timer.restart(Some(Duration::from_secs(1)));
        let expired = poll_fn(|context| idle_timer.poll_expired(context)).await;
        assert_eq!(expired, Expired::Silence(Duration::from_secs(1)));
        idle_timer.restart(Some(Duration::from_secs(1)));
        idle_timer.check_again();
        let expired = poll_fn(|context| idle_timer.poll_expired(context)).await;
        assert_eq!(expired, Expired::Check);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_the_exchange_before_makes_no_difference() {
        // As after an exchange of 50 ms, after one whose timer has fired, and after one whose limit is far away.
        for (first_limit, waited) in [(10, 50), (10, 5000), (1000, 0)] {
            let mut first = IdleTimer::new(Duration::from_secs(first_limit), None, KeptTimer::default());
            if first_limit == 1000 {
                first = without_checks(first);
            }
            let polled = poll_fn(|context| first.poll_expired(context));
            let _ = tokio::time::timeout(Duration::from_millis(40), polled).await;
            tokio::time::advance(Duration::from_millis(waited)).await;
            let mut second = IdleTimer::new(Duration::from_secs(10), None, first.timer);
            let begin = Instant::now();
            for expected in [100, 200, 400] {
                let expired = poll_fn(|context| second.poll_expired(context)).await;
                assert_eq!((expired, begin.elapsed().as_millis()), (Expired::Check, expected));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_shortens_its_time_and_does_not_extend_the_routes() {
        for (own, seconds) in [(5, 5), (100, 15)] {
            let mut idle_timer = IdleTimer::new(
                Duration::from_secs(10),
                Some(Duration::from_secs(15)),
                KeptTimer::default(),
            );
            idle_timer.limit_rest(Some(Duration::from_secs(own)));
            idle_timer.restart(None);
            let begin = Instant::now();
            let expired = poll_fn(|context| idle_timer.poll_expired(context)).await;
            assert_eq!(
                (expired, begin.elapsed().as_secs()),
                (Expired::Deadline(Duration::from_secs(seconds)), seconds)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_holds_whatever_the_progress() {
        let mut idle_timer = without_checks(IdleTimer::new(
            Duration::from_secs(10),
            Some(Duration::from_secs(15)),
            KeptTimer::default(),
        ));
        let begin = Instant::now();
        loop {
            let waited = tokio::time::timeout(
                Duration::from_secs(5),
                poll_fn(|context| idle_timer.poll_expired(context)),
            );
            match waited.await {
                Ok(expired) => {
                    assert_eq!(expired, Expired::Deadline(Duration::from_secs(15)));
                    break;
                }
                Err(_) => idle_timer.progress(),
            }
        }
        assert_eq!(begin.elapsed().as_secs(), 15);
    }
}
