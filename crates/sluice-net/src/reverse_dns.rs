//! Reverse DNS: the names of clients, looked up for logs and scripts.
//!
//! Lookups run on a thread of their own, and workers never block on it: they ask a cache, which has the answer or queues a lookup. A script waits a
//! moment for the name of a new client; files and log lines use a name only if it is already known. A name is used only if it resolves back to the same
//! address, because anyone can choose their own PTR record (as Apache's `HostnameLookups Double`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use quick_cache::sync::Cache;
use sluice_settings::DnsSettings;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{timeout, timeout_at};

/// Cached addresses, with or without a name. When the cache is full, rarely used ones are evicted.
const ADDRESSES_MAX: usize = 10_000;

/// Concurrent lookups, and queued ones. When the queue is full, further clients have no name for now.
const LOOKUPS_MAX: usize = 64;
const WAITING_MAX: usize = 1024;

/// How long a lookup may take in both directions together, and after what time a query is repeated.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
const TRY_TIMEOUT: Duration = Duration::from_millis(1500);

/// Names of one address that are checked.
const NAMES_MAX: usize = 4;

/// Characters of a name (RFC 1035 §2.3.4), without the final dot.
const NAME_CHARACTERS_MAX: usize = 253;

/// How long to cache a name, the absence of a name, and a failed lookup.
const NAME_LIFE: Duration = Duration::from_secs(600);
const ABSENCE_LIFE: Duration = Duration::from_secs(300);
const FAILURE_LIFE: Duration = Duration::from_secs(30);

/// The cache of client names, for all workers.
pub struct ReverseDns {
    lookups: Cache<IpAddr, Arc<Lookup>>,
    /// Lookups to be performed.
    queue: mpsc::Sender<(IpAddr, Arc<Lookup>)>,
    /// How long a script may wait for a name, from the moment at which the lookup is queued.
    timeout: Duration,
}

/// The lookup of one address's name, pending or done.
pub struct Lookup {
    state: watch::Sender<State>,
    /// The moment until which scripts wait for the name.
    deadline: Instant,
}

#[derive(Clone)]
struct State {
    name: Option<Arc<str>>,
    /// When the result expires. `None` while the lookup is pending; the name is then that of the previous lookup.
    expires: Option<Instant>,
}

impl ReverseDns {
    /// Starts the thread that performs the lookups. The error is the system's: no configuration of a resolver, for example.
    pub fn start(settings: &DnsSettings) -> io::Result<ReverseDns> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let resolver = resolver(settings)?;
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("reverse-dns".to_owned())
            .spawn(move || runtime.block_on(look_up_all(resolver, waiting)))?;
        Ok(ReverseDns {
            lookups: Cache::new(ADDRESSES_MAX),
            queue,
            timeout: settings.timeout,
        })
    }

    /// The cached lookup of an address, or a new one if that has expired; `None` if the queue is full.
    pub fn look_up(&self, address: IpAddr) -> Option<Arc<Lookup>> {
        let address = address.to_canonical();
        let known = self.lookups.get(&address);
        let now = Instant::now();
        if let Some(known) = &known
            && !known.has_expired(now)
        {
            return Some(Arc::clone(known));
        }
        let lookup = Arc::new(Lookup {
            state: watch::Sender::new(State {
                name: known.as_ref().and_then(|known| known.name()),
                expires: None,
            }),
            // Nobody waits again for the name of a known client, because its name server may never answer.
            deadline: if known.is_some() { now } else { now + self.timeout },
        });
        match self.queue.try_send((address, Arc::clone(&lookup))) {
            Ok(()) => {
                self.lookups.insert(address, Arc::clone(&lookup));
                Some(lookup)
            }
            Err(_) => known,
        }
    }
}

impl Lookup {
    /// The name, if it is known by now.
    pub fn name(&self) -> Option<Arc<str>> {
        self.state.borrow().name.clone()
    }

    /// Waits for the name until the deadline, which counts from the first request of the client.
    pub async fn wait(self: Arc<Self>) -> Option<Arc<str>> {
        let mut state = self.state.subscribe();
        let is_known = |state: &State| state.expires.is_some() || state.name.is_some();
        let _ = timeout_at(self.deadline.into(), state.wait_for(is_known)).await;
        self.name()
    }

    /// A lookup that never gets a result expires as well.
    fn has_expired(&self, now: Instant) -> bool {
        let expires = self.state.borrow().expires;
        expires.unwrap_or(self.deadline + ABSENCE_LIFE) <= now
    }

    fn finish(&self, name: Option<Arc<str>>, life: Duration) {
        let expires = Some(Instant::now() + life);
        self.state.send_replace(State { name, expires });
    }
}

fn resolver(settings: &DnsSettings) -> io::Result<TokioResolver> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = match settings.server {
        Some(server) => TokioResolver::builder_with_config(only(server), provider),
        None => TokioResolver::builder_tokio().map_err(io::Error::other)?,
    };
    let options = builder.options_mut();
    // Results are cached here, by address.
    options.cache_size = 0;
    options.timeout = options.timeout.min(TRY_TIMEOUT);
    builder.build().map_err(io::Error::other)
}

