//! The state of the server: one value, made at the start, which its workers, its reports and the program share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use sluice_access::control::AccessControl;
use sluice_http::request_id::IdSource;
use sluice_launch::RemoteLauncher;
use sluice_log::{Log, LogSource};
use sluice_net::listener_protocol::ListenerProtocol;
use sluice_report::access::AccessReport;
use sluice_report::configuration::Configuration;
use sluice_report::status::{CertificateStatus, Processes, Status};
use sluice_script::resources::Resources;
use sluice_settings::Settings;
use sluice_settings::source::Tolerated;
use sluice_watch::Hub;
use tokio::sync::{mpsc, watch};

use crate::commands::CommandRequest;
use crate::dispatch::Config;
use crate::operator::reports::visitor::Visitors;
use crate::questions::Questions;
use crate::statistics::Statistics;
use crate::status;
use sluice_net::reverse_dns::ReverseDns;

pub(crate) struct ServerState {
    pub config: Arc<ArcSwap<Config>>,
    pub listener_protocols: Arc<ArcSwap<Vec<ListenerProtocol>>>,
    pub addresses: ArcSwap<Vec<String>>,
    pub certificates: ArcSwap<Vec<CertificateStatus>>,
    pub faults: Faults,
    pub launcher: Arc<RemoteLauncher>,
    pub log: Log,
    /// The budgets that the scripts of all workers share.
    pub resources: Arc<Resources>,
    pub access: Arc<AccessControl>,
    pub reverse_dns: Option<Arc<ReverseDns>>,
    /// The number of descriptors that a script may have, if limited.
    pub script_files_max: Option<u64>,
    /// The number of workers with exchanges under way, while the server drains.
    pub busy_workers: watch::Sender<usize>,
    pub watches: Arc<Hub>,
    pub ids: IdSource,
    pub statistics: Statistics,
    pub questions: Questions,
    pub commands: mpsc::Sender<CommandRequest>,
    pub visitors: Visitors,
    /// The main configuration file. `None` if the command line says everything.
    pub configuration_file: Option<String>,
    pub configuration: ArcSwap<Configuration>,
    /// The file with a rating of the machine, once the program has named it.
    pub rating_file: OnceLock<PathBuf>,
    /// The place of the lines of the server log, once the program has named it.
    pub server_log: ArcSwapOption<LogSource>,
}

#[derive(Default)]
pub(crate) struct Faults {
    tolerated: ArcSwap<Tolerated>,
    later: Mutex<BTreeMap<&'static str, Vec<String>>>,
}

impl Faults {
    pub(crate) fn of(settings: &Settings) -> Faults {
        let faults = Faults::default();
        faults.use_tolerated(settings);
        faults
    }

    /// Takes those of these settings, which a start has tolerated, instead of the ones of before.
    pub(crate) fn use_tolerated(&self, settings: &Settings) {
        self.tolerated
            .store(Arc::new(settings.source.tolerated().unwrap_or_default()));
    }

    /// Notes what does not work at present: instead of what was noted before about this subject.
    pub(crate) fn note(&self, subject: &'static str, lines: Vec<String>) {
        self.lock_later().insert(subject, lines);
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.tolerated.load().lines();
        lines.extend(self.lock_later().values().flatten().cloned());
        lines
    }

    fn lock_later(&self) -> MutexGuard<'_, BTreeMap<&'static str, Vec<String>>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerState {
    /// The work of the server since its start, and what it holds now. Counts the entries of the cache, which may take some milliseconds.
    pub(crate) fn status(&self) -> Status {
        let (connections, requests) = self.statistics.sums();
        let config = self.config.load();
        Status {
            started: self.statistics.started(),
            workers: self.statistics.workers(),
            addresses: Vec::clone(&self.addresses.load()),
            connections,
            requests,
            processes: Processes {
                running: self.resources.processes_running(),
                max: self.resources.processes_max(),
            },
            cache: config
                .cache
                .as_ref()
                .map(|cache| status::cache_status(&cache.counters())),
            traffic: self.statistics.traffic(),
            certificates: Vec::clone(&self.certificates.load()),
            faults: self.faults(),
        }
    }

    /// The faults that last, a line for each file or user.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut lines = self.faults.lines();
        lines.extend(self.config.load().unreadable_users());
        lines.extend(self.resources.faults());
        lines.extend(sluice_log::faults());
        lines.sort();
        lines.dedup();
        lines
    }

    pub(crate) fn access_report(&self) -> AccessReport {
        let limits = Arc::clone(&self.config.load().limit_tables);
        AccessReport {
            failures: self.access.failures(),
            throttles: limits.throttle_reports(),
            rates: limits.rate_reports(),
        }
    }
}
