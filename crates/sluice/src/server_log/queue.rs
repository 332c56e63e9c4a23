//! The queue between the threads that log and the one that writes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sluice_log::LineFile;
use tracing::Level;

/// Lines that wait for a slow terminal; more are counted and dropped.
const LINES_MAX: usize = 8192;

/// Bytes of the lines that wait, at most with one line more: a line may be as long as a request line.
const BYTES_MAX: usize = 4 << 20;

/// An event as it will be shown, without what depends on the place where it is shown.
pub(super) struct Line {
    pub(super) time: SystemTime,
    pub(super) level: Level,
    pub(super) body: Body,
}

/// The content of a line, escaped.
pub(super) enum Body {
    /// The message, and fields as `key=value`.
    Text(String),
    /// Members of a JSON object, after those for time and level.
    Json(Vec<u8>),
    /// Whole lines, which the supervisor has written to standard error.
    Written(String),
}

impl Body {
    fn bytes(&self) -> usize {
        match self {
            Body::Text(text) | Body::Written(text) => text.len(),
            Body::Json(members) => members.len(),
        }
    }
}

/// A line, or a command in its place among the lines, for the log's thread.
pub(super) enum Item {
    Line(Line),
    Command(Command),
}

pub(super) enum Command {
    /// Write to this file, and still to standard error; without a file, to standard error only.
    Use(Option<Box<LineFile>>),
    /// Write no more to standard error if there is a file.
    LeaveStderr,
    Reopen,
    /// Write what waits, and end.
    End,
}

/// The lines and commands that the thread has not taken yet.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    /// Lines dropped since the thread last took some.
    lost: u64,
    has_ended: bool,
}

pub(super) struct Batch {
    pub(super) items: VecDeque<Item>,
    /// Lines that were dropped after these.
    pub(super) lost: u64,
}

impl Queue {
    /// Adds a line, or counts it if too many wait.
    pub(super) fn add(&self, line: Line) {
        let mut state = self.lock();
        if state.items.len() < LINES_MAX && state.bytes < BYTES_MAX {
            state.bytes += line.body.bytes();
            state.items.push_back(Item::Line(line));
        } else {
            state.lost += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn send(&self, command: Command) {
        self.lock().items.push_back(Item::Command(command));
        self.changed.notify_all();
    }

    /// Waits for lines and commands, at most for `timeout`.
    pub(super) fn take(&self, timeout: Option<Duration>) -> Batch {
        let is_empty = |state: &mut State| state.items.is_empty();
        let state = self.lock();
        let mut state = match timeout {
            None => self
                .changed
                .wait_while(state, is_empty)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(state, timeout, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.bytes = 0;
        Batch {
            items: std::mem::take(&mut state.items),
            lost: std::mem::take(&mut state.lost),
        }
    }

    pub(super) fn set_ended(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Has the thread write what waits, and waits for that, at most for `timeout`.
    pub(super) fn end(&self, timeout: Duration) {
        self.send(Command::End);
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |state| !state.has_ended);
        drop(waited);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_wait_are_bounded_in_bytes() {
        let queue = Queue::default();
        let add = |bytes: usize| {
            queue.add(Line {
                time: SystemTime::UNIX_EPOCH,
                level: Level::INFO,
                body: Body::Text("x".repeat(bytes)),
            });
        };
        (0..10).for_each(|_| add(1 << 20));
        let batch = queue.take(None);
        assert_eq!((batch.items.len(), batch.lost), (4, 6));
        add(1);
        let batch = queue.take(None);
        assert_eq!((batch.items.len(), batch.lost), (1, 0));
    }
}
