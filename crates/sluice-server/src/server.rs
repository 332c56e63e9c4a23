//! The server as the program sees it: start, reload, drain, end.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::server::ProducesTickets;
use sluice_files::cache::CacheCounters;
use sluice_files::open_files;
use sluice_http::request_id::IdSource;
use sluice_launch::{RemoteLauncher, SameUser, deadline};
use sluice_log::{Log, LogSource};
use sluice_net::certificate_facts::{CertificateFacts, certificate_facts};
use sluice_net::client_counts::ClientCounts;
use sluice_net::listener::Bound;
use sluice_net::listener_protocol::{self, ListenerProtocol};
use sluice_net::phase::Phase;
use sluice_net::tls;
use sluice_net::worker_net::WorkerNetLimits;
use sluice_report::access::AccessReport;
use sluice_report::configuration::Configuration;
use sluice_report::status::{CertificateStatus, Status};
use sluice_script::resources::Resources;
use sluice_settings::open_error::OpenError;
use sluice_settings::{AccessLog, ListenAddress, LogTarget, Settings, WatchSettings};
use sluice_watch::Hub;
use sluice_watch::mask::Masks;
use tokio::sync::{mpsc, watch};

use crate::commands::{COMMANDS_MAX, CommandRequest};
use crate::descriptors;
use crate::dispatch::Config;
use crate::dispatch::exposed_programs::{self, ExposedPrograms};
use crate::dispatch::withheld::withheld_files;
use crate::launcher::LauncherPlan;
use crate::operator::Operator;
use crate::operator::reports::visitor::Visitors;
use crate::questions::{Questions, WorkerQuestion};
use crate::serve::agent::check_agents;
use crate::serve::explain::{self, Explanation, Question};
use crate::serve::gate::Gate;
use crate::state::{Faults, ServerState};
use crate::statistics::Statistics;
use crate::status::unix_seconds;
use crate::worker::{self, Inbox};
use sluice_log::activity;
use sluice_net::addresses::{AddressSockets, Addresses, NewListener, bind_all};
use sluice_net::reverse_dns::ReverseDns;

/// A running server.
pub struct Server {
    state: Arc<ServerState>,
    addresses: Mutex<Addresses>,
    /// The commands of the reports, until the program takes them.
    commands: Mutex<Option<mpsc::Receiver<CommandRequest>>>,
    tickets: Arc<dyn ProducesTickets>,
    phase: watch::Sender<Phase>,
    workers: Vec<JoinHandle<()>>,
    activity: activity::Thread,
}

fn connect_launcher(settings: &Settings, socket: Option<OwnedFd>) -> Result<RemoteLauncher, StartError> {
    let launcher = match socket {
        Some(socket) => RemoteLauncher::start(socket),
        None => RemoteLauncher::start_here(LauncherPlan::of(settings).open(Arc::new(SameUser))),
    };
    launcher.map_err(|error| StartError(format!("the launcher: {error}")))
}

/// The reason why a server does not start or reload: one line for the administrator.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

impl From<String> for StartError {
    fn from(text: String) -> StartError {
        StartError(text)
    }
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        StartError(error.to_string())
    }
}

impl Server {
    /// Opens the directories, scripts, certificates and logs of the settings, binds the addresses and starts to serve.
    ///
    /// # Errors
    /// A directory or script is missing, an address is taken, or a log cannot be opened: the administrator's fault.
    pub fn start(settings: &Settings) -> Result<Server, StartError> {
        Server::start_with(settings, Gate::new()?, bind_all, None)
    }

    /// Starts as `start` does, with the bound sockets of each address, in the order of the settings, and with the socket to the launcher.
    ///
    /// # Errors
    /// The same as for `start`.
    pub fn start_on(settings: &Settings, bound: Vec<Bound>, launcher: OwnedFd) -> Result<Server, StartError> {
        Server::start_with(settings, Gate::new()?, |_| Ok(bound), Some(launcher))
    }

    /// The launcher of the scripts.
    #[must_use]
    pub fn launcher(&self) -> Arc<RemoteLauncher> {
        Arc::clone(&self.state.launcher)
    }

