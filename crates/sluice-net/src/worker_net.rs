//! The network side of a worker: the state that its connections share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluice_http::endpoints::Endpoints;
use sluice_http::tasks::Tasks;
use sluice_settings::rule::ClientCertificate;
use sluice_watch::{Hub, TracedAttributes, Tracer, WorkerHub};
use tokio::sync::watch;

use crate::client_counts::ClientCounts;
use crate::connection::{CloseRequest, Connection};
use crate::connection_log::ConnectionLog;
use crate::listener_protocol::ListenerProtocol;
use crate::phase::{self, Phase};
use crate::send_budget::SendBudget;
use crate::slots::{ConnectionCounts, ConnectionSlots};

/// Least bytes of a worker for responses that wait for clients, because a single connection may use that much.
const SEND_BYTES_MIN: usize = 1 << 20;

/// The state that the connections of one worker share.
pub struct WorkerNet {
    /// The protocols of each listener, in the order of the listeners; replaced on reload.
    listener_protocols: Arc<ArcSwap<Vec<ListenerProtocol>>>,
    pub(crate) slots: Rc<ConnectionSlots>,
    /// Memory for response bytes that wait for clients.
    send_budget: Rc<SendBudget>,
    pub(crate) client_counts: Arc<ClientCounts>,
    pub(crate) log: Rc<ConnectionLog>,
    watches: WorkerHub,
    /// The generation of the list of watches at the last tick.
    watch_generation: Cell<u32>,
    phases: watch::Receiver<Phase>,
    is_draining: Cell<bool>,
    is_replaced: Cell<bool>,
    tick: Cell<u32>,
    pub(crate) tasks: Tasks,
}

/// The bounds on the connections of a worker.
#[derive(Clone)]
pub struct WorkerNetLimits {
    /// Connections at once.
    pub slots: usize,
    /// Bytes of memory for responses that wait for their clients; 1 MiB if it is less.
    pub send_bytes_max: usize,
    /// The connections of each client, counted for all workers.
    pub client_counts: Arc<ClientCounts>,
}

/// The state of the worker that the monitor of a connection uses.
#[derive(Clone, Copy)]
pub(crate) struct WorkerNetStatus {
    /// Seconds since the worker started.
    pub tick: u32,
    pub is_draining: bool,
}

impl WorkerNet {
    /// Creates the state; it counts its connections in `counts`, and its connections and exchanges are shown to the watches of `hub`.
    pub fn new(
        listener_protocols: Arc<ArcSwap<Vec<ListenerProtocol>>>,
        limits: WorkerNetLimits,
        phases: watch::Receiver<Phase>,
        tasks: Tasks,
        counts: Arc<ConnectionCounts>,
        hub: &Arc<Hub>,
    ) -> WorkerNet {
        WorkerNet {
            listener_protocols,
            slots: Rc::new(ConnectionSlots::new(limits.slots, counts)),
            send_budget: Rc::new(SendBudget::new(limits.send_bytes_max.max(SEND_BYTES_MIN))),
            client_counts: limits.client_counts,
            log: Rc::default(),
            watches: WorkerHub::new(hub),
            watch_generation: Cell::new(0),
            phases,
            is_draining: Cell::new(false),
            is_replaced: Cell::new(false),
            tick: Cell::new(0),
            tasks,
        }
    }

    /// The protocols of the listener with this index, as currently configured.
    pub(crate) fn listener_protocol(&self, listener: usize) -> ListenerProtocol {
        self.listener_protocols.load()[listener].clone()
    }

    /// Whether the connections of this listener are those of a proxy, which names its clients (PROXY protocol).
    pub(crate) fn has_proxy_protocol(&self, listener: usize) -> bool {
        self.listener_protocols.load()[listener].proxy_protocol.is_some()
    }

