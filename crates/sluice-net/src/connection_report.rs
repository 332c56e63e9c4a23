//! The connections of one worker as reports show them: counted by state, protocol and client, and the oldest one by one.
//!
//! Made on the worker's thread, which reads the state of each connection once; the sum of all workers is made elsewhere (the server).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::IpAddr;

use sluice_report::connections::Connection as OldConnection;

use crate::client_counts::network_of;
use crate::connection::Connection;
use crate::worker_net::WorkerNet;

/// Connections that are described one by one, of each worker.
const OLDEST_MAX: usize = 20;

/// The connections of one worker.
#[derive(Debug, Default)]
pub struct WorkerConnections {
    /// How many there are.
    pub open: usize,
    /// Counts by state.
    pub states: BTreeMap<&'static str, usize>,
    /// Counts by protocol.
    pub protocols: BTreeMap<&'static str, usize>,
    /// Counts by the version of TLS.
    pub tls: BTreeMap<&'static str, usize>,
    /// Counts by client; the first 64 bits of an IPv6 address count as one.
    pub clients: HashMap<IpAddr, usize>,
    /// The oldest, in any order.
    pub oldest: Vec<OldConnection>,
}

impl WorkerNet {
    /// The connections of the worker.
    pub fn connections(&self) -> WorkerConnections {
        let mut counts = WorkerConnections::default();
        let mut oldest: BinaryHeap<u32> = BinaryHeap::new();
        self.slots.for_each(|connection, accepted_tick| {
            counts.add(connection);
            oldest.push(accepted_tick);
            if oldest.len() > OLDEST_MAX {
                oldest.pop();
            }
        });
        // The first pass finds how old the oldest are, so that only these are copied.
        let youngest = oldest.peek().copied().unwrap_or(0);
        self.slots.for_each(|connection, accepted_tick| {
            if accepted_tick <= youngest && counts.oldest.len() < 2 * OLDEST_MAX {
                counts
                    .oldest
                    .push(old(connection, self.tick().saturating_sub(accepted_tick)));
            }
        });
        counts.oldest.sort_by_key(|connection| Reverse(connection.age_ms));
        counts.oldest.truncate(OLDEST_MAX);
        counts
    }
}

impl WorkerConnections {
    fn add(&mut self, connection: &Connection) {
        self.open += 1;
        *self.states.entry(state(connection)).or_default() += 1;
        *self.protocols.entry(protocol(connection)).or_default() += 1;
        *self.tls.entry(tls(connection)).or_default() += 1;
        let client = network_of(connection.peer.endpoints().client.ip());
        *self.clients.entry(client).or_default() += 1;
    }
}

fn old(connection: &Connection, age_seconds: u32) -> OldConnection {
    OldConnection {
        client: connection.peer.endpoints().client.to_string(),
        age_ms: u64::from(age_seconds) * 1000,
        state: state(connection).to_owned(),
        protocol: protocol(connection).to_owned(),
        tls: tls(connection).to_owned(),
        requests: connection.exchanges.begun.get(),
    }
}

fn state(connection: &Connection) -> &'static str {
    match () {
        () if connection.exchanges.is_busy() => "request in progress",
        () if connection.exchanges.has_part_of_head() => "reading a head",
        () if connection.exchanges.has_unsent.get() => "sending the last bytes",
        () if connection.exchanges.begun.get() == 0 => "no request yet",
        () => "idle",
    }
}

/// The protocol, once it is known: HTTP/1 is known at the first request.
fn protocol(connection: &Connection) -> &'static str {
    match () {
        () if connection.outgoing.is_http2.get() => "HTTP/2",
        () if connection.exchanges.begun.get() > 0 => "HTTP/1",
        () => "not known yet",
    }
}

/// The version of TLS, once the handshake is done.
fn tls(connection: &Connection) -> &'static str {
    connection.peer.tls_info().map_or("none", |info| info.protocol)
}
