//! The front of a worker: what its connections share.
//!
//! Here: connection slots, the protocols spoken on each address, the worker's clock, draining. Not here: what a request means
//! (`service`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluice_http::tasks::Tasks;
use tokio::sync::watch;

use crate::phase;
use crate::phase::Phase;
use crate::proxy_protocol::Complaints;
use crate::slots::ConnectionSlots;
use crate::tls::ListenerProtocol;

/// What the connections of one worker share.
pub struct Front {
    /// The protocols spoken on each address, in the order of the listeners.
    protocol: Arc<ArcSwap<Vec<ListenerProtocol>>>,
    slots: Rc<ConnectionSlots>,
    /// The log lines about connections that are refused before their first request.
    pub(crate) complaints: Complaints,
    phases: watch::Receiver<Phase>,
    is_draining: Cell<bool>,
    /// Seconds since the worker began.
    tick: Cell<u32>,
    tasks: Tasks,
}

impl Front {
    /// A front with `slots` connection slots.
    pub fn new(
        protocol: Arc<ArcSwap<Vec<ListenerProtocol>>>,
        slots: usize,
        phases: watch::Receiver<Phase>,
        tasks: Tasks,
    ) -> Front {
        Front {
            protocol,
            slots: Rc::new(ConnectionSlots::new(slots)),
            complaints: Complaints::default(),
            phases,
            is_draining: Cell::new(false),
            tick: Cell::new(0),
            tasks,
        }
    }

    /// The protocols spoken on the address of this listener, as configured now.
    pub(crate) fn protocol(&self, listener: usize) -> ListenerProtocol {
        self.protocol.load()[listener].clone()
    }

    /// The connection slots.
    pub(crate) fn slots(&self) -> &Rc<ConnectionSlots> {
        &self.slots
    }

    /// The tasks of the worker.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Seconds since the worker began.
    pub(crate) fn tick(&self) -> u32 {
        self.tick.get()
    }

    /// A second has passed: wakes the connections that asked for it.
    pub fn advance(&self) {
        self.tick.set(self.tick.get() + 1);
        self.slots.call(self.tick.get());
    }

    /// Whether the server drains: no connection begins another exchange.
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Begins to drain: wakes every connection.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.slots.call(u32::MAX);
    }

    /// Waits until the server drains.
    pub async fn draining(&self) {
        phase::reached(&self.phases, Phase::Draining).await;
    }
}
