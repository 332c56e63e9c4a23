//! What this system, and this user, can do to confine scripts: for warnings, and for the log at the start.
//!
//! Not here: the confinement of a script (`sluice_script`), and how it is applied (`sluice_launch`).

use std::sync::Arc;

use sluice_launch::Cgroups;
pub use sluice_launch::{is_root, landlock_version, may_change_root, may_mount};
use sluice_settings::{CgroupLimits, Confinement, Settings};

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

/// The keys of limits that are above the hard limits of this process (getrlimit(2)), which it may not raise, each with that limit.
#[must_use]
pub fn above_hard_limits(confinement: &Confinement) -> Vec<(&'static str, u64)> {
    let limits = sluice_launch::ProcessLimits {
        memory_bytes_max: confinement.memory_max,
        cpu_seconds_max: confinement.cpu_seconds_max,
        open_files_max: confinement.open_files_max,
        processes_max: confinement.user_processes_max,
        file_bytes_max: confinement.file_bytes_max,
        core_bytes_max: None,
    };
    let hard = limits.refused_above();
    [
        ("memory_max", hard.memory_bytes_max),
        ("cpu_time", hard.cpu_seconds_max),
        ("open_files", hard.open_files_max),
        ("user_processes", hard.processes_max),
        ("file_size", hard.file_bytes_max),
    ]
    .into_iter()
    .filter_map(|(key, hard)| Some((key, hard?)))
    .collect()
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
    settings.scripts().map(|script| script.confinement.cgroup)
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