    fn start_with(
        settings: &Settings,
        gate: Gate,
        bind: impl FnOnce(&Settings) -> Result<Vec<Bound>, String>,
        launcher: Option<OwnedFd>,
    ) -> Result<Server, StartError> {
        let tickets = tls::tickets()?;
        let mut listener_protocols = listener_protocol::open(settings, &tickets)?;
        let log = Log::new(settings.workers.get());
        let listen: Vec<_> = settings.listen.iter().map(|listen| listen.address.clone()).collect();
        // First, because the file cache takes a part of the limit.
        let script_files_max = descriptors::raise_limit();
        let config = open_config(settings, &listen, &log, None)?;
        log_notices(&config);
        let workers = settings.workers.get();
        let (mut addresses, receivers) = Addresses::new(workers);
        let bound = bind(settings)?.into_iter().map(AddressSockets::New).collect();
        addresses.apply(addresses.prepare(bound)?);
        listener_protocol::fill_in_port(&mut listener_protocols, &addresses.by_number());
        let reverse_dns = settings.dns.as_ref().map(ReverseDns::start).transpose();
        let reverse_dns = reverse_dns.map_err(|error| StartError(format!("dns_lookup: {error}")))?;
        let resources = Resources::new(settings)?;
        let limits = config.limits;
        let shares = descriptors::shares(&limits, settings, resources.processes_max());
        open_files::set_max(shares.files_max);
        let front_limits = WorkerNetLimits {
            slots: shares.connections_max.div_ceil(workers),
            send_bytes_max: limits.send_memory_bytes_max.div_ceil(workers),
            client_counts: Arc::new(ClientCounts::new(limits.client_connections_max)),
        };
        let (command_sender, commands) = mpsc::channel(COMMANDS_MAX);
        let (questions, question_receivers) = Questions::new(workers);
        let watches = Hub::new();
        watches.set_masks(masks(&settings.watch));
        let state = Arc::new(ServerState {
            config: Arc::new(ArcSwap::from_pointee(config)),
            listener_protocols: Arc::new(ArcSwap::from_pointee(listener_protocols)),
            addresses: ArcSwap::from_pointee(shown(&addresses)),
            certificates: ArcSwap::from_pointee(certificates(settings)),
            faults: Faults::of(settings),
            launcher: Arc::new(connect_launcher(settings, launcher)?),
            log,
            resources,
            access: Arc::clone(&gate.control),
            reverse_dns: reverse_dns.map(Arc::new),
            script_files_max,
            busy_workers: watch::Sender::new(workers),
            watches,
            ids: id_source().map_err(|error| StartError(format!("no random bytes: {error}")))?,
            statistics: Statistics::new(workers, shares.connections_max),
            questions,
            commands: command_sender,
            visitors: Visitors::new()?,
            configuration_file: settings.config_files.first().map(|file| file.display().to_string()),
            configuration: ArcSwap::default(),
            rating_file: OnceLock::new(),
            server_log: ArcSwapOption::default(),
        });
        let activity = start_activity(&state)?;
        let (phase, phases) = watch::channel(Phase::Serving);
        let workers = start_workers(
            &state,
            &Arc::new(gate),
            receivers,
            question_receivers,
            &front_limits,
            &phases,
        )?;
        Ok(Server {
            state,
            addresses: Mutex::new(addresses),
            commands: Mutex::new(Some(commands)),
            tickets,
            phase,
            workers,
            activity,
        })
    }

