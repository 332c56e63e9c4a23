//! The last lines of a supervisor's log, for the log of its server process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Bytes of the lines that wait; the oldest are dropped. With the escapes of JSON they fit one record of the link, which is sent whole or not at all.
const BYTES_MAX: usize = 15 << 10;

#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    /// Whole lines.
    text: String,
    /// Bytes at the beginning that were sent, and that stay until the server process has them.
    sent: usize,
    /// Lines that were dropped before they were sent.
    lost: usize,
}

impl State {
    fn send(&mut self) -> String {
        self.sent = self.text.len();
        if self.lost > 0 {
            tracing::warn!(
                "server log: {} lines of the supervisor before these are only on its standard error",
                self.lost
            );
            self.lost = 0;
        }
        self.text.clone()
    }
}

impl Outbox {
    /// Adds whole lines.
    pub(super) fn add(&self, lines: &[u8]) {
        let State { text, sent, lost } = &mut *self.lock();
        text.push_str(&String::from_utf8_lossy(lines));
        if let Some(last) = text.len().checked_sub(BYTES_MAX + 1) {
            // In bytes: a character may begin before this place.
            let newline = text.as_bytes()[last..].iter().position(|byte| *byte == b'\n');
            let end = newline.map_or(text.len(), |at| last + at + 1);
            *lost += text[end.min(*sent)..end].matches('\n').count();
            *sent = sent.saturating_sub(end);
            text.drain(..end);
        }
        self.added.notify_one();
    }

    /// Waits for lines.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// The lines to send to the server process. None while it has not said that it has the last ones.
    pub(crate) fn next(&self) -> Option<String> {
        let mut state = self.lock();
        let is_due = state.sent == 0 && !state.text.is_empty();
        is_due.then(|| state.send())
    }

    /// The lines to send to another server process, because the one before has not said that it has them.
    pub(crate) fn all(&self) -> String {
        self.lock().send()
    }

    /// The lines could not be sent.
    pub(crate) fn keep(&self) {
        self.lock().sent = 0;
    }

    /// The server process has the lines that were sent.
    pub(crate) fn forget(&self) {
        let state = &mut *self.lock();
        state.text.drain(..std::mem::take(&mut state.sent));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::message::ToServer;

    #[test]
    fn lines_stay_until_a_server_process_has_them() {
        let outbox = Outbox::default();
        assert_eq!(outbox.next(), None);
        outbox.add(b"one\ntwo\n");
        assert_eq!(outbox.next().as_deref(), Some("one\ntwo\n"));
        outbox.add(b"three\n");
        assert_eq!(outbox.next(), None, "it does not read");
        outbox.keep();
        assert_eq!(outbox.next().as_deref(), Some("one\ntwo\nthree\n"));
        outbox.add(b"killed\n");
        assert_eq!(outbox.all(), "one\ntwo\nthree\nkilled\n", "the next one");
        outbox.add(b"four\n");
        outbox.forget();
        assert_eq!(outbox.next().as_deref(), Some("four\n"));
    }

    #[test]
    fn the_oldest_lines_are_dropped_and_counted_once() {
        let outbox = Outbox::default();
        let line = format!("{}\n", "x".repeat(1023));
        let state = || {
            let state = outbox.lock();
            (state.text.len(), state.lost, state.sent)
        };
        (0..20).for_each(|_| outbox.add(line.as_bytes()));
        assert_eq!(state(), (BYTES_MAX, 5, 0));
        let message = ToServer::Lines(outbox.next().expect("lines").replace('x', "\""));
        assert!(
            serde_json::to_vec(&message).expect("JSON").len() < 32 << 10,
            "one record"
        );
        outbox.add(line.repeat(20).as_bytes());
        assert_eq!(state(), (BYTES_MAX, 5, 0));
        outbox.add(format!("{}\n", "y".repeat(BYTES_MAX)).as_bytes());
        assert_eq!(state(), (0, 21, 0));
        (0..20).for_each(|_| outbox.add(format!("x{}\n", "ü".repeat(511)).as_bytes()));
        assert_eq!(state(), (BYTES_MAX, 26, 0));
    }
}
