//! The decisions of a pool, the questions that it asks for them, and why processes start and leave.

use std::fmt;
use std::time::Duration;

use super::queue::Ticket;
use super::slot::ProcessId;
use crate::process::Reason;

/// Asked just before a process would be started: whether the bounds that pools share have room. If so, it is taken, and the process is started.
pub(crate) type Room<'a> = &'a mut dyn FnMut(Need) -> bool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A request of a script that has no process.
    First,
    /// A request of a script that has some.
    Further,
    Advance,
}

/// Idle processes that can be ended to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Processes above `min`.
    Spare,
    Any,
}

/// Whether requests for other scripts wait for room in the bounds that pools share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    None,
    /// Some wait: they get a process for which none of its own script waits.
    Young,
    /// Some have waited for long: they get the next process.
    Old,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This process, which is idle or can serve another request.
    Use(ProcessId),
    Start(ProcessId),
    Wait(Ticket),
    /// Neither a process nor an entry in the queue.
    Refuse(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    QueueFull,
    /// The client has as many requests as it may before those of others, and half of the queue is full.
    ClientShare,
    /// The last processes ended before their first reply; the next start is after this delay.
    BackOff(Duration),
}

/// The fate of a process whose exchange is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The process becomes idle, or serves its other requests.
    Keep,
    Hand(Ticket),
    Retire(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// End this idle process.
    Retire(ProcessId, Reason),
    /// This waiter may start a process with this id.
    Start(Ticket, ProcessId),
    /// This waiter gets this process, which is idle or can serve another request.
    Hand(Ticket, ProcessId),
    /// Start a process with this id in advance.
    Prepare(ProcessId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    First,
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
