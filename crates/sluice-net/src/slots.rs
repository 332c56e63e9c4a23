//! The places of a worker: how many connections it may have, and which it has.
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
pub(crate) struct Places {
    free: Cell<usize>,
    freed: Notify,
    taken: RefCell<HashMap<u64, Rc<Connection>>>,
    next: Cell<u64>,
}

/// A connection in its place, which is free again when this is dropped.
pub(crate) struct Place {
    places: Rc<Places>,
    number: u64,
    connection: Rc<Connection>,
}

impl Places {
    pub(crate) fn new(places: usize) -> Places {
        Places {
            free: Cell::new(places),
            freed: Notify::new(),
            taken: RefCell::default(),
            next: Cell::new(0),
        }
    }

    /// Waits until there is a place.
    pub(crate) async fn wait(&self) {
        while self.free.get() == 0 {
            self.freed.notified().await;
        }
    }

    /// Gives a connection its place; `wait` first.
    pub(crate) fn take(self: &Rc<Self>, connection: Connection) -> Place {
        let connection = Rc::new(connection);
        let number = self.next.get();
        self.next.set(number + 1);
        self.free.set(self.free.get().saturating_sub(1));
        self.taken.borrow_mut().insert(number, Rc::clone(&connection));
        Place {
            places: Rc::clone(self),
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

impl Deref for Place {
    type Target = Rc<Connection>;

    fn deref(&self) -> &Rc<Connection> {
        &self.connection
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.borrow_mut().remove(&self.number);
        self.places.free.set(self.places.free.get() + 1);
        // All: who has waited may take the place or only know of it.
        self.places.freed.notify_waiters();
    }
}
