//! The memory of a worker for response bytes that wait for clients.
//!
//! From half of the budget on, chunks are small; above it, the connection is aborted whose waiting bytes have the largest sum of times (`worker_net`).

use std::cell::Cell;

use tokio::sync::Notify;

/// The response bytes in memory of all connections of a worker.
pub(crate) struct SendBudget {
    bytes: Cell<usize>,
    bytes_max: usize,
    /// Bytes taken since the worker started: a clock of how long bytes have waited, as fast as the worker sends.
    clock: Cell<u64>,
    exceeded: Notify,
}

impl SendBudget {
    pub(crate) fn new(bytes_max: usize) -> SendBudget {
        SendBudget {
            bytes: Cell::new(0),
            bytes_max,
            clock: Cell::new(0),
            exceeded: Notify::new(),
        }
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
        self.clock.set(self.clock.get() + bytes as u64);
        if self.is_exceeded() {
            self.exceeded.notify_one();
        }
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Whether so much is used that chunks must be small.
    pub(crate) fn is_scarce(&self) -> bool {
        self.bytes.get() > self.bytes_max / 2
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes.get() > self.bytes_max
    }

    /// Waits until the budget was exceeded since the last call.
    pub(crate) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }

    /// Bytes taken since the worker started.
    pub(crate) fn clock(&self) -> u64 {
        self.clock.get()
    }
}
