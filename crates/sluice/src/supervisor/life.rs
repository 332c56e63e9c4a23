//! The life of a server process as its supervisor sees it: decisions only, without processes, clocks or messages.
//!
//! ```text
//!            ┌────────── died ──────────┐
//!            ▼                          │
//!       BackingOff ── due ──▶ Starting ─┤        (the first start: died ──▶ Ended)
//!            ▲                   │ started
//!            │                   ▼
//!            └──── died ──── Serving ◀──── over ─── Reloading, Upgrading
//!                                └──── asked ─────────▶
//!       any ── drain ──▶ Draining ── died ──▶ Ended       (BackingOff: at once)
//!       Starting ── silent for `ANSWER_TIMEOUT` ──▶ killed;   Reloading ──▶ Serving
//!       any ── dying for `HANGS_AFTER` ──▶ abandoned: as if it had died
//! ```
//! A process that dies is replaced at once. One that dies again within `STABLE` is replaced after a delay that doubles each time. The
//! supervisor never gives up, because a cause outside, such as missing memory, may go away.

use std::time::{Duration, Instant};

/// A server process that has lived so long does not count as a failed attempt.
const STABLE: Duration = Duration::from_secs(10);

/// The delay after the second death in a row; it doubles with each further one.
const DELAY_FIRST: Duration = Duration::from_millis(100);

const DELAY_MAX: Duration = Duration::from_secs(10);

/// A server process that was killed and has not ended after this time hangs in the kernel. Nothing waits for it, because what it waits for may never happen.
pub(super) const HANGS_AFTER: Duration = Duration::from_secs(5);

/// How long a server process may take to start, or to answer a reload. It reads its settings meanwhile; what it waits for beyond that may never come.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The server process reads its settings.
    Starting,
    Serving,
    /// The server process serves, and changes its settings.
    Reloading,
    /// The server process serves, and another program is tried.
    Upgrading,
    /// There is no server process until this moment.
    BackingOff {
        until: Instant,
    },
    /// The server process ends after its exchanges; at once if `signals` is 2 or more.
    Draining {
        signals: u32,
    },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEvent {
    Started,
    /// The server process has ended, or was abandoned.
    Died,
    /// The server process was killed, by whomever, and has not ended. Happens again while that is so.
    Dying,
    Due,
    /// The server process has not said for `ANSWER_TIMEOUT` that it serves, or what came of a reload.
    Silent,
    Reload,
    ReloadOver,
    Upgrade,
    /// The program was not replaced.
    UpgradeOver,
    Drain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    /// Wait so long, and say so.
    Wait(Duration),
    /// Read the configuration, and have the server process use it.
    Reload,
    Upgrade,
    RefuseUpgrade,
    Drain,
    End,
    Kill,
    /// Kill it, because it does not start.
    KillSilent,
    /// Go on without its answer to a reload.
    ForgetReload,
    /// Go on without it, because it hangs in the kernel.
    Abandon,
    Exit,
}

#[derive(Debug)]
pub(super) struct Life {
    state: State,
    has_served: bool,
    started: Instant,
    /// Deaths in a row.
    deaths: u32,
    wants_reload: bool,
    /// When the server process was started, or asked for a reload.
    asked: Instant,
    /// Since when the server process is known to be dying.
    dying_since: Option<Instant>,
}

impl Life {
    /// Before the first server process has started.
    pub(super) fn begin(now: Instant) -> Life {
        Life {
            state: State::Starting,
            has_served: false,
            started: now,
            deaths: 0,
            wants_reload: false,
            asked: now,
            dying_since: None,
        }
    }

