//! The keys of `[[site.route]].script` about its processes and the requests that wait for them.

use sluice_settings::ScriptSettings;

use super::document::At;
use super::key::{ANY, Key, at_least, set};
use super::script_draft::Draft;
use super::section::to_usize;
use super::table::{Table, Written};

/// Reports keys that do not go with the mode, or with each other.
pub(super) fn check_pool(script: &ScriptSettings, table: &Table<'_>) {
    let pool = &script.pool;
    if !script.mode.keeps_process() {
        let keys = [
            ("min", pool.min > 0),
            ("proctor", !script.proctor.is_empty()),
            ("lifetime", pool.lifetime_max.is_some()),
            ("memory_soft", pool.memory_bytes_max.is_some()),
        ];
        for (key, _) in keys.iter().filter(|(_, is_set)| *is_set) {
            table.refuse(
                key,
                "a cgi process serves one request and cannot be kept ready: remove it, or write mode = \"cgiplus\"",
            );
        }
    } else if pool.min > pool.max {
        table.refuse(
            "min",
            &format!("is more than max = {}: raise max or lower min", pool.max),
        );
    } else if let Some(processes) = script.processes_max.filter(|processes| pool.min > *processes) {
        table.refuse(
            "min",
            &format!("is more than processes = {processes}: raise processes or lower min"),
        );
    } else if pool.min == 0 && !script.proctor.is_empty() {
        table.refuse(
            "proctor",
            "no process is started in advance: say how many are, as in min = 1",
        );
    }
}

/// The paths of PROCTOR requests. Whether they lead to scripts is found when the server runs.
fn read_paths(paths: Vec<At<String>>, written: &Written<'_>) -> Vec<String> {
    written.each(paths, |path, _| {
        match path.starts_with('/') && !path.chars().any(|letter| letter.is_control() || letter == ' ') {
            true => Ok(path.to_owned()),
            false => Err(format!(
                "proctor: {path:?}: needs a path as clients request it, as in \"/app/warm-up\" or \"/app/load?all\""
            )),
        }
    })
}

pub(super) const MAX: Key<Draft> = Key::number(
    "max",
    "processes",
    at_least(1, "to switch the script off, remove its route"),
    |script, max| script.settings.pool.max = to_usize(max),
);

pub(super) const PROCESSES: Key<Draft> = Key::number(
    "processes",
    "processes",
    at_least(1, "to switch the scripts off, remove their route"),
    |script, processes| script.settings.processes_max = Some(to_usize(processes)),
);

pub(super) const MIN: Key<Draft> = Key::number("min", "processes", ANY, |script, min| {
    script.settings.pool.min = to_usize(min);
});

pub(super) const PROCTOR: Key<Draft> = Key::texts("proctor", |script, paths, written| {
    set(&mut script.settings.proctor, read_paths(paths, written))
});

pub(super) const IDLE: Key<Draft> = Key::duration(
    "idle",
    at_least(1, "for a process that ends after its request write mode = \"cgi\""),
    |script, idle| script.settings.pool.idle = idle,
);

pub(super) const REQUESTS: Key<Draft> = Key::number(
    "requests",
    "requests",
    at_least(1, "leave it out for no limit"),
    |script, requests| script.settings.pool.requests_max = Some(requests),
);

pub(super) const LIFETIME: Key<Draft> = Key::duration(
    "lifetime",
    at_least(1, "for a process that ends after its request write mode = \"cgi\""),
    |script, lifetime| script.settings.pool.lifetime_max = Some(lifetime),
);

pub(super) const MEMORY_SOFT: Key<Draft> = Key::size(
    "memory_soft",
    at_least(1 << 20, "no program has less; leave it out for no limit"),
    |script, size| script.settings.pool.memory_bytes_max = Some(size),
);

pub(super) const QUEUE: Key<Draft> = Key::number("queue", "requests", ANY, |script, requests| {
    script.settings.pool.queue_max = to_usize(requests);
});

pub(super) const QUEUE_TIMEOUT: Key<Draft> = Key::duration(
    "queue_timeout",
    at_least(1, "for no queue write queue = 0"),
    |script, timeout| {
        script.settings.pool.queue_timeout = timeout;
    },
);

pub(super) const REQUESTS_PER_CLIENT: Key<Draft> = Key::number(
    "requests_per_client",
    "requests",
    at_least(1, "leave it out for no limit"),
    |script, requests| script.settings.pool.client_requests_max = Some(to_usize(requests)),
);
