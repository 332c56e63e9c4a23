//! Why the pool starts a process, ends one, and how the last one has left it.
//!
//! Not here: why a process ends that its pool has not ended (`end_cause`).

use std::fmt;

/// Why the pool ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was idle for its lifetime.
    Idle,
    /// It has served its number of requests.
    Requests,
    /// It has run for its lifetime.
    Lifetime,
    /// It uses more memory than it may between requests.
    Memory,
    /// It has used most of the processor time after which the kernel ends it.
    ProcessorTime,
    /// The script's file has changed.
    ScriptChanged,
    /// A watched file has changed.
    WatchedFileChanged,
    /// The server ends or has another configuration.
    Shutdown,
    /// Requests for other scripts wait for room.
    RoomForOthers,
    /// The server has more processes than it keeps idle.
    SoftLimit,
    /// The administrator has retired the script.
    Asked,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Reason::Idle => "idle for its lifetime",
            Reason::Requests => "served its number of requests",
            Reason::Lifetime => "ran for its lifetime",
            Reason::Memory => "uses more memory than memory_soft",
            Reason::ProcessorTime => "has used most of its cpu_time",
            Reason::ScriptChanged => "its file has changed",
            Reason::WatchedFileChanged => "a watched file has changed",
            Reason::Shutdown => "the server ends or has another configuration",
            Reason::RoomForOthers => "requests for other scripts wait for a process",
            Reason::SoftLimit => "idle, and the server has more processes than limits.processes_soft",
            Reason::Asked => "retired by the administrator",
        })
    }
}

/// Why the pool starts a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A request came, and there was no process.
    First,
    /// A request came, and no process was free.
    AllBusy,
    /// A request had waited for room.
    Waited,
    /// There were fewer than `min`.
    Min,
    /// It replaces a process that is retired for this reason once this one is ready.
    Replacement(Reason),
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::First => out.write_str("a request came, and there was none"),
            Cause::AllBusy => out.write_str("a request came, and none was free"),
            Cause::Waited => out.write_str("a request had waited for room"),
            Cause::Min => out.write_str("min: there were fewer"),
            Cause::Replacement(reason) => write!(out, "replacement of a process: {reason}"),
        }
    }
}

/// How the last process of a pool has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The pool has ended it.
    Retired(Reason),
    /// By itself, or it was stopped after its exchange.
    Ended,
}

impl fmt::Display for Departure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departure::Retired(reason) => write!(out, "retired: {reason}"),
            Departure::Ended => out.write_str("ended by itself, or stopped"),
        }
    }
}
