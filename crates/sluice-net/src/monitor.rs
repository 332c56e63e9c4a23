//! The monitor of a connection: decides once a second whether the connection goes on.
//!
//! Here: what a protocol asks whenever its task is polled, several times per request. So the clock is read, and the
//! protocol's own check called, only when the worker has counted another second; otherwise the answer costs two
//! comparisons. Not here: the time limits, and what happens to the connection then (`http1`, `http2`); the time limit
//! of a single write (`stream`).

use std::task::Context;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::front::{Front, FrontStatus};

/// What a protocol does with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<T> {
    /// Goes on.
    Continue,
    /// Completes the exchanges under way, and begins no other.
    ShutDown,
    /// Closes now, even if exchanges are under way.
    Close(T),
}

/// What the last checks of a connection saw.
pub(crate) struct ConnectionMonitor {
    /// The second of the last check, as the worker counts them, and by the clock.
    tick: u32,
    now: Instant,
    is_shutting_down: bool,
    exchanges: Unchanged,
    chunks: Unchanged,
    /// Bytes sent minus bytes received; wraps around.
    sent_less_received: u32,
}

impl ConnectionMonitor {
    pub(crate) fn new(connection: &Connection, tick: u32) -> ConnectionMonitor {
        let now = Instant::now();
        ConnectionMonitor {
            tick,
            now,
            is_shutting_down: false,
            exchanges: Unchanged::new(connection.exchanges(), now),
            chunks: Unchanged::new(connection.chunks(), now),
            sent_less_received: 0,
        }
    }

    /// Decides what to do with the connection now, and has its task woken after the next second. `check` is called once
    /// a second, and its action takes precedence; if it is `Continue` and the server drains, the connection is shut
    /// down, once.
    pub(crate) fn next_action<T>(
        &mut self,
        front: &Front,
        connection: &Connection,
        context: &Context<'_>,
        check: impl FnOnce(&mut ConnectionMonitor) -> Action<T>,
    ) -> Action<T> {
        let action = self.decide(front.status(), Instant::now, check);
        connection.wake_at(self.tick + 1, context.waker());
        action
    }

    /// As `next_action`, without its side effects.
    pub(crate) fn decide<T>(
        &mut self,
        status: FrontStatus,
        clock: impl FnOnce() -> Instant,
        check: impl FnOnce(&mut ConnectionMonitor) -> Action<T>,
    ) -> Action<T> {
        let FrontStatus { tick, is_draining } = status;
        let begins_to_drain = is_draining && !self.is_shutting_down;
        self.is_shutting_down |= is_draining;
        let mut action = Action::Continue;
        if tick != self.tick {
            (self.tick, self.now) = (tick, clock());
            action = check(self);
        }
        match action {
            Action::Continue if begins_to_drain => Action::ShutDown,
            Action::ShutDown => {
                self.is_shutting_down = true;
                Action::ShutDown
            }
            action => action,
        }
    }

    /// Whether no further exchange begins on the connection.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down
    }

    /// The time since the last exchange. `None` if one is under way, or has begun since the last check.
    pub(crate) fn idle_time(&mut self, connection: &Connection) -> Option<Duration> {
        let progress = if connection.is_busy() {
            Progress::Excused
        } else {
            Progress::Expected
        };
        self.exchanges.check(connection.exchanges(), progress, self.now)
    }

    /// Counts the idle time from now on.
    pub(crate) fn restart_idle_time(&mut self, connection: &Connection) {
        self.exchanges = Unchanged::new(connection.exchanges(), self.now);
    }

    /// The time for which the client has taken nothing although every exchange waits for it. `None` if it has taken
    /// something since the last check: a chunk of a body, or more bytes than it sent. A client that only pings, or
    /// opens its window by single bytes, is sent no more than it sends itself.
    pub(crate) fn stalled_time(&mut self, connection: &Connection, sent_less_received: u32) -> Option<Duration> {
        let has_taken = sent_less_received.wrapping_sub(self.sent_less_received).cast_signed() > 0;
        self.sent_less_received = sent_less_received;
        let progress = if has_taken || !connection.waits_for_client() {
            Progress::Excused
        } else {
            Progress::Expected
        };
        self.chunks.check(connection.chunks(), progress, self.now)
    }
}

