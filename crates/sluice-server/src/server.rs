//! The server as the program sees it: started, told to reload, told to end.
//!
//! Here: everything that exists once, and the threads. Not here: when to do what (the program's supervisor).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::server::ProducesTickets;
use sluice_files::cache::CacheCounters;
use sluice_launch::Launcher;
use sluice_log::Log;
use sluice_net::listener;
use sluice_net::phase::Phase;
use sluice_net::tls;
use sluice_net::tls::ListenerProtocol;
use sluice_net::unix::SocketFile;
use sluice_settings::open_error::OpenError;
use sluice_settings::{AccessLog, ListenAddress, LogTarget, Settings};
use tokio::sync::watch;

use crate::dispatch::Config;
use crate::reverse_dns::Names;
use crate::serve::explain;
use crate::serve::explain::{Explanation, Question};
use crate::serve::gate::Gate;
use crate::worker;
use crate::worker::Shared;

/// Threads that start script processes: more than four gained nothing, and the second keeps one slow disk from holding up
/// all starts.
const LAUNCHERS: std::ops::RangeInclusive<usize> = 2..=4;

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    /// As they were asked for.
    listen: Vec<ListenAddress>,
    addresses: Vec<ListenAddress>,
    /// The files of unix sockets, until the server drains.
    socket_files: Mutex<Vec<SocketFile>>,
    tickets: Arc<dyn ProducesTickets>,
    phase: watch::Sender<Phase>,
    workers: Vec<JoinHandle<()>>,
}

/// Why a server does not start; one line for the administrator.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        StartError(error.to_string())
    }
}

impl Server {
    /// Opens what the settings name, binds the addresses and starts to serve.
    ///
    /// # Errors
    /// A directory or script is missing, an address is taken, the log cannot be opened: the administrator's to mend.
    pub fn start(settings: &Settings) -> Result<Server, StartError> {
        Server::start_with(settings, Gate::default())
    }

    /// The same with a gate of the caller's.
    pub(crate) fn start_with(settings: &Settings, gate: Gate) -> Result<Server, StartError> {
        let tickets = tls::tickets()?;
        let mut protocol = tls::open(settings, &tickets)?;
        let log = Log::new(settings.workers.get());
        let config = Config::open(settings, &log)?;
        let script_files_max = raise_descriptor_limit();
        let workers = settings.workers.get();
        let mut bound = Vec::new();
        for listen in &settings.listen {
            let refuse = |error| StartError(format!("listen on {}: {error}", listen.address));
            bound.push(listener::bind(listen, workers).map_err(refuse)?);
        }
        let addresses: Vec<_> = bound.iter().map(|bound| bound.address.clone()).collect();
        tls::fill_in_port(&mut protocol, &addresses);
        let launchers = (workers / 2).clamp(*LAUNCHERS.start(), *LAUNCHERS.end());
        let launcher =
            Launcher::start(launchers).map_err(|error| StartError(format!("threads that start scripts: {error}")))?;
        let names = settings.dns.as_ref().map(Names::start).transpose();
        let names = names.map_err(|error| StartError(format!("dns_lookup: {error}")))?;
        let places = config.limits.connections_max.div_ceil(workers);
        let shared = Arc::new(Shared {
            config: Arc::new(ArcSwap::from_pointee(config)),
            protocol: Arc::new(ArcSwap::from_pointee(protocol)),
            launcher: Arc::new(launcher),
            log,
            gate: Arc::new(gate),
            names: names.map(Arc::new),
            script_files_max,
            busy_workers: watch::Sender::new(workers),
            boot: boot_name().map_err(|error| StartError(format!("no random bytes: {error}")))?,
        });
        let (phase, phases) = watch::channel(Phase::Serving);
        let mut threads = Vec::new();
        for index in 0..workers {
            let listeners = bound.iter_mut().filter_map(|bound| bound.listeners.pop()).collect();
            let (shared, phases) = (Arc::clone(&shared), phases.clone());
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || worker::run(index, shared, listeners, places, phases))
                .map_err(|error| StartError(format!("worker threads: {error}")))?;
            threads.push(thread);
        }
        Ok(Server {
            shared,
            listen: settings.listen.iter().map(|listen| listen.address.clone()).collect(),
            addresses,
            socket_files: Mutex::new(bound.into_iter().filter_map(|bound| bound.file).collect()),
            tickets,
            phase,
            workers: threads,
        })
    }

    /// The addresses listened on, with the ports that the system chose.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Serves by other settings from the next exchange on; those under way, and their processes, end by the old ones.
    /// Addresses and workers keep what they were started with.
    ///
    /// # Errors
    /// The new settings cannot be served: nothing has changed.
    pub fn reload(&self, settings: &Settings) -> Result<(), StartError> {
        let protocol = self.protocol(settings)?;
        let config = Config::open(settings, &self.shared.log)?;
        self.shared.protocol.store(Arc::new(protocol));
        let replaced = self.shared.config.swap(Arc::new(config));
        // What is idle ends now, what is at work after its reply.
        for route in replaced.sites().flat_map(|site| site.script_routes()) {
            route.pools.close();
        }
        Ok(())
    }

    /// Reads certificates and keys again; new connections get them, the others go on.
    ///
    /// # Errors
    /// They cannot be used: nothing has changed.
    pub fn reload_certificates(&self, settings: &Settings) -> Result<(), StartError> {
        let protocol = self.protocol(settings)?;
        self.shared.protocol.store(Arc::new(protocol));
        Ok(())
    }

    /// What the settings say of the addresses that the server was started with; of others they have no effect, and what they
    /// leave out stays.
    fn protocol(&self, settings: &Settings) -> Result<Vec<ListenerProtocol>, OpenError> {
        let opened = tls::open(settings, &self.tickets)?;
        let mut protocol = Vec::clone(&self.shared.protocol.load());
        let mut told: Vec<_> = settings.listen.iter().map(|listen| Some(&listen.address)).collect();
        for (address, protocol) in self.listen.iter().zip(&mut protocol) {
            // Each once: several may have port 0.
            if let Some(index) = told.iter().position(|told| *told == Some(address)) {
                told[index] = None;
                *protocol = opened[index].clone();
            }
        }
        tls::fill_in_port(&mut protocol, &self.addresses);
        Ok(protocol)
    }

    /// Forgets the files in the cache: from the next exchange on they are read anew, also where they are never looked at again
    /// (`permanent`). Returns what the cache had done and held; None where there is none.
    pub fn purge_cache(&self) -> Option<CacheCounters> {
        let config = self.shared.config.load_full();
        let cache = config.cache.as_ref()?;
        let counters = cache.counters();
        // In the place of the old cache, so that what is being read for that one is not taken for the new state of a file.
        self.shared.config.store(Arc::new(config.with_empty_cache()?));
        cache.clear();
        Some(counters)
    }

    /// What the cache has done and holds; None where there is none.
    pub fn cache_counters(&self) -> Option<CacheCounters> {
        Some(self.shared.config.load().cache.as_ref()?.counters())
    }

    /// Opens the access logs under their names again, after they were renamed.
    pub fn reopen_logs(&self) {
        self.shared.log.reopen();
    }

    /// Accepts nothing more; what is under way may end within the drain timeout, or until the order is made stricter.
    pub fn drain(&self) -> EndOrder {
        // Before the sockets are closed: until then nobody else can have made files of the same names.
        let mut files = self.socket_files.lock().unwrap_or_else(PoisonError::into_inner);
        files.clear();
        self.phase.send_if_modified(|phase| advance(phase, Phase::Draining));
        EndOrder(self.phase.clone())
    }

    /// Waits until all workers have ended and the log is written. Call `drain` first.
    pub fn join(mut self) {
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        self.shared.log.close();
    }
}

