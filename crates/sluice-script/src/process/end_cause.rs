//! Why a script process ends, and the record of it for reports. The first cause counts; its consequences are not recorded.

use std::fmt;
use std::time::Duration;

use sluice_launch::Exit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCause {
    Served,
    Retired(Reason),
    Fault,
    ClientGone,
    RequestEnded,
    Misbehaved,
    LocksPipe,
    LocksBuffer,
    Unusable,
    Shutdown,
}

impl fmt::Display for EndCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndCause::Served => out.write_str("its request was served"),
            EndCause::Retired(reason) => reason.fmt(out),
            EndCause::Fault => out.write_str("there was a fault in its exchange"),
            EndCause::ClientGone => out.write_str("its client left, and it was not done in time"),
            EndCause::RequestEnded => out.write_str("its request was ended by the administrator"),
            EndCause::Misbehaved => out.write_str("it broke the protocol after its reply"),
            EndCause::LocksPipe => out.write_str("it kept one of its pipes locked"),
            EndCause::LocksBuffer => out.write_str("its memory buffer was kept locked"),
            EndCause::Unusable => out.write_str("the server could not use it"),
            EndCause::Shutdown => out.write_str("the server ends"),
        }
    }
}

/// Why the pool ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Idle,
    Requests,
    Lifetime,
    Memory,
    ProcessorTime,
    ScriptChanged,
    SourceFileChanged,
    Shutdown,
    RoomForOthers,
    SoftLimit,
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
            Reason::SourceFileChanged => "a watched file has changed",
            Reason::Shutdown => "the server ends or has another configuration",
            Reason::RoomForOthers => "requests for other scripts wait for a process",
            Reason::SoftLimit => "idle, and the server has more processes than limits.processes_soft",
            Reason::Asked => "retired by the administrator",
        })
    }
}

pub(crate) struct EndedProcess {
    pub pid: i32,
    /// `None` if it has ended by itself.
    pub cause: Option<EndCause>,
    pub exit: Exit,
    pub uses: u64,
    pub lived: Duration,
    /// The limit that has ended it, if one has: `used more than cpu_time = 2s (SIGXCPU)`.
    pub limit: Option<Box<str>>,
}
