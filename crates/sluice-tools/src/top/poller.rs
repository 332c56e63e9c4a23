//! Asking the server, on a thread of its own: the keys are obeyed even if the server does not answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use sluice_report::command::Command;

use crate::control::Caller;
use crate::control::client::{ServerOptions, ask};
use crate::top::model::Snapshot;

pub(super) enum News {
    Snapshot(Box<Snapshot>),
    /// The answer to a command, or the reason why the server gave no answer.
    Message(String),
    /// The server did not answer, because of this.
    Silence(String),
}

/// The thread that asks, as the main loop sees it. It ends when this is dropped.
pub(super) struct Poller {
    commands: Sender<Command>,
    news: Receiver<News>,
}

impl Poller {
    /// Asks a server in this interval.
    pub(super) fn start(server: ServerOptions, caller: Caller, interval: Duration) -> Poller {
        let (commands, received) = channel();
        // While nobody takes the news (a watch has the terminal), the server is not asked either.
        let (sender, news) = sync_channel(1);
        std::thread::spawn(move || poll(&server, caller, interval, &received, &sender));
        Poller { commands, news }
    }

    /// The news since the last call, if any.
    pub(super) fn next(&mut self) -> Option<News> {
        self.news.try_recv().ok()
    }

    pub(super) fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

fn poll(
    server: &ServerOptions,
    caller: Caller,
    interval: Duration,
    received: &Receiver<Command>,
    news: &SyncSender<News>,
) {
    loop {
        let message = match received.recv_timeout(interval) {
            Ok(command) => {
                let answered = ask(server, &command, caller).map(|(answer, _)| answer.messages.join("; "));
                Some(News::Message(answered.unwrap_or_else(|error| error)))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let snapshot = ask(server, &Command::Top, caller)
            .and_then(|(answer, _)| Snapshot::of(answer))
            .map_or_else(News::Silence, |snapshot| News::Snapshot(Box::new(snapshot)));
        for one in message.into_iter().chain([snapshot]) {
            if news.send(one).is_err() {
                return;
            }
        }
    }
}
