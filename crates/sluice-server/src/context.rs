//! The context of a worker's exchanges: the state of the server, and what the worker alone holds (connections, scripts, requests in progress).

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;
use sluice_http::request_id::UniqueId;
use sluice_log::SiteLog;
use sluice_net::worker_net::WorkerNet;
use sluice_script::scripts::Scripts;

use crate::dispatch::Config;
use crate::dispatch::known_hosts::KnownHosts;
use crate::fault_log::FaultLog;
use crate::in_progress::InProgress;
use crate::redirect_loops::RedirectLoops;
use crate::state::ServerState;
use crate::statistics::Statistics;
use crate::status::WorkerCounts;

/// The state that the exchanges of one worker share.
pub(crate) struct Context {
    pub(crate) worker: usize,
    pub(crate) state: Arc<ServerState>,
    pub(crate) front: Rc<WorkerNet>,
    pub(crate) scripts: Rc<Scripts>,
    /// The log of faults, which counts those that repeat.
    pub(crate) fault_log: FaultLog,
    pub(crate) redirect_loops: RedirectLoops,
    pub(crate) counts: Arc<WorkerCounts>,
    pub(crate) in_progress: Rc<InProgress>,
    pub(crate) known_hosts: KnownHosts<HeldConfig>,
    /// The generation of the list of watches that have joined the requests in progress.
    pub(crate) joined_watches: Cell<u32>,
    config: RefCell<CurrentConfig>,
    exchanges: Cell<u64>,
    /// Both clocks, read at one moment of the last second.
    clocks: Cell<Arrival>,
}

#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub at: SystemTime,
    pub instant: Instant,
}

impl Arrival {
    fn now() -> Arrival {
        Arrival { at: SystemTime::now(), instant: Instant::now() }
    }
}

impl Context {
    pub(crate) fn new(front: Rc<WorkerNet>, scripts: Rc<Scripts>, state: Arc<ServerState>) -> Context {
        Context {
            worker: scripts.worker,
            front,
            fault_log: FaultLog::default(),
            redirect_loops: RedirectLoops::default(),
            counts: Arc::clone(state.statistics.of_worker(scripts.worker)),
            scripts,
            in_progress: Rc::default(),
            known_hosts: KnownHosts::default(),
            joined_watches: Cell::new(0),
            config: RefCell::new(CurrentConfig::new(&state.config, &state.statistics)),
            state,
            exchanges: Cell::new(0),
            clocks: Cell::new(Arrival::now()),
        }
    }

    /// The current configuration; an exchange keeps the one with which it began.
    pub(crate) fn config(&self) -> Rc<HeldConfig> {
        self.config.borrow_mut().load(&self.state.statistics)
    }

    /// Reads both clocks. The worker calls this once a second.
    pub(crate) fn read_clocks(&self) {
        self.clocks.set(Arrival::now());
    }

    /// The present moment. One clock is read instead of two, which differ by as much as within the last second.
    pub(crate) fn arrival(&self) -> Arrival {
        let (instant, read) = (Instant::now(), self.clocks.get());
        Arrival {
            at: read.at + instant.saturating_duration_since(read.instant),
            instant,
        }
    }

    pub(crate) fn next_id(&self) -> UniqueId {
        let count = self.exchanges.get().wrapping_add(1);
        self.exchanges.set(count);
        self.state.ids.id(self.worker, count)
    }
}

/// A worker's handle on a configuration. Its exchanges share it by `Rc`; if each held an `Arc`, all workers would contend for one reference count.
pub(crate) struct HeldConfig {
    config: Arc<Config>,
    /// Shared separately, because an exchange keeps its log to the end of its body, but not the rest of a replaced configuration.
    pub(crate) logs: Rc<[SiteLog]>,
    pub(crate) site_numbers: Box<[u16]>,
}

impl HeldConfig {
    fn new(config: Arc<Config>, statistics: &Statistics) -> HeldConfig {
        HeldConfig {
            site_numbers: config
                .sites()
                .map(|site| statistics.site_number(site.label()))
                .collect(),
            logs: config.logs.iter().cloned().collect(),
            config,
        }
    }

    pub(crate) fn shared(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }
}

impl Deref for HeldConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

/// The configuration in force, cached until it is replaced.
struct CurrentConfig {
    latest: Cache<Arc<ArcSwap<Config>>, Arc<Config>>,
    held: Rc<HeldConfig>,
}

impl CurrentConfig {
    fn new(shared: &Arc<ArcSwap<Config>>, statistics: &Statistics) -> CurrentConfig {
        CurrentConfig {
            latest: Cache::new(Arc::clone(shared)),
            held: Rc::new(HeldConfig::new(shared.load_full(), statistics)),
        }
    }

    fn load(&mut self, statistics: &Statistics) -> Rc<HeldConfig> {
        let latest = self.latest.load();
        if !Arc::ptr_eq(latest, &self.held.config) {
            self.held = Rc::new(HeldConfig::new(Arc::clone(latest), statistics));
        }
        Rc::clone(&self.held)
    }
}