fn only(server: SocketAddr) -> ResolverConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = server.port();
        connection
    };
    let server = NameServerConfig::new(server.ip(), true, connections.map(at_port).into());
    ResolverConfig::from_parts(None, Vec::new(), vec![server])
}

/// Performs the queued lookups until the cache is dropped.
async fn look_up_all(resolver: TokioResolver, mut waiting: mpsc::Receiver<(IpAddr, Arc<Lookup>)>) {
    let permits = Arc::new(Semaphore::new(LOOKUPS_MAX));
    while let Some((address, lookup)) = waiting.recv().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        if waiting.is_closed() {
            return;
        }
        let resolver = resolver.clone();
        tokio::spawn(async move {
            match timeout(LOOKUP_TIMEOUT, confirmed(&resolver, address)).await {
                Ok(Ok(Some(name))) => lookup.finish(Some(name), NAME_LIFE),
                Ok(Ok(None)) => lookup.finish(None, ABSENCE_LIFE),
                Ok(Err(())) | Err(_) => lookup.finish(None, FAILURE_LIFE),
            }
            drop(permit);
        });
    }
}

/// Looks up the name of an address that resolves back to the address. The error is the name server's.
async fn confirmed(resolver: &TokioResolver, address: IpAddr) -> Result<Option<Arc<str>>, ()> {
    let kind = match address {
        IpAddr::V4(_) => RecordType::A,
        IpAddr::V6(_) => RecordType::AAAA,
    };
    let names = data(resolver.reverse_lookup(address).await)?;
    let names = names.iter().filter_map(|data| match data {
        RData::PTR(name) => Some(&name.0),
        _ => None,
    });
    for name in names.take(NAMES_MAX) {
        let Some(text) = host_name(&name.to_ascii()) else {
            continue;
        };
        let addresses = data(resolver.lookup(name.clone(), kind).await)?;
        if addresses.iter().any(|data| data.ip_addr() == Some(address)) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// The records of an answer; empty if there are none.
fn data(answer: Result<hickory_resolver::lookup::Lookup, hickory_resolver::net::NetError>) -> Result<Vec<RData>, ()> {
    match answer {
        Ok(answer) => Ok(answer.answers().iter().map(|record| record.data.clone()).collect()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => {
            tracing::debug!("reverse DNS: {error}");
            Err(())
        }
    }
}

/// Normalizes a name for logs and scripts: lower case. `None` unless it has only letters, digits, `-`, `_` and dots (RFC 952): DNS carries any bytes.
fn host_name(name: &str) -> Option<Arc<str>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_address = name.parse::<IpAddr>().is_ok();
    let is_valid = (1..=NAME_CHARACTERS_MAX).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !is_address;
    is_valid.then(|| name.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_host_names_are_used() {
        assert_eq!(
            host_name("Client-7.Example.ORG.").as_deref(),
            Some("client-7.example.org")
        );
        for bad in [
            "",
            ".",
            "-x.org",
            "a b",
            "a\\032b",
            "a\"b",
            "<a>",
            "a/b",
            "192.0.2.7",
            "\u{e9}.org",
        ] {
            let is_bad = host_name(bad).is_none() || bad == ".";
            assert!(is_bad, "{bad:?}");
        }
        assert_eq!(host_name(&"a".repeat(254)), None);
    }

    #[test]
    fn an_expired_name_is_used_while_it_is_looked_up_again() {
        let (queue, mut waiting) = mpsc::channel(2);
        let reverse_dns = ReverseDns {
            lookups: Cache::new(2),
            queue,
            timeout: Duration::from_secs(3600),
        };
        let address = IpAddr::from([192, 0, 2, 7]);
        let first = reverse_dns.look_up(address).unwrap();
        assert!(first.deadline > Instant::now() && first.name().is_none());
        assert!(
            Arc::ptr_eq(&first, &reverse_dns.look_up(address).unwrap()),
            "asked once"
        );
        first.finish(Some("a.example".into()), Duration::ZERO);
        let renewed = reverse_dns.look_up(address).unwrap();
        assert!(!Arc::ptr_eq(&first, &renewed));
        assert_eq!(renewed.name().as_deref(), Some("a.example"));
        assert!(renewed.deadline <= Instant::now());
        // The queue of two is full: a third client has no name for now.
        assert!(reverse_dns.look_up(IpAddr::from([192, 0, 2, 8])).is_none());
        assert_eq!(waiting.try_recv().unwrap().0, address);
    }

    #[test]
    fn a_silent_name_server_delays_nobody_and_the_queue_is_bounded() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let reverse_dns = ReverseDns::start(&DnsSettings {
            timeout: DnsSettings::TIMEOUT,
            server: Some(silent.local_addr().unwrap()),
        })
        .unwrap();
        let clients = 4 * WAITING_MAX;
        let looked_up = (0..clients).filter(|number| {
            let number = u32::try_from(*number).unwrap();
            reverse_dns
                .look_up(IpAddr::from((0xc000_0200 + number).to_be_bytes()))
                .is_some()
        });
        let count = looked_up.count();
        // Those under way, the next one, and the queue.
        assert!(
            (WAITING_MAX..=WAITING_MAX + LOOKUPS_MAX + 1).contains(&count),
            "{count}"
        );
    }
}
