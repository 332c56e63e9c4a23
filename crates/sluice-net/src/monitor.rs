//! The monitor of a connection: decides once a second whether the connection goes on.
//!
//! A protocol asks it whenever its task is polled, several times per request. So it reads the clock, and calls the protocol's own check, only when the
//! worker has counted another second; otherwise the answer costs two comparisons.

use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use sluice_settings::limits::Limits;

use crate::connection::Connection;
use crate::outgoing::Delivery;
use crate::send_allowance::{ClientWait, RoundRobin, SendAllowance};
use crate::worker_net::{WorkerNet, WorkerNetStatus};

/// Exchanges of an HTTP/2 connection that count for its lowest rate while its socket is the bottleneck: a browser may request a hundred pictures at once.
const SLOW_EXCHANGES_MAX: usize = 4;

/// The next action of a protocol with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<T> {
    Continue,
    /// Complete the exchanges under way, and begin no other.
    ShutDown,
    /// Close now, even if exchanges are under way.
    Close(T),
}

/// The results of the last checks of a connection.
pub(crate) struct ConnectionMonitor {
    /// The second of the last check, as the worker counts them, and by the clock.
    tick: u32,
    now: Instant,
    is_shutting_down: bool,
    /// The number of exchanges at the last check, and since when it has not changed.
    begun: u32,
    idle_since: Instant,
    /// The time between the last two checks.
    elapsed: Duration,
    /// Bytes of bodies that had moved to the socket at the last check; wraps around.
    moved: u32,
    /// The waiting and sending that the last call of `is_fast_enough` has seen.
    wait: Option<ClientWait>,
    newly_moved: u32,
    /// The time left to the client; `None` while the server does not wait for it.
    allowance: Option<SendAllowance>,
}

impl ConnectionMonitor {
    pub(crate) fn new(connection: &Connection, tick: u32) -> ConnectionMonitor {
        let now = Instant::now();
        ConnectionMonitor {
            tick,
            now,
            is_shutting_down: false,
            begun: connection.exchanges.begun.get(),
            idle_since: now,
            elapsed: Duration::ZERO,
            moved: connection.outgoing.moved.get(),
            wait: None,
            newly_moved: 0,
            allowance: None,
        }
    }

    /// Decides what to do with the connection now, and has its task woken after the next second. `check` is called once a second,
    /// and its action takes precedence over the shutdown, once, when the server drains.
    pub(crate) fn next_action<T>(
        &mut self,
        net: &WorkerNet,
        connection: &Connection,
        context: &Context<'_>,
        check: impl FnOnce(&mut ConnectionMonitor) -> Action<T>,
    ) -> Action<T> {
        let action = self.decide(net.status(), Instant::now, check);
        connection.wake_at(self.tick + 1, context.waker());
        action
    }

    /// Decides as `next_action` does, without its side effects.
    pub(crate) fn decide<T>(
        &mut self,
        status: WorkerNetStatus,
        clock: impl FnOnce() -> Instant,
        check: impl FnOnce(&mut ConnectionMonitor) -> Action<T>,
    ) -> Action<T> {
        let WorkerNetStatus { tick, is_draining } = status;
        let begins_to_drain = is_draining && !self.is_shutting_down;
        self.is_shutting_down |= is_draining;
        let mut action = Action::Continue;
        if tick != self.tick {
            let now = clock();
            self.elapsed = now.saturating_duration_since(self.now);
            (self.tick, self.now) = (tick, now);
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

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Whether no further exchange begins on the connection.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down
    }

    /// The time since the last exchange. `None` if one is under way, or has begun since the last check.
    pub(crate) fn idle_time(&mut self, connection: &Connection) -> Option<Duration> {
        let is_in_use = connection.exchanges.is_busy() || connection.outgoing.has_chunks();
        if is_in_use || connection.exchanges.begun.get() != self.begun {
            self.restart_idle_time(connection);
            return None;
        }
        Some(self.now.duration_since(self.idle_since))
    }

    pub(crate) fn restart_idle_time(&mut self, connection: &Connection) {
        (self.begun, self.idle_since) = (connection.exchanges.begun.get(), self.now);
    }

    /// Whether the client still takes what it is sent, or the server waits for something else.
    ///
    /// `wait` is the wait of the socket. While the socket takes nothing, no exchange can progress, so the connection as a whole must be fast enough: in
    /// HTTP/2 by the lowest rate for each waiting exchange, up to `SLOW_EXCHANGES_MAX`. The same holds if only last chunks wait, for their windows.
    pub(crate) fn is_fast_enough(
        &mut self,
        connection: &Connection,
        wait: Option<ClientWait>,
        limits: &Limits,
    ) -> bool {
        let moved = connection.outgoing.moved.get();
        let newly_moved = moved.wrapping_sub(std::mem::replace(&mut self.moved, moved));
        self.wait = wait;
        self.newly_moved = newly_moved;
        let wait = wait.or_else(|| {
            let outgoing = &connection.outgoing;
            let is_stalled =
                outgoing.has_chunks() && !connection.exchanges.wait_for_server() && outgoing.count_waiting() == 0;
            is_stalled.then_some(ClientWait { waited: self.elapsed, taken: newly_moved })
        });
        let Some(wait) = wait else {
            self.allowance = None;
            return true;
        };
        let deliveries = connection.outgoing.count_waiting().clamp(1, SLOW_EXCHANGES_MAX);
        let rate = limits.send_bytes_per_second_min.saturating_mul(deliveries as u64);
        let allowance = self.allowance.get_or_insert_with(|| SendAllowance::new(limits));
        allowance.covers(wait, rate, limits)
    }

    /// Aborts the exchanges whose client does not take their bodies; call it after `is_fast_enough`. Reports which bodies are too slow.
    ///
    /// An exchange waits for its own window if its connection sends. All of them are excused while the socket takes nothing, or if
    /// together they are fast enough, because they share socket and window of the connection and take turns. An exchange is
    /// excused no more once the connection has sent what could be sent before its turn: then only its own window is closed.
    pub(crate) fn abort_slow_exchanges(&mut self, connection: &Connection, limits: &Limits) -> SlowBodies {
        let outgoing = &connection.outgoing;
        let deliveries = outgoing.waiting_deliveries();
        let waited_for_socket = self.wait.map_or(Duration::ZERO, |wait| wait.waited);
        let waited = self.elapsed.saturating_sub(waited_for_socket);
        let rate = limits.send_bytes_per_second_min;
        let bodies = deliveries.len() + usize::from(outgoing.complete_bodies().are_waiting());
        let expected = u128::from(rate) * bodies as u128 * waited.as_millis();
        let is_excused = rate > 0 && u128::from(self.newly_moved) * 1000 >= expected;
        let turn = RoundRobin {
            waited: if is_excused { Duration::ZERO } else { waited },
            elapsed: self.elapsed,
            sent: self.newly_moved,
            streams: outgoing.count_streams(),
        };
        let is_slow = |delivery: &&Rc<Delivery>| !delivery.check(turn, limits);
        let slow: Vec<_> = deliveries.iter().filter(is_slow).collect();
        slow.iter().for_each(|delivery| delivery.abort());
        SlowBodies {
            aborted: slow.len(),
            are_complete_ones_slow: !outgoing.complete_bodies().check(turn, limits),
        }
    }
}

/// Bodies whose client does not take them fast enough.
pub(crate) struct SlowBodies {
    /// Exchanges that were aborted.
    pub aborted: usize,
    /// Whether there are some whose exchange is over: only closing the connection ends these.
    pub are_complete_ones_slow: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::active_exchange::ActiveExchange;

