//! The descriptors of the process: how many there are, and how they are shared out at the start.
//!
//! Connections, script processes and files all need descriptors. If connections took them all, their requests would fail, so `limits.connections` is reduced to
//! what is left; and files that are open while they are sent are bounded, so that HTTP/2 streams cannot take all.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_settings::limits::Limits;
use sluice_settings::{RouteSettings, Settings};

/// Descriptors for listeners, logs, directories and threads.
const RESERVE: u64 = 256;

/// Descriptors of cached files: at most this number, and one part in eight (`sluice_files::cache`).
const CACHED_MAX: u64 = 4096;

/// Descriptors of a script process: pidfd, mailbox, two or three each of the pipes for standard input, standard error and CGIPLUSIN, memory buffer, two of its cgroup, a stored body,
/// and some while it is started.
const PER_PROCESS: u64 = 16;

/// The part of the rest that is left for files that are sent, at least: most connections are idle, or their file is cached.
const FILES_SHARE: usize = 4;

/// Raises the descriptor limit to its maximum; returns the old one for scripts: a large limit harms programs that close all descriptors or use select(2).
pub(crate) fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("descriptor limit: {error}");
    }
    limit.current
}

/// The numbers of connections and files for which the descriptors of the process suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) connections_max: usize,
    pub(crate) files_max: usize,
}

/// Shares the descriptors out. Logs a smaller number of connections than the configured one. The server runs at most `processes_max` script processes.
pub(crate) fn shares(limits: &Limits, settings: &Settings, processes_max: usize) -> Shares {
    let configured = limits.connections_max;
    let Some(descriptors) = getrlimit(Resource::Nofile).current else {
        return Shares { connections_max: configured, files_max: usize::MAX };
    };
    let routes = settings.sites.iter().flat_map(|site| &site.routes);
    let processes = processes_of(routes).min(processes_max as u64);
    let shares = share_out(descriptors, processes, configured);
    let share = shares.connections_max;
    if share < configured {
        let text = format!(
            "{share} connections instead of {configured} (limits.connections): the limit of {descriptors} open files \
             (ulimit -n) allows no more, with up to {processes} script processes"
        );
        // Nobody has asked for the default.
        match configured == Limits::default().connections_max {
            true => tracing::info!("{text}"),
            false => tracing::warn!("{text}"),
        }
    }
    shares
}

/// Script processes, if each route has one script.
fn processes_of<'a>(routes: impl Iterator<Item = &'a RouteSettings>) -> u64 {
    let scripts = routes.filter_map(|route| route.action.script());
    scripts.map(|script| script.pool.max as u64).sum()
}

/// Shares descriptors out: if there are few, a quarter is reserved, and scripts get at most half of the rest. Connections leave what they
/// do not use to files.
fn share_out(descriptors: u64, processes: u64, connections: usize) -> Shares {
    let reserve = RESERVE + CACHED_MAX.min(descriptors / 8);
    let available = descriptors - reserve.min(descriptors / 4);
    let of_scripts = processes.saturating_mul(PER_PROCESS).min(available / 2);
    let rest = usize::try_from(available - of_scripts).unwrap_or(usize::MAX);
    let connections_max = (rest - rest / FILES_SHARE).max(1).min(connections);
    Shares {
        connections_max,
        files_max: rest.saturating_sub(connections_max).max(1),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sluice_settings::{Action, DirectorySettings, Mode, ScriptSettings, ScriptSource, SuffixScripts};

    use super::*;

    #[test]
    fn the_scripts_among_files_have_processes_too() {
        let mut script = ScriptSettings::new(ScriptSource::Root, Mode::Cgi);
        script.pool.max = 5;
        let mut files = DirectorySettings::new(PathBuf::from("/"));
        files.scripts = Some(SuffixScripts {
            suffixes: vec![".php".into()],
            script: script.clone(),
        });
        let actions = [
            Action::Script(Box::new(script)),
            Action::Files(Box::new(files)),
            Action::Pass,
        ];
        let routes = actions.map(|action| RouteSettings::new("/*", action));
        assert_eq!(processes_of(routes.iter()), 10);
    }

    #[test]
    fn connections_leave_descriptors_for_scripts_and_files() {
        let shares = |descriptors, processes| {
            let shares = share_out(descriptors, processes, 10_000);
            [shares.connections_max, shares.files_max]
        };
        assert_eq!(shares(120, 64), [34, 11]);
        assert_eq!(shares(1024, 0), [576, 192]);
        assert_eq!(shares(1024, 10), [456, 152]);
        assert_eq!(shares(20_000, 80), [10_000, 5_964]);
        assert_eq!(shares(1 << 20, 64), [10_000, 1_033_200]);
        assert_eq!(shares(0, 1), [1, 1]);
    }
}
