//! Script processes: the pools, their processes, the requests that wait for one, and how the last processes ended.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scripts {
    pub running: usize,
    /// The most that may run.
    pub max: usize,
    /// The pools that have processes, requests that wait, or processes that have ended, by site and script.
    pub pools: Vec<Pool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The file of the script; of an engine its name and number within the route (`python 0`).
    pub script: String,
    /// How its scripts run: `cgi`, `cgiplus` or `rte`.
    pub mode: String,
    pub site: String,
    pub origin: String,
    pub max: usize,
    /// Idle processes that are kept.
    pub min: usize,
    /// After this time without a request a process is ended, milliseconds.
    pub idle_ms: u64,
    pub queue_max: usize,
    pub queue_timeout_ms: u64,
    /// Whether the configuration has been replaced: it gets no further requests.
    pub is_replaced: bool,
    pub processes: Vec<ProcessReport>,
    pub waiting: usize,
    pub waiters: Vec<Waiter>,
    pub started: u64,
    pub refused: Refused,
    /// How its last processes ended, the last one first.
    pub ended: Vec<Ended>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
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
    #[must_use]
    pub fn total(&self) -> u64 {
        self.queue_full + self.timed_out + self.no_room + self.client_share + self.backed_off
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    pub id: String,
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
    Starting,
    Busy,
    /// The client of its request has its response, or has left; the script may finish.
    Draining,
    #[default]
    Idle,
    Ending,
}

impl Phase {
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The process id. `None` while the process is being started.
    pub pid: Option<i32>,
    /// The number of its user, while it has a process id; not part of the report.
    #[serde(skip)]
    pub user: u32,
    pub phase: Phase,
    /// The time for which the process has been busy or idle, milliseconds; of an ending process the age.
    pub since_ms: u64,
    pub age_ms: u64,
    pub uses: u64,
    pub worker: usize,
    pub cause: String,
    /// The script that an engine runs in it.
    pub script: Option<String>,
    pub request: Option<ProcessRequest>,
    /// The resources that the process uses; `None` if they are unknown.
    pub usage: Option<Usage>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRequest {
    pub id: String,
    pub method: String,
    /// Path and query, as far as they are known: the exchange of a draining process may be over.
    pub target: Option<String>,
    pub client: Option<String>,
    /// Time since its head was complete, milliseconds.
    pub age_ms: Option<u64>,
}

/// The resources of the machine that a process uses (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub rss_bytes: u64,
    /// Resident memory, each shared page divided by the number of processes that share it; `None` if not known.
    pub pss_bytes: Option<u64>,
    /// Processor time of it and of its children that have ended, milliseconds.
    pub processor_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub pid: i32,
    /// When it ended, seconds since 1970.
    pub at: u64,
    pub why: String,
    pub exit: String,
    pub uses: u64,
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
