//! Why the pool starts a process, and how the last one has left it.

use std::fmt;

use crate::process::Reason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A request came, and there was no process.
    First,
    /// A request came, and no process was free.
    AllBusy,
    Waited,
    Min,
    /// The process replaces another one, which is retired for this reason once this one is ready.
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
    Retired(Reason),
    /// The process has ended by itself, or was stopped after its exchange.
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
