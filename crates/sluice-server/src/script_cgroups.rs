//! The cgroups of the server's scripts: which controllers its routes need, and the line in the log at the start.

use std::sync::Arc;

use sluice_launch::Cgroups;
use sluice_settings::Settings;

/// The controllers that limits of scripts may need.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// The controllers that the routes need, in this order. `None` if scripts have no cgroups.
pub(crate) fn controllers(settings: &Settings) -> Option<Vec<String>> {
    settings.limits.has_cgroups.then(|| {
        let limits = settings.scripts().map(|(_, script)| script.confinement.cgroup);
        let needed: Vec<_> = limits.flat_map(|limits| limits.controllers()).collect();
        let needed = CONTROLLERS.iter().filter(|name| needed.contains(name));
        needed.map(|name| (*name).to_owned()).collect()
    })
}

/// The cgroups of the scripts, with the controllers that the routes need. One line in the log says which, or why there are none.
pub(crate) fn open_cgroups(needed: &[String]) -> Option<Arc<Cgroups>> {
    let cgroups = match Cgroups::open() {
        Ok(cgroups) => cgroups,
        Err(problem) => {
            tracing::info!(
                "no cgroups for scripts: {problem}; daemons that scripts start are known by their environment"
            );
            return None;
        }
    };
    let path = cgroups.path().display();
    let known = CONTROLLERS
        .into_iter()
        .filter(|known| needed.iter().any(|name| name == known));
    let needed: Vec<_> = known.collect();
    match cgroups.enable(&needed) {
        Ok(()) if needed.is_empty() => tracing::info!("cgroups of scripts: in {path}, without limits"),
        Ok(()) => tracing::info!(
            "cgroups of scripts: in {path}, with the controllers {}",
            needed.join(", ")
        ),
        Err(problem) => tracing::warn!("cgroups of scripts: in {path}, without limits: {problem}"),
    }
    Some(cgroups)
}
