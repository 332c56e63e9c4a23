//! Signals to the process of the server, and the event loop that waits for them and for other things.

use std::io;
use std::time::Instant;

use sluice_report::command::Command;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) fn event_loop() -> Result<Runtime, String> {
    let made = Builder::new_current_thread().enable_all().build();
    made.map_err(|error| format!("event loop: {error}"))
}

/// Waits until a moment; forever without one.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

pub(crate) enum Event {
    /// A signal, and the command that does the same.
    Signal(&'static str, Command),
    End,
}

pub(crate) struct Signals {
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.hangup.recv() => Event::Signal("SIGHUP", Command::Reload),
            _ = self.user1.recv() => Event::Signal("SIGUSR1", Command::ReopenLogs),
            _ = self.user2.recv() => Event::Signal("SIGUSR2", Command::Purge),
            _ = self.terminate.recv() => Event::End,
            _ = self.interrupt.recv() => Event::End,
        }
    }
}
