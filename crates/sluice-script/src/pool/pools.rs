//! The pools of a route: one for each script or engine, made at the first request. Routes of one site with the same engines and settings share them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_settings::ScriptSettings;
use tokio::task::spawn_blocking;

use crate::pool::{Lease, PoolLabel, PoolLimits, ProcessLimit, SharedPool};
use crate::process::Reason;
use crate::program::engine::{Engines, source_paths};
use crate::program::script::{Prepared, Script};
use crate::program::source_files::SourceFiles;
use crate::resources::Resources;

/// The pools of a route's scripts.
pub struct Pools {
    by_script: Arc<PoolsByScript>,
    /// The bound on the processes of all of them together.
    limit: Arc<ProcessLimit>,
    /// Files whose changes replace the processes.
    sources: Option<Arc<SourceFiles>>,
    prepared: Mutex<Vec<Prepared>>,
    /// The log has a line about such a script.
    has_warned: AtomicBool,
    site: Box<str>,
    origin: Box<str>,
}

/// The pools by the text of the script's path: a hash of its components takes longer.
type PoolsByScript = Mutex<HashMap<OsString, Arc<SharedPool>>>;

impl Pools {
    /// No pools yet, of a route of this site at this place of the configuration. Reads the directories of the source files.
    pub fn new(settings: &ScriptSettings, engines: &Engines, site: &str, origin: &str) -> Pools {
        Pools {
            by_script: Arc::default(),
            limit: ProcessLimit::of_route(settings.processes_max),
            sources: SourceFiles::new(source_paths(settings, engines)).map(Arc::new),
            prepared: Mutex::default(),
            has_warned: AtomicBool::new(false),
            site: site.into(),
            origin: origin.into(),
        }
    }

    /// Uses the processes of another route, whose engines and settings are the same; the source files stay its own.
    pub fn join(&mut self, other: &Pools) {
        self.by_script = Arc::clone(&other.by_script);
        self.limit = Arc::clone(&other.limit);
    }

    /// Whether its processes are those of `other`.
    pub fn has_processes_of(&self, other: &Pools) -> bool {
        Arc::ptr_eq(&self.by_script, &other.by_script)
    }

    /// The pool of a script, within the bound of the server, too; made at the script's first request. Its processes are replaced if the file has changed.
    pub(crate) fn pool(&self, script: &Script, settings: &ScriptSettings, resources: &Resources) -> Arc<SharedPool> {
        let mut pools = lock(&self.by_script);
        let pool = match pools.get(script.pool_key().as_os_str()) {
            Some(pool) => Arc::clone(pool),
            None => {
                let limits = PoolLimits {
                    route: Arc::clone(&self.limit),
                    server: Arc::clone(&resources.processes),
                };
                let record = resources.pool_records.of(PoolLabel {
                    script: script.pool_key().into(),
                    mode: settings.mode,
                    site: self.site.clone(),
                    origin: self.origin.clone(),
                });
                let wanted = Arc::clone(&resources.wanted);
                let pool = SharedPool::new(script, settings, limits, record, wanted);
                pools.insert(script.pool_key().into(), Arc::clone(&pool));
                pool
            }
        };
        drop(pools);
        pool.check(script.stamp);
        pool
    }

    pub(crate) fn existing(&self, script: &Script) -> Option<Arc<SharedPool>> {
        lock(&self.by_script).get(script.pool_key().as_os_str()).cloned()
    }

    /// Warns of something that is tried again, once.
    pub fn warn_once(&self, problem: &str) {
        // Relaxed: the flag publishes no other data.
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{}: {problem}", self.origin);
        }
    }

    /// Notes the scripts whose processes are started in advance, and makes their pools.
    pub fn prepare(&self, prepared: Vec<Prepared>, settings: &ScriptSettings, resources: &Resources) {
        for Prepared { script, .. } in &prepared {
            self.pool(script, settings, resources).lock().pool.set_there();
        }
        *lock(&self.prepared) = prepared;
    }

    /// The scripts whose processes are started in advance.
    pub(crate) fn prepared(&self) -> Vec<Prepared> {
        lock(&self.prepared).clone()
    }

    pub(crate) fn take_advance(&self) -> Vec<Lease> {
        let pools: Vec<_> = lock(&self.by_script).values().cloned().collect();
        pools.iter().flat_map(SharedPool::take_advance).collect()
    }

    /// Ends processes that were idle for too long, drops empty pools, and has a thread check the source files. Called about once a second.
    pub fn tick(&self) {
        let mut pools = lock(&self.by_script);
        pools.retain(|_, pool| {
            pool.tick();
            // An empty pool that nobody else holds is made again when needed.
            let state = pool.lock();
            Arc::strong_count(pool) > 1 || !state.pool.is_empty() || state.pool.keeps_processes()
        });
        let has_processes = !pools.is_empty();
        drop(pools);
        if let Some(sources) = &self.sources
            && has_processes
            && sources.begin_check()
        {
            let (sources, pools) = (Arc::clone(sources), Arc::clone(&self.by_script));
            drop(spawn_blocking(move || {
                if sources.check() {
                    for pool in lock(&pools).values() {
                        pool.replace_all(Reason::SourceFileChanged);
                    }
                }
            }));
        }
    }

    /// The server ends or has new settings: idle processes are ended now, busy ones after their reply.
    pub fn close(&self) {
        for pool in lock(&self.by_script).values() {
            pool.close();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