    /// The addresses that the server listens on, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.listening().open()
    }

    fn listening(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most connections at once. Less than configured if the limit of open files is too low.
    pub fn connections_max(&self) -> usize {
        self.state.statistics.connections_max
    }

    /// Applies new settings from the next exchange on; exchanges under way, and their processes, keep the old ones. The number of workers stays. `sockets` are
    /// those of each address, in the order of the settings; other addresses are listened on until `remove_address`.
    ///
    /// # Errors
    /// The new settings cannot be used: nothing has changed.
    pub fn reload(&self, settings: &Settings, sockets: Vec<AddressSockets>) -> Result<(), StartError> {
        let mut addresses = self.listening();
        let change = addresses.prepare(sockets)?;
        let numbers: Vec<_> = change.numbers.iter().map(|number| Some(*number)).collect();
        let listener_protocols = self.listener_protocols(settings, &numbers, &change.addresses)?;
        Resources::check(settings)?;
        // The last step that may fail, because it changes the logs.
        let config = self.open_config(settings, &change.configured)?;
        self.state.resources.apply(settings);
        self.state.watches.set_masks(masks(&settings.watch));
        // Before the workers accept on new addresses, which have protocols only then.
        self.state.listener_protocols.store(Arc::new(listener_protocols));
        log_notices(&config);
        self.replace_config(config);
        addresses.apply(change);
        self.state.addresses.store(Arc::new(shown(&addresses)));
        self.state.certificates.store(Arc::new(certificates(settings)));
        self.state.faults.use_tolerated(settings);
        Ok(())
    }

    /// Removes an address, as `addresses` shows it: accepts the connections that wait in its sockets, and no other. Open connections stay.
    pub fn remove_address(&self, address: &str) {
        let addresses = self.listening();
        addresses.remove(address);
        self.state.addresses.store(Arc::new(shown(&addresses)));
    }

    /// Ends all kept script processes, busy ones after their reply, and opens the directories of the settings again. Certificates and
    /// limits stay. `settings` are those that the server was started with.
    ///
    /// # Errors
    /// A directory or script is missing: nothing has changed.
    pub fn restart_scripts(&self, settings: &Settings) -> Result<(), StartError> {
        let config = self.open_config(settings, &self.listening().configured())?;
        log_notices(&config);
        self.replace_config(config);
        Ok(())
    }

    /// Opens the directories of the settings in force again, because the paths in `moved` lead to other ones. Script processes that may have
    /// loaded something from these end, busy ones after their reply.
    ///
    /// # Errors
    /// A directory or script is missing: nothing has changed.
    pub fn follow_directories(&self, settings: &Settings, moved: &[PathBuf]) -> Result<(), StartError> {
        let mut config = self.open_config(settings, &self.listening().configured())?;
        config.take_over_processes(&self.state.config.load(), moved);
        self.replace_config(config);
        Ok(())
    }

    fn open_config(&self, settings: &Settings, addresses: &[ListenAddress]) -> Result<Config, OpenError> {
        let before = self.state.config.load();
        open_config(settings, addresses, &self.state.log, Some(&before))
    }

    fn replace_config(&self, mut config: Config) {
        config.continue_counters(&self.state.config.load());
        let config = Arc::new(config);
        self.state.config.swap(Arc::clone(&config)).close_processes(&config);
    }

    /// Reads certificates and keys again, for new connections.
    ///
    /// # Errors
    /// They cannot be read or used: nothing has changed.
    pub fn reload_certificates(&self, settings: &Settings) -> Result<(), StartError> {
        let addresses = self.listening();
        let numbers = addresses.numbers_of(&settings.listen);
        let listener_protocols = self.listener_protocols(settings, &numbers, &addresses.by_number())?;
        self.state.listener_protocols.store(Arc::new(listener_protocols));
        self.state.certificates.store(Arc::new(certificates(settings)));
        self.state.faults.use_tolerated(settings);
        Ok(())
    }

    /// Logs the certificates that expire soon or have expired, a line for each.
    pub fn warn_of_certificates(&self) {
        let now = unix_seconds(SystemTime::now());
        let certificates = self.state.certificates.load();
        for certificate in certificates.iter().filter(|known| known.is_urgent(now)) {
            tracing::warn!(
                "certificate {} ({}): {}: renew it, or see why its renewal fails",
                certificate.file,
                certificate.hosts.join(", "),
                certificate.life(now)
            );
        }
    }

    /// The new protocols of the listeners. `numbers` are those of the addresses of the settings; one without a number is ignored.
    /// Listeners whose address is gone keep their protocols. `addresses` are all, with those that are added.
    fn listener_protocols(
        &self,
        settings: &Settings,
        numbers: &[Option<usize>],
        addresses: &[ListenAddress],
    ) -> Result<Vec<ListenerProtocol>, OpenError> {
        let opened = listener_protocol::open(settings, &self.tickets)?;
        let mut protocols = Vec::clone(&self.state.listener_protocols.load());
        for (number, protocol) in numbers.iter().zip(opened) {
            match number.and_then(|number| protocols.get_mut(number)) {
                Some(had) => *had = protocol,
                // Added addresses have the next numbers, in the order of the settings.
                None if number.is_some() => protocols.push(protocol),
                None => {}
            }
        }
        listener_protocol::fill_in_port(&mut protocols, addresses);
        Ok(protocols)
    }

    /// Empties the file cache: from the next exchange on files are read again, even those of `permanent` paths, which
    /// are never revalidated. Returns the counters from before; `None` if there is no cache.
    pub fn purge_cache(&self) -> Option<CacheCounters> {
        let config = self.state.config.load_full();
        let cache = config.cache.as_ref()?;
        let counters = cache.counters();
        // A new cache instead of the old one, so that a read under way cannot put an older state of a file into it.
        self.state.config.store(Arc::new(config.with_empty_cache()?));
        cache.clear();
        Some(counters)
    }

    /// The counters of the file cache. `None` if there is no cache.
    pub fn cache_counters(&self) -> Option<CacheCounters> {
        Some(self.state.config.load().cache.as_ref()?.counters())
    }

    /// The operator of the server, for reports and orders. It can be used on any thread with an event loop.
    pub fn operator(&self) -> Operator {
        Operator::new(&self.state)
    }

    /// Notes what does not work at present, for `faults`: instead of what was noted before about this subject.
    pub fn note_faults(&self, subject: &'static str, lines: Vec<String>) {
        self.state.faults.note(subject, lines);
    }

    /// The faults that last, a line for each file or user: which, and what the server does instead.
    pub fn faults(&self) -> Vec<String> {
        self.state.faults()
    }

    /// The counters since the start, and the present state.
    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// Notes the file in which `sluice rate` leaves its rating (`sluice_report::machine::Rating` as JSON), for the page about the machine.
    pub fn set_rating_file(&self, file: PathBuf) {
        // The first one counts.
        let _ = self.state.rating_file.set(file);
    }

    /// Has the activity of each minute kept in a file below this directory for the state of the server, which is made if it does not exist. What is
    /// wrong with the file is logged, and the server serves without it.
    pub fn keep_activity(&self, state_directory: &Path) {
        self.activity.keep_in(state_directory.join(activity::FILE_NAME));
    }

    /// Notes where the lines of the server log are, for the page with the ends of the logs.
    pub fn show_server_log(&self, source: LogSource) {
        self.state.server_log.store(Some(Arc::new(source)));
    }

    /// Notes the configuration in force as the program describes it, for the page about it.
    pub fn describe(&self, configuration: Configuration) {
        self.state.configuration.store(Arc::new(configuration));
    }

    /// The commands that the pages of the reports give, for the program that runs the server. `None` if they were taken before.
    pub fn take_commands(&self) -> Option<mpsc::Receiver<CommandRequest>> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.take()
    }

    /// The active watches (WATCH).
    pub fn watches(&self) -> &Arc<Hub> {
        &self.state.watches
    }

    /// The state of access control: wrong passwords, and the limits on requests. Any thread may call it.
    pub fn access_report(&self) -> AccessReport {
        self.state.access_report()
    }

    /// Reopens the access logs under their names, after they were renamed, but for these files.
    pub fn reopen_logs(&self, except: BTreeSet<PathBuf>) {
        self.state.log.reopen(except);
    }

    /// Stops accepting. Exchanges under way may finish within the drain timeout, or until `EndOrder::end` is called.
    pub fn drain(&self) -> EndOrder {
        // Before the sockets are closed, because until then no other server can have created files of the same names.
        self.listening().remove_files();
        self.state.watches.end();
        self.phase.send_if_modified(|phase| advance(phase, Phase::Draining));
        EndOrder(self.phase.clone())
    }

    /// Stops accepting as `drain` does, while another server accepts from the same sockets. Idle connections may still send a request within three seconds.
    pub fn drain_replaced(&self) -> EndOrder {
        self.state.watches.end();
        self.phase.send_if_modified(|phase| advance(phase, Phase::Replaced));
        EndOrder(self.phase.clone())
    }

    /// Waits until all workers have ended and the logs are written. Call `drain` first.
    pub fn join(mut self) {
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        self.activity.stop();
        self.state.log.close();
    }
}