    /// The state of a client's certificate, for a request to this host, whose authorities may be others than those it was shown to.
    pub fn client_certificate(&self, connection: &Connection, host: &str) -> ClientCertificate {
        let Some(shown) = connection.peer.certificate.get() else {
            return ClientCertificate::NotAsked;
        };
        let protocols = self.listener_protocols.load();
        let tls = protocols
            .get(connection.peer.listener())
            .and_then(|protocol| protocol.tls.as_ref());
        let config = tls.map(|tls| tls.of_host(host));
        let Some((config, authorities)) = config.and_then(|config| Some((config, config.authorities.as_ref()?))) else {
            return ClientCertificate::NotAsked;
        };
        match shown.state(authorities) {
            ClientCertificate::Verified => ClientCertificate::Verified,
            _ if config.is_required => ClientCertificate::Refused,
            state => state,
        }
    }

    pub(crate) fn connection(&self, endpoints: Endpoints) -> Connection {
        Connection::new(endpoints, &self.send_budget, &self.slots.slot_events)
    }

    /// Keeps the response bytes that wait for clients within their budget while polled: over it, aborts the connection of `Slots::most_waiting`.
    pub async fn keep_send_budget(&self) {
        loop {
            self.send_budget.exceeded().await;
            while self.send_budget.is_exceeded()
                && let Some(connection) = self.slots.most_waiting()
            {
                let bytes = connection.outgoing.write_off();
                connection.request_close(CloseRequest::FreeMemory);
                self.log.used_memory(&connection, bytes);
            }
        }
    }

    /// The active watches.
    pub fn watches(&self) -> &WorkerHub {
        &self.watches
    }

    /// The tracer of a connection, with the watches that are active now.
    pub fn tracer(&self, connection: &Connection) -> Tracer {
        if connection.carries_watch() {
            return Tracer::NONE;
        }
        let generation = self.watches.generation();
        if connection.watched.generation.get() != generation {
            let tracer = self
                .watches
                .connection(&connection.watched.tracer(), || attributes(connection));
            connection.watched.set_tracer(tracer, generation);
        }
        connection.watched.tracer()
    }

    /// Has it noted that the client of a connection is known now. No watch may be left that can match it.
    pub(crate) fn know_client(&self, connection: &Connection) {
        let tracer = connection.watched.tracer();
        tracer.know(|known| known.client = attributes(connection).client);
        if tracer.is_over() {
            connection
                .watched
                .set_tracer(Tracer::NONE, connection.watched.generation.get());
        }
    }

    /// Drops the tracers of connections that nobody watches any more: those that are idle would keep them until they are used.
    fn drop_subjects(&self) {
        let generation = self.watches.generation();
        if self.watch_generation.replace(generation) != generation {
            self.slots.for_each(|connection, _| {
                if connection.watched.is_watched() {
                    self.tracer(connection);
                }
            });
        }
    }

    pub(crate) fn tick(&self) -> u32 {
        self.tick.get()
    }

    pub(crate) fn status(&self) -> WorkerNetStatus {
        WorkerNetStatus { tick: self.tick(), is_draining: self.is_draining() }
    }

    /// Counts a second, and wakes the connections that are due. The worker calls this once a second.
    pub fn advance(&self) {
        self.log.log_due();
        self.watches.tick();
        self.drop_subjects();
        self.tick.set(self.tick.get() + 1);
        self.slots.wake_due(self.tick.get());
    }

    /// Whether connections are still accepted.
    pub fn is_accepting(&self) -> bool {
        *self.phases.borrow() == Phase::Serving
    }

    /// Waits until no connection is accepted any more.
    pub async fn closing(&self) {
        phase::reached(&self.phases, Phase::Replaced).await;
    }

    /// Another server has taken over: each connection ends with its next response.
    pub fn replace(&self) {
        self.is_replaced.set(true);
    }

    /// Whether each connection ends with its next response.
    pub fn is_replaced(&self) -> bool {
        self.is_replaced.get()
    }

    /// Whether the server drains: no connection begins another exchange.
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Begins to drain, and wakes every connection.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.slots.wake_due(u32::MAX);
    }

    /// Waits until the server drains.
    pub async fn draining(&self) {
        phase::reached(&self.phases, Phase::Draining).await;
    }
}

/// The attributes of a connection that are known before its requests.
fn attributes(connection: &Connection) -> TracedAttributes {
    let client = connection.peer.endpoints().client.ip();
    TracedAttributes {
        client: (!connection.peer.is_proxy.get()).then(|| client.to_string()),
        ..TracedAttributes::default()
    }
}
