//! Script processes: the pools, their processes, the requests that wait for one, and how the last processes ended.

use serde::{Deserialize, Serialize};

/// The script processes of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scripts {
    /// Processes that run, and the most that may (`limits.processes`).
    pub running: usize,
    /// The most that may run.
    pub max: usize,
    /// The pools that have processes, requests that wait, or processes that have ended, by site and script.
    pub pools: Vec<Pool>,
}

/// The processes of one script or engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The file of the script; of an engine its name and number within the route (`python 0`).
    pub script: String,
    /// How its scripts run: `cgi`, `cgiplus` or `rte`.
    pub mode: String,
    /// The site of its route.
    pub site: String,
    /// The place of the route in the configuration.
    pub origin: String,
    /// The most processes that it may have.
    pub max: usize,
    /// Idle processes that it keeps.
    pub min: usize,
    /// After this time without a request a process is ended, milliseconds.
    pub idle_ms: u64,
    /// Requests that may wait.
    pub queue_max: usize,
    /// Longest wait, milliseconds.
    pub queue_timeout_ms: u64,
    /// Whether the configuration has been replaced: it gets no further requests.
    pub is_replaced: bool,
    /// The processes.
    pub processes: Vec<ProcessReport>,
    /// How many requests wait for a process.
    pub waiting: usize,
    /// The oldest of them.
    pub waiters: Vec<Waiter>,
    /// Processes started.
    pub started: u64,
    /// Requests refused.
    pub refused: Refused,
    /// How its last processes ended, the last one first.
    pub ended: Vec<Ended>,
}

/// Requests that got no process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Because the queue was full.
    pub queue_full: u64,
    /// Because they had waited for too long.
    pub timed_out: u64,
    /// Because they had waited for too long for room in the bounds that scripts share (`limits.processes`, `processes` of the route).
    #[serde(default)]
    pub no_room: u64,
    /// Because their client had its share of the processes and of the queue (`requests_per_client`).
    #[serde(default)]
    pub client_share: u64,
    /// Because starts are delayed after processes that failed.
    pub backed_off: u64,
}

impl Refused {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.queue_full + self.timed_out + self.no_room + self.client_share + self.backed_off
    }
}

/// A request that waits for a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The id of the request.
    pub id: String,
    /// How long it has waited, milliseconds.
    pub waited_ms: u64,
}

/// The phase of a process's life.
///
/// ```text
///     ┌──── in advance (min, replacement): it is ready ──────┐
///     │       its first request      the reply is complete   ▼
///  Starting ────────────────────▶ Busy ───────────────────▶ Idle
///                                 ▲ │ ▲                      │ │
///                                 │ │ └──── next request ────┘ │ idle too long, replaced, retired, room for others
///    the script ends its reply    │ │ the client has left      ▼
///                              Draining ─────────────────▶ Ending ──▶ (gone: `Ended`)
///                                   a fault, or not in time    end of file on CGIPLUSIN, SIGTERM, SIGKILL
/// ```
/// A process of CGI is `Busy` once and then `Ending`; a draining one that is kept becomes `Idle`. A process that is due (requests, lifetime,
/// memory) goes on until its successor is `Idle`. Any process may end by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The system is starting the process.
    Starting,
    /// The process works for a request.
    Busy,
    /// The client of its request has its response, or has left; the script may finish.
    Draining,
    /// The process waits for a request.
    #[default]
    Idle,
    /// The process gets no further request, and is about to end.
    Ending,
}

impl Phase {
    /// The name, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Busy => "busy",
            Phase::Draining => "draining",
            Phase::Idle => "idle",
            Phase::Ending => "ending",
        }
    }
}

/// A script process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The process id. `None` while the process is being started.
    pub pid: Option<i32>,
    /// The number of its user, while it has a process id; not part of the report.
    #[serde(skip)]
    pub user: u32,
    /// The phase.
    pub phase: Phase,
    /// The time for which the process has been busy or idle, milliseconds; of an ending process the age.
    pub since_ms: u64,
    /// Time since its start, milliseconds.
    pub age_ms: u64,
    /// Requests that it has been given.
    pub uses: u64,
    /// The worker that it belongs to.
    pub worker: usize,
    /// Why it was started.
    pub cause: String,
    /// The script that an engine runs in it.
    pub script: Option<String>,
    /// The request that the process works for.
    pub request: Option<ProcessRequest>,
    /// The resources that the process uses; `None` if they are unknown.
    pub usage: Option<Usage>,
}

/// The request that a process works for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRequest {
    /// The id.
    pub id: String,
    /// The method.
    pub method: String,
    /// Path and query, as far as they are known: the exchange of a draining process may be over.
    pub target: Option<String>,
    /// The client.
    pub client: Option<String>,
    /// Time since its head was complete, milliseconds.
    pub age_ms: Option<u64>,
}

/// The resources of the machine that a process uses (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Resident memory.
    pub rss_bytes: u64,
    /// Resident memory, each shared page divided by the number of processes that share it; `None` if not known.
    pub pss_bytes: Option<u64>,
    /// Processor time of it and of its children that have ended, milliseconds.
    pub processor_ms: u64,
}

/// A process that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The process id.
    pub pid: i32,
    /// When it ended, seconds since 1970.
    pub at: u64,
    /// Why.
    pub why: String,
    /// Exit status or signal.
    pub exit: String,
    /// Requests that it was given.
    pub uses: u64,
    /// How long it lived, milliseconds.
    pub lived_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines between the fences of the first drawing after a text.
    fn drawing(page: &str, after: &str) -> Vec<String> {
        let lines = page
            .lines()
            .map(|line| line.strip_prefix("/// ").unwrap_or(line).to_owned());
        lines
            .skip_while(|line| line != after)
            .skip_while(|line| line != "```text")
            .skip(1)
            .take_while(|line| line != "```")
            .collect()
    }

    #[test]
    fn the_life_of_a_process_is_drawn_as_in_the_guide() {
        let here = drawing(include_str!("scripts.rs"), "The phase of a process's life.");
        let guide = drawing(
            include_str!("../../../docs/guides/pools.md"),
            "## The life of a process",
        );
        assert!(here.len() > 5, "{here:?}");
        assert_eq!(here, guide, "docs/guides/pools.md and the drawing above `Phase` differ");
    }

    #[test]
    fn phases_have_the_same_names_in_json_and_for_people() {
        for phase in [
            Phase::Starting,
            Phase::Busy,
            Phase::Draining,
            Phase::Idle,
            Phase::Ending,
        ] {
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("{:?}", phase.name()));
        }
    }
}
