//! The names of clients, looked up in the domain name system for logs and scripts that want them.
//!
//! A thread of its own asks, and workers never wait for it: they ask a cache, which has the answer or has it looked up. A script
//! waits a little when its client is new; files, and lines of the log, have the name when it is there. A name that somebody's
//! address leads to is one that its owner has chosen, so it counts only if it leads back to the address (as Apache has it with
//! `HostnameLookups Double`).

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

/// Addresses that are kept, with their names or without; over it what is asked for least makes room.
const ADDRESSES_MAX: usize = 10_000;

/// Lookups at once, and those that wait for them; over it clients stay without a name for now.
const LOOKUPS_MAX: usize = 64;
const WAITING_MAX: usize = 1024;

/// How long a lookup may take, both ways together, and how long an answer is awaited before the question is asked again.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
const TRY_TIMEOUT: Duration = Duration::from_millis(1500);

/// Names of one address that are looked at.
const NAMES_MAX: usize = 4;

/// Characters of a name (RFC 1035 §2.3.4), without the last dot.
const NAME_CHARACTERS_MAX: usize = 253;

/// How long a name is believed, how long that there is none, and how long nobody is asked again who did not answer.
const NAME_LIFE: Duration = Duration::from_secs(600);
const ABSENCE_LIFE: Duration = Duration::from_secs(300);
const FAILURE_LIFE: Duration = Duration::from_secs(30);

/// The names of clients, for all workers.
pub(crate) struct Names {
    lookups: Cache<IpAddr, Arc<Lookup>>,
    queue: mpsc::Sender<(IpAddr, Arc<Lookup>)>,
    /// How long a script may wait for a name, from the moment at which it is looked up.
    patience: Duration,
}

/// The name of an address: being looked up, or found out.
pub(crate) struct Lookup {
    state: watch::Sender<State>,
    /// Nobody waits any longer.
    deadline: Instant,
}

#[derive(Clone)]
struct State {
    name: Option<Arc<str>>,
    /// Until when that holds; none while it is being looked up: the name is that of before then.
    until: Option<Instant>,
}

impl Names {
    /// Starts the thread that looks names up. The error is the system's: no configuration of its resolver, say.
    pub(crate) fn start(settings: &DnsSettings) -> io::Result<Names> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let resolver = resolver(settings)?;
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || runtime.block_on(look_up_all(resolver, waiting)))?;
        Ok(Names {
            lookups: Cache::new(ADDRESSES_MAX),
            queue,
            patience: settings.timeout,
        })
    }

    /// What is known of an address's name; if that is nothing, or too old, it is looked up from now on. None where too many wait
    /// for that already.
    pub(crate) fn of(&self, address: IpAddr) -> Option<Arc<Lookup>> {
        let address = address.to_canonical();
        let known = self.lookups.get(&address);
        let now = Instant::now();
        if let Some(known) = &known
            && !known.is_over(now)
        {
            return Some(Arc::clone(known));
        }
        let lookup = Arc::new(Lookup {
            state: watch::Sender::new(State {
                name: known.as_ref().and_then(|known| known.name()),
                until: None,
            }),
            // A client that is known already waits no more, also where its name server never answers.
            deadline: if known.is_some() { now } else { now + self.patience },
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
    /// The name, as far as it is known by now.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.state.borrow().name.clone()
    }

    /// The name, for who can wait for it a little. Of several that ask for one client only those wait who come first.
    pub(crate) async fn wait(self: Arc<Self>) -> Option<Arc<str>> {
        let mut state = self.state.subscribe();
        let is_there = |state: &State| state.until.is_some() || state.name.is_some();
        let _ = timeout_at(self.deadline.into(), state.wait_for(is_there)).await;
        self.name()
    }

    /// Also one that was never answered, should that happen, is over some time.
    fn is_over(&self, now: Instant) -> bool {
        let until = self.state.borrow().until;
        until.unwrap_or(self.deadline + ABSENCE_LIFE) <= now
    }

    fn answer(&self, name: Option<Arc<str>>, life: Duration) {
        let until = Some(Instant::now() + life);
        self.state.send_replace(State { name, until });
    }
}

fn resolver(settings: &DnsSettings) -> io::Result<TokioResolver> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = match settings.server {
        Some(server) => TokioResolver::builder_with_config(only(server), provider),
        None => TokioResolver::builder_tokio().map_err(io::Error::other)?,
    };
    let options = builder.options_mut();
    // Answers are kept here, by address.
    options.cache_size = 0;
    options.timeout = options.timeout.min(TRY_TIMEOUT);
    builder.build().map_err(io::Error::other)
}