fn start_activity(state: &Arc<ServerState>) -> Result<activity::Thread, StartError> {
    let (recorded, recorder) = (Arc::clone(state), Arc::clone(&state.statistics.activity));
    let thread = activity::Thread::start(recorder, move || recorded.statistics.activity_sums());
    thread.map_err(|error| StartError(format!("the thread of the activity: {error}")))
}

fn certificates(settings: &Settings) -> Vec<CertificateStatus> {
    let status = |facts: CertificateFacts| CertificateStatus {
        file: facts.file,
        hosts: facts.hosts,
        expires: facts.expires,
    };
    certificate_facts(settings).into_iter().map(status).collect()
}

fn shown(addresses: &Addresses) -> Vec<String> {
    addresses.open().iter().map(ToString::to_string).collect()
}

fn start_workers(
    state: &Arc<ServerState>,
    gate: &Arc<Gate>,
    listeners: Vec<mpsc::UnboundedReceiver<NewListener>>,
    questions: Vec<mpsc::Receiver<WorkerQuestion>>,
    limits: &WorkerNetLimits,
    phases: &watch::Receiver<Phase>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let mut threads = Vec::new();
    for (index, (questions, listeners)) in questions.into_iter().zip(listeners).enumerate() {
        let (state, gate) = (Arc::clone(state), Arc::clone(gate));
        let (phases, limits) = (phases.clone(), limits.clone());
        let inbox = Inbox { listeners, questions };
        let thread = std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || worker::run(index, state, &gate, limits, phases, inbox))
            .map_err(|error| StartError(format!("worker threads: {error}")))?;
        threads.push(thread);
    }
    Ok(threads)
}