    /// The state of a successor: an earlier supervisor has started a server process, which is to be replaced.
    pub(super) fn take_over(now: Instant) -> Life {
        Life {
            state: State::Upgrading,
            has_served: true,
            ..Life::begin(now)
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// When an answer of the server process is overdue, if one is awaited.
    pub(super) fn answer_due(&self) -> Option<Instant> {
        matches!(self.state, State::Starting | State::Reloading).then(|| self.asked + ANSWER_TIMEOUT)
    }

    pub(super) fn has_served(&self) -> bool {
        self.has_served
    }

    pub(super) fn on(&mut self, event: LifeEvent, now: Instant) -> Option<Action> {
        if matches!(event, LifeEvent::Died | LifeEvent::Started | LifeEvent::UpgradeOver) {
            // From here on it is another process.
            self.dying_since = None;
        }
        match (self.state, event) {
            (State::Starting, LifeEvent::Started) => {
                self.has_served = true;
                self.serve(now)
            }
            (State::Starting, LifeEvent::Silent) => {
                self.asked = now;
                Some(Action::KillSilent)
            }
            (State::Reloading, LifeEvent::Silent) => {
                // A reload that waits is refused then.
                self.asked = now;
                Some(Action::ForgetReload)
            }
            (State::Starting, LifeEvent::Died) if !self.has_served => self.end(),
            (State::Starting | State::Serving | State::Reloading | State::Upgrading, LifeEvent::Died) => {
                Some(self.back_off(now))
            }
            (State::BackingOff { .. }, LifeEvent::Due) => {
                (self.state, self.started, self.asked) = (State::Starting, now, now);
                Some(Action::Start)
            }
            (State::Serving, LifeEvent::Reload) => Some(self.reload(now)),
            // With no server process the files are read before the next one starts.
            (State::BackingOff { .. }, LifeEvent::Reload) => Some(Action::Reload),
            (State::Starting | State::Reloading | State::Upgrading, LifeEvent::Reload) => {
                self.wants_reload = true;
                None
            }
            (State::Reloading, LifeEvent::ReloadOver) | (State::Upgrading, LifeEvent::UpgradeOver) => self.serve(now),
            (State::Serving, LifeEvent::Upgrade) => {
                self.state = State::Upgrading;
                Some(Action::Upgrade)
            }
            (_, LifeEvent::Upgrade) => Some(Action::RefuseUpgrade),
            (State::BackingOff { .. }, LifeEvent::Drain) | (State::Draining { .. }, LifeEvent::Died) => self.end(),
            (State::Draining { signals }, LifeEvent::Drain) => {
                self.state = State::Draining { signals: signals + 1 };
                Some(if signals == 1 { Action::End } else { Action::Kill })
            }
            (State::BackingOff { .. } | State::Ended, LifeEvent::Dying) => None,
            (_, LifeEvent::Dying) => {
                let since = *self.dying_since.get_or_insert(now);
                (now.saturating_duration_since(since) >= HANGS_AFTER).then_some(Action::Abandon)
            }
            (State::Starting | State::Serving | State::Reloading | State::Upgrading, LifeEvent::Drain) => {
                self.state = State::Draining { signals: 1 };
                Some(Action::Drain)
            }
            _ => None,
        }
    }

    /// Serves, or does what had to wait.
    fn serve(&mut self, now: Instant) -> Option<Action> {
        self.state = State::Serving;
        std::mem::take(&mut self.wants_reload).then(|| self.reload(now))
    }

    fn reload(&mut self, now: Instant) -> Action {
        (self.state, self.asked) = (State::Reloading, now);
        Action::Reload
    }

    fn back_off(&mut self, now: Instant) -> Action {
        if now.saturating_duration_since(self.started) >= STABLE {
            self.deaths = 0;
        }
        let delay = delay_after(self.deaths);
        self.deaths += 1;
        self.state = State::BackingOff { until: now + delay };
        Action::Wait(delay)
    }

    fn end(&mut self) -> Option<Action> {
        self.state = State::Ended;
        Some(Action::Exit)
    }
}

/// ` in 100 ms`, for a line of the log; nothing for no delay.
pub(super) fn in_milliseconds(delay: Duration) -> String {
    match delay.as_millis() {
        0 => String::new(),
        milliseconds => format!(" in {milliseconds} ms"),
    }
}

/// The delay before a process is started again that has died so often before.
pub(super) fn delay_after(deaths: u32) -> Duration {
    match deaths {
        0 => Duration::ZERO,
        // Beyond this shift the delay is the longest anyway.
        deaths => (DELAY_FIRST * (1 << (deaths - 1).min(10))).min(DELAY_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A life with its clock.
    struct Run {
        life: Life,
        now: Instant,
    }

    impl Run {
        fn serving() -> Run {
            let now = Instant::now();
            let mut run = Run { life: Life::begin(now), now };
            assert_eq!(run.on(LifeEvent::Started), None);
            assert_eq!(run.life.state(), State::Serving);
            run
        }

        fn on(&mut self, event: LifeEvent) -> Option<Action> {
            self.life.on(event, self.now)
        }

        /// The process dies; the delay before the next one, which then serves.
        fn delay(&mut self) -> Duration {
            let Some(Action::Wait(delay)) = self.on(LifeEvent::Died) else {
                panic!("no delay in {:?}", self.life);
            };
            self.now += delay;
            assert_eq!(self.on(LifeEvent::Due), Some(Action::Start));
            assert_eq!(self.on(LifeEvent::Started), None);
            delay
        }
    }

    #[test]
    fn a_server_that_never_served_is_not_started_again() {
        let now = Instant::now();
        let mut life = Life::begin(now);
        assert_eq!(life.on(LifeEvent::Died, now), Some(Action::Exit));
        assert_eq!((life.state(), life.has_served()), (State::Ended, false));
    }

    #[test]
    fn the_first_restart_is_at_once_and_delays_grow_up_to_a_bound() {
        let mut run = Run::serving();
        let delays: Vec<_> = (0..12).map(|_| run.delay().as_millis()).collect();
        assert_eq!(
            delays,
            [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000]
        );
    }

    #[test]
    fn a_server_that_lived_for_a_while_is_restarted_at_once_again() {
        let mut run = Run::serving();
        run.delay();
        assert_ne!(run.delay(), Duration::ZERO);
        run.now += STABLE;
        assert_eq!(run.delay(), Duration::ZERO);
    }

    #[test]
    fn a_restart_that_fails_is_tried_again() {
        let mut run = Run::serving();
        assert_eq!(run.on(LifeEvent::Died), Some(Action::Wait(Duration::ZERO)));
        assert_eq!(run.on(LifeEvent::Due), Some(Action::Start));
        assert_eq!(run.on(LifeEvent::Died), Some(Action::Wait(DELAY_FIRST)));
    }

    #[test]
    fn a_reload_waits_for_the_start_and_for_the_reload_before_it() {
        let now = Instant::now();
        let mut life = Life::begin(now);
        assert_eq!(life.on(LifeEvent::Reload, now), None);
        assert_eq!(life.on(LifeEvent::Started, now), Some(Action::Reload));
        assert_eq!(life.on(LifeEvent::Reload, now), None);
        assert_eq!(life.on(LifeEvent::Reload, now), None);
        assert_eq!(life.on(LifeEvent::ReloadOver, now), Some(Action::Reload));
        assert_eq!(life.on(LifeEvent::ReloadOver, now), None);
        assert_eq!(life.state(), State::Serving);
    }

    #[test]
    fn without_a_server_process_the_files_are_read_and_a_drain_ends_at_once() {
        let mut run = Run::serving();
        run.on(LifeEvent::Died);
        assert_eq!(run.on(LifeEvent::Reload), Some(Action::Reload));
        assert!(matches!(run.life.state(), State::BackingOff { .. }));
        assert_eq!(run.on(LifeEvent::Drain), Some(Action::Exit));
    }

    #[test]
    fn a_drain_is_made_stricter_by_each_further_signal_and_no_server_is_started_after_it() {
        let mut run = Run::serving();
        assert_eq!(run.on(LifeEvent::Drain), Some(Action::Drain));
        assert_eq!(run.on(LifeEvent::Reload), None);
        assert_eq!(run.on(LifeEvent::Upgrade), Some(Action::RefuseUpgrade));
        assert_eq!(run.on(LifeEvent::Drain), Some(Action::End));
        assert_eq!(run.on(LifeEvent::Drain), Some(Action::Kill));
        assert_eq!(run.on(LifeEvent::Died), Some(Action::Exit));
        assert_eq!(run.on(LifeEvent::Due), None);
    }

    #[test]
    fn an_upgrade_waits_for_nothing_and_a_failed_one_changes_nothing() {
        let mut run = Run::serving();
        assert_eq!(run.on(LifeEvent::Upgrade), Some(Action::Upgrade));
        assert_eq!(run.on(LifeEvent::Upgrade), Some(Action::RefuseUpgrade));
        assert_eq!(run.on(LifeEvent::Reload), None);
        assert_eq!(run.on(LifeEvent::UpgradeOver), Some(Action::Reload));
        assert_eq!(
            run.on(LifeEvent::Upgrade),
            Some(Action::RefuseUpgrade),
            "while reloading"
        );
    }

    #[test]
    fn a_server_that_does_not_start_in_time_is_killed_and_the_next_one_gets_the_same_time() {
        let now = Instant::now();
        let mut life = Life::begin(now);
        let due = now + ANSWER_TIMEOUT;
        assert_eq!(life.answer_due(), Some(due));
        assert_eq!(life.on(LifeEvent::Silent, due), Some(Action::KillSilent));
        assert_eq!(
            life.answer_due(),
            Some(due + ANSWER_TIMEOUT),
            "it may need some time to die"
        );
        assert_eq!(life.on(LifeEvent::Died, due), Some(Action::Exit));
        let mut run = Run::serving();
        assert_eq!(run.life.answer_due(), None);
        run.on(LifeEvent::Died);
        assert_eq!(run.life.answer_due(), None);
        run.now += STABLE;
        run.on(LifeEvent::Due);
        assert_eq!(run.life.answer_due(), Some(run.now + ANSWER_TIMEOUT));
        assert_eq!(run.on(LifeEvent::Silent), Some(Action::KillSilent));
        assert_eq!(run.on(LifeEvent::Died), Some(Action::Wait(DELAY_FIRST)));
    }

    #[test]
    fn a_reload_without_an_answer_does_not_keep_others_from_being_asked_for() {
        let mut run = Run::serving();
        run.now += STABLE;
        run.on(LifeEvent::Reload);
        assert_eq!(run.life.answer_due(), Some(run.now + ANSWER_TIMEOUT));
        run.now += ANSWER_TIMEOUT;
        assert_eq!(run.on(LifeEvent::Silent), Some(Action::ForgetReload));
        // The supervisor has forgotten it.
        assert_eq!(run.on(LifeEvent::ReloadOver), None);
        assert_eq!((run.life.state(), run.life.answer_due()), (State::Serving, None));
        assert_eq!(run.on(LifeEvent::Upgrade), Some(Action::Upgrade));
    }

    #[test]
    fn a_killed_server_that_does_not_end_is_abandoned_and_another_one_started() {
        let mut run = Run::serving();
        assert_eq!(run.on(LifeEvent::Dying), None);
        run.now += HANGS_AFTER - Duration::from_millis(1);
        assert_eq!(run.on(LifeEvent::Dying), None);
        run.now += Duration::from_millis(1);
        assert_eq!(run.on(LifeEvent::Dying), Some(Action::Abandon));
        // The supervisor has abandoned it.
        assert_eq!(run.on(LifeEvent::Died), Some(Action::Wait(Duration::ZERO)));
        assert_eq!(run.on(LifeEvent::Dying), None);
        assert_eq!(run.on(LifeEvent::Due), Some(Action::Start));
        assert_eq!(
            run.on(LifeEvent::Dying),
            None,
            "the time begins again with another process"
        );
    }

    #[test]
    fn a_server_that_ends_in_time_is_not_abandoned() {
        let mut run = Run::serving();
        run.on(LifeEvent::Dying);
        run.now += HANGS_AFTER / 2;
        assert_eq!(run.delay(), Duration::ZERO);
        run.now += HANGS_AFTER / 2;
        assert_eq!(run.on(LifeEvent::Dying), None);
    }

    #[test]
    fn a_server_that_hangs_while_it_is_to_end_does_not_keep_the_supervisor() {
        let mut run = Run::serving();
        run.on(LifeEvent::Drain);
        run.on(LifeEvent::Dying);
        run.now += HANGS_AFTER;
        assert_eq!(run.on(LifeEvent::Dying), Some(Action::Abandon));
        assert_eq!(run.on(LifeEvent::Died), Some(Action::Exit));
    }

    #[test]
    fn a_server_that_hangs_during_a_reload_or_an_upgrade_is_abandoned() {
        for event in [LifeEvent::Reload, LifeEvent::Upgrade] {
            let mut run = Run::serving();
            run.on(event);
            run.on(LifeEvent::Dying);
            run.now += HANGS_AFTER;
            assert_eq!(run.on(LifeEvent::Dying), Some(Action::Abandon));
            assert_eq!(run.on(LifeEvent::Died), Some(Action::Wait(Duration::ZERO)));
        }
    }
}