/// This server, and no other.
fn only(server: SocketAddr) -> ResolverConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = server.port();
        connection
    };
    let server = NameServerConfig::new(server.ip(), true, connections.map(at_port).into());
    ResolverConfig::from_parts(None, Vec::new(), vec![server])
}

/// Looks up what is asked for until nobody is left who could ask.
async fn look_up_all(resolver: TokioResolver, mut waiting: mpsc::Receiver<(IpAddr, Arc<Lookup>)>) {
    let places = Arc::new(Semaphore::new(LOOKUPS_MAX));
    while let Some((address, lookup)) = waiting.recv().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        if waiting.is_closed() {
            return;
        }
        let resolver = resolver.clone();
        tokio::spawn(async move {
            match timeout(LOOKUP_TIMEOUT, confirmed(&resolver, address)).await {
                Ok(Ok(Some(name))) => lookup.answer(Some(name), NAME_LIFE),
                Ok(Ok(None)) => lookup.answer(None, ABSENCE_LIFE),
                Ok(Err(())) | Err(_) => lookup.answer(None, FAILURE_LIFE),
            }
            drop(place);
        });
    }
}

/// The name that an address has and that has the address. An error is that of whom is asked.
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

/// What an answer holds: nothing, where there is nothing to be had.
fn data(answer: Result<hickory_resolver::lookup::Lookup, hickory_resolver::net::NetError>) -> Result<Vec<RData>, ()> {
    match answer {
        Ok(answer) => Ok(answer.answers().iter().map(|record| record.data.clone()).collect()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => {
            tracing::debug!("name of a client: {error}");
            Err(())
        }
    }
}

/// A name as logs and scripts may have it: in lower case, of letters, digits, `-`, `_` and dots alone (RFC 952), whatever bytes
/// the system of names carries. None for others.
fn host_name(name: &str) -> Option<Arc<str>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_address = name.parse::<IpAddr>().is_ok();
    let is_good = (1..=NAME_CHARACTERS_MAX).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !is_address;
    is_good.then(|| name.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_name_of_a_host_is_told() {
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
    fn a_name_is_renewed_beside_the_old_one_and_nobody_waits_for_that() {
        let (queue, mut waiting) = mpsc::channel(2);
        let names = Names {
            lookups: Cache::new(2),
            queue,
            patience: Duration::from_secs(3600),
        };
        let address = IpAddr::from([192, 0, 2, 7]);
        let first = names.of(address).unwrap();
        assert!(first.deadline > Instant::now() && first.name().is_none());
        assert!(Arc::ptr_eq(&first, &names.of(address).unwrap()), "asked once");
        first.answer(Some("a.example".into()), Duration::ZERO);
        let renewed = names.of(address).unwrap();
        assert!(!Arc::ptr_eq(&first, &renewed));
        assert_eq!(renewed.name().as_deref(), Some("a.example"));
        assert!(renewed.deadline <= Instant::now());
        // As two wait, a third client has no name for now.
        assert!(names.of(IpAddr::from([192, 0, 2, 8])).is_none());
        assert_eq!(waiting.try_recv().unwrap().0, address);
    }

    #[test]
    fn a_server_that_does_not_answer_holds_up_nobody_and_what_waits_for_it_is_bounded() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let names = Names::start(&DnsSettings {
            timeout: DnsSettings::TIMEOUT,
            server: Some(silent.local_addr().unwrap()),
        })
        .unwrap();
        let clients = 4 * WAITING_MAX;
        let looked_up = (0..clients).filter(|number| {
            let number = u32::try_from(*number).unwrap();
            names.of(IpAddr::from((0xc000_0200 + number).to_be_bytes())).is_some()
        });
        let count = looked_up.count();
        // Those under way, one that is to be next, and those that wait.
        assert!(
            (WAITING_MAX..=WAITING_MAX + LOOKUPS_MAX + 1).contains(&count),
            "{count}"
        );
    }
}
