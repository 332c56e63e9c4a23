//! The monitor of a connection, taken once a second: does it go on?
//!
//! Here: what a protocol asks at each of its turns, several times for each request. So the clock is read, and the protocol's
//! own judgement asked, only when the worker has counted another second; in between the answer is two comparisons. Not here:
//! how long is too long, and what becomes of the connection then (`http1`, `http2`); the limit of a single write (`stream`).

use std::task::Context;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::protocol::Client;

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<T> {
    /// It goes on as it is.
    GoOn,
    /// It ends in good order: what is under way is carried out, and nothing more begins.
    End,
    /// It is over now, whatever is under way.
    Over(T),
}

/// What was seen of a connection, a second ago and before.
pub(crate) struct ConnectionMonitor {
    /// The second of the last look, as the worker counts them, and by the clock.
    tick: u32,
    now: Instant,
    /// It was told to end.
    is_ending: bool,
    exchanges: Unchanged,
    chunks: Unchanged,
    /// Bytes sent, less those that have come; wraps around.
    balance: u32,
}

impl ConnectionMonitor {
    pub(crate) fn new(connection: &Connection, tick: u32) -> ConnectionMonitor {
        let now = Instant::now();
        ConnectionMonitor {
            tick,
            now,
            is_ending: false,
            exchanges: Unchanged::new(connection.exchanges(), now),
            chunks: Unchanged::new(connection.chunks(), now),
            balance: 0,
        }
    }

    /// What is to become of the connection at this turn; in a second the task is called to ask again. `check` is asked once a
    /// second and obeyed first; where it lets the connection go on, a server that drains ends it, once.
    pub(crate) fn ask<S, T>(
        &mut self,
        client: &Client<S>,
        context: &Context<'_>,
        check: impl FnOnce(&mut ConnectionMonitor) -> Action<T>,
    ) -> Action<T> {
        let Client { front, slot, .. } = client;
        let verdict = self.decide(front.tick(), front.is_draining(), Instant::now, check);
        slot.call_at(self.tick + 1, context.waker());
        verdict
    }

    /// As above, of plain values.
    pub(crate) fn decide<T>(
        &mut self,
        tick: u32,
        is_draining: bool,
        clock: impl FnOnce() -> Instant,
        check: impl FnOnce(&mut ConnectionMonitor) -> Action<T>,
    ) -> Action<T> {
        let is_told_to_end = is_draining && !self.is_ending;
        self.is_ending |= is_draining;
        let mut verdict = Action::GoOn;
        if tick != self.tick {
            (self.tick, self.now) = (tick, clock());
            verdict = check(self);
        }
        match verdict {
            Action::GoOn if is_told_to_end => Action::End,
            Action::End => {
                self.is_ending = true;
                Action::End
            }
            verdict => verdict,
        }
    }

    /// Nothing more begins on the connection.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// For how long no exchange has begun; none if one has since the last look, or while something else keeps it busy.
    pub(crate) fn quiet(&mut self, connection: &Connection, is_busy: bool) -> Option<Duration> {
        self.exchanges.look(connection.exchanges(), is_busy, self.now)
    }

    /// The quiet counts from now on.
    pub(crate) fn begin_again(&mut self) {
        self.exchanges.since = self.now;
    }

    /// For how long the client has taken nothing though every exchange waits for it; none if it has since the last look.
    /// What counts is a chunk of a body that there was room for, or more bytes sent than have come: who only pings, or opens its
    /// window by a byte, is sent no more than it sends itself.
    pub(crate) fn stalled(&mut self, connection: &Connection, balance: u32) -> Option<Duration> {
        let has_gained = balance.wrapping_sub(self.balance).cast_signed() > 0;
        self.balance = balance;
        let is_excused = has_gained || !connection.waits_for_client();
        self.chunks.look(connection.chunks(), is_excused, self.now)
    }
}

/// Since when a count is what it is.
struct Unchanged {
    count: u32,
    since: Instant,
}

impl Unchanged {
    fn new(count: u32, since: Instant) -> Unchanged {
        Unchanged { count, since }
    }

    /// For how long; none if the count has changed since the last look, or if it `is_excused` from changing.
    fn look(&mut self, count: u32, is_excused: bool, now: Instant) -> Option<Duration> {
        if count != self.count || is_excused {
            *self = Unchanged::new(count, now);
            return None;
        }
        Some(now.duration_since(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::UnderWay;
    use sluice_http::endpoints::Endpoints;
    use std::rc::Rc;

    const SECOND: Duration = Duration::from_secs(1);

    fn connection() -> Rc<Connection> {
        Rc::new(Connection::new(Endpoints::UNIX))
    }

    /// For how long the connection is quiet at each of these seconds.
    fn quiet_at(
        monitor: &mut ConnectionMonitor,
        connection: &Connection,
        is_busy: bool,
        second: u32,
    ) -> Option<Duration> {
        let now = monitor.now + SECOND * (second - monitor.tick);
        let verdict = monitor.decide(
            second,
            false,
            || now,
            |monitor| Action::Over(monitor.quiet(connection, is_busy)),
        );
        match verdict {
            Action::Over(quiet) => quiet,
            _ => panic!("nobody was asked at {second}"),
        }
    }

    #[test]
    fn quiet_is_counted_from_the_last_exchange_or_its_end() {
        let connection = connection();
        let mut monitor = ConnectionMonitor::new(&connection, 7);
        assert_eq!(quiet_at(&mut monitor, &connection, false, 8), Some(SECOND));
        assert_eq!(quiet_at(&mut monitor, &connection, false, 10), Some(3 * SECOND));
        drop(UnderWay::begin(&connection));
        assert_eq!(quiet_at(&mut monitor, &connection, false, 11), None);
        assert_eq!(quiet_at(&mut monitor, &connection, true, 12), None);
        assert_eq!(quiet_at(&mut monitor, &connection, false, 14), Some(2 * SECOND));
    }

    #[test]
    fn within_a_second_neither_the_clock_nor_the_judge_is_asked() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let verdict: Action<()> = monitor.decide(
            7,
            false,
            || panic!("the clock is read"),
            |_| panic!("the check is asked"),
        );
        assert_eq!(verdict, Action::GoOn);
    }

    #[test]
    fn a_server_that_drains_ends_a_connection_once() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let mut drain = |tick, verdict: Action<()>| monitor.decide(tick, true, Instant::now, |_| verdict);
        assert_eq!(drain(7, Action::GoOn), Action::End);
        assert_eq!(drain(7, Action::GoOn), Action::GoOn);
        assert_eq!(drain(8, Action::GoOn), Action::GoOn);
        assert_eq!(drain(9, Action::Over(())), Action::Over(()));
    }

    #[test]
    fn a_connection_that_was_ended_already_is_not_ended_by_the_draining() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let end: Action<()> = monitor.decide(8, false, Instant::now, |_| Action::End);
        assert_eq!(end, Action::End);
        let drain: Action<()> = monitor.decide(8, true, Instant::now, |_| Action::GoOn);
        assert_eq!(drain, Action::GoOn);
        assert!(monitor.is_ending());
    }

    #[test]
    fn the_judge_is_told_that_the_server_drains_and_is_obeyed_first() {
        let mut monitor = ConnectionMonitor::new(&connection(), 7);
        let verdict = monitor.decide(8, true, Instant::now, |monitor| Action::Over(monitor.is_ending()));
        assert_eq!(verdict, Action::Over(true));
    }
}
