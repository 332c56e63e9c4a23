//! What this system, and this user, can do to confine scripts: for warnings, and for the log at the start.
//!
//! Not here: the confinement of a script (`sluice_script`), and how it is applied (`sluice_launch`).

use std::sync::Arc;

use sluice_launch::Cgroups;
pub use sluice_launch::{is_root, landlock_version};
use sluice_settings::{Action, CgroupLimits, Confinement, Settings};

/// The controllers that limits of scripts may need.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// Why these limits of cgroups cannot be applied by this process, as text; `None` if nothing is known to be missing. Changes nothing.
#[must_use]
pub fn cgroup_problem(limits: &CgroupLimits) -> Option<String> {
    sluice_launch::cgroup_problem(&launched(limits)).map(|problem| problem.to_string())
}

/// The controllers that the routes need, in this order. `None` if scripts have no cgroups.
pub(crate) fn controllers(settings: &Settings) -> Option<Vec<String>> {
    settings.limits.has_cgroups.then(|| {
        let needed: Vec<_> = limits(settings)
            .flat_map(|limits| launched(&limits).controllers())
            .collect();
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

/// The limits of cgroups of all routes.
fn limits(settings: &Settings) -> impl Iterator<Item = CgroupLimits> {
    let routes = settings.sites.iter().flat_map(|site| &site.routes);
    let confinement = |action: &Action| -> Option<Confinement> {
        match action {
            Action::Script(script) => Some(script.confinement.clone()),
            Action::Files(files) => Some(files.scripts.as_ref()?.script.confinement.clone()),
            _ => None,
        }
    };
    routes.filter_map(move |route| Some(confinement(&route.action)?.cgroup))
}

fn launched(limits: &CgroupLimits) -> sluice_launch::CgroupLimits {
    let CgroupLimits {
        memory_bytes_max,
        processes_max,
        cpu_percent,
        cpu_weight,
    } = *limits;
    sluice_launch::CgroupLimits {
        memory_bytes_max,
        processes_max,
        cpu_percent,
        cpu_weight,
    }
}
