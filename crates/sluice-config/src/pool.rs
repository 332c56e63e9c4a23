//! The keys of `[[site.route]].script` about its processes and the requests that wait for them.
//!
//! Not here: the timeouts of an exchange (`script`), the files whose changes replace processes (`watch`).

use sluice_settings::ScriptSettings;

use super::description::Fallback::{Value, Words};
use super::document::At;
use super::key::{ANY, Key, Kind, at_least};
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
    let document = written.document();
    let mut read = Vec::new();
    for path in paths {
        if !path.value.starts_with('/') || path.value.chars().any(|letter| letter.is_control() || letter == ' ') {
            document.report(
                path.line,
                format!(
                    "proctor: {:?}: needs a path as clients request it, as in \"/app/warm-up\" or \"/app/load?all\"",
                    path.value
                ),
            );
            continue;
        }
        read.push(path.value);
    }
    read
}

pub(super) const MAX: Key<Draft> = Key {
    name: "max",
    kind: Kind::Number {
        unit: "processes",
        bounds: at_least(1, "to switch the script off, remove its route"),
        set: |script, max| script.settings.pool.max = to_usize(max),
    },
    default: Words("64 in mode `cgi`, 16 in the modes `cgiplus` and `rte`"),
    text: "Greatest number of processes of each script *file* at once; in mode `rte`, of each engine. A route with many scripts may have \
           this many of each. `processes` bounds all scripts of the route together, and `processes` in [`[limits]`](#limits) all scripts \
           of the server.",
    example: "8",
};

pub(super) const PROCESSES: Key<Draft> = Key {
    name: "processes",
    kind: Kind::Number {
        unit: "processes",
        bounds: at_least(1, "to switch the scripts off, remove their route"),
        set: |script, processes| script.settings.processes_max = Some(to_usize(processes)),
    },
    default: Words("no limit, except the limits of each script and of the server"),
    text: "Greatest number of processes of all scripts of the route together, idle ones included. At the limit, requests wait in the \
           queue of their script, and the process of the route that has been idle for longest is ended to make room.",
    example: "32",
};

pub(super) const MIN: Key<Draft> = Key {
    name: "min",
    kind: Kind::Number {
        unit: "processes",
        bounds: ANY,
        set: |script, min| script.settings.pool.min = to_usize(min),
    },
    default: Value("0"),
    text: "Processes that are started before there is a request, and started again when they end (not in mode `cgi`). `idle` does not \
           end them. They are started for `file` or `app`, for each engine, and for the scripts that `proctor` names; for other scripts \
           of a directory they are started at the first request. See [Pools](../guides/pools.md).",
    example: "2",
};

pub(super) const PROCTOR: Key<Draft> = Key {
    name: "proctor",
    kind: Kind::Texts(|script, paths, written| {
        script.settings.proctor = read_paths(paths, written);
        Ok(())
    }),
    default: Words("none: the first request of a process is a client's"),
    text: "Paths of scripts of this route, each with an optional query, that are requested in each process that is started in advance, as soon \
           as it runs: with the method PROCTOR, so that the script can load what it needs. The reply is discarded.",
    example: "[\"/app/warm-up\"]",
};

pub(super) const IDLE: Key<Draft> = Key {
    name: "idle",
    kind: Kind::Duration(
        at_least(1, "for a process that ends after its request write mode = \"cgi\""),
        |script, idle| script.settings.pool.idle = idle,
    ),
    default: Value("\"10m\""),
    text: "A process that has had no request for this long is ended (not in mode `cgi`).",
    example: "\"1h\"",
};

pub(super) const REQUESTS: Key<Draft> = Key {
    name: "requests",
    kind: Kind::Number {
        unit: "requests",
        bounds: at_least(1, "leave it out for no limit"),
        set: |script, requests| script.settings.pool.requests_max = Some(requests),
    },
    default: Words("no limit"),
    text: "Number of requests after which a process is replaced, to bound the effect of memory leaks. For each process it is lowered by \
           up to a tenth at random, so that not all are replaced at once. The process continues to serve until its successor is ready; \
           meanwhile there may be one process more than `max`.",
    example: "10000",
};

pub(super) const LIFETIME: Key<Draft> = Key {
    name: "lifetime",
    kind: Kind::Duration(
        at_least(1, "for a process that ends after its request write mode = \"cgi\""),
        |script, lifetime| script.settings.pool.lifetime_max = Some(lifetime),
    ),
    default: Words("no limit"),
    text: "Time after which a process is replaced, as with `requests`; for each process lowered by up to a tenth (not in mode `cgi`). The \
           callout LIFETIME sets the idle time, not this one.",
    example: "\"12h\"",
};

pub(super) const MEMORY_SOFT: Key<Draft> = Key {
    name: "memory_soft",
    kind: Kind::Size(
        at_least(1 << 20, "no program has less; leave it out for no limit"),
        |script, size| script.settings.pool.memory_bytes_max = Some(size),
    ),
    default: Words("no limit"),
    text: "Memory of a process above which it is replaced after a request, as with `requests` (not in mode `cgi`). Only its private \
           resident memory counts, not libraries and the memory buffer. `memory_max` is the hard limit: allocations fail, also in the \
           middle of a request.",
    example: "\"200MiB\"",
};

pub(super) const QUEUE: Key<Draft> = Key {
    name: "queue",
    kind: Kind::Number {
        unit: "requests",
        bounds: ANY,
        set: |script, requests| script.settings.pool.queue_max = to_usize(requests),
    },
    default: Value("1000"),
    text: "Greatest number of requests that wait for a process of the script. Further requests get 503 with Retry-After.",
    example: "50",
};

pub(super) const QUEUE_TIMEOUT: Key<Draft> = Key {
    name: "queue_timeout",
    kind: Kind::Duration(at_least(1, "for no queue write queue = 0"), |script, timeout| {
        script.settings.pool.queue_timeout = timeout;
    }),
    default: Value("\"30s\""),
    text: "Longest wait in that queue. After it: 503 with Retry-After.",
    example: "\"5s\"",
};

pub(super) const REQUESTS_PER_CLIENT: Key<Draft> = Key {
    name: "requests_per_client",
    kind: Kind::Number {
        unit: "requests",
        bounds: at_least(1, "leave it out for no limit"),
        set: |script, requests| script.settings.pool.client_requests_max = Some(to_usize(requests)),
    },
    default: Words("any number"),
    text: "Requests of one client address (IPv6: of one network of 64 bits) that have a process of the script at once. Further requests \
           of this client wait behind the requests of other clients, and get no more than half of the queue. Idle processes serve any \
           client.",
    example: "4",
};