/// Opens what the settings name, and lets go of it again: whether a server could serve by them, addresses and logs aside.
///
/// # Errors
/// A directory or script is missing, a certificate does not fit its key: the administrator's to mend.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    tls::open(settings, &tls::tickets()?)?;
    open_without_logs(settings).map(drop)
}

/// What would happen to a request by these settings: which site it would come to, how each rule is for it or not, and what would
/// answer. No script is run.
///
/// # Errors
/// As above; or the question is none.
pub fn explain(settings: &Settings, question: &Question) -> Result<Explanation, StartError> {
    let config = open_without_logs(settings)?;
    explain::explain(settings, &config, question).map_err(StartError)
}

fn open_without_logs(settings: &Settings) -> Result<Config, StartError> {
    let mut settings = settings.clone();
    // To open a log is to make its file.
    settings.access_log = AccessLog::new(LogTarget::Off);
    settings.sites.iter_mut().for_each(|site| site.log = None);
    Ok(Config::open(&settings, &Log::new(1))?)
}

/// The order to end, given: it can be made stricter while `Server::join` waits.
pub struct EndOrder(watch::Sender<Phase>);

impl EndOrder {
    /// Endpoints at once: what is under way is cut.
    pub fn end(&self) {
        self.0.send_if_modified(|phase| advance(phase, Phase::Ending));
    }
}

fn advance(phase: &mut Phase, to: Phase) -> bool {
    let is_new = *phase < to;
    *phase = (*phase).max(to);
    is_new
}

/// Lets the server have as many descriptors as it may, and returns how many it had: scripts keep that limit, since programs
/// that close all descriptors they could have, or use select(2), do badly with a large one.
fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("descriptor limit: {error}");
    }
    limit.current
}

/// Eight characters that no other start of the server has.
fn boot_name() -> Result<[u8; 8], getrandom::Error> {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut name = [0; 8];
    getrandom::fill(&mut name)?;
    Ok(name.map(|byte| DIGITS[usize::from(byte % 32)]))
}