    const SECOND: Duration = Duration::from_secs(1);

    fn serving(tick: u32) -> WorkerNetStatus {
        WorkerNetStatus { tick, is_draining: false }
    }

    fn draining(tick: u32) -> WorkerNetStatus {
        WorkerNetStatus { tick, is_draining: true }
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
        let connection = Connection::alone();
        let mut monitor = ConnectionMonitor::new(&connection, 7);
        assert_eq!(idle_at(&mut monitor, &connection, 8), Some(SECOND));
        assert_eq!(idle_at(&mut monitor, &connection, 10), Some(3 * SECOND));
        drop(ActiveExchange::begin(&connection));
        assert_eq!(idle_at(&mut monitor, &connection, 11), None);
        let exchange = ActiveExchange::begin(&connection);
        assert_eq!(idle_at(&mut monitor, &connection, 12), None);
        assert_eq!(idle_at(&mut monitor, &connection, 13), None);
        drop(exchange);
        assert_eq!(idle_at(&mut monitor, &connection, 15), Some(2 * SECOND));
    }

    #[test]
    fn within_a_second_neither_the_clock_is_read_nor_the_check_called() {
        let mut monitor = ConnectionMonitor::new(&Connection::alone(), 7);
        let action: Action<()> = monitor.decide(
            serving(7),
            || panic!("the clock is read"),
            |_| panic!("the check is called"),
        );
        assert_eq!(action, Action::Continue);
    }

    #[test]
    fn draining_shuts_a_connection_down_once() {
        let mut monitor = ConnectionMonitor::new(&Connection::alone(), 7);
        let mut drain = |tick, action: Action<()>| monitor.decide(draining(tick), Instant::now, |_| action);
        assert_eq!(drain(7, Action::Continue), Action::ShutDown);
        assert_eq!(drain(7, Action::Continue), Action::Continue);
        assert_eq!(drain(8, Action::Continue), Action::Continue);
        assert_eq!(drain(9, Action::Close(())), Action::Close(()));
    }

    #[test]
    fn draining_does_not_shut_down_a_connection_again() {
        let mut monitor = ConnectionMonitor::new(&Connection::alone(), 7);
        let checked: Action<()> = monitor.decide(serving(8), Instant::now, |_| Action::ShutDown);
        assert_eq!(checked, Action::ShutDown);
        let drained: Action<()> = monitor.decide(draining(8), Instant::now, |_| Action::Continue);
        assert_eq!(drained, Action::Continue);
        assert!(monitor.is_shutting_down());
    }

    #[test]
    fn the_check_knows_of_draining_and_takes_precedence() {
        let mut monitor = ConnectionMonitor::new(&Connection::alone(), 7);
        let check = |monitor: &mut ConnectionMonitor| Action::Close(monitor.is_shutting_down());
        assert_eq!(monitor.decide(draining(8), Instant::now, check), Action::Close(true));
    }
}
