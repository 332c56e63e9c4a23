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
    /// The script's file has changed.
    ScriptChanged,
    /// A watched file has changed.
    WatchedFileChanged,
    /// The server ends or has another configuration.
    Shutdown,
    /// Requests for other scripts wait for room.
    RoomForOthers,
    /// The administrator has retired the script.
    Asked,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Reason::Idle => "idle for its lifetime",
            Reason::Requests => "served its number of requests",
            Reason::ScriptChanged => "its file has changed",
            Reason::WatchedFileChanged => "a watched file has changed",
            Reason::Shutdown => "the server ends or has another configuration",
            Reason::RoomForOthers => "requests for other scripts wait for a process",
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
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Cause::First => "a request came, and there was none",
            Cause::AllBusy => "a request came, and none was free",
            Cause::Waited => "a request had waited for room",
        })
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