/// Checks whether a server could start with these settings, apart from addresses and logs, which are not opened.
///
/// # Errors
/// A directory or script is missing, or a certificate does not belong to its key: the administrator's fault.
pub fn check(settings: &Settings) -> Result<(), StartError> {
    listener_protocol::open(settings, &tls::tickets()?)?;
    Resources::new(settings)?;
    open_without_logs(settings).map(drop)
}

/// Explains how a request would be handled: its site, how each route matches or not, and the answer. No script is run.
///
/// # Errors
/// As for `check`; or the question is not a valid request.
pub fn explain(settings: &Settings, question: &Question) -> Result<Explanation, StartError> {
    let config = open_without_logs(settings)?;
    Ok(explain::explain(settings, &config, question)?)
}

/// Searches for programs whose text would be sent: at most `entries_max` entries of each directory that files are sent from.
///
/// # Errors
/// As for `check`.
pub fn exposed_programs(settings: &Settings, entries_max: usize) -> Result<Vec<ExposedPrograms>, StartError> {
    let config = open_without_logs(settings)?;
    let root = config.sites().find_map(|site| site.root.as_ref());
    let Some(place) = root.map(|root| root.path().to_owned()) else {
        return Ok(exposed_programs::search(&config, entries_max));
    };
    let searched = deadline::ask(&place, move || Ok(exposed_programs::search(&config, entries_max)));
    searched.map_err(|error| StartError(error.to_string()))
}

fn log_notices(config: &Config) {
    config.notices.iter().for_each(|notice| tracing::info!("{notice}"));
    config.weak_hashes().iter().for_each(|line| tracing::warn!("{line}"));
}

fn open_config(
    settings: &Settings,
    listen: &[ListenAddress],
    log: &Log,
    before: Option<&Config>,
) -> Result<Config, OpenError> {
    let mut config = Config::open(settings, listen, before)?;
    check_agents(settings, &config)?;
    config.open_logs(settings, log)?;
    if let Some(before) = before {
        config.take_users_over(before);
    }
    Ok(config)
}

fn open_without_logs(settings: &Settings) -> Result<Config, StartError> {
    let withheld = withheld_files(settings);
    let mut settings = settings.clone();
    // Opening a log would create its file.
    settings.access_log = AccessLog::new(LogTarget::Off);
    settings.sites.iter_mut().for_each(|site| site.log = None);
    let listen: Vec<_> = settings.listen.iter().map(|listen| listen.address.clone()).collect();
    let mut config = Config::open_withholding(&settings, &listen, withheld)?;
    check_agents(&settings, &config)?;
    config.open_logs(&settings, &Log::new(1))?;
    Ok(config)
}

/// The order to end, which `drain` returns. It can be made stricter while `Server::join` waits.
pub struct EndOrder(watch::Sender<Phase>);

impl EndOrder {
    /// Ends at once: exchanges under way are aborted.
    pub fn end(&self) {
        self.0.send_if_modified(|phase| advance(phase, Phase::Ending));
    }
}

fn advance(phase: &mut Phase, to: Phase) -> bool {
    let is_new = *phase < to;
    *phase = (*phase).max(to);
    is_new
}

fn masks(settings: &WatchSettings) -> Masks {
    match &settings.masked_fields {
        _ if settings.is_unmasked => Masks::off(),
        Some(words) => Masks::new(words.iter().map(String::as_str)),
        None => Masks::default(),
    }
}

fn id_source() -> Result<IdSource, getrandom::Error> {
    let mut random = [0; IdSource::RANDOM_BYTES];
    getrandom::fill(&mut random)?;
    Ok(IdSource::new(random))
}
