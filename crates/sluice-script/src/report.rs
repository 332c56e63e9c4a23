//! The script processes of the whole server as reports show them, and orders of the administrator to them.

use std::path::Path;

use sluice_launch::Probe;
use sluice_report::scripts::{Pool, Scripts};
use sluice_report::traffic::ScriptName;

pub use crate::pool::pool_record::Retired;
use crate::pool::{Pools, ReportedPool, ScriptId};
use crate::resources::Resources;
use crate::route::Script;

impl Resources {
    /// The scripts whose exchanges are counted by themselves, with the numbers of their series of counters.
    pub fn script_series(&self) -> Vec<(u16, ScriptName)> {
        self.pool_records.series.all()
    }

    /// A line about each engine of which no start succeeds.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let all = self.pool_records.all();
        all.iter().filter_map(|record| record.fault()).collect()
    }

    /// The pools that have processes, waiting requests, or processes that have ended. Workers wait only while the state of one pool is copied.
    pub fn report(&self) -> Scripts {
        let mut pools = Vec::new();
        for record in self.pool_records.all() {
            let before = pools.len();
            let has_content = |pool: &Pool| !pool.processes.is_empty() || pool.waiting > 0;
            let live = record.pools().into_iter().map(|pool| pool.report());
            pools.extend(live.filter(has_content));
            if pools.len() == before {
                let idle = record.report();
                pools.extend((idle.started > 0 || idle.refused.total() > 0).then_some(idle));
            }
        }
        Scripts {
            running: self.processes_running(),
            max: self.processes_max(),
            pools,
        }
    }

    /// The processes of `report`, each with its user: for questions that block.
    #[must_use]
    pub fn probes(&self) -> Vec<(u32, Probe)> {
        let pools = self.pool_records.all().into_iter().flat_map(|record| record.pools());
        let processes = pools.flat_map(|pool| pool.processes());
        processes.map(|process| (process.user, process.probe.clone())).collect()
    }

    /// Retires the processes of the script with this file, of its engine, or of the engine with this name: idle ones now, busy ones after their exchange.
    #[must_use]
    pub fn retire(&self, name: &Path) -> Retired {
        let script = ScriptId::of(name);
        let pools = self.pool_records.all().into_iter().flat_map(|record| {
            let is_own = record.label.is_named(name);
            let pools = record.pools().into_iter();
            pools.filter(move |pool| is_own || pool.has_run(script))
        });
        pools
            .map(ReportedPool::retire_all)
            .fold(Retired::default(), Retired::and)
    }
}

impl Pools {
    /// Retires the processes of a script of this route.
    #[must_use]
    pub fn retire(&self, script: &Script) -> Retired {
        self.existing(script).map(ReportedPool::retire_all).unwrap_or_default()
    }
}
