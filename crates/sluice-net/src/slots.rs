//! The connection slots of a worker: how many connections it may have, and which it has.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use sluice_http::counter::Counter;

use crate::client_counts::Counted;
use crate::connection::{CloseRequest, Connection};
use crate::slot_events::SlotEvents;

/// Idle connections chosen in one search, which reads the state of all connections.
const CHOSEN_AT_ONCE: usize = 64;

/// The connections that a worker has had.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// Accepted.
    pub accepted: Counter,
    /// Accepted connections that have closed.
    pub closed: Counter,
}

pub(crate) struct ConnectionSlots {
    counts: Arc<ConnectionCounts>,
    free: Cell<usize>,
    pub(crate) slot_events: Rc<SlotEvents>,
    taken: RefCell<HashMap<u64, Taken>>,
    /// The moment since when connections were idle at the last search, and their numbers; the longest first.
    longest_idle: RefCell<VecDeque<(u64, u64)>>,
    next: Cell<u64>,
}

struct Taken {
    connection: Rc<Connection>,
    /// The second of the worker at which it was accepted.
    accepted_tick: u32,
}

/// A connection in its slot. Dropping this frees the slot.
pub(crate) struct Slot {
    slots: Rc<ConnectionSlots>,
    /// The number of the connection among all that the worker has had.
    pub(crate) number: u64,
    connection: Rc<Connection>,
    _counted: Option<Counted>,
}

impl ConnectionSlots {
    pub(crate) fn new(slots: usize, counts: Arc<ConnectionCounts>) -> ConnectionSlots {
        ConnectionSlots {
            counts,
            free: Cell::new(slots),
            slot_events: Rc::default(),
            taken: RefCell::default(),
            longest_idle: RefCell::default(),
            next: Cell::new(0),
        }
    }

    pub(crate) fn are_full(&self) -> bool {
        self.free.get() == 0
    }

    /// Waits until a slot is free. The connection that has been idle longest is closed for it; `log` gets that.
    pub(crate) async fn make_room(&self, log: impl Fn(&Connection)) {
        while self.are_full() {
            if let Some(connection) = self.longest_idle() {
                log(&connection);
                connection.request_close(CloseRequest::MakeRoom);
            }
            self.slot_events.changed().await;
        }
    }

    /// Takes a slot for a connection that is accepted at this second of the worker; call `make_room` first.
    pub(crate) fn take(self: &Rc<Self>, connection: Connection, counted: Option<Counted>, tick: u32) -> Slot {
        let connection = Rc::new(connection);
        let number = self.next.get();
        self.next.set(number + 1);
        self.free.set(self.free.get().saturating_sub(1));
        let taken = Taken {
            connection: Rc::clone(&connection),
            accepted_tick: tick,
        };
        self.taken.borrow_mut().insert(number, taken);
        self.counts.accepted.add(1);
        Slot {
            slots: Rc::clone(self),
            number,
            connection,
            _counted: counted,
        }
    }

    /// Wakes the task of every connection that is due at this tick. `u32::MAX` wakes all.
    pub(crate) fn wake_due(&self, tick: u32) {
        for taken in self.taken.borrow().values() {
            taken.connection.wake_if_due(tick);
        }
    }

    /// Calls `visit` with every connection, and the second of the worker at which it was accepted.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Rc<Connection>, u32)) {
        for taken in self.taken.borrow().values() {
            visit(&taken.connection, taken.accepted_tick);
        }
    }

    /// The connection whose waiting response bytes have the largest sum of waiting times, by the clock of the budget.
    pub(crate) fn most_waiting(&self) -> Option<Rc<Connection>> {
        let taken = self.taken.borrow();
        let candidates = taken.values().map(|taken| &taken.connection).filter(|connection| {
            let outgoing = &connection.outgoing;
            outgoing.bytes.get() > 0 && !outgoing.is_written_off.get()
        });
        let most = candidates.max_by_key(|connection| {
            let outgoing = &connection.outgoing;
            (outgoing.byte_time(), outgoing.bytes.get())
        });
        most.cloned()
    }

    /// The connection that has been idle longest and was not asked to make room yet.
    fn longest_idle(&self) -> Option<Rc<Connection>> {
        let (taken, mut chosen) = (self.taken.borrow(), self.longest_idle.borrow_mut());
        let next = |chosen: &mut VecDeque<(u64, u64)>| {
            while let Some((since, number)) = chosen.pop_front() {
                let connection = taken.get(&number).map(|taken| &taken.connection);
                if let Some(connection) = connection.filter(|connection| is_idle_since(connection, since)) {
                    return Some(Rc::clone(connection));
                }
            }
            None
        };
        next(&mut chosen).or_else(|| {
            let slots = taken.iter().map(|(number, taken)| {
                let connection = &taken.connection;
                (connection, (connection.exchanges.idle_since.get(), *number))
            });
            let idle = slots.filter(|(connection, (since, _))| is_idle_since(connection, *since));
            let mut idle: Vec<_> = idle.map(|(_, slot)| slot).collect();
            if idle.len() > CHOSEN_AT_ONCE {
                idle.select_nth_unstable(CHOSEN_AT_ONCE);
                idle.truncate(CHOSEN_AT_ONCE);
            }
            idle.sort_unstable();
            chosen.extend(idle);
            next(&mut chosen)
        })
    }
}

/// Whether a connection has been idle since this moment, and was not asked to make room yet.
fn is_idle_since(connection: &Connection, since: u64) -> bool {
    connection.exchanges.is_idle() && connection.exchanges.idle_since.get() == since && !connection.makes_room()
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
        self.slots.counts.closed.add(1);
        self.slots.slot_events.notify();
    }
}
