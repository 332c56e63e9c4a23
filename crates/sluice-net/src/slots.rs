//! The connection slots of a worker: how many connections it may have, and which it has.
//!
//! Here: the count that makes accepting wait, and the wake-ups that go to every connection (once a second, and when the
//! worker drains), so that a connection needs no timer of its own for them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::connection::Connection;

/// The connections of a worker.
pub(crate) struct ConnectionSlots {
    free: Cell<usize>,
    freed: Notify,
    taken: RefCell<HashMap<u64, Rc<Connection>>>,
    next: Cell<u64>,
}

/// A connection in its slot. Dropping this frees the slot.
pub(crate) struct Slot {
    slots: Rc<ConnectionSlots>,
    number: u64,
    connection: Rc<Connection>,
}

impl ConnectionSlots {
    pub(crate) fn new(slots: usize) -> ConnectionSlots {
        ConnectionSlots {
            free: Cell::new(slots),
            freed: Notify::new(),
            taken: RefCell::default(),
            next: Cell::new(0),
        }
    }

    /// Waits until a slot is free.
    pub(crate) async fn wait(&self) {
        while self.free.get() == 0 {
            self.freed.notified().await;
        }
    }

    /// Takes a slot for a connection; call `wait` first.
    pub(crate) fn take(self: &Rc<Self>, connection: Connection) -> Slot {
        let connection = Rc::new(connection);
        let number = self.next.get();
        self.next.set(number + 1);
        self.free.set(self.free.get().saturating_sub(1));
        self.taken.borrow_mut().insert(number, Rc::clone(&connection));
        Slot {
            slots: Rc::clone(self),
            number,
            connection,
        }
    }

    /// Wakes the task of every connection that is due at this tick. `u32::MAX` wakes all.
    pub(crate) fn wake_due(&self, tick: u32) {
        for connection in self.taken.borrow().values() {
            connection.wake_if_due(tick);
        }
    }
}

impl Deref for Slot {
    type Target = Rc<Connection>;

    fn deref(&self) -> &Rc<Connection> {
        &self.connection
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.borrow_mut().remove(&self.number);
        self.slots.free.set(self.slots.free.get() + 1);
        // All waiters: each checks the count again, and a listener that only checks must not swallow the wake-up.
        self.slots.freed.notify_waiters();
    }
}
