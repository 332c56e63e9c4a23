//! The slots of a worker: how many connections it may have, and which it has.
//!
//! Here: the count that makes accepting wait, and the calls that go to every connection (once a second, and when the worker
//! drains), so that a connection needs no timer of its own for them.

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

/// A connection in its slot, which is free again when this is dropped.
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

    /// Waits until there is a slot.
    pub(crate) async fn wait(&self) {
        while self.free.get() == 0 {
            self.freed.notified().await;
        }
    }

    /// Gives a connection its slot; `wait` first.
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

    /// Calls every connection that asked to be called by this tick.
    pub(crate) fn call(&self, tick: u32) {
        for connection in self.taken.borrow().values() {
            connection.call(tick);
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
        // All: who has waited may take the slot or only know of it.
        self.slots.freed.notify_waiters();
    }
}
