//! Events by which connections notify the slots of their worker: a connection has become idle, or has ended.

use std::cell::Cell;

use tokio::sync::Notify;

/// The waiting for a free slot, and the order in which connections became idle.
#[derive(Default)]
pub(crate) struct SlotEvents {
    next: Cell<u64>,
    /// Whether somebody waits for a slot.
    is_wanted: Cell<bool>,
    changed: Notify,
}

impl SlotEvents {
    /// Numbers the moments at which connections become idle.
    pub(crate) fn next_number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    /// Waits until a connection has ended or, since nobody else has a slot, has become idle.
    pub(crate) async fn changed(&self) {
        self.is_wanted.set(true);
        self.changed.notified().await;
    }

    /// Wakes all who wait: each checks again, and a listener that only checks must not swallow the wake-up.
    pub(crate) fn notify(&self) {
        self.is_wanted.set(false);
        self.changed.notify_waiters();
    }

    /// Wakes those who wait, if there are any.
    pub(crate) fn notify_if_wanted(&self) {
        if self.is_wanted.get() {
            self.notify();
        }
    }
}