/// Whether a counter has to change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Expected,
    Excused,
}

/// A counter, and since when it has not changed.
struct Unchanged {
    count: u32,
    since: Instant,
}

impl Unchanged {
    fn new(count: u32, since: Instant) -> Unchanged {
        Unchanged { count, since }
    }

    /// The time without progress. `None` if the count has changed since the last check, or is excused from changing.
    fn check(&mut self, count: u32, progress: Progress, now: Instant) -> Option<Duration> {
        if count != self.count || progress == Progress::Excused {
            *self = Unchanged::new(count, now);
            return None;
        }
        Some(now.duration_since(self.since))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use sluice_http::endpoints::Endpoints;

    use super::*;
    use crate::connection::UnderWay;

    const SECOND: Duration = Duration::from_secs(1);

    fn connection() -> Rc<Connection> {
        Rc::new(Connection::new(Endpoints::UNIX))
    }

    fn serving(tick: u32) -> FrontStatus {
        FrontStatus {
            tick,
            is_draining: false,
        }
    }

    fn draining(tick: u32) -> FrontStatus {
        FrontStatus {
            tick,
            is_draining: true,
        }
    }

    /// The idle time that a check at this second finds.
    fn idle_at(monitor: &mut ConnectionMonitor, connection: &Connection, second: u32) -> Option<Duration> {
        let now = monitor.now + SECOND * (second - monitor.tick);
        let check = |monitor: &mut ConnectionMonitor| Action::Close(monitor.idle_time(connection));
        match monitor.decide(serving(second), || now, check) {
            Action::Close(idle) => idle,
            _ => panic!("no check at {second}"),
        }
    }

    #[test]
    fn idle_time_is_counted_from_the_last_exchange_or_its_end() {
        let connection = connection();
        let mut monitor = ConnectionMonitor::new(&connection, 7);
        assert_eq!(idle_at(&mut monitor, &connection, 8), Some(SECOND));
        assert_eq!(idle_at(&mut monitor, &connection, 10), Some(3 * SECOND));
        drop(UnderWay::begin(&connection));
        assert_eq!(idle_at(&mut monitor, &connection, 11), None);
        let exchange = UnderWay::begin(&connection);
        assert_eq!(idle_at(&mut monitor, &connection, 12), None);
        assert_eq!(idle_at(&mut monitor, &connection, 13), None);
        drop(exchange);
        assert_eq!(idle_at(&mut monitor, &connection, 15), Some(2 * SECOND));
    }

    #[test]
    fn within_a_second_neither_the_clock_is_read_nor_the_check_called() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let action: Action<()> = monitor.decide(
            serving(7),
            || panic!("the clock is read"),
            |_| panic!("the check is called"),
        );
        assert_eq!(action, Action::Continue);
    }

    #[test]
    fn draining_shuts_a_connection_down_once() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let mut drain = |tick, action: Action<()>| monitor.decide(draining(tick), Instant::now, |_| action);
        assert_eq!(drain(7, Action::Continue), Action::ShutDown);
        assert_eq!(drain(7, Action::Continue), Action::Continue);
        assert_eq!(drain(8, Action::Continue), Action::Continue);
        assert_eq!(drain(9, Action::Close(())), Action::Close(()));
    }

    #[test]
    fn draining_does_not_shut_down_a_connection_again() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let checked: Action<()> = monitor.decide(serving(8), Instant::now, |_| Action::ShutDown);
        assert_eq!(checked, Action::ShutDown);
        let drained: Action<()> = monitor.decide(draining(8), Instant::now, |_| Action::Continue);
        assert_eq!(drained, Action::Continue);
        assert!(monitor.is_shutting_down());
    }

    #[test]
    fn the_check_knows_of_draining_and_takes_precedence() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let check = |monitor: &mut ConnectionMonitor| Action::Close(monitor.is_shutting_down());
        assert_eq!(monitor.decide(draining(8), Instant::now, check), Action::Close(true));
    }
}
