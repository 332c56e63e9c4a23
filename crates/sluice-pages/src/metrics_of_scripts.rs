//! The metrics of each script, by the site and the mode of its route. Bounded in number: further scripts of a site and a mode are one.

use std::collections::BTreeMap;

use sluice_report::scripts::{Pool, Refused, Scripts};
use sluice_report::traffic::ScriptName;

/// Scripts with a name of their own, because each has a series of every metric.
pub(crate) const SCRIPTS_MAX: usize = 200;

/// The name of the others.
pub(crate) const OTHER: &str = "other";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptCounts {
    pub(crate) processes: u64,
    pub(crate) waiting: u64,
    pub(crate) started: u64,
    pub(crate) refused: Refused,
}

/// The counts by script. Routes of one site with the same script and mode are one, also those of a configuration that was replaced.
pub(crate) fn by_script(scripts: &Scripts) -> BTreeMap<ScriptName, ScriptCounts> {
    let mut counts: BTreeMap<ScriptName, ScriptCounts> = BTreeMap::new();
    for pool in &scripts.pools {
        let name = |script: &str| [pool.site.clone(), script.to_owned(), pool.mode.clone()];
        let mut own = name(&pool.script);
        if counts.len() >= SCRIPTS_MAX && !counts.contains_key(&own) {
            own = name(OTHER);
        }
        counts.entry(own).or_default().add(pool);
    }
    counts
}

impl ScriptCounts {
    fn add(&mut self, pool: &Pool) {
        self.processes += pool.processes.len() as u64;
        self.waiting += pool.waiting as u64;
        self.started += pool.started;
        let (sum, refused) = (&mut self.refused, &pool.refused);
        sum.queue_full += refused.queue_full;
        sum.timed_out += refused.timed_out;
        sum.no_room += refused.no_room;
        sum.client_share += refused.client_share;
        sum.backed_off += refused.backed_off;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(script: &str, started: u64) -> Pool {
        Pool {
            script: script.to_owned(),
            mode: "cgi".to_owned(),
            site: "example.org".to_owned(),
            started,
            ..Pool::default()
        }
    }

    #[test]
    fn pools_of_one_script_are_added_and_further_scripts_are_one() {
        let mut pools: Vec<Pool> = (0..SCRIPTS_MAX + 5)
            .map(|number| pool(&format!("/s/{number:04}"), 1))
            .collect();
        pools.push(pool("/s/0000", 10));
        let counts = by_script(&Scripts { pools, ..Scripts::default() });
        let started = |script: &str| {
            let name = ["example.org", script, "cgi"].map(str::to_owned);
            counts.get(&name).map(|counts| counts.started)
        };
        assert_eq!(counts.len(), SCRIPTS_MAX + 1);
        assert_eq!(
            (started("/s/0000"), started("/s/0001"), started(OTHER)),
            (Some(11), Some(1), Some(5))
        );
    }
}
