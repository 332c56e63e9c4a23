//! Script processes without a reaper: their end.
//!
//! Here: a process that nobody has taken, because its request has gone, and one whose descriptors the event loop refuses. Not here:
//! processes with a reaper (`process`).

use sluice_launch::{RemoteProcess, RemoteStarted, Signal};

/// A process that was started and that nobody has taken yet. Its drop ends it.
pub(crate) struct Unclaimed<E: Send + 'static>(Option<(RemoteStarted, E)>);

impl<E: Send + 'static> Unclaimed<E> {
    pub(crate) fn new(started: RemoteStarted, ended: E) -> Unclaimed<E> {
        Unclaimed(Some((started, ended)))
    }

    pub(crate) fn claim(mut self) -> (RemoteStarted, E) {
        self.0.take().expect("claimed once, by value")
    }
}

impl<E: Send + 'static> Drop for Unclaimed<E> {
    fn drop(&mut self) {
        if let Some((RemoteStarted { process, .. }, ended)) = self.0.take() {
            end_unclaimed(process, ended);
        }
    }
}

/// Kills a process that has no reaper and never gets one. `ended` is dropped when the process is reaped, because the process counts
/// until its end.
pub(crate) fn end_unclaimed<E: Send + 'static>(mut process: RemoteProcess, ended: E) {
    process.signal(Signal::Kill);
    process.on_end(move |_| drop(ended));
}
