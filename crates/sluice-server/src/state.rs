//! The state of the server: one value, made at the start, which its workers, its reports and the program share.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

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
    /// The faults of its settings, which its start has tolerated.
    pub tolerated: ArcSwap<Tolerated>,
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
    /// The configuration as the program describes it.
    pub configuration: ArcSwap<Configuration>,
    /// The file with a rating of the machine, once the program has named it.
    pub rating_file: OnceLock<PathBuf>,
    /// The place of the lines of the server log, once the program has named it.
    pub server_log: ArcSwapOption<LogSource>,
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

    /// The faults that the start has tolerated and that last, a line for each file or user.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut lines = self.tolerated.load().lines();
        lines.extend(self.config.load().unreadable_users());
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
