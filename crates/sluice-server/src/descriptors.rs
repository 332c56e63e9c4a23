//! The descriptors of the process: how many there are, and how they are shared out at the start.
//!
//! Connections, script processes and files all need descriptors. If connections could take all of them, the requests on
//! them would fail, so `limits.connections` is reduced to what is left. Not here: what a process may have (`launch`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_settings::limits::Limits;
use sluice_settings::{Action, Settings};

/// Descriptors for listeners, logs, directories and threads.
const RESERVE: u64 = 256;

/// Descriptors of cached files: at most this number, and one part in eight (`sluice_files::file_cache`).
const CACHED_MAX: u64 = 4096;

/// Descriptors of a script process: pidfd, three pipes, CGIPLUSIN, memory buffer, a stored body, and some while it is
/// started.
const PER_PROCESS: u64 = 12;

/// The part of the rest that is left for files that are sent: most connections are idle, or their file is cached.
const FILES_SHARE: u64 = 4;

/// Raises the descriptor limit to its maximum, and returns the old limit. Scripts keep the old one, because a large
/// limit harms programs that close all possible descriptors or use select(2).
pub(crate) fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("descriptor limit: {error}");
    }
    limit.current
}

/// The number of connections for which there are descriptors, at most the configured one. A smaller number is logged.
pub(crate) fn connections_max(limits: &Limits, settings: &Settings) -> usize {
    let configured = limits.connections_max;
    let processes = processes_max(settings);
    let Some(descriptors) = getrlimit(Resource::Nofile).current else {
        return configured;
    };
    let share = usize::try_from(share_of_connections(descriptors, processes)).unwrap_or(usize::MAX);
    if share < configured {
        tracing::warn!(
            "{share} connections instead of {configured} (limits.connections): the limit of {descriptors} open files \
             (ulimit -n) allows no more, with up to {processes} script processes"
        );
    }
    share.min(configured)
}

/// Script processes, if each route has one script.
fn processes_max(settings: &Settings) -> u64 {
    let routes = settings.sites.iter().flat_map(|site| &site.routes);
    let of_route = |action: &Action| match action {
        Action::Script(script) => script.pool.max as u64,
        _ => 0,
    };
    routes.map(|route| of_route(&route.action)).sum()
}

/// Of a small number of descriptors a quarter is reserved, and scripts get at most half of the rest.
fn share_of_connections(descriptors: u64, processes: u64) -> u64 {
    let reserve = RESERVE + CACHED_MAX.min(descriptors / 8);
    let available = descriptors - reserve.min(descriptors / 4);
    let of_scripts = processes.saturating_mul(PER_PROCESS).min(available / 2);
    let rest = available - of_scripts;
    (rest - rest / FILES_SHARE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_scripts_and_files() {
        assert_eq!(share_of_connections(120, 64), 34);
        assert_eq!(share_of_connections(1024, 0), 576);
        assert_eq!(share_of_connections(1024, 10), 486);
        assert_eq!(share_of_connections(20_000, 80), 12_213);
        assert_eq!(share_of_connections(1 << 20, 64), 782_592);
        assert_eq!(share_of_connections(0, 1), 1);
    }
}
